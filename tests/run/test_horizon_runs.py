"""Runs with a horizon: solved, saved, read back, applied by time, evaluated from a table."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from softrobust.cli.main import run as run_cli
from softrobust.data import TransitionLog, write_log_csv
from softrobust.domains import Inventory
from softrobust.errors import InputError
from softrobust.models.model_set import ModelSet
from softrobust.models.policy import Policy, TimedPolicy, read_policy, read_timed_policy
from softrobust.objective import SoftRobust
from softrobust.posterior.sampling import with_taken
from softrobust.problem import Problem, save_problem
from softrobust.returns import policy_return, reference_returns
from softrobust.run import Options, choose, load_run, set_up
from softrobust.run.evaluate import compare_runs
from softrobust.run.options import Setup
from softrobust.run.update import update
from softrobust.solvers.exact.local_search import LocalSearch
from softrobust.solvers.improve import promise_of
from softrobust.solvers.promise import Verdict
from softrobust.study.frontier import Frontier, frontier
from softrobust.study.review import frontier_within
from softrobust.study.solved import learned_again
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
        assert "of the time is spent here" in capsys.readouterr().out  # γ = 1
    new = str(tmp_path / "new.csv")
    write_log_csv(small_log(1), new)
    assert run_cli(["update", out, new, "--out", f"{out}2"]) == 0
    again = load_run(f"{out}2")
    assert isinstance(again.solution.policy, type(run.solution.policy))
    assert (again.problem.horizon, again.problem.gamma) == (4, 1.0)
    code = run_cli(["update", out, new, "--solver", "nominal"])
    assert code == (0 if kind == "timed" else 2)  # nominal has a rule for each step
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


def rising(horizon: int = 3) -> Problem:
    """What pays at the last step does not before: a timed policy beats every stationary one."""
    P = np.zeros((2, 2, 2, 2))
    P[:, 0, 0, 0] = P[:, 1, :, 1] = 1.0  # wait in 0, or take what there is and be done
    P[:, 0, 1, 1] = [1.0, 1.0]
    models = ModelSet.from_dense(P)
    rewards = np.array([[1.0, 5.0], [0.0, 0.0]])
    return Problem(models, rewards, [1.0, 0.0], 1.0, SoftRobust(), horizon=horizon)


def test_a_timed_policy_is_judged_by_itself(tmp_path: Path) -> None:
    """Not by its shares of actions over the steps, in comparisons and on the frontier."""
    problem = rising()
    run = choose(Setup(problem), LocalSearch(), replications=0)
    run.save(tmp_path / "run")
    found = compare_runs([load_run(tmp_path / "run")])
    first = found["policies"][0]
    assert first["static"]["objective"] == pytest.approx(7.0)
    assert first["gap_abs"] == pytest.approx(0.0, abs=1e-9)
    assert first["bound_covers"] in ("timed", "all")
    longer = Setup(replace(problem, horizon=4))
    other = choose(longer, LocalSearch(), replications=0)
    other.save(tmp_path / "longer")
    with pytest.raises(InputError, match="a rule for each of 4 steps"):
        compare_runs([load_run(tmp_path / "run"), load_run(tmp_path / "longer")])
    stationary = choose(longer, LocalSearch(stationary=True), replications=0)
    stationary.save(tmp_path / "stationary")
    both = compare_runs([load_run(tmp_path / "run"), load_run(tmp_path / "stationary")])
    assert [(n["code"], n["facts"]["horizon"]) for n in both["notes"]] == [("other_question", 4)]
    timed = frontier(problem, [0.0, 1.0], [0.9], LocalSearch())
    assert [p.mean for p in timed] == pytest.approx([7.0, 7.0])
    assert all(isinstance(p.policy, TimedPolicy) for p in timed)
    assert [p.mean for p in frontier(problem, [0.0, 1.0], [0.9])] == pytest.approx([5.0, 5.0])
    other_problem = replace(random_problem(1), horizon=3)
    plan = LocalSearch(starts=2).solve(other_problem).policy
    shown = frontier_within(other_problem, plan)
    assert isinstance(shown, Frontier)
    assert {type(p.policy) for p in shown} == {TimedPolicy}


def test_what_is_done_by_the_step_can_be_measured_against(tmp_path: Path) -> None:
    """`--reference` reads what `evaluate --policy` reads; the folder and an update keep it."""
    log, rule = tmp_path / "log.csv", tmp_path / "rule.csv"
    write_log_csv(small_log(), log)
    rule.write_text("time,state,action\n0,0,0\n1,0,1\n3,2,0\n")
    options = Options(
        gamma=1.0,
        horizon=4,
        n_models=20,
        n_test=20,
        posterior="dirichlet",
        reference=rule,
        anyway=True,
    )
    run = choose(set_up(log, options), LocalSearch(starts=2), replications=0)
    reference = run.problem.objective.reference.policy
    assert isinstance(reference, TimedPolicy)
    np.testing.assert_array_equal(reference.probs[[0, 1, 3], [0, 0, 2]], [[1, 0], [0, 1], [1, 0]])
    x = policy_return(run.problem, run.solution.policy) - policy_return(run.problem, reference)
    assert run.certificate.static["mean"] == pytest.approx(float(x.mean()), rel=1e-12)
    run.save(tmp_path / "run")
    again = load_run(tmp_path / "run")
    np.testing.assert_array_equal(reference_returns(again.problem), reference_returns(run.problem))
    write_log_csv(small_log(1), tmp_path / "new.csv")
    made, record = update(again, tmp_path / "new.csv", LocalSearch(starts=2))
    assert made is not None
    assert made.problem.objective.reference.policy.probs.shape == reference.probs.shape
    assert isinstance(made.solution.policy, TimedPolicy)
    assert record["kept"] >= 0
    with pytest.raises(InputError, match="no horizon"):
        set_up(log, replace(options, gamma=0.9, horizon=None))


def test_a_part_of_the_log_is_asked_the_same_question() -> None:
    """Models that bring rewards of their own, too: the horizon, γ = 1 and practice go along."""
    domain = Inventory(steps=60)
    log = domain.collect(np.random.default_rng(0))
    fitted = domain.posterior().fit(log)
    models = with_taken(fitted.sample(3, np.random.default_rng(1)), log.pair_counts)
    assert models.rewards is not None
    goal = SoftRobust(reference="practice")
    problem = Problem(models, p0=log.p0, gamma=1.0, objective=goal, horizon=3)
    again = learned_again(log, fitted, problem, 4, [0])
    assert (again.horizon, again.gamma, again.objective.against) == (3, 1.0, "practice")
    assert again.n_models == 4


def test_no_world_is_made_to_rehearse_a_rule_for_each_step(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = "examples/pest_log.csv --gamma 0.9 --horizon 3 --reference optimum --models 20"
    where = str(tmp_path / "run")
    assert run_cli(["solve", *command.split(), "--replications", "0", "--out", where]) == 0
    assert isinstance(load_run(tmp_path / "run").solution.policy, TimedPolicy)
    assert run_cli(["rehearse", where]) == 2
    told = " ".join(capsys.readouterr().err.split())
    assert "A rehearsal is for a policy that is the same at all steps" in told
    assert not list((tmp_path / "run").glob("rehearsal*/tasks/*"))
