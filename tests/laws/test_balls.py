"""Laws of worst cases over balls: monotone, concave, equivariant, inside the ball."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from tests.kernels.balls import l1_worst_case, linf_worst_case

FloatArray = NDArray[np.float64]
NORMS = (l1_worst_case, linf_worst_case)


@st.composite
def rows(draw: st.DrawFn) -> tuple[FloatArray, FloatArray, FloatArray, float]:
    n = draw(st.integers(1, 7))
    mass = draw(st.lists(st.integers(0, 9), min_size=n, max_size=n).filter(any))
    z = draw(st.lists(st.floats(-100, 100), min_size=n, max_size=n))
    w = draw(st.lists(st.floats(0.05, 20), min_size=n, max_size=n))
    p = np.array(mass, dtype=float)
    return p / p.sum(), np.array(z), np.array(w), draw(st.floats(0, 3))


@given(rows(), st.booleans())
def test_feasible_and_between_the_least_and_the_nominal(
    row: tuple[FloatArray, FloatArray, FloatArray, float], weighted: bool
) -> None:
    p, z, w, budget = row
    for norm in NORMS:
        weights = w if weighted else np.ones_like(w)
        values, worst = norm(p, z, budget, weights)
        moved = weights * np.abs(worst[0] - p)
        assert (moved.sum() if norm is l1_worst_case else moved.max()) <= budget + 1e-11
        assert worst.min() >= 0
        assert abs(worst.sum() - 1) <= 1e-12
        assert z.min() - 1e-11 <= values[0] <= p @ z + 1e-11


@given(rows(), st.floats(0, 1), st.floats(-50, 50), st.floats(0.01, 10))
def test_falls_with_the_budget_convexly_and_moves_with_z(
    row: tuple[FloatArray, FloatArray, FloatArray, float], share: float, shift: float, scale: float
) -> None:
    p, z, w, budget = row
    for norm in NORMS:
        whole, part, none = (float(norm(p, z, x, w)[0][0]) for x in (budget, share * budget, 0.0))
        assert whole <= part + 1e-11
        assert part <= share * whole + (1 - share) * none + 1e-11  # a convex set of budgets
        moved = float(norm(p, scale * z + shift, budget, w)[0][0])
        assert abs(moved - (scale * whole + shift)) <= 1e-9


@given(rows(), st.floats(0.1, 10))
def test_weights_and_budget_scale_together(
    row: tuple[FloatArray, FloatArray, FloatArray, float], scale: float
) -> None:
    p, z, w, budget = row
    for norm in NORMS:
        a = norm(p, z, budget, w)[0][0]
        assert abs(a - norm(p, z, scale * budget, scale * w)[0][0]) <= 1e-10
        b = norm(p, z, budget)[0][0]
        assert abs(b - norm(p, z, budget, np.ones_like(w))[0][0]) <= 1e-10
