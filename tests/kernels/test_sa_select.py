"""The SA update against a weighted argsort, with and without a first guess."""

from __future__ import annotations

import numpy as np
import pytest

from softrobust.kernels.sa_select import best_actions
from softrobust.objective import SoftRobust


@pytest.mark.parametrize("lam", [0.0, 1e-6, 0.5, 1.0])
@pytest.mark.parametrize("alpha", [0.0, 0.7, 1.0])
def test_against_the_objective(lam: float, alpha: float) -> None:
    rng = np.random.default_rng(0)
    for Z in (rng.normal(size=(20, 4, 15)), np.round(rng.normal(size=(20, 4, 15)))):
        f = rng.dirichlet(np.ones(15))
        goal = SoftRobust(lam, alpha)
        truth = np.array([[goal.value(row, f) for row in z] for z in Z])
        for first in (None, rng.integers(4, size=20)):
            best, lb, ub = best_actions(Z, f, goal.q_bounds(f), lam, first)
            values = truth[np.arange(20), best]
            np.testing.assert_allclose(values, truth.max(axis=1), atol=1e-12)
            assert (lb <= truth.max(axis=1) + 1e-13).all()
            assert (ub >= truth.max(axis=1) - 1e-13).all()
            assert (ub - lb).max() < 1e-12


def test_not_finite_gives_nan() -> None:
    Z = np.zeros((2, 2, 3))
    Z[1, 1, 1] = np.nan
    _, lb, ub = best_actions(Z, np.full(3, 1 / 3), np.ones(3), 0.5)
    assert lb[0] == ub[0] == 0.0
    assert np.isnan(lb[1])
    assert np.isnan(ub[1])
