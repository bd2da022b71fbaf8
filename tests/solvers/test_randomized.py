"""Randomized policies: above the deterministic optimum, within their bound, and a real gain."""

from __future__ import annotations

import itertools
import tracemalloc
from dataclasses import replace

import numpy as np
import pytest

from softrobust._core.limits import Deadline
from softrobust.bounds import Covers
from softrobust.data.labels import Labels
from softrobust.errors import InputError
from softrobust.models import ModelSet, Policy
from softrobust.objective import SoftRobust
from softrobust.problem import Problem
from softrobust.returns import static_return
from softrobust.solvers import Solution, Status, solve
from softrobust.solvers.baselines.behaviour import given
from softrobust.solvers.exact.randomized import (
    Deterministic,
    RandomizedAscent,
    _gradients,
    _program,
)
from tests.instances import random_problem


def best_deterministic(problem: Problem) -> float:
    """Brute force over all allowed decision rules."""
    choices = [np.flatnonzero(row) for row in problem.allowed]
    m = problem.models
    return max(
        static_return(problem, Policy.from_decision(rule, m.states, m.actions))
        for rule in itertools.product(*choices)
    )


def disagreeing(n_states: int = 3) -> Problem:
    """Each model rewards one action pattern; a rule that guesses is wrong in half of the models.

    From the hub one visits a station, chooses left or right, and returns. In model ω the stations
    where left is right are the set bits of ω: with n stations and 2ⁿ models every deterministic
    rule has a model in which it is wrong everywhere.
    """
    n, win = n_states, n_states + 1
    S, A, N = n_states + 2, 2, 2**n_states
    P = np.zeros((N, S, A, S))
    P[:, 0, :, 1 : n + 1] = 1 / n  # hub → a station
    for omega, station, a in itertools.product(range(N), range(n), range(A)):
        hit = ((omega >> station) & 1) == a
        P[omega, 1 + station, a, win if hit else 0] = 1.0
    P[:, win, :, 0] = 1.0
    r = np.zeros((S, A))
    r[win] = 1.0
    p0 = np.eye(S)[0]
    return Problem(
        ModelSet.from_dense(P), rewards=r, p0=p0, gamma=0.9, objective=SoftRobust(0.8, 0.9)
    )


def test_a_gain_that_is_proven() -> None:
    problem = disagreeing()
    best = best_deterministic(problem)
    solution = RandomizedAscent().solve(problem)
    assert solution.static_value > 1.05 * best
    assert solution.bound is not None
    assert solution.bound.covers is not Covers.DETERMINISTIC
    assert solution.static_value <= solution.bound.value
    assert not solution.policy.deterministic


def instance(seed: int) -> Problem:
    rng = np.random.default_rng(seed)
    problem = random_problem(
        seed,
        n_states=int(rng.integers(1, 5)),
        n_actions=int(rng.integers(1, 4)),
        n_models=int(rng.integers(1, 8)),
        gamma=float(rng.choice([0.5, 0.9, 0.99])),
        masks=bool(rng.integers(2)),
    )
    objective = SoftRobust(float(rng.choice([0, 0.5, 1])), float(rng.choice([0, 0.6, 0.9, 1])))
    return replace(problem, objective=objective)


def check(seed: int) -> None:
    problem = instance(seed)
    best = best_deterministic(problem)
    solution = RandomizedAscent(starts=1, steps=40).solve(problem)
    scale = max(1.0, abs(best))
    assert solution.static_value >= best - 1e-9 * scale
    assert solution.bound is not None
    assert solution.static_value <= solution.bound.value + 1e-9 * scale
    assert (solution.policy.probs[~problem.allowed] == 0).all()


@pytest.mark.parametrize("seed", range(25))
def test_between_deterministic_optimum_and_bound(seed: int) -> None:
    check(seed)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(25, 500))
def test_between_deterministic_optimum_and_bound_many(seed: int) -> None:
    check(seed)


@pytest.mark.parametrize("seed", range(12))
def test_a_step_earns_what_its_program_promises(seed: int) -> None:
    """The dual's multipliers are a step within the trust region, worth the dual's value."""
    problem, radius = instance(seed), 0.3
    probs = problem.uniform_policy().probs
    returns, gradients = _gradients(problem, problem.uniform_policy())
    step, promised = _program(problem, probs, returns, gradients, radius)
    if step is None:  # nothing to decide
        assert (problem.allowed.sum(axis=1) <= 1).all()
        return
    assert np.abs(step).max() <= radius + 1e-9
    assert (probs + step >= -1e-9).all()
    assert np.abs(step.sum(axis=1)).max() <= 1e-9
    linear = returns + (gradients * step).sum(axis=(1, 2))
    value = problem.objective.value(linear, problem.models.f)
    assert promised == pytest.approx(value, rel=1e-7, abs=1e-7)
    assert promised >= problem.objective.value(returns, problem.models.f) - 1e-7


def test_time_limit_still_gives_a_policy() -> None:
    problem = random_problem(0, n_states=30, n_actions=4, n_models=30)
    solution = RandomizedAscent(time_limit=0.05).solve(problem)
    assert solution.static_value <= solution.bound.value  # type: ignore[union-attr]


# -- made deterministic ---------------------------------------------------------------------------


def mixed(problem: Problem) -> Solution:
    """The uniform policy, as somebody handed it in."""
    return given(problem, problem.uniform_policy(), "uniform")


@pytest.mark.parametrize("seed", range(4))
def test_a_rounded_policy_is_a_local_optimum_and_its_cost_is_told(seed: int) -> None:
    problem = random_problem(seed, masks=seed % 2 == 0, lam=1.0, alpha=0.9)
    climbed = RandomizedAscent(starts=1).solve(problem)
    for solution in (climbed, mixed(problem)):
        rounded = solve(problem, Deterministic(solution))
        assert rounded.status is Status.LOCAL_OPTIMUM
        assert rounded.policy.deterministic
        assert (rounded.policy.probs[~problem.allowed] == 0).all()
        stats = rounded.stats
        assert stats["of"] == solution.solver
        assert stats["randomized_value"] == pytest.approx(static_return(problem, solution.policy))
        cost = stats["randomized_value"] - rounded.static_value
        assert stats["cost"] == pytest.approx(cost, abs=1e-12)
        # No single exchange is better, and no rule at all by more than the search can miss.
        rule, m = rounded.policy.decision, problem.models
        for s, a in np.argwhere(problem.allowed):
            other = rule.copy()
            other[s] = a
            policy = Policy.from_decision(other, m.states, m.actions)
            assert static_return(problem, policy) <= rounded.static_value + 1e-9
        assert rounded.static_value <= best_deterministic(problem) + 1e-9


def test_a_program_of_many_pairs_is_sparse_and_keeps_to_its_time() -> None:
    """4000 rows of unit matrices: dense, they alone would take 300 MB."""
    rng = np.random.default_rng(0)
    S, A, N = 1000, 4, 6
    to = rng.integers(0, S, size=(S * A, 2))
    to.sort(axis=1)
    to[:, 1] = np.where(to[:, 0] == to[:, 1], (to[:, 1] + 1) % S, to[:, 1])
    to.sort(axis=1)
    shares = rng.dirichlet(np.ones(2), size=(S * A, N))
    models = ModelSet(
        indptr=2 * np.arange(S * A + 1), next_states=to.reshape(-1).astype(np.int32),
        prob=shares.reshape(-1), f=np.full(N, 1 / N),
        states=Labels.range(S, "s"), actions=Labels.range(A, "a"),
    )  # fmt: skip
    goal = SoftRobust(0.5, 0.5)
    problem = Problem(models, rewards=rng.normal(size=(S, A)), gamma=0.9, objective=goal)
    policy = problem.uniform_policy()
    returns, gradients = _gradients(problem, policy)
    tracemalloc.start()
    step, promised = _program(problem, policy.probs, returns, gradients, 0.1)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert step is not None
    assert promised > goal.value(returns, models.f)
    assert peak < 30e6
    late = _program(problem, policy.probs, returns, gradients, 0.1, Deadline(1e-9))
    assert late == (None, -np.inf)


def test_a_deterministic_policy_is_only_improved() -> None:
    problem = random_problem(3)
    best = best_deterministic(problem)
    m = problem.models
    rule = next(
        rule
        for rule in itertools.product(*(np.flatnonzero(row) for row in problem.allowed))
        if static_return(problem, Policy.from_decision(rule, m.states, m.actions)) >= best - 1e-12
    )
    optimum = given(problem, Policy.from_decision(rule, m.states, m.actions), "optimum")
    kept = solve(problem, Deterministic(optimum, draws=0))
    np.testing.assert_array_equal(kept.policy.decision, rule)
    assert kept.stats["cost"] == pytest.approx(0.0, abs=1e-12)


def test_rounding_has_limits_and_settings() -> None:
    problem = random_problem(5, n_states=6)
    stopped = solve(problem, Deterministic(mixed(problem), time_limit=1e-9))
    assert stopped.status is Status.TIME_LIMIT
    assert stopped.policy.deterministic
    one, two = (solve(problem, Deterministic(mixed(problem), seed=7)) for _ in range(2))
    np.testing.assert_array_equal(one.policy.probs, two.policy.probs)
    with pytest.raises(InputError, match="draws"):
        Deterministic(mixed(problem), draws=-1)
    with pytest.raises(InputError, match="states and"):
        solve(random_problem(0, n_states=3), Deterministic(mixed(problem)))
