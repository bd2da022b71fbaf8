"""CVaR by selection against exact fractions and against the objective's own sort."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from softrobust.kernels.tail import tail_values
from softrobust.objective import SoftRobust, cvar
from tests.kernels.referee import exact, exact_bounds, exact_tail


@pytest.mark.parametrize("alpha", [0.0, 0.3, 0.5, 0.7, 0.9, 0.95, 1.0])
@pytest.mark.parametrize("N", [1, 2, 10, 13, 100, 333])
def test_value_and_weights(alpha: float, N: int) -> None:
    rng = np.random.default_rng(N)
    for f in (np.full(N, 1 / N), rng.dirichlet(np.ones(N))):
        for z in (rng.normal(size=(5, N)), np.round(rng.normal(size=(5, N)))):
            u = SoftRobust(1.0, alpha).q_bounds(f)
            values, q = tail_values(z, u, weights=True)
            bounds = exact_bounds(u)
            for i in range(5):
                truth = float(exact_tail(exact(z[i]), bounds))
                size = float(np.abs(z[i]).max())
                assert values[i] == pytest.approx(truth, abs=1e-12 * size)
                assert values[i] == pytest.approx(cvar(z[i], f, alpha), abs=1e-11 * size)
                assert q[i] @ z[i] == pytest.approx(truth, abs=1e-12 * size)
                assert q[i].sum() == pytest.approx(1.0, abs=1e-12)
                assert (q[i] >= 0).all()
                assert (q[i] <= u + 1e-12).all()


def test_zero_weights_have_no_say() -> None:
    f = np.array([0.0, 0.5, 0.0, 0.5])
    z = np.array([[-9.0, 1.0, -9.0, 2.0]])
    for alpha, value in ((0.0, 1.5), (0.5, 1.0), (1.0, 1.0)):
        values, q = tail_values(z, SoftRobust(1.0, alpha).q_bounds(f), weights=True)
        assert values[0] == value
        assert q[0, [0, 2]].tolist() == [0.0, 0.0]


def test_an_integer_tail_takes_whole_models() -> None:
    # 1 − .7 = .30000000000000004: the fourth model must not get the crumbs.
    u = SoftRobust(1.0, 0.7).q_bounds(np.full(10, 0.1))
    _, q = tail_values(np.arange(10.0)[::-1][None], u, weights=True)
    assert np.flatnonzero(q[0]).tolist() == [7, 8, 9]


def test_ties_are_split_by_index() -> None:
    u = np.full(4, 0.4)
    _, q = tail_values(np.zeros((1, 4)), u, weights=True)
    assert q[0].tolist() == [0.4, 0.4, pytest.approx(0.2), 0.0]


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_not_finite_gives_nan(bad: float) -> None:
    z = np.zeros((2, 20))
    z[1, 3] = bad
    values, _ = tail_values(z, np.full(20, 0.1))
    assert values[0] == 0.0
    assert np.isnan(values[1])


def test_threads_agree() -> None:
    z = np.random.default_rng(0).normal(size=(200, 30))
    u = np.full(30, 0.1)
    one, two = tail_values(z, u, threads=False), tail_values(z, u, threads=True)
    np.testing.assert_array_equal(one[0], two[0])


def test_referee_itself() -> None:
    assert exact_tail([Fraction(3), Fraction(1)], [Fraction(1, 2)] * 2) == 2
