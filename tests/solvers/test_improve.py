"""The default for logs: what it answers, what it refuses, and the promise of any other policy."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from softrobust.certificate import load_solution
from softrobust.cli.main import run as run_cli
from softrobust.data import TransitionLog, read_log
from softrobust.errors import InputError, SoftRobustError
from softrobust.models.policy import Policy
from softrobust.posterior import LearnedPosterior
from softrobust.problem import Problem
from softrobust.run import choose, load_run
from softrobust.solvers import Improve, Status, solve
from softrobust.solvers.improve import promise_of
from softrobust.solvers.promise import Verdict

ROOT = Path(__file__).resolve().parents[2]


def pest() -> TransitionLog:
    return read_log(ROOT / "examples" / "pest_log.csv")


def problem_of(log: TransitionLog) -> Problem:
    models = LearnedPosterior(entered=0).fit(log).sample(30, seed=0)
    return Problem(models, rewards=log.rewards, p0=log.p0, gamma=0.9)


def test_the_default_of_a_log_and_its_record(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "run"
    log = str(ROOT / "examples" / "pest_log.csv")
    assert run_cli(["solve", log, "--gamma", ".9", "--quiet", "--out", str(out)]) == 0
    record = json.loads((out / "solution.json").read_text(encoding="utf-8"))
    promise = record["promise"]
    assert record["solver"] == "improve"
    assert promise["verdict"] in {"change", "keep"}
    assert promise["gain"]["low"] <= promise["gain"]["value"]
    assert 0 <= promise["chance"] <= 1
    assert promise["return_low"] <= promise["return"]
    capsys.readouterr()
    again = load_run(out)
    assert again.certificate.promise is not None
    assert again.certificate.promise.to_dict() == promise
    assert isinstance(again.posterior.settings, LearnedPosterior)
    made = choose(pest(), gamma=0.9, replications=0)
    assert made.certificate.promise is not None
    assert made.certificate.promise.to_dict() == promise
    np.testing.assert_array_equal(made.solution.policy.probs, load_solution(out).policy.probs)
    # Another verb promises the same policy the same; one that nobody chose here is trusted less.
    words = ["evaluate", str(out), "--policy", str(out / "policy.csv"), "--json"]
    assert run_cli(words) == 0
    assert json.loads(capsys.readouterr().out)["promise"] == promise
    moved = made.solution.policy.probs.copy()
    s = int(np.flatnonzero(moved.max(axis=1) == 1.0)[0])
    moved[s] = 0.999 * moved[s] + 0.001 * np.asarray(made.log.pair_counts)[s].clip(max=1) / 3
    moved[s] /= moved[s].sum()
    near = promise_of(pest(), 0.9, replace(made.solution.policy, probs=moved))
    assert near is not None
    assert near.gain.low < promise["gain"]["low"]
    assert near.gain.value < 1.05 * promise["gain"]["value"]  # up to the noise of its draws


def test_what_practice_does_must_be_allowed() -> None:
    log = pest()
    problem = problem_of(log)
    allowed = problem.allowed.copy()
    s = int(np.argmax(np.asarray(log.pair_counts).sum(axis=1)))
    allowed[s, int(np.argmax(np.asarray(log.pair_counts)[s]))] = False
    with pytest.raises(InputError, match="not allowed here") as caught:
        solve(replace(problem, allowed=allowed), Improve(log))
    assert isinstance(caught.value, SoftRobustError)


def test_a_small_log_promises_nothing_and_keeps_practice() -> None:
    s = ["a", "b"] * 6
    rewards = [1.0, 0.0] * 6
    log = TransitionLog.from_arrays(s, ["x", "y", "y"] * 4, [*s[1:], "a"], rewards)
    solution = solve(problem_of(log), Improve(log))
    assert solution.status is Status.GIVEN
    assert solution.stats["verdict"] == Verdict.TOO_SMALL
    counts = np.asarray(log.pair_counts, dtype=float)
    np.testing.assert_allclose(solution.policy.probs, counts / counts.sum(axis=1, keepdims=True))


def test_the_promise_of_another_policy() -> None:
    log = pest()
    counts = np.asarray(log.pair_counts)
    seen = counts.sum(axis=1) > 0
    usual = Policy(
        np.where(seen[:, None], counts / np.maximum(counts.sum(axis=1), 1)[:, None], 1 / 3),
        log.states,
        log.actions,
        seen,
    )
    same = promise_of(log, 0.9, usual)
    assert same is not None
    assert same.verdict is Verdict.NO_CHOICE
    often = Policy.from_decision(np.argmax(counts, axis=1), log.states, log.actions)
    found = promise_of(log, 0.9, often)
    assert found is not None
    assert found.gain.low <= found.gain.value
    assert found.optimism >= 0 or found.gain.value >= 0
    never = np.argmin(counts, axis=1)
    assert (counts[seen, never[seen]] == 0).any()
    assert promise_of(log, 0.9, Policy.from_decision(never, log.states, log.actions)) is None
