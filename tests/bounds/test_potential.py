"""Bounds by potentials: true for any potential, and lower than the safe dual once one is found."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from softrobust._core.limits import NO_LIMIT, Deadline
from softrobust.bounds import potential
from softrobust.bounds.advantage import occupancy_bounds, relax
from softrobust.bounds.best import dual_bound
from softrobust.bounds.potential import _Flows, descend, lower
from softrobust.bounds.reduction import reduce
from softrobust.solvers.exact import branch_and_bound
from softrobust.solvers.exact.exact import Exact
from tests.agree.static_instances import all_decisions, all_returns, brute_force, static_instance
from tests.instances import random_problem


@pytest.mark.parametrize("seed", range(12))
def test_every_potential_bounds_every_rule_in_every_model(seed: int) -> None:
    problem, rng = static_instance(seed), np.random.default_rng(seed)
    least, greatest = occupancy_bounds(problem)
    flows = _Flows(problem, problem.allowed, least, greatest)
    decisions = all_decisions(problem)
    returns = all_returns(problem, decisions)
    size, states = float(np.abs(returns).max()), np.arange(problem.n_states)
    for scale in (0.0, 1.0, 10.0):
        U = scale * size * rng.normal(size=(problem.n_models, problem.n_states))
        charges = flows.charges(U)
        most = charges.x + charges.terms[states, decisions].sum(axis=1)
        assert (most >= returns - 1e-12 * size).all()


@pytest.mark.parametrize("seed", range(4))
def test_a_potential_that_was_looked_for_bounds_lower(seed: int) -> None:
    problem = random_problem(seed, n_states=8, n_actions=3, n_models=12, lam=0.7, alpha=0.5)
    reduced = reduce(problem)
    relaxation = relax(reduced, reduced.allowed)
    plain = dual_bound(reduced.problem, reduced.allowed, relaxation.charges(problem.models.f))
    best = Exact(gap=1e-9).solve(problem).static_value
    found, bound = lower(reduced, relaxation, plain.xi, best, NO_LIMIT)
    assert best <= bound.value < plain.value
    # Where time is over, what it begins with stands.
    _, at_once = lower(reduced, relaxation, plain.xi, best, Deadline(1e-9))
    assert at_once.value >= bound.value
    # A part of the actions starts from it.
    some = reduced.allowed.copy()
    some[0] = np.eye(1, 3, dtype=bool)[0]
    inside = relax(reduced, some, replace(relaxation, potential=found))
    _, lowered = lower(reduced, inside, bound.xi, best, NO_LIMIT)
    assert lowered.value <= bound.value + 1e-9 * abs(bound.value)


@pytest.mark.parametrize("seed", range(8))
def test_branching_with_potentials_finds_the_optimum(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("LEAF_WORK", "LEAST_LEAF", "NODE_WORK", "LOOK_WORK"):
        monkeypatch.setattr(branch_and_bound, name, 0.0)
    monkeypatch.setattr(branch_and_bound, "INSTEAD", 0.0)
    monkeypatch.setattr(potential, "LOOKS", 30)
    problem = static_instance(seed)
    solution = Exact(gap=1e-9).solve(problem)
    best = brute_force(problem)
    assert solution.static_value == pytest.approx(best, rel=1e-9, abs=1e-9)
    assert solution.bound is not None
    assert solution.bound.value >= best - 1e-12 * abs(best)


def test_descent_ends_at_the_least_point() -> None:
    rng = np.random.default_rng(0)
    M = rng.normal(size=(20, 20))
    M, least = M @ M.T + np.eye(20), rng.normal(size=20)
    found = descend(
        lambda x: (float((x - least) @ M @ (x - least)), 2 * M @ (x - least)), np.zeros(20), 200
    )
    np.testing.assert_allclose(found, least, atol=1e-6)
