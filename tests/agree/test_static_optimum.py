"""Exact = MILP = brute force; every bound covers; nothing crosses."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from scipy.optimize import linprog

from softrobust.bounds import Bound, Covers
from softrobust.bounds.best import CLASSES, best_bound
from softrobust.certificate import certify
from softrobust.data.rewards import Rewards
from softrobust.models.model_set import ModelSet
from softrobust.objective import Reference, SoftRobust
from softrobust.problem import Problem
from softrobust.returns import static_return, uniform_value
from softrobust.solvers import RandomizedAscent, Solution, Status
from softrobust.solvers.exact import branch_and_bound
from softrobust.solvers.exact.exact import Exact
from softrobust.solvers.exact.local_search import LocalSearch
from softrobust.solvers.exact.milp import MILP
from tests.agree.static_instances import brute_force, learning_value, spread, static_instance
from tests.instances import random_policy
from tests.solvers.test_exact import river

PROVEN = (Status.OPTIMAL, Status.TOLERANCE_REACHED)


def tolerance(problem: Problem, optimum: float) -> float:
    """1e-7 of how far returns lie apart, whatever their offset, and the rounding of evaluations."""
    return 1e-7 * spread(problem) + 1e-14 * abs(optimum) / (1 - problem.gamma)


def check(problem: Problem, solution: Solution, optimum: float) -> None:
    """The optimum to 1e-7, a bound that holds and does not cross, allowed actions only."""
    assert solution.static_value == pytest.approx(optimum, rel=0, abs=tolerance(problem, optimum))
    assert solution.static_value == static_return(problem, solution.policy)
    assert solution.bound is not None
    assert solution.gap_abs is not None
    assert solution.bound.value >= optimum
    assert solution.gap_abs >= 0
    assert solution.policy.deterministic
    assert solution.status in PROVEN


PROBES = 50


def compare(seed: int) -> None:
    problem = static_instance(seed)
    optimum = brute_force(problem)
    gap = 1e-9 * spread(problem) / max(abs(optimum), 1.0)  # a share of |value|, offset included
    check(problem, Exact(gap=gap).solve(problem), optimum)
    form = ("strengthened", "paper")[seed % 2]
    check(problem, MILP(formulation=form, gap=1e-9).solve(problem), optimum)  # type: ignore[arg-type]
    bounds = [best_bound(problem, covers) for covers in CLASSES]
    values = [bound.value for bound in bounds]
    assert optimum <= values[0] <= values[1] <= values[2]  # deterministic, stationary, all
    for covers, bound in zip(CLASSES, bounds, strict=True):
        assert list(CLASSES).index(bound.covers) >= list(CLASSES).index(covers)
    for other in range(PROBES):
        assert static_return(problem, random_policy(problem, other)) <= values[1]
    for other in range(10):
        assert learning_value(problem, other) <= values[2]
    certify_all(problem, bounds)


def certify_all(problem: Problem, bounds: list[Bound]) -> None:
    """No certificate crosses, whatever bounds are at hand, for good policies and bad ones."""
    for policy in (random_policy(problem, 0), problem.uniform_policy()):
        certificate = certify(problem, policy, bounds=bounds, time_limit=0)
        assert certificate.gap_abs >= 0
        assert certificate.bound.covers is not Covers.DETERMINISTIC or policy.deterministic


@pytest.mark.parametrize("seed", range(60))
def test_exact_and_milp_are_brute_force(seed: int) -> None:
    compare(seed)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(60, 500))
def test_exact_and_milp_are_brute_force_at_length(seed: int) -> None:
    compare(seed)


@pytest.mark.parametrize("dual", [True, False])
@pytest.mark.parametrize("seed", range(40))
def test_branching_alone_is_brute_force(
    seed: int, dual: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without enumeration at the root or at leaves, so that nodes are really branched on."""
    monkeypatch.setattr(branch_and_bound, "LEAF_WORK", 0.0)
    problem = static_instance(1000 + seed)
    optimum = brute_force(problem)
    gap = 1e-9 * spread(problem) / max(abs(optimum), 1.0)
    solution = Exact(gap=gap, node_limit=100_000, dual=dual).solve(problem)
    check(problem, solution, optimum)


@pytest.mark.parametrize("limits", [{"node_limit": 0}, {"node_limit": 2}, {"time_limit": 1e-6}])
def test_cut_short_it_still_yields_the_local_search_policy_and_a_gap(
    limits: dict[str, float],
) -> None:
    problem = river(20, 60)
    solution = Exact(**limits).solve(problem)  # type: ignore[arg-type]
    full = Exact(gap=1e-6).solve(problem)
    assert solution.status in (Status.NODE_LIMIT, Status.TIME_LIMIT)
    assert solution.bound is not None
    assert full.bound is not None
    assert solution.bound.value >= full.static_value
    assert solution.gap_abs is not None
    assert solution.gap_abs > 0
    if "node_limit" in limits:
        assert solution.static_value >= LocalSearch().solve(problem).static_value
    else:  # not even the local search is over, but its first climb's policy is there
        assert solution.static_value > uniform_value(problem)


def test_milp_cut_short_still_yields_the_local_search_policy() -> None:
    problem = river()
    local = LocalSearch().solve(problem)
    for form in ("strengthened", "paper"):
        solution = MILP(formulation=form, time_limit=2.0).solve(problem)
        assert solution.static_value >= local.static_value
        assert solution.gap_abs is not None
        assert solution.gap_abs >= 0


def test_public_riverswim(shared_data: Path) -> None:
    from softrobust.models import read_models

    models = read_models(shared_data / "riverswim" / "training.csv")
    problem = Problem(models, gamma=0.9, objective=SoftRobust(0.5, 0.7))
    solution = Exact(gap=1e-9).solve(problem)
    assert solution.static_value == pytest.approx(141.605551, abs=5e-7)
    assert solution.gap is not None
    assert solution.gap <= 1e-9
    assert solution.status is Status.OPTIMAL


@pytest.mark.parametrize("seed", range(40))
def test_bounds_of_mixed_policies_are_those_of_one_adversary(seed: int) -> None:
    """In one state returns are linear in the policy: the best mixture is a linear program."""
    rng = np.random.default_rng(seed)
    A, N = int(rng.integers(2, 5)), int(rng.integers(2, 5))
    R = rng.normal(size=(1, A, N))
    models = ModelSet.from_dense(np.ones((N, 1, A, 1)), rewards=Rewards.of_models(R.ravel(), 1, A))
    problem = Problem(models, p0=np.ones(1), gamma=0.9, objective=SoftRobust(1.0, 1.0 - 1e-9))
    # max t: t ≤ Σ_a π_a R_aω/(1 − γ) in every model
    rows = np.hstack([-10.0 * R[0].T, np.ones((N, 1))])
    found = linprog(
        np.r_[np.zeros(A), -1.0], rows, np.zeros(N), np.r_[np.ones(A), 0.0][None], [1.0],
        bounds=[(0, None)] * A + [(None, None)],
    )  # fmt: skip
    assert found.fun is not None
    best = -float(found.fun)
    for covers in (Covers.STATIONARY, Covers.TIMED, Covers.ALL):
        assert best_bound(problem, covers).value >= best - 1e-9
    mixed = RandomizedAscent().solve(problem)
    assert mixed.bound is not None
    assert mixed.bound.value >= max(mixed.static_value, best - 1e-9)
    over = replace(problem, horizon=3)
    for covers in (Covers.STATIONARY, Covers.TIMED):
        assert best_bound(over, covers).value >= 2.71 / 10.0 * best - 1e-9


def test_two_adversaries_do_not_bound_a_mixture() -> None:
    """Each of two ξ is hard on one of the actions that a policy mixes, and neither on both."""
    R = -1e6 + np.array([[[-0.00046, 0.00121], [0.00084, 0.00057], [0.0011, -0.00024]]])
    rewards = Rewards.of_models(R.ravel(), 1, 3)
    f = np.array([2e-9, 1 - 2e-9])
    models = ModelSet.from_dense(np.ones((2, 1, 3, 1)), f, rewards=rewards)
    known = Reference("practice", returns=np.array([-99999999.9355, -99999999.9675]))
    goal = SoftRobust(1.0, 0.999999999, known)
    problem = Problem(models, p0=np.ones(1), gamma=0.99, objective=goal)
    mixed = problem.policy(np.array([[0.0, 0.95327, 0.04673]]))
    earned = static_return(problem, mixed)
    assert earned > 0.0206
    assert best_bound(problem, Covers.STATIONARY).value >= earned - 1e-4
