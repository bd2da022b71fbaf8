"""Pest control: all rows by exact integration, the absorbing state, the batch."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable
from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

from softrobust.domains import PestControl
from softrobust.posterior.population import drawn_growth, pest_rows, true_growth
from softrobust.problem import Problem
from softrobust.returns import optimal_returns


def half_away(x: Fraction) -> int:
    """Round to the nearest whole number, halves away from zero."""
    return int(math.copysign(math.floor(abs(x) + Fraction(1, 2)), x))


def law_of(
    value: Callable[[Fraction], Fraction], halves: list[Fraction], mean: float, sd: float
) -> dict[int, float]:
    """{whole number: probability} of half_away(value(max(0, Normal(mean, sd²)))).

    `halves` are the positive numbers at which value is a half: between two of them the rounded
    value is constant and is looked up in the middle; 0 is an atom of its own.
    """
    out: defaultdict[int, float] = defaultdict(float)
    out[half_away(value(Fraction(0)))] += stats.norm.cdf(0.0, mean, sd)
    cuts = [Fraction(0), *sorted(halves)]
    for low, high in pairwise(cuts):
        weight = np.diff(stats.norm.cdf([float(low), float(high)], mean, sd))[0]
        out[half_away(value((low + high) / 2))] += weight
    out[half_away(value(cuts[-1] + 1))] += stats.norm.sf(float(cuts[-1]), mean, sd)
    return out


def wanted_row(n: int, mean: float, sd: float, logistic: bool) -> NDArray[np.float64]:
    """The row of population n, summed over the pieces of growth and of immigration."""
    rise = Fraction(n * (50 - n), 50) if logistic else Fraction(n)
    base = n - rise if logistic else Fraction(0)
    halves = [] if rise == 0 else [(Fraction(2 * k + 1, 2) - base) / rise for k in range(51)]
    grown = law_of(lambda g: base + g * rise, [h for h in halves if h > 0], mean, sd)
    immigrants = law_of(lambda e: e, [Fraction(2 * k + 1, 2) for k in range(51)], 3.0, 1.5)
    out = np.zeros(51)
    for m, p in grown.items():
        for e, q in immigrants.items():
            out[min(max(min(max(m, 0), 50) + e, 0), 50)] += p * q
    return out


@pytest.mark.parametrize("logistic", [True, False])
def test_all_rows_by_exact_integration(logistic: bool) -> None:
    """All 51 × 5 rows; growth and rounding are written here once more, in fractions."""
    found = PestControl(exponential=not logistic).true_model()[0].P
    for n in range(51):
        for a, sd in enumerate((0.6, 0.6, 0.5, 0.4, 0.3)):
            mean = 2.0 if a == 0 else 0.2 + (n - 25) ** 2 / 625
            np.testing.assert_allclose(
                found[n, a], wanted_row(n, mean, sd, logistic), atol=1e-13, err_msg=f"{n}, {a}"
            )


@pytest.mark.parametrize("n", [5, 15, 25, 35, 45])
def test_a_half_goes_away_from_zero(n: int) -> None:
    """Without growth m = n²/50 is a half here: no smaller m than its upper neighbour exists."""
    P = PestControl().true_model()[0].P[n]
    least = (n * n + 25) // 50
    assert (P[:, :least] == 0).all()
    assert (P[:, least] > 0).all()


def test_optimal_return_of_the_true_model() -> None:
    best = optimal_returns(Problem(PestControl().true_model()))
    assert best.lower[0] == pytest.approx(1917.44, abs=5e-3)
    assert best.upper[0] == pytest.approx(1917.44, abs=5e-3)


def test_the_last_state_absorbs_and_rows_sum_to_one() -> None:
    P = PestControl().true_model()[0].P
    np.testing.assert_array_equal(P[50, :, 50], 1.0)
    np.testing.assert_allclose(P.sum(axis=2), 1.0, atol=1e-12)
    assert (PestControl(exponential=True).true_model()[0].P[50, :, 50] < 1).all()


def test_nothing_grows_from_nothing() -> None:
    """From n = 0 only immigrants come: round(max(0, N(3, 1.5²)))."""
    P = PestControl().true_model()[0].P[0]
    law = np.diff(stats.norm(3, 1.5).cdf(np.arange(51) + 0.5), prepend=0.0)
    np.testing.assert_allclose(P, np.tile(law, (5, 1)), atol=1e-12)


def test_the_true_growth_as_a_draw() -> None:
    """(n − 25)²/625 + 0.2 = 1.2 − 0.08·n + 0.0016·n²: a draw that reproduces it."""
    growth = drawn_growth([[2.0, 1.2, -0.08, 0.0016]])
    np.testing.assert_allclose(growth[0], true_growth(), atol=1e-12)
    rows = pest_rows(growth)[:, :, 0]
    np.testing.assert_allclose(rows, PestControl(exponential=True).true_model()[0].P, atol=1e-13)


def test_rewards_start_and_batch() -> None:
    domain = PestControl()
    frame, log = domain.frame(), domain.collect(0)
    assert frame.rewards is not None
    assert frame.rewards.pairs[10, 1] == 1000 - 100 - 800
    assert frame.p0 is not None
    assert frame.p0[9] == 1.0
    assert (log.n_rows, log.s[0]) == (300, 10)
    # The optimal policy is deterministic: one action per visited state.
    assert (np.count_nonzero(log.pair_counts, axis=1) <= 1).all()
    start = PestControl(start=10).true_model().p0
    assert start is not None
    assert start[10] == 1.0


def test_extreme_draws_stay_distributions() -> None:
    rows = pest_rows(drawn_growth(np.array([[0.5, -50.0, 3.0, -1.0], [3.0, 90.0, 9.0, 1.0]])))
    assert (rows >= 0).all()
    assert rows.sum(axis=3) == pytest.approx(1.0, abs=1e-12)
