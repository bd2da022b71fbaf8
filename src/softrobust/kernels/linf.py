"""The worst case over an L∞ ball: min {pᵀz : p ∈ Δ, w_j·|p_j − p̄_j| ≤ ψ for all j}, O(n log n).

The ball is a box around p̄. Everything starts at its lower end max(p̄_j − ψ/w_j, 0), and the mass
that is missing goes to the smallest z first, up to p̄_j + ψ/w_j each.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from softrobust.kernels._jit import kernel
from softrobust.kernels.l1 import ball_inputs

FloatArray = NDArray[np.float64]


@kernel
def linf_worst(p, z, w, budget, out):
    """Fill out (n,) with the worst distribution in the box around p (n,); returns its E[z].

    w (n,) are the weights, or (0,) for ones.
    """
    n = p.size
    order = np.argsort(z, kind="mergesort")  # stable: ties go by index
    left = 0.0
    for j in range(n):
        take = min(p[j], budget if w.size == 0 else budget / w[j])
        out[j] = p[j] - take
        left += take
    for i in range(n):
        if left <= 0.0:
            break
        j = order[i]
        half = budget if w.size == 0 else budget / w[j]
        give = min(half + (p[j] - out[j]), left)
        out[j] += give
        left -= give
    value = 0.0
    for j in range(n):
        value += out[j] * z[j]
    return value


@kernel
def _rows(P, Z, W, budgets, out, values):
    none = np.empty(0)
    for i in range(P.shape[0]):
        w = none if W.shape[0] == 0 else W[i]
        values[i] = linf_worst(P[i], Z[i], w, budgets[i], out[i])


def linf_worst_case(
    p: FloatArray,
    z: FloatArray,
    budget: float | FloatArray,
    weights: FloatArray | None = None,
) -> tuple[FloatArray, FloatArray]:
    """Worst expectations over L∞ balls, one a row, and the distributions that attain them.

    Parameters
    ----------
    p, z : (n,) or (m, n)
        Centres (probability vectors), and what is expected.
    budget : float or (m,)
        Radii ψ ≥ 0; without weights, 1 is the whole simplex.
    weights : (n,) or (m, n), optional
        w > 0 of the norm max_j w_j·|p_j − p̄_j|.

    Returns
    -------
    values (m,), distributions (m, n)

    Examples
    --------
    >>> p, z = np.array([0.4, 0.3, 0.1, 0.2]), np.array([1.0, 2.0, 5.0, 4.0])
    >>> [round(float(linf_worst_case(p, z, budget)[0][0]), 12) for budget in (0.0, 0.1, 1.0)]
    [2.3, 1.7, 1.0]
    """
    P, Z, W, budgets = ball_inputs(p, z, budget, weights)
    out, values = np.empty_like(P), np.empty(P.shape[0])
    _rows(P, Z, W, budgets, out, values)
    return values, out
