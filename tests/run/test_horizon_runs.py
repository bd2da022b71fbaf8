"""Runs with a horizon: solved, saved, read back, applied by time, evaluated from a table."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from softrobust.cli.main import run as run_cli
from softrobust.data import TransitionLog
from softrobust.errors import InputError
from softrobust.models.policy import Policy, TimedPolicy, read_policy, read_timed_policy
from softrobust.problem import save_problem
from softrobust.returns import policy_return
from softrobust.run import choose, load_run
from softrobust.solvers.exact.local_search import LocalSearch
from softrobust.solvers.improve import promise_of
from softrobust.solvers.promise import Verdict
from tests.instances import random_problem


def small_log(seed: int = 0) -> TransitionLog:
    """Action 1 pays and moves on; episodes of four steps."""
    rng = np.random.default_rng(seed)
    n = 160
    s, a = rng.integers(0, 3, n), (rng.random(n) < 0.3).astype(int)
    to = np.where(rng.random(n) < 0.8, (s + a) % 3, s)
    return TransitionLog.from_arrays(
        s, a, to, rewards=1.0 * a + 0.1 * s, episodes=np.arange(n) // 4
    )


def test_a_timed_run_from_models(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    problem = replace(random_problem(1, n_states=3, n_actions=2), horizon=4, gamma=1.0)
    save_problem(tmp_path / "problem.npz", problem)
    out = tmp_path / "run"
    assert run_cli(["solve", str(tmp_path / "problem.npz"), "--out", str(out), "--quiet"]) == 0
    run = load_run(out)
    assert isinstance(run.solution.policy, TimedPolicy)
    assert (run.solution.solver, run.problem.horizon) == ("local-search", 4)
    assert run.record()["bound_covers"] in ("timed", "all")
    x = run.problem.objective.value(
        policy_return(run.problem, run.solution.policy), problem.models.f
    )
    assert x == pytest.approx(run.certificate.static["objective"], rel=1e-12)
    capsys.readouterr()
    assert run_cli(["apply", str(out), "--state", "2", "--time", "3", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["action"] == run.solution.policy.action(2, 3)
    assert run_cli(["apply", str(out), "--state", "2"]) == 2
    assert run_cli(["apply", str(out), "--state", "2", "--time", "4"]) == 2
    assert run_cli(["explain", str(out), "--state", "2"]) == 2
    capsys.readouterr()
    words = ["evaluate", str(out), "--policy", str(out / "policy.csv"), "--json"]
    assert run_cli(words) == 0
    again = json.loads(capsys.readouterr().out)
    assert again["static"]["objective"] == pytest.approx(x, rel=1e-12)
    assert run_cli(["solve", str(tmp_path / "problem.npz"), "--solver", "s-rect"]) == 2
    assert "problems without end" in " ".join(capsys.readouterr().err.split())


def test_the_promise_is_of_the_horizon() -> None:
    run = choose(small_log(), gamma=1.0, horizon=4, replications=0)
    promise = run.certificate.promise
    assert isinstance(run.solution.policy, Policy)
    assert promise is not None
    assert promise.verdict is Verdict.CHANGE
    # Always the paying action earns about 1 more than practice's 0.3 at each of four steps.
    assert 1.0 < promise.gain.value < 4.0
    assert promise_of(small_log(), 1.0, run.solution.policy, horizon=4) == promise
    far = choose(small_log(), gamma=0.7, horizon=60, replications=0).certificate.promise
    endless = choose(small_log(), gamma=0.7, replications=0).certificate.promise
    assert far is not None
    assert endless is not None
    assert far.gain.value == pytest.approx(endless.gain.value, rel=1e-6)
    timed = choose(small_log(), LocalSearch(starts=2), gamma=1.0, horizon=4, replications=4)
    assert timed.certificate.promise is None
    assert "promise_not_timed" in {note.code for note in timed.notes}
    assert timed.certificate.posterior is not None
    assert str(timed.certificate.posterior.covers) in ("timed", "all")


@pytest.mark.parametrize("kind", ["improve", "stationary", "timed"])
def test_every_question_is_asked_of_the_horizon(
    kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    solver = {"improve": None, "stationary": LocalSearch(starts=2, stationary=True)}
    run = choose(
        small_log(), solver.get(kind, LocalSearch(starts=2)), gamma=1.0, horizon=4, replications=0
    )
    out = str(tmp_path / "run")
    run.save(out)
    assert run_cli(["check", out, "--json"]) == 0
    checks = {c["code"]: c for c in json.loads(capsys.readouterr().out)["checks"]}
    # Estimates from the log and from the models are of four steps: about 1 a step at most.
    told = checks["off_policy"]["facts"]["estimates"]
    assert {e["name"] for e in told} == {"WIS", "PDIS", "DR", "FQE"}
    fitted = next(e for e in told if e["name"] == "FQE")
    assert 2.0 < fitted["value"] < 6.0
    assert checks["off_policy"]["facts"]["tail"] == 0.0
    assert checks["confounding"]["facts"]["value"] == pytest.approx(
        policy_return(run.problem.mean_problem(), run.solution.policy)[0], rel=0.05
    )
    assert run_cli(["value-of-data", out, "--json"]) == 0
    capsys.readouterr()
    assert run_cli(["rules", out, "--json"]) == (2 if kind == "timed" else 0)
    said = capsys.readouterr()
    if kind != "timed":
        rules = json.loads(said.out)
        assert rules["full_value"] == pytest.approx(run.certificate.static["objective"], rel=1e-9)
        assert run_cli(["explain", out, "--state", "1"]) == 0
    assert run_cli(["report", out]) == 0


def test_tables_of_timed_policies(tmp_path: Path) -> None:
    problem = replace(random_problem(0, n_states=2, n_actions=2), horizon=2)
    m, file = problem.models, tmp_path / "policy.csv"
    rest = problem.uniform_policy()
    file.write_text("time,state,action\n0,0,1\n1,0,0\n1,1,1\n")
    policy = read_timed_policy(file, m.states, m.actions, 2, rest)
    assert isinstance(policy, TimedPolicy)
    np.testing.assert_array_equal(policy.probs[0], [[0, 1], [0.5, 0.5]])
    np.testing.assert_array_equal(policy.probs[1], [[1, 0], [0, 1]])
    policy.save(tmp_path / "again.csv")
    again = read_timed_policy(tmp_path / "again.csv", m.states, m.actions, 2)
    np.testing.assert_array_equal(again.probs, policy.probs)
    for text, match in (("2,0,1", "step 0 … 1"), ("0.5,0,1", "step 0 … 1")):
        file.write_text(f"time,state,action\n{text}\n")
        with pytest.raises(InputError, match=match):
            read_timed_policy(file, m.states, m.actions, 2, rest)
    with pytest.raises(InputError, match="no horizon"):
        read_policy(tmp_path / "again.csv", m.states, m.actions)
    assert policy.spans(0) == ["0: 1", "1: 0"]
