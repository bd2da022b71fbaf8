"""The worst case over a weighted L1 ball: min {pᵀz : p ∈ Δ, Σ w_j·|p_j − p̄_j| ≤ ψ}, O(n log n).

With a price κ on the budget, a unit of mass moved from j to i saves z_j − z_i and costs
κ·(w_j + w_i). So the best receiver is the lowest of the lines z_i + κ·w_i, and j gives all it has
where

    z_j − κ·w_j  >  m(κ) = min_i (z_i + κ·w_i).

The left side falls and m rises with κ: j gives below one price κ_j and not above. m is the lower
envelope of n lines. Walking κ down from infinity, two things happen, in order of their prices: a
giver joins, or the receiver changes and takes over what was moved. Each uses up budget; the one
that would use up more than is left is done in part, which is optimal as both ends of it are at
that price.
"""

from __future__ import annotations

import numpy as np

from softrobust._core.arrays import FloatArray
from softrobust.errors import InputError
from softrobust.kernels._jit import kernel


@kernel
def _envelope(z, w, hull, start):
    """Lower envelope of the lines z + κ·w over κ ≥ 0; returns the number of its pieces.

    hull (n,) are the lines from κ = 0 upwards, start (n,) the prices where they begin.
    """
    by_z = np.argsort(z, kind="mergesort")
    size = 0
    for i in by_z:
        # A line that starts higher matters only where it is flatter than all before.
        if size > 0 and w[i] >= w[hull[size - 1]]:
            continue
        while size > 0:
            j = hull[size - 1]
            at = (z[i] - z[j]) / (w[j] - w[i])
            if at > start[size - 1]:
                break
            size -= 1
        start[size] = 0.0 if size == 0 else (z[i] - z[hull[size - 1]]) / (w[hull[size - 1]] - w[i])
        hull[size] = i
        size += 1
    return size


@kernel
def _giving_price(z, w, hull, start, size, j):
    """κ_j: below this price j gives its mass; 0 where it never does."""
    if z[j] <= z[hull[0]]:
        return 0.0
    low, high = 0, size - 1  # the last piece at whose start j still gives
    while low < high:
        mid = (low + high + 1) // 2
        i = hull[mid]
        if z[j] - start[mid] * w[j] > z[i] + start[mid] * w[i]:
            low = mid
        else:
            high = mid - 1
    i = hull[low]
    return (z[j] - z[i]) / (w[j] + w[i])


@kernel
def weighted_l1_worst(p, z, w, budget, out):
    """Fill out (n,) with the worst distribution in the ball around p (n,); returns its E[z]."""
    n = p.size
    hull, start, price = np.empty(n, np.int64), np.empty(n), np.empty(n)
    size = _envelope(z, w, hull, start)
    for j in range(n):
        price[j] = _giving_price(z, w, hull, start, size, j)
    givers = np.argsort(-price, kind="mergesort")
    out[:] = p
    at, left, moved, g = size - 1, budget, 0.0, 0
    while left > 0.0:
        j = givers[g] if g < n and price[givers[g]] > 0.0 else -1
        if at > 0 and (j < 0 or start[at] > price[j]):
            step = w[hull[at - 1]] - w[hull[at]]  # the next receiver costs more a unit
            if moved * step > left:
                part = left / step
                out[hull[at - 1]] += part
                moved -= part
                break
            left -= moved * step
            at -= 1
        elif j >= 0:
            step = w[j] + w[hull[at]]
            give = p[j] if p[j] * step <= left else left / step
            out[j] -= give
            moved += give
            left = left - give * step if give == p[j] else 0.0
            g += 1
        else:
            break
    out[hull[at]] += moved
    value = 0.0
    for j in range(n):
        value += out[j] * z[j]
    return value


# --------------------------------------------------------------------------------------------------
# The worst case over an L1 ball: min {pᵀz : p ∈ Δ, ‖p − p̄‖₁ ≤ ψ} (used by BCR and RSVF).
#
# Moving mass ε costs 2ε of the budget, so ε = min(ψ/2, 1 − p̄ at the smallest z) goes onto the
# smallest z, taken from the largest z downwards: O(S log S). Read backwards, the same movement says
# how far p̄ is from the half-space pᵀz ≤ b, and which point of it is nearest (RSVF's sets K).
#
# With weights, ‖x‖ = Σ w_j·|x_j|, see `weighted_l1`.


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


# --------------------------------------------------------------------------------------------------
# The worst case over an L∞ ball: min {pᵀz : p ∈ Δ, w_j·|p_j − p̄_j| ≤ ψ for all j}, O(n log n).
#
# The ball is a box around p̄. Everything starts at its lower end max(p̄_j − ψ/w_j, 0), and the mass
# that is missing goes to the smallest z first, up to p̄_j + ψ/w_j each.


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
