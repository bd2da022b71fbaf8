"""Newton's step by its three routes: kernel, LAPACK, sparse."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from softrobust.returns.rectangular_sweeps import newton_step


def ring(
    S: int, jump: bool, seed: int = 0
) -> tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.float64]]:
    """Two actions of three next states: neighbours, or anywhere."""
    rng = np.random.default_rng(seed)
    columns = (np.arange(S)[:, None, None] + np.arange(-1, 2) + np.zeros((1, 2, 1), int)) % S
    if jump:
        columns = rng.permuted(np.tile(np.arange(S), (S * 2, 1)), axis=1)[:, :3].reshape(S, 2, 3)
    prob = rng.dirichlet(np.ones(3), size=S * 2)
    lists = np.sort(columns.reshape(S * 2, 3), axis=1).astype(np.int32)
    return np.arange(S * 2 + 1, dtype=np.int64) * 3, lists.reshape(-1), prob.reshape(-1)


@pytest.mark.parametrize("S", [40, 200, 500])
@pytest.mark.parametrize("jump", [False, True])
@pytest.mark.parametrize("gamma", [0.9, 0.999])
def test_routes(S: int, jump: bool, gamma: float) -> None:
    indptr, columns, mixed = ring(S, jump)
    rng = np.random.default_rng(1)
    d = rng.dirichlet(np.ones(2), size=S)
    d[::2] = [1.0, 0.0]
    P = np.zeros((S, S))
    for s in range(S):
        for a in range(2):
            k = s * 2 + a
            P[s, columns[3 * k : 3 * k + 3]] += d[s, a] * mixed[3 * k : 3 * k + 3]
    v, residual = rng.normal(size=S), rng.normal(size=S)
    new = newton_step(indptr, columns, mixed, d, gamma, v, residual)
    left = residual - (np.eye(S) - gamma * P) @ (new - v)
    # A Krylov step leaves 1e-5 of the residual, which the next sweep corrects; LU leaves rounding.
    size = np.linalg.norm(residual)
    assert np.linalg.norm(left) <= (1e-11 if S <= 300 else 2e-5) * size
