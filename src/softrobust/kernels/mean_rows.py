"""The mean model Σ_ω f_ω·P̂^ω and the largest miss of a row sum, in one pass over the models."""

from __future__ import annotations

import numpy as np
from numba import prange
from numpy.typing import NDArray

from softrobust.kernels._jit import REORDER, kernel
from softrobust.kernels.expected import CHUNKS, block_of

FloatArray = NDArray[np.float64]


@kernel(fastmath=REORDER)
def _pair(P, f, out):
    worst = 0.0
    for omega in range(P.shape[0]):
        total, weight = 0.0, f[omega]
        for j in range(P.shape[1]):
            total += P[omega, j]
            out[j] += weight * P[omega, j]
        worst = max(worst, abs(total - 1.0))
    return worst


@kernel
def _range(first, last, prob, indptr, f, rows):
    worst = 0.0
    for k in range(first, last):
        lo, hi = indptr[k], indptr[k + 1]
        if hi > lo:
            worst = max(worst, _pair(block_of(prob, indptr, k, f.size), f, rows[lo:hi]))
    return worst


@kernel(parallel=True)
def _parallel(prob, indptr, f, rows, worst):
    n = indptr.size - 1
    for c in prange(CHUNKS):
        worst[c] = _range(c * n // CHUNKS, (c + 1) * n // CHUNKS, prob, indptr, f, rows)


def mean_rows(
    prob: FloatArray, indptr: NDArray[np.int64], f: FloatArray, rows: FloatArray, threads: bool
) -> float:
    """Add the mean model to rows (nnz,); returns max |row sum − 1| over pairs and models."""
    if not threads:
        return float(_range(0, indptr.size - 1, prob, indptr, f, rows))
    worst = np.zeros(CHUNKS)
    _parallel(prob, indptr, f, rows, worst)
    return float(worst.max())
