"""The worst case over an L1 ball: min {pᵀz : p ∈ Δ, ‖p − p̄‖₁ ≤ ψ} (used by BCR and RSVF).

Moving mass ε costs 2ε of the budget, so ε = min(ψ/2, 1 − p̄ at the smallest z) goes onto the
smallest z, taken from the largest z downwards: O(S log S).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from softrobust.errors import InputError
from softrobust.kernels._jit import kernel

FloatArray = NDArray[np.float64]


@kernel
def l1_worst(p, z, budget, out):
    """Fill out (n,) with the worst distribution in the ball around p (n,); returns its E[z]."""
    order = np.argsort(z, kind="mergesort")  # stable: ties go by index
    n = p.size
    out[:] = p
    first = order[0]
    left = min(0.5 * budget, 1.0 - p[first])
    out[first] += left
    for i in range(n - 1, 0, -1):
        if left <= 0.0:
            break
        j = order[i]
        take = min(out[j], left)
        out[j] -= take
        left -= take
    value = 0.0
    for j in range(n):
        value += out[j] * z[j]
    return value


@kernel
def _l1_rows(P, Z, budgets, out, values):
    for i in range(P.shape[0]):
        values[i] = l1_worst(P[i], Z[i], budgets[i], out[i])


def l1_worst_case(
    p: FloatArray, z: FloatArray, budget: float | FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Worst expectations over L1 balls, one a row, and the distributions that attain them.

    Parameters
    ----------
    p : (n,) or (m, n)
        Centres, probability vectors.
    z : (n,) or (m, n)
        What is expected.
    budget : float or (m,)
        Radii ψ ≥ 0; 2 is the whole simplex.

    Returns
    -------
    values (m,), distributions (m, n)

    Examples
    --------
    >>> p, z = np.array([0.4, 0.3, 0.1, 0.2]), np.array([1.0, 2.0, 5.0, 4.0])
    >>> [round(float(l1_worst_case(p, z, budget)[0][0]), 12) for budget in (0.0, 1.0, 2.0)]
    [2.3, 1.1, 1.0]
    """
    P = np.atleast_2d(np.ascontiguousarray(p, dtype=np.float64))
    Z = np.ascontiguousarray(np.broadcast_to(np.asarray(z, dtype=np.float64), P.shape))
    budgets = np.ascontiguousarray(np.broadcast_to(np.asarray(budget, np.float64), P.shape[:1]))
    for name, x in (("p", P), ("z", Z), ("budget", budgets)):
        if not np.isfinite(x).all():
            where = np.argwhere(~np.isfinite(x))[0].tolist()
            raise InputError(f"{name} must be finite: entry {where} is {x[tuple(where)]}.")
    if (budgets < 0).any():
        raise InputError(f"An L1 budget must be at least 0; it is {budgets.min():g}.")
    out, values = np.empty_like(P), np.empty(P.shape[0])
    _l1_rows(P, Z, budgets, out, values)
    return values, out
