"""What a notebook shows: objects as tables of facts, and pictures on axes."""

from __future__ import annotations

import re
from html import unescape
from html.parser import HTMLParser
from pathlib import Path
from xml.etree import ElementTree

import numpy as np

import softrobust as sr
from softrobust._core.show import SHOWN
from softrobust.certificate import certify
from softrobust.models.model_set import ModelSet
from softrobust.problem import Problem
from softrobust.report import picture_changes, picture_log
from tests.report.builders import (
    HANDLER,
    HOSTILE,
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


def test_objects_show_their_facts() -> None:
    log = stock_log()
    problem, test, _ = from_log(log)
    solution = sr.solve(problem, sr.LocalSearch())
    made = certify(problem, solution.policy, test)
    shown = [parsed(x._repr_html_()) for x in (solution, made, log)]
    assert f"{solution.static_value:.6g}" in shown[0].text
    assert "n=3" in shown[0].text
    assert f"{made.static['cvar']:.6g}" in shown[1].text
    assert f"{made.static['cvar']:.6g}" in str(made)
    assert "300" in shown[2].text
    assert f"{log.n_rows - SHOWN} more" in shown[2].text


def test_a_run_shows_its_page_with_the_pictures_that_a_paper_gets(tmp_path: Path) -> None:
    run = sr.choose(
        stock_log(), sr.LocalSearch(), gamma=0.9, n_models=20, n_test=40, replications=0
    )
    [frame] = re.findall(r'<iframe title="[^"]+" [^>]*srcdoc="([^"]*)"', run._repr_html_())
    page = run.page()
    assert unescape(frame) == page.html
    assert set(page.pictures) == {"changes", "gain", "coverage"}  # and rehearsals, once there are
    for picture in page.pictures.values():
        assert str(picture) in page.html
    made = page.save_pictures(tmp_path / "figures")
    assert {path.name for path in made} == {
        f"{name}.{kind}" for name in page.pictures for kind in ("pdf", "svg", "png")
    }
    assert all(path.stat().st_size > 500 for path in made)


def test_labels_are_escaped() -> None:
    log = hostile_log()
    problem, _, _ = from_log(log)
    for shown in (uniform(problem, HANDLER), log):
        found = parsed(shown._repr_html_())
        assert not found.seen & {"script", "img"}
        assert HOSTILE in found.text


def test_pictures_of_objects_bring_their_look() -> None:
    log = hostile_log()
    problem, _, _ = from_log(log)
    policy = uniform(problem).policy
    for shown in (picture_log(log), picture_changes(policy, policy)):
        root = ElementTree.fromstring(shown._repr_svg_())
        assert HOSTILE in " ".join(root.itertext())
        assert "fill" in next(e for e in root.iter() if e.tag.endswith("rect")).attrib


def test_a_policy_without_decisions_can_be_shown() -> None:
    models = ModelSet.from_dense(np.ones((2, 1, 1, 1)), sinks=np.array([True]))
    problem = Problem(models, rewards=np.zeros((1, 1)), gamma=0.5)
    solution = uniform(problem)
    assert picture_changes(solution.policy, solution.policy) == ""
    parsed(solution._repr_html_())
