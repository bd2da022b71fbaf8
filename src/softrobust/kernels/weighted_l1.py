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
