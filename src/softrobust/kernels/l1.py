"""The worst case over an L1 ball: min {pᵀz : p ∈ Δ, ‖p − p̄‖₁ ≤ ψ} (used by BCR and RSVF).

Moving mass ε costs 2ε of the budget, so ε = min(ψ/2, 1 − p̄ at the smallest z) goes onto the
smallest z, taken from the largest z downwards: O(S log S). Read backwards, the same movement says
how far p̄ is from the half-space pᵀz ≤ b, and which point of it is nearest (RSVF's sets K).

With weights, ‖x‖ = Σ w_j·|x_j|, see `weighted_l1`.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from softrobust.errors import InputError
from softrobust.kernels._jit import kernel
from softrobust.kernels.weighted_l1 import weighted_l1_worst

FloatArray = NDArray[np.float64]


@kernel
def l1_worst(p, z, budget, out):
    """Fill out (n,) with the worst distribution in the ball around p (n,); returns its E[z]."""
    order = np.argsort(z, kind="mergesort")  # stable: ties go by index
    out[:] = p
    first = order[0]
    left, moved = 0.5 * budget, 0.0
    for i in range(p.size - 1, 0, -1):
        j = order[i]
        if left <= 0.0 or z[j] <= z[first]:
            break
        take = min(out[j], left)
        out[j] -= take
        left -= take
        moved += take  # what arrives is what left, also where p̄ sums to 1 but for rounding
    out[first] += moved
    value = 0.0
    for j in range(p.size):
        value += out[j] * z[j]
    return value


@kernel
def l1_reach(p, z, level, out):
    """The least L1 budget that brings E[z] down to `level`, and in out (n,) where it leads.

    Infinite where no distribution gets there; out is then all on the smallest z.
    """
    order = np.argsort(z, kind="mergesort")
    first = order[0]
    out[:] = p
    excess = -level
    for j in range(p.size):
        excess += p[j] * z[j]
    moved = 0.0
    for i in range(p.size - 1, 0, -1):
        j = order[i]
        gain = z[j] - z[first]
        if excess <= 0.0 or gain <= 0.0:
            break
        take = min(out[j], excess / gain)
        out[j] -= take
        moved += take
        excess = 0.0 if out[j] > 0.0 else excess - p[j] * gain
    out[first] += moved
    # What is left after the last mass has moved is rounding, unless the level lies below every z.
    unreachable = excess > 1e-12 * max(abs(level), abs(z[first]), z[order[-1]] - z[first])
    return np.inf if unreachable else 2.0 * moved


@kernel
def _l1_rows(P, Z, budgets, out, values):
    for i in range(P.shape[0]):
        values[i] = l1_worst(P[i], Z[i], budgets[i], out[i])


@kernel
def _weighted_rows(P, Z, W, budgets, out, values):
    for i in range(P.shape[0]):
        values[i] = weighted_l1_worst(P[i], Z[i], W[i], budgets[i], out[i])


def ball_inputs(
    p: FloatArray, z: FloatArray, budget: float | FloatArray, weights: FloatArray | None
) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
    """P, Z, W (m, n) and budgets (m,) as kernels read them, checked; W is (0, 0) without weights.

    Weights are positive, budgets at least 0.
    """
    P = np.atleast_2d(np.ascontiguousarray(p, dtype=np.float64))
    Z = np.ascontiguousarray(np.broadcast_to(np.asarray(z, dtype=np.float64), P.shape))
    budgets = np.ascontiguousarray(np.broadcast_to(np.asarray(budget, np.float64), P.shape[:1]))
    W = np.empty((0, 0))
    if weights is not None:
        W = np.ascontiguousarray(np.broadcast_to(np.asarray(weights, np.float64), P.shape))
    for name, x in (("p", P), ("z", Z), ("budget", budgets), ("weights", W)):
        if not np.isfinite(x).all():
            where = np.argwhere(~np.isfinite(x))[0].tolist()
            raise InputError(f"{name} must be finite: entry {where} is {x[tuple(where)]}.")
    if (budgets < 0).any():
        raise InputError(f"The budget of a ball must be at least 0; it is {budgets.min():g}.")
    if (W <= 0).any():
        raise InputError(f"The weights of a norm must be positive; the least is {W.min():g}.")
    return P, Z, W, budgets


def l1_worst_case(
    p: FloatArray,
    z: FloatArray,
    budget: float | FloatArray,
    weights: FloatArray | None = None,
) -> tuple[FloatArray, FloatArray]:
    """Worst expectations over L1 balls, one a row, and the distributions that attain them.

    Parameters
    ----------
    p : (n,) or (m, n)
        Centres, probability vectors.
    z : (n,) or (m, n)
        What is expected.
    budget : float or (m,)
        Radii ψ ≥ 0; without weights, 2 is the whole simplex.
    weights : (n,) or (m, n), optional
        w > 0 of the norm Σ w_j·|p_j − p̄_j|.

    Returns
    -------
    values (m,), distributions (m, n)

    Examples
    --------
    >>> p, z = np.array([0.4, 0.3, 0.1, 0.2]), np.array([1.0, 2.0, 5.0, 4.0])
    >>> [round(float(l1_worst_case(p, z, budget)[0][0]), 12) for budget in (0.0, 1.0, 2.0)]
    [2.3, 1.1, 1.0]
    """
    P, Z, W, budgets = ball_inputs(p, z, budget, weights)
    out, values = np.empty_like(P), np.empty(P.shape[0])
    if weights is None:
        _l1_rows(P, Z, budgets, out, values)
    else:
        _weighted_rows(P, Z, W, budgets, out, values)
    return values, out
