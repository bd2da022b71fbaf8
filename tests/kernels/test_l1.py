"""Worst cases over L1 and L∞ balls: the hand case and linear programs."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.optimize import linprog

from softrobust.kernels.balls import l1_reach
from tests.kernels.balls import l1_worst_case, linf_worst_case

FloatArray = NDArray[np.float64]
HAND = np.array([0.4, 0.3, 0.1, 0.2]), np.array([1.0, 2.0, 5.0, 4.0])


def instances(n: int) -> Iterator[tuple[FloatArray, FloatArray, FloatArray, float]]:
    """(p, z, w, budget), with ties, zeros and equal weights among them."""
    for seed in range(n):
        rng = np.random.default_rng(seed)
        size = int(rng.integers(1, 9))
        p = rng.dirichlet(np.full(size, 0.5))
        z, w = rng.normal(size=size), rng.uniform(0.1, 3.0, size)
        if seed % 3 == 0:
            z, w = np.round(z), np.round(w + 0.6)
        if seed % 4 == 0:
            p[rng.integers(size)] = 0.0
            p = p / p.sum() if p.sum() > 0 else np.full(size, 1 / size)
        yield p, z, w, float(rng.choice([rng.uniform(0, 2.5), 0.0, 1e-3]))


def linear_program(p: FloatArray, z: FloatArray, w: FloatArray, budget: float, norm: str) -> float:
    """min zᵀx over x = p + up − down in the simplex and the ball."""
    n = p.size
    ball = np.r_[w, w][None] if norm == "l1" else np.c_[np.diag(w), np.diag(w)]
    answer = linprog(
        np.r_[z, -z],
        A_ub=np.r_[ball, np.c_[-np.eye(n), np.eye(n)]],
        b_ub=np.r_[np.full(len(ball), budget), p],
        A_eq=np.r_[np.ones(n), -np.ones(n)][None],
        b_eq=[0.0],
        options={"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10},
    )
    assert answer.fun is not None
    return float(z @ p + answer.fun)


@pytest.mark.parametrize(("budget", "value"), [(0.0, 2.3), (1.0, 1.1), (2.0, 1.0)])
def test_by_hand(budget: float, value: float) -> None:
    p, z = HAND
    for weights in (None, np.ones(4)):
        values, worst = l1_worst_case(p, z, budget, weights)
        assert values[0] == pytest.approx(value, abs=1e-15)
        assert worst[0].sum() == pytest.approx(1.0, abs=1e-15)
        assert np.abs(worst[0] - p).sum() <= budget + 1e-15


def test_a_weighted_case_by_hand() -> None:
    # From 5 to 1: saves 4 and costs 1 + 1 a unit; from 4 to 1: 3 for 3 + 1. The first .1 cost .2,
    # the rest of the budget .6 moves .1 of the next: 2.3 − .1·4 − .1·3.
    p, z = HAND
    values, worst = l1_worst_case(p, z, 0.6, np.array([1.0, 1.0, 1.0, 3.0]))
    assert values[0] == pytest.approx(1.6, abs=1e-15)
    np.testing.assert_allclose(worst[0], [0.6, 0.3, 0.0, 0.1], atol=1e-15)


def test_a_dear_receiver_takes_over_when_cheap_moves_are_done() -> None:
    # All 1 of mass at z = 3. Receivers: z = 1 at weight .1 (saves 2 for 1.1), z = 0 at weight 2
    # (saves 3 for 3). Budget 1.1 moves all to the first; from there on to the second, 1 for 1.9.
    p, z, w = np.array([0.0, 0.0, 1.0]), np.array([0.0, 1.0, 3.0]), np.array([2.0, 0.1, 1.0])
    for budget, value in [(0.55, 2.0), (1.1, 1.0), (2.05, 0.5), (3.0, 0.0), (9.0, 0.0)]:
        assert l1_worst_case(p, z, budget, w)[0][0] == pytest.approx(value, abs=1e-14)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("norm", ["l1", "linf"])
def test_against_linear_programs(norm: str, weighted: bool) -> None:
    worst_case = l1_worst_case if norm == "l1" else linf_worst_case
    for p, z, weights, budget in instances(60):
        w = weights if weighted else np.ones_like(p)
        values, worst = worst_case(p, z, budget, w if weighted else None)
        assert values[0] == pytest.approx(linear_program(p, z, w, budget, norm), abs=1e-8)
        moved = w * np.abs(worst[0] - p)
        assert (moved.sum() if norm == "l1" else moved.max()) <= budget + 1e-13
        assert worst.min() >= 0
        assert worst.sum() == pytest.approx(1.0, abs=1e-14)
        assert values[0] == pytest.approx(float(worst[0] @ z), abs=1e-14)


def test_linf_by_hand() -> None:
    p, z = HAND  # every entry may move by .1: + + on 1 and 2, − − on 5 and 4
    values, worst = linf_worst_case(p, z, 0.1)
    np.testing.assert_allclose(worst[0], [0.5, 0.4, 0.0, 0.1], atol=1e-15)
    assert values[0] == pytest.approx(1.7, abs=1e-15)
    assert linf_worst_case(p, z, 0.1, np.full(4, 0.1))[0][0] == pytest.approx(1.0, abs=1e-15)


def test_what_it_takes_to_reach_a_level_is_the_worst_case_backwards() -> None:
    for p, z, _, budget in instances(40):
        level, out = float(l1_worst_case(p, z, budget)[0][0]), np.empty_like(p)
        reach = float(l1_reach(p, z, level, out))
        assert reach <= budget + 1e-12
        assert float(out @ z) <= level + 1e-12 * max(1.0, np.abs(z).max())
        assert np.abs(out - p).sum() == pytest.approx(reach, abs=1e-12)
        if reach > 1e-9:  # a little less budget does not get there
            assert l1_worst_case(p, z, reach - 1e-9)[0][0] > level
    assert l1_reach(np.array([0.5, 0.5]), np.array([0.0, 1.0]), -1.0, np.empty(2)) == np.inf
    assert l1_reach(np.array([0.5, 0.5]), np.array([0.0, 1.0]), 0.0, np.empty(2)) == 1.0
    assert l1_reach(np.array([0.5, 0.5]), np.array([0.0, 1.0]), 0.9, np.empty(2)) == 0.0
