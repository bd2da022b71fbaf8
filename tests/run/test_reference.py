"""Gain and regret through the whole line: figures, folder, page and every later verb."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from softrobust.cli.main import run as run_cli
from softrobust.data import write_log_csv
from softrobust.domains import RiverSwim
from softrobust.errors import InputError
from softrobust.models.files import save_models
from softrobust.models.policy import read_policy
from softrobust.objective import SoftRobust, cvar
from softrobust.returns import optimal_returns, policy_return, returns_of
from softrobust.run import Options, Run, choose, run_page, set_up
from softrobust.run.evaluate import run_frontier
from softrobust.run.folder import load_run
from softrobust.run.update import update
from softrobust.solvers import LocalSearch, SRect
from softrobust.solvers.baselines.behaviour import behaviour_policy
from softrobust.solvers.registry import default_solver
from softrobust.study.explain import explain
from softrobust.study.review import review
from softrobust.study.rules import simplify
from softrobust.study.value_of_data import value_of_data
from tests.report.vectors import QUICK, vector_log, vector_run
from tests.run.jobs.test_sweep import one
from tests.run.test_update import rows

LOG = Path(__file__).resolve().parents[2] / "examples" / "pest_log.csv"
GIVEN = {"gamma": 0.9, "n_models": 25, "n_test": 80, "posterior": "dirichlet"}


@pytest.fixture(scope="module")
def always_wait(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A rule that says what to do in some states; in others practice goes on."""
    path = tmp_path_factory.mktemp("rule") / "wait.csv"
    path.write_text("state,action\nn=0,wait\nn=1,wait\nn=2,wait\n", encoding="utf-8")
    return path


def solved(reference: str | Path, solver: object = None, **more: object) -> Run:
    setup = set_up(LOG, Options(reference=reference, **GIVEN, **more))  # type: ignore[arg-type]
    return choose(setup, solver or LocalSearch(starts=3), replications=4)  # type: ignore[arg-type]


def by_hand(run: Run, reference: str | Path, x: np.ndarray, models: object) -> np.ndarray:
    problem = run.problem if models is None else run.problem.with_models(models)
    if reference == "optimum":
        return x - optimal_returns(problem).upper
    other = behaviour_policy(problem, run.log)[0]
    if isinstance(reference, Path):
        m = problem.models
        other = read_policy(reference, m.states, m.actions, other)
    return np.asarray(x - policy_return(problem, other))


@pytest.mark.parametrize("reference", ["practice", "optimum", "file"])
def test_the_whole_line(reference: str, always_wait: Path, tmp_path: Path) -> None:
    named: str | Path = always_wait if reference == "file" else reference
    run = solved(named)
    problem, policy, goal = run.problem, run.solution.policy, run.problem.objective
    for models, figures in ((None, run.certificate.sample), (run.heldout, run.certificate.heldout)):
        where = problem if models is None else problem.with_models(models)
        x, f = by_hand(run, named, policy_return(where, policy), models), where.models.f
        assert figures is not None
        assert figures.mean.value == pytest.approx(float(x @ f), abs=1e-6)
        assert figures.cvar.value == pytest.approx(cvar(x, f, 0.9), abs=1e-6)
        assert figures.objective.value == pytest.approx(goal.value(x, f), abs=1e-6)
    under = run.certificate.posterior
    assert under is not None
    assert under.upper is not None
    assert under.upper >= run.certificate.heldout.objective.value - 50  # type: ignore[union-attr]
    assert run.certificate.bound.value >= run.certificate.static["objective"]
    if reference == "optimum":
        assert run.certificate.bound.value <= 1e-6
    folder = tmp_path / "run"
    run.save(folder)
    record = json.loads((folder / "solution.json").read_text(encoding="utf-8"))
    assert record["reference"] == (always_wait.name if reference == "file" else reference)
    assert record["static"]["mean"] == run.certificate.static["mean"]
    again = load_run(folder)
    assert again.solution.objective == again.problem.objective == goal
    np.testing.assert_array_equal(
        returns_of(again.problem, policy, again.heldout).x,
        returns_of(problem, policy, run.heldout).x,
    )
    assert f"--reference {record['reference']}" in run.command
    page = (folder / "report.html").read_text(encoding="utf-8")
    assert "Side by side: return, gain and regret" in page
    assert "Measured against" in page


def test_the_readings_are_what_each_reference_measures() -> None:
    """The page's three readings are the certificates of the three references."""
    runs = {name: solved(name) for name in ("none", "practice", "optimum")}
    first = runs["none"]
    policy = first.solution.policy
    found = review(first.problem, first.solution, first.heldout, first.log).readings
    for name, of in (("none", "return"), ("practice", "gain"), ("optimum", "regret")):
        x = returns_of(runs[name].problem, policy, first.heldout)
        reading = next(r for r in found if r.chosen and r.of == of)
        assert reading.mean == pytest.approx(float(x.x @ x.f), abs=1e-6)
        assert reading.cvar == pytest.approx(cvar(x.x, x.f, 0.9), abs=1e-6)
        assert x.size == pytest.approx(float(np.abs(x.plain).max()))
    practice = [r for r in found if r.policy == "current practice" and r.of == "gain"]
    assert [(r.mean, r.cvar) for r in practice] == [(0.0, 0.0)]
    assert {r.policy for r in found} == {"local-search", "nominal", "current practice"}


def test_later_questions_are_in_the_units_asked_for() -> None:
    run = solved("practice")
    problem, policy, value = run.problem, run.solution.policy, run.certificate.static["objective"]
    reasons = explain(problem, policy, "n=3", run.log)
    assert reasons.value == pytest.approx(value)
    assert next(o for o in reasons.options if o.chosen == 1).objective == pytest.approx(value)
    rules = simplify(problem, policy)
    assert rules.value <= value + 1e-9
    assert rules.full_value == pytest.approx(value)
    worth = value_of_data(problem, policy, pairs=[(3, 0), (3, 1)], independent=True)
    assert all(v.value >= 0 for v in worth)
    setup = set_up(LOG, Options(reference="practice", **GIVEN))  # type: ignore[arg-type]
    points = run_frontier(setup, [0.0, 1.0], [0.9], time_limit=4.0)
    for point in points:
        x = returns_of(problem, point.policy)
        assert point.mean == pytest.approx(float(x.x @ x.f))
        assert point.cvar == pytest.approx(cvar(x.x, x.f, 0.9))
        assert point.certificate.objective.against == "practice"


def test_a_solver_of_the_return_says_so() -> None:
    run = solved("practice", SRect())
    note = next(n for n in run.notes if n.code == "own_value_of_return")
    plain = solved("none", SRect())
    assert note["value"] == plain.solution.model_value
    assert plain.certificate.static["mean"] > run.certificate.static["mean"] + 100
    assert all(n.code != "own_value_of_return" for n in plain.notes)


def test_the_default_solver_looks_for_a_gain() -> None:
    wanted = {None: "improve", "practice": "improve", "optimum": "exact"}
    for reference, solver in wanted.items():
        setup = set_up(LOG, Options(gamma=0.9, n_models=5, n_test=5, reference=reference))
        assert default_solver(setup.problem, setup.posterior) == solver


def test_updates_measure_against_practice_as_it_then_is(tmp_path: Path) -> None:
    log, new = tmp_path / "log.csv", tmp_path / "new.csv"
    write_log_csv(rows(300, 1), log)
    write_log_csv(rows(100, 2), new)
    options = Options(gamma=0.9, n_models=20, n_test=40, posterior="dirichlet")
    for reference in ("practice", "optimum", tmp_path / "rule.csv"):
        (tmp_path / "rule.csv").write_text("state,action\n0,0\n1,1\n", encoding="utf-8")
        setup = set_up(log, replace(options, reference=reference))
        run = choose(setup, LocalSearch(starts=2), replications=0)
        name = run.problem.objective.against
        run.save(tmp_path / f"run {name}")
        found, _ = update(load_run(tmp_path / f"run {name}"), new, LocalSearch(starts=2))
        assert found is not None
        assert found.problem.objective.against == name
        if reference == "practice":
            practice = found.problem.objective.reference.policy.probs
            np.testing.assert_allclose(practice, found.log.behaviour)


def test_sweeps_and_other_verbs(always_wait: Path, tmp_path: Path) -> None:
    plain, gain = (one("exact", reference=name) for name in ("none", "practice"))
    assert gain["static"]["mean"] < plain["static"]["mean"]
    assert one("nominal", reference="optimum")["static"]["objective"] <= 0
    out = tmp_path / "run"
    options = ["--gamma", "0.9", "--models", "10", "--seed", "1", "--reference", "optimum"]
    assert run_cli(["frontier", str(LOG), *options, "--lambdas", "0,1", "--out", str(out)]) == 0
    svg = (out / "frontier.svg").read_text(encoding="utf-8")
    assert "average regret over all models" in svg
    assert "average regret over the worst 10 % of models →" in svg
    given = ["evaluate", str(LOG), "--policy", str(always_wait), *options, "--quiet"]
    assert run_cli([*given, "--out", str(tmp_path / "given")]) == 0
    record = json.loads((tmp_path / "given" / "solution.json").read_text(encoding="utf-8"))
    assert record["static"]["mean"] < 0


def test_vectors_meet_the_same_luck(tmp_path: Path) -> None:
    plain, gain = (vector_run(tmp_path, vector_log(), reference=r) for r in ("none", "practice"))
    versus = plain.certificate.practice
    own, held = gain.certificate.practice, gain.certificate.heldout
    assert versus is not None
    assert own is not None
    assert held is not None
    assert held.mean.value == pytest.approx(versus.mean.value)  # episode by episode
    assert own.mean.value == pytest.approx(versus.mean.value)
    gain.save(tmp_path / "run")
    again = load_run(tmp_path / "run")
    assert again.problem.objective.against == "practice"
    assert "Side by side: return and gain" in run_page(again, tmp_path / "page.html").html
    file = tmp_path / "run" / "policy.npz"
    same = vector_run(tmp_path, vector_log(), reference=file)
    assert same.certificate.static["objective"] == 0.0  # against itself
    assert isinstance(QUICK.solve(gain.problem).objective, SoftRobust)
    with pytest.raises(InputError, match=r"a policy\.npz of a run"):
        vector_run(tmp_path, vector_log(), reference=tmp_path / "rule.csv")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--reference", "habit"], "habit"),
        (["--reference", "nowhere.csv"], "nowhere.csv"),
    ],
)
def test_bad_references(
    arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_cli(["solve", str(LOG), "--gamma", "0.9", *arguments]) == 2
    assert said in capsys.readouterr().err


def test_models_know_no_practice(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    models = tmp_path / "models.npz"
    save_models(models, RiverSwim(n_states=3).true_model())
    assert run_cli(["solve", str(models), "--reference", "practice"]) == 2
    assert "do not come from a log" in " ".join(capsys.readouterr().err.split())
