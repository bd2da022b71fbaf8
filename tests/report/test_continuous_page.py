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

from softrobust._core.notes import Level
from softrobust.certificate.intervals import Estimate
from softrobust.errors import InputError
from softrobust.models.continuous_policy import ConstantPolicy
from softrobust.report.continuous import N_BANDS, bands, influence, inks_of
from softrobust.report.policy import changes
from softrobust.report.sentences import in_words
from softrobust.report.summary import file_sentence, summary_lines
from softrobust.report.verdict import by_the_models, certificate_sentences
from softrobust.run import Options, load_run, run_page, set_up
from tests.report.builders import HANDLER, HOSTILE
from tests.report.vectors import vector_log, vector_page, vector_run


def words_of(html: str) -> str:
    return " ".join(unescape(re.sub(r"<[^>]*>", " ", html)).split())


def test_the_answer_comes_first_and_its_figures_are_the_records(tmp_path: Path) -> None:
    run = vector_run(tmp_path, vector_log())
    html, record = run_page(run, tmp_path / "x.html", name="run").html, run.record()
    text, c = words_of(html), run.certificate
    assert c.practice is not None
    first = text.index(" ".join(by_the_models(c.practice).split()))
    assert first < text.index("What to do") < text.index("How good, how bad")
    squeezed = "".join(text.split())  # what stands in backticks has a tag of its own
    for sentence in [*certificate_sentences(c), *in_words(run.notes)]:
        assert "".join(sentence.replace("`", "").split()) in squeezed
    assert record["practice"]["observed"]["n"] == 12
    assert "120 rows" in text
    for picture in re.findall(r"<svg.*?</svg>", html, re.S):
        ElementTree.fromstring(picture)
    # What changes; the gain; densities; where; the map and two signs; one of two actions; two
    # variables.
    assert html.count("<svg") == 1 + 1 + 1 + 1 + 3 + 1 + 2
    own, practice, counts = bands(run.log, run.solution.policy)
    assert counts.sum() == 120
    lines = [told for kind, told in summary_lines(run) if kind == "row"]
    assert [line.split(" →")[0] for line in lines] == [w for w, *_ in changes(own, practice)[0]]
    assert lines[0].split("   ")[0] in text


def test_the_rows_have_their_dates(tmp_path: Path) -> None:
    file = tmp_path / "log.csv"
    vector_log().save_csv(file)
    head, *rows = file.read_text().splitlines()
    dated = [f"{head},date", *(f"{row},2024-01-{i % 28 + 1:02}" for i, row in enumerate(rows))]
    file.write_text("\n".join(dated) + "\n")
    setup = set_up(file, Options(continuous=True, gamma=0.8, n_models=4, n_test=4))
    told = file_sentence("log.csv", setup.log, setup.problem, setup.notes)
    assert told.startswith("log.csv: 120 rows, from 2024-01-01 to 2024-01-28; x, y, 2 actions")


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
    found = [note for note in run.notes if note.code == "ends_modelled"]
    assert [(note.level, note["n_rows"]) for note in found] == [(Level.INFO, 2)]
    assert run.problem.models.end_weights is not None
    assert in_words(found)[0] in words_of(run_page(run, tmp_path / "x.html").html)
    plain = vector_run(tmp_path, vector_log())
    assert not any(note.code == "ends_modelled" for note in plain.notes)


def test_models_without_a_log_have_no_practice(tmp_path: Path) -> None:
    run = vector_run(tmp_path, None)
    assert run.record()["practice"] is None
    text = words_of(run_page(run, tmp_path / "x.html").html)
    assert "practice" not in text
    assert "always on" in text
    assert "it was chosen on" in text


def test_a_run_read_back_gives_the_same_page(tmp_path: Path) -> None:
    run, out = vector_run(tmp_path, vector_log()), tmp_path / "run"
    run.save(out)
    again = load_run(out)
    assert again.certificate == run.certificate
    assert again.notes == run.notes
    assert again.record() == run.record()
    page = run_page(again, tmp_path / "x.html")
    assert page.html == (out / "report.html").read_text(encoding="utf-8")


def test_files_that_do_not_belong_together(tmp_path: Path) -> None:
    run, out = vector_run(tmp_path, vector_log()), tmp_path / "run"
    run.save(out)
    problem = run.problem
    ConstantPolicy("0", problem.variables, problem.actions).save(out / "policy.npz")
    with pytest.raises(InputError, match="do not belong together"):
        run_page(load_run(out), tmp_path / "x.html")
    record = json.loads((out / "solution.json").read_text())
    del record["train"]
    (out / "solution.json").write_text(json.dumps(record))
    with pytest.raises(InputError, match="train"):
        load_run(out)


def test_influence_of_a_variable(tmp_path: Path) -> None:
    run = vector_run(tmp_path, vector_log())
    assert run.simulated is not None
    practice = run.simulated.behaviour
    assert practice is not None
    states = np.random.default_rng(1).uniform(0.2, 1.8, size=(400, 2))
    x, y = influence(practice.policy, states)
    assert x > 0.1
    assert y < 0.5 * x
    constant = ConstantPolicy("0", run.problem.variables, run.problem.actions)
    assert influence(constant, states).tolist() == [0, 0]


def test_inks() -> None:
    assert inks_of(np.array([0.2, 0.5, 0.3])) == {1: "k1", 2: "k2", 0: "k3"}
    five = inks_of(np.array([0.1, 0.2, 0.3, 0.15, 0.25]))
    assert (five[2], five[4], five[1], five[3], five[0]) == ("k1", "k2", "k3", "k4", "k4")


def test_what_to_do_agrees_with_the_first_sentence(tmp_path: Path) -> None:
    """Where nothing is to be gained, what the policy does is no advice; where it gains, it is."""
    log = vector_log()
    rare = replace(log, a=np.where(np.arange(120) % 30 == 0, 1, 0))
    cases = {
        "By the models alone, it earns": (log, "What to do"),
        "Keep doing what you do: this policy earns what current practice earns": (
            replace(log, reward=np.ones(120)), "What this policy does",
        ),
        "Keep doing what you do: there is nothing to choose, for '0' is the only action": (
            rare, "What this policy does",
        ),
        "Keep doing what you do: there is nothing to choose, for the log has one action only": (
            vector_log(actions=["1"]), "What to do",
        ),
    }  # fmt: skip
    for first, (given, title) in cases.items():
        run = vector_run(tmp_path, given)
        lines = list(summary_lines(run))
        assert lines[1][1].startswith(first)
        assert lines[2] == ("head", title)
        text = words_of(run_page(run, tmp_path / "x.html").html)
        assert text.index(first) < text.index(title) < text.index(f"{title}, and where")
    assert ("text", "In every state: what is usually done now.") in lines
    assert [n["action"] for n in run.notes if n.code == "one_action"] == ["1"]


def test_a_policy_that_earns_less_is_not_advised(tmp_path: Path) -> None:
    run = vector_run(tmp_path, vector_log())
    usual = run.certificate.practice
    assert usual is not None
    keep = "Keep doing what you do: by the models alone, this policy earns 1"
    for mean, goal, first, title in (
        (-1.0, -2.0, f"{keep} less", False),
        (1.0, -2.0, f"{keep} more", False),
        (-1.0, 2.0, "By the models alone, it earns 1 less", True),
    ):
        less = replace(usual, mean=Estimate(mean), objective=Estimate(goal))
        worse = replace(run, certificate=replace(run.certificate, practice=less))
        lines = [text for _, text in summary_lines(worse)]
        assert lines[1].startswith(first)
        assert (lines[2] == "What to do") == title
        # What was asked for decides, and is said where it differs.
        assert (" by the objective)" in lines[1]) == (mean * goal < 0)


def test_every_range_of_a_measurement_is_told(tmp_path: Path) -> None:
    """There is no policy.csv to look the others up in."""
    run = vector_run(tmp_path, vector_log())
    policy = ConstantPolicy("0", run.problem.variables, run.problem.actions)
    own, practice, _ = bands(run.log, policy)
    mixed = own.probs.copy()
    mixed[::2] = [0.6, 0.4]
    told, rest = changes(replace(own, probs=mixed), practice, most=N_BANDS)
    assert len(told) > 4
    assert "policy.csv" not in rest
