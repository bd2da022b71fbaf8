"""`_repr_html_` and `.plot()` of what a notebook shows."""

from __future__ import annotations

import ast
from html.parser import HTMLParser
from pathlib import Path

import matplotlib as mpl
import numpy as np

import softrobust as sr
from softrobust.certificate import certify
from softrobust.models.model_set import ModelSet
from softrobust.problem import Problem
from tests.report.builders import (
    HANDLER,
    HOSTILE,
    first_actions,
    from_log,
    hostile_log,
    stock_log,
    uniform,
)


class Tags(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: set[str] = set()
        self.text = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.open.append(tag)
        self.seen.add(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data + " "


def parsed(html: str) -> Tags:
    found = Tags()
    found.feed(html)
    found.close()
    assert found.open == []
    return found


def test_objects_show_what_matters() -> None:
    log = stock_log()
    problem, test, _ = from_log(log)
    solution = sr.solve(problem, sr.LocalSearch())
    made = certify(problem, solution.policy, test)
    shown = [parsed(x._repr_html_()) for x in (solution, made, log)]
    assert f"{solution.static_value:.6g}" in shown[0].text
    assert "n=3" in shown[0].text
    assert f"{made.static['cvar']:.6g}" in shown[1].text
    assert "80 held out" in shown[1].text
    assert "300 transitions" in shown[2].text
    assert "and 295 more rows" in shown[2].text


def test_labels_are_escaped_and_large_ones_shortened() -> None:
    log = hostile_log()
    problem, _, _ = from_log(log)
    for shown in (uniform(problem, HANDLER), log):
        found = parsed(shown._repr_html_())
        assert not found.seen & {"script", "img"}
        assert HOSTILE in found.text
    big, _, _ = from_log(stock_log())
    assert "more states" not in first_actions(big)._repr_html_()


def test_plots_return_axes() -> None:
    log = hostile_log()
    problem, test, _ = from_log(log)
    solution = uniform(problem)
    made = certify(problem, solution.policy, test)
    for shown in (solution, made, log, certify(problem, solution.policy)):
        axes = shown.plot()
        assert isinstance(axes, mpl.axes.Axes)
        axes.figure.canvas.draw()  # labels with dollars or markup must not stop it
        assert shown.plot(axes) is axes


def test_a_policy_without_decisions_can_be_shown() -> None:
    models = ModelSet.from_dense(np.ones((2, 1, 1, 1)), sinks=np.array([True]))
    problem = Problem(models, rewards=np.zeros((1, 1)), gamma=0.5)
    solution = uniform(problem)
    assert "no state" in solution.plot().texts[0].get_text()
    parsed(solution._repr_html_())


def test_only_these_three_look_down_to_the_reporting_stage() -> None:
    root = Path(sr.__file__).parent
    users = set()
    for file in root.rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            named = isinstance(node, ast.Call) and getattr(node.func, "id", "") == "import_module"
            if named and "softrobust.report" in ast.unparse(node):
                users.add(file.relative_to(root).as_posix())
    assert users == {"solvers/base.py", "certificate/certify.py", "data/log.py"}
