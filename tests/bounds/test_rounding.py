"""Around a value of 0: what is proven counts as proven, and nothing is said to be gained."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from softrobust.bounds import Bound, Covers, best_bound
from softrobust.bounds.best import CLASSES
from softrobust.bounds.reduction import rounding
from softrobust.certificate import certify
from softrobust.models import ModelSet, Policy
from softrobust.objective import SoftRobust
from softrobust.problem import Problem
from softrobust.returns import optimal_returns
from softrobust.solvers import MILP, Exact, Solver, Status
from softrobust.solvers.base import gap_share
from softrobust.solvers.exact import branch_and_bound, exact
from tests.agree.static_instances import brute_force
from tests.instances import random_problem


def absorbed(S: int = 3) -> Problem:
    """It starts where it ends, at reward 0: every policy earns exactly 0."""
    rng = np.random.default_rng(0)
    P = rng.dirichlet(np.ones(S), size=(3, S, 2))
    P[:, -1] = np.eye(S)[-1]
    rewards = rng.normal(size=(S, 2))
    rewards[-1] = 0.0
    models = ModelSet.from_dense(P)
    return Problem(models, rewards=rewards, p0=np.eye(S)[-1], gamma=0.95)


def costs(S: int) -> Problem:
    """Costs only, and one action is free everywhere: the optimum is exactly 0."""
    rng = np.random.default_rng(0)
    rewards = -rng.random((S, 3))
    rewards[:, 0] = 0.0
    models = ModelSet.from_dense(rng.dirichlet(np.full(S, 0.3), size=(8, S, 3)))
    return Problem(models, rewards=rewards, gamma=0.95)


def entrance(S: int = 40) -> Problem:
    """Staying out is worth 0; the game behind the door is worth less, but has many rules."""
    rng = np.random.default_rng(5)
    P = rng.dirichlet(np.full(S, 0.3), size=(20, S, 3))
    P[:, 0, 0] = np.eye(S)[0]
    rewards = rng.normal(size=(S, 3)) - 1.2
    rewards[0] = [0.0, -1.0, -1.0]
    models = ModelSet.from_dense(P)
    return Problem(models, rewards=rewards, p0=np.eye(S)[0], gamma=0.95)


def shifted(seed: int) -> Problem:
    """Rewards moved so that the optimum is 0 but for rounding, while returns are not."""
    base = random_problem(seed, n_states=5, gamma=0.95)
    best = brute_force(base)
    moved = np.asarray(base.rewards.pairs) - best * (1 - base.gamma)
    return replace(base, rewards=base.rewards.of_pairs(moved))


@pytest.fixture
def no_leaves(monkeypatch: pytest.MonkeyPatch) -> None:
    """No enumeration: the tree has to close the gap."""
    monkeypatch.setattr(branch_and_bound, "LEAF_WORK", 0.0)
    monkeypatch.setattr(exact, "ENUMERATION_WORK", 0.0)


@pytest.mark.parametrize("solver", [Exact(), Exact(dual=False), MILP()], ids=str)
def test_where_every_policy_earns_nothing_any_is_the_best(solver: Solver) -> None:
    problem = absorbed()
    solution = solver.solve(problem)
    assert solution.status in (Status.OPTIMAL, Status.TOLERANCE_REACHED)
    assert solution.static_value == 0
    assert solution.bound is not None
    assert 0 <= solution.bound.value <= 1e-6
    assert solution.gap_share is None
    assert certify(problem, solution.policy).nothing_better


@pytest.mark.parametrize("S", [4, 30])
def test_costs_with_a_free_action_are_proven(S: int) -> None:
    problem = costs(S)
    solution = Exact(time_limit=60).solve(problem)
    assert solution.status is Status.OPTIMAL
    assert solution.static_value == 0
    assert solution.gap_abs is not None
    assert 0 <= solution.gap_abs <= 1e-9
    assert solution.gap_share is not None
    assert solution.gap_share <= 1e-9


@pytest.mark.usefixtures("no_leaves")
@pytest.mark.parametrize("make", [absorbed, lambda: costs(4), entrance, lambda: shifted(2)])
@pytest.mark.parametrize("dual", [True, False])
def test_the_tree_stops_at_a_value_of_zero(make: object, dual: bool) -> None:
    problem = make()  # type: ignore[operator]
    solution = Exact(time_limit=60, node_limit=3000, dual=dual).solve(problem)
    assert abs(solution.static_value) <= 1e-12
    assert solution.bound is not None
    assert solution.bound.value >= solution.static_value
    if dual or problem.n_states < 40:  # plain bounds leave the game's rules to be branched on
        assert solution.status is Status.OPTIMAL


@pytest.mark.parametrize("seed", range(6))
def test_enumeration_proves_a_shifted_optimum(seed: int) -> None:
    problem = shifted(seed)
    solution = Exact().solve(problem)
    assert solution.status is Status.OPTIMAL
    assert solution.bound is not None
    assert solution.bound.value >= brute_force(problem) - 1e-14  # brute force rounds too
    assert certify(problem, solution.policy, bounds=[solution.bound]).nothing_better


def test_one_large_penalty_does_not_widen_the_tolerance_of_a_proof() -> None:
    problem = random_problem(3)
    rewards = np.asarray(problem.rewards.pairs).copy()
    rewards[0, 0] = -1e6
    fined = replace(problem, rewards=problem.rewards.of_pairs(rewards))
    V = optimal_returns(fined).V
    size = float(np.abs(V).max())
    assert rounding(fined, V) < 1e-6 * size < rounding(fined, excused=False)
    assert Exact().solve(fined).status is Status.OPTIMAL


@pytest.mark.parametrize("gamma", [0.5, 0.95, 0.999])
@pytest.mark.parametrize("seed", range(4))
def test_rounding_is_what_bounds_put_on(seed: int, gamma: float) -> None:
    """One model leaves no gap but rounding."""
    problem = random_problem(seed, n_models=1, gamma=gamma)
    V = optimal_returns(problem).V
    best = float((V @ problem.p0).max())
    for covers in CLASSES:
        assert best_bound(problem, covers).value - best <= rounding(problem, V)


def test_a_policy_worse_than_chance_is_not_called_the_best() -> None:
    """Where the uniform policy reaches the bound there is no share of what is to be gained."""
    P = np.ones((2, 1, 3, 1))
    models = ModelSet.from_dense(P)
    problem = Problem(
        models, rewards=np.array([[1.0, 0.0, -1.0]]), gamma=0.9, objective=SoftRobust(1.0, 1.0)
    )
    last = Policy.from_decision(np.array([2]), models.states, models.actions)
    chance = certify(problem, problem.uniform_policy()).static["objective"]
    bound = Bound(chance, Covers.DETERMINISTIC, "test")
    certificate = replace(certify(problem, last), bound=bound)
    assert certificate.gap_share is None
    assert not certificate.nothing_better
    assert certificate.gap_abs == pytest.approx(10.0)


def test_gap_share_knows_the_size_of_rounding() -> None:
    bound = Bound(6e-14, Covers.ALL, "test")
    assert gap_share(bound, 0.0, 0.0) == 1.0
    assert gap_share(bound, 0.0, 0.0, rounding=1e-12) is None
    assert gap_share(bound, 0.0, -1.0, rounding=1e-12) == pytest.approx(6e-14)
