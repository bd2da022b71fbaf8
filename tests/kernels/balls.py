"""Worst cases over balls for arrays of rows, on the kernels of one row."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from softrobust.kernels.balls import l1_worst, linf_worst, weighted_l1_worst

FloatArray = NDArray[np.float64]
Worst = tuple[FloatArray, FloatArray]


def l1_worst_case(
    p: FloatArray, z: FloatArray, budget: ArrayLike, weights: FloatArray | None = None
) -> Worst:
    """min {pᵀz} over L1 balls around rows p (m, n) or (n,): values (m,), distributions (m, n)."""
    return _each(p, z, budget, weights, "l1")


def linf_worst_case(
    p: FloatArray, z: FloatArray, budget: ArrayLike, weights: FloatArray | None = None
) -> Worst:
    """The same over L∞ balls."""
    return _each(p, z, budget, weights, "linf")


def _each(
    p: FloatArray, z: FloatArray, budget: ArrayLike, weights: FloatArray | None, norm: str
) -> Worst:
    P = np.atleast_2d(p).astype(np.float64)
    Z = np.broadcast_to(z, P.shape).astype(np.float64)
    W = None if weights is None else np.broadcast_to(weights, P.shape).astype(np.float64)
    budgets = np.broadcast_to(budget, P.shape[:1])
    out, values = np.empty_like(P), np.empty(P.shape[0])
    for i in range(P.shape[0]):
        if norm == "linf":
            w = np.empty(0) if W is None else W[i]
            values[i] = linf_worst(P[i], Z[i], w, budgets[i], out[i])
        elif W is None:
            values[i] = l1_worst(P[i], Z[i], budgets[i], out[i])
        else:
            values[i] = weighted_l1_worst(P[i], Z[i], W[i], budgets[i], out[i])
    return values, out
