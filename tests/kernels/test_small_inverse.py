"""The inverse of a basis through all its updates, against numpy's."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from softrobust.kernels.s_simplex import (
    add_pair,
    invert_basis,
    remove_pair,
    replace_column,
    replace_row,
)

FloatArray = NDArray[np.float64]
ROW, COLUMN = 0, 1


def bordered(M: FloatArray, K: list[int], F: list[int]) -> FloatArray:
    k = len(K)
    B = np.zeros((k + 1, k + 1))
    B[0, 1:], B[1:, 0], B[1:, 1:] = 1.0, -1.0, M[np.ix_(K, F)]
    return B


def inverse(B: FloatArray) -> FloatArray:
    W, J = np.zeros((9, 9)), np.zeros((4, 9), np.int64)
    n = len(B)
    W[:n, :n] = B
    assert invert_basis(W, n, J)
    return W


@pytest.mark.parametrize("k", [1, 2, 3, 6])
def test_every_exchange(k: int) -> None:
    rng = np.random.default_rng(k)
    for _ in range(20):
        M, Y = rng.normal(size=(8, 30)), np.zeros((2, 9))
        K, F = rng.permutation(8)[:k].tolist(), rng.permutation(30)[:k].tolist()
        a = next(i for i in range(8) if i not in K)
        e = next(i for i in range(30) if i not in F)
        B, n = bordered(M, K, F), k + 1
        W = inverse(B)
        np.testing.assert_allclose(W[:n, :n] @ B, np.eye(n), atol=1e-9)
        Y[ROW, :n] = W[:n, :n].T @ np.r_[1.0, -M[a, F]]
        Y[COLUMN, :n] = W[:n, :n] @ np.r_[1.0, M[K, e]]
        pivot = M[a, e] + Y[ROW, :n] @ np.r_[1.0, M[K, e]]
        cases = [([*K, a], [*F, e])]
        results = [W.copy()]
        add_pair(results[0], n, Y, ROW, COLUMN, pivot)
        i, j = int(rng.integers(k)), int(rng.integers(k))
        cases.append(([*K[:i], a, *K[i + 1 :]], F))
        results.append(W.copy())
        replace_row(results[1], n, Y, ROW, i + 1)
        cases.append((K, [*F[:j], e, *F[j + 1 :]]))
        results.append(W.copy())
        replace_column(results[2], n, Y, COLUMN, j + 1)
        if k > 1:
            rows, columns = K.copy(), F.copy()
            rows[i], columns[j] = rows[-1], columns[-1]
            cases.append((rows[:-1], columns[:-1]))
            results.append(W.copy())
            remove_pair(results[3], n, i + 1, j + 1)
        for (rows, columns), found in zip(cases, results, strict=True):
            truth = np.linalg.inv(bordered(M, rows, columns))
            size = len(truth)
            np.testing.assert_allclose(
                found[:size, :size], truth, atol=1e-8 * np.abs(truth).max() * np.abs(W).max()
            )


def test_singular_is_said() -> None:
    M = np.ones((2, 2))
    J = np.zeros((4, 9), np.int64)
    W = np.zeros((9, 9))
    W[:3, :3] = bordered(M, [0, 1], [0, 1])
    assert not invert_basis(W, 3, J)
