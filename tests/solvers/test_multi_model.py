"""MVP, WSU, CADP: closed cases, brute force, and coordinate ascent that never descends."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest

from softrobust.errors import InputError
from softrobust.models.policy import TimedPolicy
from softrobust.objective import SoftRobust
from softrobust.problem import Problem
from softrobust.returns import policy_return, state_probabilities, static_return
from softrobust.solvers.baselines.multi_model import CADP, MVP, WSU
from softrobust.solvers.baselines.nominal import Nominal
from tests.instances import random_problem


def simulate(problem: Problem, policy: TimedPolicy) -> np.ndarray:
    """Returns by pushing the state distribution forward: an independent route."""
    out = np.zeros(problem.n_models)
    rows = np.arange(problem.n_states)
    for omega in range(problem.n_models):
        b, P = problem.p0, problem.models[omega].P
        for t, decision in enumerate(policy.decisions):
            out[omega] += problem.gamma**t * b @ problem.R[rows, decision, omega]
            b = b @ P[rows, decision]
    return out


def random_timed(problem: Problem, horizon: int, seed: int) -> TimedPolicy:
    rng = np.random.default_rng(seed)
    score = np.where(problem.allowed, rng.random((horizon, *problem.allowed.shape)), -1)
    return TimedPolicy(score.argmax(axis=2), problem.models.states, problem.models.actions)


@pytest.mark.parametrize("seed", range(6))
def test_horizon_returns_forward_and_backward(seed: int) -> None:
    problem = replace(random_problem(seed, masks=True), horizon=7)
    policy = random_timed(problem, 7, seed)
    np.testing.assert_allclose(
        policy_return(problem, policy), simulate(problem, policy), rtol=1e-12
    )
    b = state_probabilities(problem, policy)
    np.testing.assert_allclose(b.sum(axis=2), 1.0, rtol=1e-12)


@pytest.mark.parametrize("robust", [False, True])
@pytest.mark.parametrize("seed", range(15))
def test_cadp_never_gets_worse(seed: int, robust: bool) -> None:
    problem = replace(random_problem(seed, masks=seed % 2 == 0), horizon=6)
    solution, wsu = CADP(robust=robust).solve(problem), WSU().solve(problem)
    if not robust:
        history = solution.stats["history"]
        assert all(b >= a - 1e-12 for a, b in itertools.pairwise(history))
    goal = problem if robust else replace(problem, objective=SoftRobust(0.0, 0.5))
    found, start = (static_return(goal, s.policy) for s in (solution, wsu))
    assert found >= start - 1e-12


@pytest.mark.parametrize("seed", range(5))
def test_one_model_is_solved_exactly(seed: int) -> None:
    problem = random_problem(seed, n_models=1)
    exact = Nominal().solve(problem).static_value
    for solver in (MVP(), WSU(), CADP(), CADP(robust=True)):
        assert solver.solve(problem).static_value == pytest.approx(exact, rel=1e-8)


def test_one_step_is_brute_forced() -> None:
    problem = replace(random_problem(4, n_states=3, n_actions=2), horizon=1)
    f = problem.models.f
    best = max(
        float(simulate(problem, TimedPolicy(np.array([rule]), problem.models.states,
                                            problem.models.actions)) @ f)
        for rule in itertools.product(range(2), repeat=3)
    )  # fmt: skip
    for solver in (WSU(), CADP(), MVP()):
        returns = policy_return(problem, solver.solve(problem).policy)
        assert float(returns @ f) == pytest.approx(best, abs=1e-12)


@pytest.mark.parametrize("seed", range(10))
def test_cadp_improves_on_wsu_for_its_goal(seed: int) -> None:
    problem = replace(random_problem(seed), objective=SoftRobust(0.7, 0.6))
    wsu = WSU().solve(problem)
    assert CADP(robust=True).solve(problem).static_value >= wsu.static_value - 1e-12
    mean = replace(problem, objective=SoftRobust(0.0, 0.5))
    assert CADP().solve(mean).static_value >= static_return(mean, wsu.policy) - 1e-12


def test_bad_horizons() -> None:
    problem = random_problem(0)
    for horizon in (0, -1, 2.5):
        with pytest.raises(InputError, match="horizon must be a whole number"):
            replace(problem, horizon=horizon)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="shape"):
        TimedPolicy(np.zeros((2, 3), int), problem.models.states, problem.models.actions)
    timed = WSU().solve(replace(problem, horizon=3)).policy
    assert timed.action(0, 2) in list(problem.models.actions)
    with pytest.raises(InputError, match=r"step must lie in 0…2"):
        timed.action(0, 3)


def test_forbidden_actions_and_fractions_are_refused() -> None:
    problem = replace(random_problem(0, masks=True), horizon=4)
    m = problem.models
    s, a = np.argwhere(~problem.allowed)[0]
    decisions = np.tile(np.argmax(problem.allowed, axis=1), (4, 1))
    decisions[2, s] = a
    with pytest.raises(InputError, match=f"action '{a}' in state '{s}' at step 2"):
        policy_return(problem, TimedPolicy(decisions, m.states, m.actions))
    with pytest.raises(InputError, match="whole number"):
        TimedPolicy(decisions * 0.9, m.states, m.actions)


@pytest.mark.parametrize("seed", range(10))
def test_cycles_of_the_robust_form_end(seed: int) -> None:
    solution = CADP(robust=True).solve(replace(random_problem(seed), horizon=5))
    assert solution.status == "local_optimum"
