"""The L1 worst case: the hand case, an LP, and errors."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import linprog

from softrobust.errors import InputError
from softrobust.kernels.l1 import l1_worst_case


@pytest.mark.parametrize(("budget", "value"), [(0.0, 2.3), (1.0, 1.1), (2.0, 1.0)])
def test_by_hand(budget: float, value: float) -> None:
    p, z = np.array([0.4, 0.3, 0.1, 0.2]), np.array([1.0, 2.0, 5.0, 4.0])
    values, worst = l1_worst_case(p, z, budget)
    assert values[0] == pytest.approx(value, abs=1e-15)
    assert worst[0].sum() == pytest.approx(1.0, abs=1e-15)
    assert np.abs(worst[0] - p).sum() <= budget + 1e-15


def test_against_an_lp() -> None:
    rng = np.random.default_rng(0)
    for _ in range(20):
        n = int(rng.integers(1, 8))
        p, z, budget = rng.dirichlet(np.ones(n)), rng.normal(size=n), float(rng.uniform(0, 2.2))
        # min zᵀx: x = p + up − down, Σ(up + down) ≤ budget
        answer = linprog(
            np.r_[z, -z],
            A_ub=np.r_[np.ones((1, 2 * n)), np.c_[-np.eye(n), np.eye(n)]],
            b_ub=np.r_[budget, p],
            A_eq=np.r_[np.ones(n), -np.ones(n)][None],
            b_eq=[0.0],
        )
        assert answer.fun is not None
        values, worst = l1_worst_case(p, z, budget)
        assert values[0] == pytest.approx(z @ p + answer.fun, abs=1e-7)
        assert (worst >= 0).all()


def test_rows_at_once() -> None:
    rng = np.random.default_rng(1)
    P, Z, budgets = rng.dirichlet(np.ones(4), size=5), rng.normal(size=(5, 4)), rng.uniform(size=5)
    values, _ = l1_worst_case(P, Z, budgets)
    for i in range(5):
        assert values[i] == l1_worst_case(P[i], Z[i], float(budgets[i]))[0][0]


@pytest.mark.parametrize(
    ("z", "budget"), [(np.nan, 1.0), (np.inf, 1.0), (0.0, -1.0), (0.0, np.nan)]
)
def test_what_is_refused(z: float, budget: float) -> None:
    with pytest.raises(InputError):
        l1_worst_case(np.array([0.5, 0.5]), np.array([z, 1.0]), budget)
