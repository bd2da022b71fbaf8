"""`report` and `compare`: the full page of a run, and policies side by side."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from softrobust._core.notes import Note
from softrobust.bounds import Bound, Covers
from softrobust.certificate import certify
from softrobust.cli.main import run as run_cli
from softrobust.errors import InputError
from softrobust.models import ModelSet
from softrobust.objective import Percentile
from softrobust.problem import Problem
from softrobust.report import make_report
from softrobust.returns import policy_return, static_return
from softrobust.run.evaluate import compare_runs, same_question
from softrobust.run.folder import Run, load_run, run_page
from softrobust.solvers.base import Solution, solve
from softrobust.solvers.baselines.behaviour import behaviour_policy
from softrobust.solvers.exact.exact import Exact
from softrobust.study import review as reviews
from softrobust.study.frontier import Frontier
from softrobust.study.review import data_within, frontier_within
from softrobust.study.value_of_data import DataFound
from tests.report.builders import ring, uniform
from tests.study.test_checks import solved, visits


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return solved(visits(), tmp_path_factory.mktemp("page"))


def said(capsys: pytest.CaptureFixture[str]) -> str:
    captured = capsys.readouterr()
    return " ".join((captured.out + captured.err).split())


def test_solve_writes_a_short_page_and_report_the_full_one(
    folder: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    short = (folder.path / "report.html").read_text(encoding="utf-8")
    assert 'id="caution"' not in short
    assert 'id="data"' not in short
    assert "softrobust report run" in short
    (folder.path / "checks.json").write_text(
        json.dumps({"checks": [{"name": "mine", "verdict": "fine", "sentence": "It is well."}]})
    )
    out = tmp_path / "page.html"
    assert run_cli(["report", str(folder.path), "--out", str(out)]) == 0
    assert "open it in a browser" in said(capsys)
    full = out.read_text(encoding="utf-8")
    for key in ("answer", "returns", "caution", "policy", "why", "data", "certificate", "trust"):
        assert f'<section id="{key}"' in full
    assert "It is well." in full
    assert (folder.path / "report.html").read_text(encoding="utf-8") == short
    assert run_cli(["report", str(folder.path), "--quick", "--json", "--out", str(out)]) == 0
    record = json.loads(capsys.readouterr().out)
    assert record["written"] == [str(out)]
    assert record["bytes"] == out.stat().st_size
    assert run_cli(["report", str(folder.path), "--quick", "--quiet", "--suppress-small"]) == 0
    again = (folder.path / "report.html").read_text(encoding="utf-8")
    assert said(capsys) == ""
    assert 'id="caution"' not in again
    assert "Counts below 5 are not shown" in again


def test_a_log_of_two_rows_has_a_page(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log, out = tmp_path / "two.csv", tmp_path / "run"
    log.write_text("state,action,next_state,reward\na,x,b,1\nb,y,a,0\n")
    assert run_cli(["solve", str(log), "--gamma", "0.9", "--anyway", "--out", str(out)]) == 0
    assert run_cli(["report", str(out)]) == 0
    page = (out / "report.html").read_text(encoding="utf-8")
    assert "is left out: that takes 5 or more, and the log has 2 rows." in page
    capsys.readouterr()


def test_the_certificate_is_the_one_of_the_run(folder: Run) -> None:
    record = json.loads((folder.path / "solution.json").read_text(encoding="utf-8"))
    assert folder.certificate.to_dict().items() <= record.items()
    assert record.pop("files").keys() >= {"solution.json", "posterior.json", "problem.npz"}
    assert folder.record() == record
    practice = behaviour_policy(folder.problem, folder.log)[0]
    again = certify(folder.problem, folder.solution, folder.heldout, practice=practice)
    own = replace(folder.certificate, nominal=None, posterior=None, promise=None)
    assert own.to_dict() == again.to_dict()


def test_the_frontier_holds_the_policy_and_the_question(folder: Run) -> None:
    problem, policy = folder.problem, folder.solution.policy
    found = frontier_within(problem, policy)
    assert isinstance(found, Frontier)
    assert problem.objective.lam in found.lams
    own = next(p for p in found if p.lam == problem.objective.lam)
    assert own.certificate.static["objective"] >= static_return(problem, policy) - 1e-9


def test_of_very_many_models_the_frontier_takes_the_first(monkeypatch: pytest.MonkeyPatch) -> None:
    """And says so; this policy, nominal and practice stand there by the same models."""
    P = np.zeros((60, 3, 2, 3))  # the first action is better on average, and as good as unknown
    P[:, 1:, :, 0] = 1.0
    for a, good in enumerate((np.random.default_rng(0).random(60), np.full(60, 0.4))):
        P[:, 0, a, 1], P[:, 0, a, 2] = good, 1.0 - good
    problem = Problem(ModelSet.from_dense(P), rewards=[[0, 0], [1, 1], [0, 0]], gamma=0.9)
    monkeypatch.setattr(reviews, "POINTS_WORK", 1.0)
    monkeypatch.setattr(reviews, "POINTS_TAIL", 2)
    own = solve(problem, Exact())
    found = frontier_within(problem, own.policy)
    assert isinstance(found, Frontier)
    assert {p.certificate.n_models for p in found} == {20}
    page = make_report(reviews.review(problem, own, frontier=found)).html
    x = policy_return(problem.with_models(problem.models.select(range(20))), own.policy)
    assert "on the first 20 models it was chosen on" in page
    assert f"this policy: average {x.mean():.6g}, bad case {np.sort(x)[:2].mean():.6g}" in page


def test_what_takes_long_or_does_not_apply_is_said(folder: Run) -> None:
    percentile = replace(folder.problem, objective=Percentile(0.9))
    large = ring(10_000, n_models=60)
    one = folder.problem.with_models(folder.problem.models.select([0]))
    policy = folder.solution.policy
    assert isinstance(data_within(folder), DataFound)
    for found, code in (
        (frontier_within(percentile, policy), "frontier_without_lambda"),
        (frontier_within(large, large.uniform_policy()), "frontier_too_long"),
        (frontier_within(one, policy), "frontier_without_trade"),
        (data_within(replace(folder, problem=percentile)), "data_without_criterion"),
        (data_within(replace(folder, problem=large)), "data_too_long"),
    ):
        assert isinstance(found, Note)
        assert found.code == code


def test_the_table_links_to_the_csv_from_anywhere(folder: Run, tmp_path: Path) -> None:
    page = run_page(folder, folder.path / "report.html")
    assert str(folder.path) not in page.html
    assert str(tmp_path) not in run_page(folder, tmp_path / "x.html").html


def test_mistakes_are_said(folder: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_cli(["report", str(tmp_path / "none")]) == 2
    assert "There is no run folder" in said(capsys)
    assert run_cli(["report", str(folder.path), "--out", str(tmp_path)]) == 2
    assert "needs a file" in said(capsys)


@pytest.fixture(scope="module")
def second(folder: Run, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("second") / "cautious"
    words = "--gamma 0.8 --lambda 1 --solver local-search --models 40 --test-models 200 --quiet"
    log = folder.path.parent / "log.csv"
    assert run_cli(["solve", str(log), *words.split(), "--out", str(out)]) == 0
    return out


def test_runs_and_solvers_side_by_side(
    folder: Run, second: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    line = ["compare", str(folder.path), str(second), "--solvers", "s-rect,nominal"]
    assert run_cli([*line, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    rows = {row["name"]: row for row in found["policies"]}
    assert list(rows) == [
        "run (local-search)", "nominal", "current practice", "cautious (local-search)", "s-rect",
    ]  # fmt: skip
    first = rows["run (local-search)"]
    assert first["static"] == pytest.approx(folder.certificate.static)
    assert first["same_action"] == first["same_action_visits"] == 1.0
    practice = behaviour_policy(folder.problem, folder.log)[0]
    assert rows["current practice"]["static"] == pytest.approx(
        certify(folder.problem, practice, time_limit=0).static
    )
    for row in rows.values():
        assert row["gap_abs"] >= 0
        assert row["heldout"]["n_models"] == 200
    assert found["notes"][0]["code"] == "other_question"
    assert found["notes"][0]["facts"]["lam"] == 1.0
    assert run_cli(line) == 0
    text = capsys.readouterr().out
    assert "\x1b" not in text
    assert re.search(r"^run \(local-search\) +[\d.]+ +[\d.]+", text, flags=re.MULTILINE)


def test_bounds_are_shared_only_between_equal_questions(folder: Run, second: Path) -> None:
    other = load_run(second)
    assert same_question(folder.problem, load_run(folder.path).problem)
    assert not same_question(folder.problem, other.problem)
    shifted = replace(folder.problem, p0=np.eye(folder.problem.n_states)[0])
    assert not same_question(folder.problem, shifted)


def test_a_bound_of_those_who_keep_to_practice_is_shared_with_nobody(folder: Run) -> None:
    value = folder.solution.static_value
    kept = Bound(value, Covers.PRACTICE_CLASS, "exact")  # below what others earn
    found = compare_runs([replace(folder, solution=replace(folder.solution, bound=kept))])
    covers = {row["name"]: row["bound_covers"] for row in found["policies"]}
    assert covers.pop("run (local-search)") == "practice_class"
    assert "practice_class" not in covers.values()


def test_runs_with_other_labels_cannot_be_compared(folder: Run) -> None:
    strange = replace(folder, solution=_other(folder.problem))
    with pytest.raises(InputError, match="same states and actions"):
        compare_runs([folder, strange])
    with pytest.raises(InputError, match="at least one run"):
        compare_runs([])


def _other(problem: Problem) -> Solution:
    return uniform(ring(problem.n_states + 1))
