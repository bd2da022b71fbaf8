"""The page for continuous states: every figure of it comes from the run, whatever its names."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from html import unescape
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest

from softrobust.errors import InputError
from softrobust.models.continuous_policy import ConstantPolicy, save_policy
from softrobust.report.continuous import influence, inks_of
from softrobust.report.words import tidy
from softrobust.run.continuous import (
    continuous_record,
    load_continuous_run,
    report_continuous,
    write_continuous_run,
)
from tests.report.builders import HANDLER, HOSTILE
from tests.report.vectors import vector_log, vector_page, vector_run


def words_of(html: str) -> str:
    return " ".join(unescape(re.sub(r"<[^>]*>", " ", html)).split())


def test_the_answer_comes_first_and_its_figures_are_the_records(tmp_path: Path) -> None:
    run = vector_run(tmp_path, vector_log())
    html, record = report_continuous(run, "run").html, continuous_record(run)
    text = words_of(html)
    assert run.judged.practice is not None
    first = text.index(" ".join(tidy(run.judged.practice.sentence()).split()))
    assert first < text.index("What was asked") < text.index("How good, how bad")
    for sentence in [*run.judged.certificate.sentences(), *run.judged.practice_sentences()]:
        assert " ".join(tidy(sentence).split()) in text
    assert record["practice"]["observed"]["n"] == 12
    assert "120 observed transitions" in text
    for picture in re.findall(r"<svg.*?</svg>", html, re.S):
        ElementTree.fromstring(picture)
    # Densities; a map; shares of one of two actions; two variables.
    assert html.count("<svg") == 1 + 1 + 1 + 2


@pytest.mark.parametrize(
    ("variables", "actions"),
    [
        ([HOSTILE, HANDLER], ["0", "1"]),
        (["x"], [HOSTILE, HANDLER]),
        (["only"], ["0", "1", "2"]),
        ([f"v{i}" for i in range(10)], ["0", "1", "2", "3", "4", "5"]),
    ],
)
def test_odd_names_and_sizes(variables: list[str], actions: list[str], tmp_path: Path) -> None:
    page = vector_page(tmp_path, vector_log(variables, actions))
    assert page.html.count("<script") == 1
    assert "<img" not in page.html
    text = words_of(page.html)
    for name in [*variables[:8], *actions]:
        assert name in text
    assert ("more are not shown" in text) == (len(variables) > 8)


def test_true_ends_are_not_passed_over_in_silence(tmp_path: Path) -> None:
    ends = np.zeros(120, bool)
    ends[[9, 19]] = True
    run = vector_run(tmp_path, replace(vector_log(), terminal=ends))
    assert any("In 2 rows an episode ended for good" in said for said in run.setup.cautions)
    assert "In 2 rows an episode ended for good" in words_of(report_continuous(run, "run").html)
    plain = vector_run(tmp_path, vector_log())
    assert not any("for good" in said for said in plain.setup.cautions)


def test_models_without_a_log_have_no_practice(tmp_path: Path) -> None:
    run = vector_run(tmp_path, None)
    assert continuous_record(run)["practice"] is None
    text = words_of(report_continuous(run, "run").html)
    assert "practice" not in text
    assert "always on" in text
    assert "it was chosen on" in text


def test_a_run_read_back_gives_the_same_page(tmp_path: Path) -> None:
    run, out = vector_run(tmp_path, vector_log()), tmp_path / "run"
    write_continuous_run(run, out, report_continuous(run, "run"))
    again = report_continuous(load_continuous_run(out), "run")
    assert again.html == (out / "report.html").read_text(encoding="utf-8")


def test_files_that_do_not_belong_together(tmp_path: Path) -> None:
    run, out = vector_run(tmp_path, vector_log()), tmp_path / "run"
    write_continuous_run(run, out)
    problem = run.setup.problem
    save_policy(out / "policy.npz", ConstantPolicy("0", problem.variables, problem.actions))
    with pytest.raises(InputError, match="do not belong together"):
        load_continuous_run(out)
    record = json.loads((out / "solution.json").read_text())
    del record["source"]
    (out / "solution.json").write_text(json.dumps(record))
    with pytest.raises(InputError, match="source"):
        load_continuous_run(out)


def test_influence_of_a_variable(tmp_path: Path) -> None:
    run = vector_run(tmp_path, vector_log())
    policy = run.judged.behaviour
    assert policy is not None
    states = np.random.default_rng(1).uniform(0.2, 1.8, size=(400, 2))
    x, y = influence(policy.policy, states)
    assert x > 0.1
    assert y < 0.5 * x
    constant = ConstantPolicy("0", run.setup.problem.variables, run.setup.problem.actions)
    assert influence(constant, states).tolist() == [0, 0]


def test_inks() -> None:
    assert inks_of(np.array([0.2, 0.5, 0.3])) == {1: "k1", 2: "k2", 0: "k3"}
    five = inks_of(np.array([0.1, 0.2, 0.3, 0.15, 0.25]))
    assert (five[2], five[4], five[1], five[3], five[0]) == ("k1", "k2", "k3", "k4", "k4")
