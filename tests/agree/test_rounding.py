"""Bounds against optima in exact fractions, where floating point is at its worst.

Discounts up to 1 − 1e-6, rewards of 1e-6 to 1e6 on offsets up to 1e9, rows and starts that miss 1
by as much as they may, rules that stay for ever or leave at once, actions that differ in the last
bit.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from softrobust.bounds import best_bound
from softrobust.bounds.best import CLASSES
from softrobust.certificate import certify
from softrobust.models.model_set import ModelSet
from softrobust.objective import SoftRobust
from softrobust.problem import Problem
from softrobust.solvers import MILP, Exact
from softrobust.solvers.exact import branch_and_bound, exact
from tests.agree.static_instances import all_decisions
from tests.solvers.exact_fractions import exact_objective, exact_returns


def hard_instance(seed: int) -> Problem:
    rng = np.random.default_rng([3, seed])
    S, A, N = 3, 2, int(rng.integers(1, 4))
    P = rng.dirichlet(np.full(S, rng.choice([0.05, 0.5, 5.0])), size=(N, S, A))
    if rng.random() < 0.3:  # stay, or go to one state
        P[:] = 0.0
        P[..., rng.integers(S)] = 1.0
        P[:, :, 0] = np.eye(S)
    P /= P.sum(axis=-1, keepdims=True)
    P *= 1 + rng.choice([0.0, 0.0, 9e-9, -9e-9])
    gamma = float(rng.choice([0.3, 0.9, 0.99, 0.999, 0.9999, 1 - 1e-6]))
    offset = float(rng.choice([0.0, 0.0, 1.0, 1e3, -1e6, 1e9]))
    r = float(rng.choice([1.0, 1e-6, 1e6])) * rng.normal(size=(S, A)) + offset
    if rng.random() < 0.2:
        r[:, 1] = r[:, 0] * (1 + 1e-15)
    return Problem(
        ModelSet.from_dense(P, rng.dirichlet(np.ones(N))),
        rewards=r,
        p0=rng.dirichlet(np.ones(S)) * (1 + rng.choice([0.0, 9e-9, -9e-9])),
        gamma=gamma,
        objective=SoftRobust(
            float(rng.choice([0.0, 0.5, 1.0])), float(rng.choice([0, 0.5, 0.9, 1]))
        ),
    )


def referee(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    problem = hard_instance(seed)
    optimum = max(
        exact_objective(problem, exact_returns(problem, d)) for d in all_decisions(problem)
    )
    bounds = [best_bound(problem, covers) for covers in CLASSES]
    assert bounds[0].value <= bounds[1].value <= bounds[2].value
    solutions = [Exact(gap=1e-12).solve(problem)]
    solutions += [
        MILP(formulation=form, gap=1e-9).solve(problem) for form in ("strengthened", "paper")
    ]
    with monkeypatch.context() as patch:  # branching alone, with the dual and without
        patch.setattr(branch_and_bound, "LEAF_WORK", 0.0)
        patch.setattr(exact, "ENUMERATION_WORK", 0.0)
        solutions += [Exact(gap=1e-12, dual=dual).solve(problem) for dual in (True, False)]
    for solution in solutions:
        assert solution.bound is not None
        assert solution.gap_abs is not None
        assert solution.gap_abs >= 0
        bounds.append(solution.bound)
        assert certify(problem, solution.policy, bounds=[solution.bound]).gap_abs >= 0
    for bound in bounds:
        assert Fraction(bound.value) >= optimum, bound


@pytest.mark.parametrize("seed", range(30))
def test_no_bound_is_below_the_exact_optimum(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    referee(seed, monkeypatch)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(30, 1300))
def test_no_bound_is_below_the_exact_optimum_at_length(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    referee(seed, monkeypatch)
