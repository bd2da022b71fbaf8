"""The search for a fixed point where Newton's step misleads, and where rounding ends it."""

from __future__ import annotations

from typing import final

import numpy as np
import pytest
from numpy.typing import NDArray

from softrobust._core.arrays import IntArray
from softrobust.errors import InputError
from softrobust.returns.rectangular_sweeps import Bracket
from softrobust.solvers import Status
from softrobust.solvers.base import Deadline
from softrobust.solvers.rectangular.fixed_point import Operator, OperatorSweep, fixed_point

FloatArray = NDArray[np.float64]
P = np.array([[0.9, 0.1, 0.0], [0.0, 0.5, 0.5], [0.3, 0.0, 0.7]])
R = np.array([1.0, -2.0, 0.5])


@final
class Chain(Operator):
    """v = R + γPv, with rows that are its slope, or not."""

    def __init__(self, gamma: float, rows: FloatArray, noise: float = 0.0) -> None:
        self.gamma, self.deviation, self.n_actions = gamma, 1e-15, 1
        self.indptr = np.array([0, 3, 6, 9])
        self.next_states = np.tile(np.arange(3, dtype=np.int32), 3)
        self.rows, self.noise = rows.reshape(-1), noise

    def sweep(self, v: FloatArray, decision: IntArray, fixed: bool) -> OperatorSweep:
        value = R + self.gamma * P @ v
        self.sweeps += 1
        slack = 1e-13 * np.abs(value).max() + self.noise
        return OperatorSweep(value - slack, value + slack, decision, self.rows)

    @property
    def exact(self) -> FloatArray:
        return np.linalg.solve(np.eye(3) - self.gamma * P, R)


def search(chain: Chain, tol: float = 1e-9, limit: float | None = None) -> tuple[Bracket, Status]:
    return fixed_point(chain, np.zeros(3), np.zeros(3, np.int64), tol, Deadline(limit), 1000)


def test_newton_with_the_right_rows_needs_two_sweeps() -> None:
    chain = Chain(0.99, P)
    found, status = search(chain)
    assert status is Status.TOLERANCE_REACHED
    assert chain.sweeps == 2
    np.testing.assert_allclose(found.v, chain.exact, rtol=1e-9)


@pytest.mark.parametrize("gamma", [0.5, 0.95, 0.99])
def test_plain_sweeps_carry_on_where_newton_misleads(gamma: float) -> None:
    chain = Chain(gamma, np.eye(3)[[1, 2, 0]])
    found, status = search(chain)
    assert status is Status.TOLERANCE_REACHED
    assert found.tol <= 1e-9
    assert (found.lower <= chain.exact).all()
    assert (chain.exact <= found.upper).all()
    assert chain.sweeps > 10


def test_what_rounding_hides_is_not_searched_for_forever() -> None:
    chain = Chain(0.95, P, noise=1e-5)
    found, status = search(chain)
    assert status is Status.ITERATION_LIMIT
    assert found.tol > 1e-9
    assert (found.lower <= chain.exact).all()
    assert (chain.exact <= found.upper).all()
    assert chain.sweeps < 200


def test_a_time_limit_ends_plain_sweeps() -> None:
    _, status = search(Chain(0.99, np.eye(3)[[1, 2, 0]]), limit=1e-9)
    assert status is Status.TIME_LIMIT


def test_row_sums_that_reach_one_over_gamma_are_refused() -> None:
    chain = Chain(0.999999, P)
    chain.deviation = 1e-5
    with pytest.raises(InputError, match="reaches 1"):
        search(chain)
