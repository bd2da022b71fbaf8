"""Pest control: rows by quadrature, the absorbing state, the batch."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from softrobust.domains import PestControl
from softrobust.posterior.population import GROWTH_SD, drawn_growth, pest_rows, true_growth


def test_rows_by_quadrature() -> None:
    """n = 20, action 2, logistic: integrate over G on a fine grid instead of inverting."""
    row = PestControl().true_model()[0].row(20, 2)
    g = np.linspace(-3, 5, 800_001)
    weight = stats.norm(true_growth()[2, 20], GROWTH_SD[2]).pdf(g) * (g[1] - g[0])
    m = np.clip(np.floor(20 + (np.maximum(g, 0) - 1) * 20 * 30 / 50 + 0.5), 0, 50).astype(int)
    law = np.bincount(m, weights=weight, minlength=51)
    e = np.maximum(np.linspace(-8, 14, 800_001), 0.0)
    arrive = stats.norm(3, 1.5).pdf(np.linspace(-8, 14, 800_001)) * 22 / 800_000
    extra = np.bincount(np.floor(e + 0.5).astype(int), weights=arrive, minlength=51)[:51]
    wanted = np.convolve(law, extra)
    wanted[50] += wanted[51:].sum()
    np.testing.assert_allclose(row, wanted[:51], atol=2e-5)


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
