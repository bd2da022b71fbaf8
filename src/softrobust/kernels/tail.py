"""Tails of weighted samples: CVaR by selection, quantiles, and the soft-robust value.

CVaR and nature's answer to it (eq. 3.2; Ξ in eq. 4.1) are

    CVaR = min {qᵀz : 0 ≤ q ≤ u, Σq = 1} = max_b  b − Σ_ω u_ω·(b − z_ω)₊,     u = min(f/(1 − α), 1)

The minimiser fills q up to u from the smallest z upwards; the model b at which the mass reaches 1
is found by selection (no sort), and split. With u everything is one case: α = 0 has u = f and
q = f, α = 1 has u = 1 where f > 0, and models with f = 0 have u = 0 and are never chosen.

Σu over an integer number (1 − α)·N of models misses 1 by rounding (1 − .7 = .30000000000000004);
mass within `SLACK` of 1 counts as 1, so that the boundary model is the one it is on paper.
Among models of equal z the split goes by index, so the answer does not depend on the selection.
"""

from __future__ import annotations

import numpy as np

from softrobust._core.arrays import FloatArray
from softrobust.kernels._jit import FINITE, REORDER, kernel, threaded
from softrobust.kernels.expected import block_of

SLACK = 1e-13
FEW = 12  # at or below this many candidates, look at each
RUN = 16  # numbers that are sorted by insertion


@kernel(inline=True)
def _pivot(x, n, share):
    """The order statistic nearest `share` of five spread elements of x[:n]."""
    step = n // 5
    a, b, c, d, e = x[0], x[step], x[2 * step], x[3 * step], x[4 * step]
    a, b = min(a, b), max(a, b)  # a sorting network
    d, e = min(d, e), max(d, e)
    c, e = min(c, e), max(c, e)
    c, d = min(c, d), max(c, d)
    a, d = min(a, d), max(a, d)
    a, c = min(a, c), max(a, c)
    b, e = min(b, e), max(b, e)
    b, d = min(b, d), max(b, d)
    b, c = min(b, c), max(b, c)
    if share < 0.4:
        return a if share < 0.2 else b
    if share < 0.6:
        return c
    return d if share < 0.8 else e


@kernel(fastmath=REORDER, inline=True)
def _mass_below(x, w, n, pivot):
    """Weights of the values below the pivot, and of those equal to it."""
    below = equal = 0.0
    for i in range(n):
        below += w[i] if x[i] < pivot else 0.0
        equal += w[i] if x[i] == pivot else 0.0
    return below, equal


@kernel(inline=True)
def _keep_smaller(x, w, n, pivot, y, z):
    """Copy the pairs with x < pivot to (y, z), without branches; returns their number."""
    m = 0
    for i in range(n):
        y[m], z[m] = x[i], w[i]
        m += x[i] < pivot
    return m


@kernel(inline=True)
def _keep_larger(x, w, n, pivot, y, z):
    m = 0
    for i in range(n):
        y[m], z[m] = x[i], w[i]
        m += x[i] > pivot
    return m


@kernel(fastmath=REORDER, inline=True)
def _below(x, w, n, value):
    total = 0.0
    for i in range(n):
        total += w[i] if x[i] < value else 0.0
    return total


@kernel(inline=True)
def _walk(x, w, n, below, target):
    """`select` among a few: the largest value with less than the target below it."""
    value, mass, total = -np.inf, below, below
    for i in range(n):
        total += w[i]
        if x[i] > value:
            lighter = below + _below(x, w, n, x[i])
            if lighter < target:
                value, mass = x[i], lighter
    return (value, mass) if total >= target else (np.inf, total)


@kernel(inner=True)
def select(x, w, n, total, target, scratch):
    """The smallest t among x[:n] with Σ_{x ≤ t} w ≥ target, and Σ_{x < t} w.

    x, w are kept; scratch (4, n or more); `total` is about Σw and only guides the pivots. Returns
    (inf, Σw) where the weights do not reach the target. A round weighs both sides of a pivot in one
    vectorised pass and copies the side that matters. It drops at least the pivot, so that there
    are at most n rounds.
    """
    a, b, y, z = scratch[0], scratch[1], scratch[2], scratch[3]
    for i in range(n):
        a[i], b[i] = x[i], w[i]
    m, below, left = n, 0.0, total
    for _ in range(n):
        if m <= FEW:
            break
        pivot = _pivot(a, m, (target - below) / max(left, 1e-300))
        lighter, equal = _mass_below(a, b, m, pivot)
        if below + lighter >= target:
            m, left = _keep_smaller(a, b, m, pivot, y, z), lighter
        elif below + lighter + equal >= target:
            return pivot, below + lighter
        else:
            below += lighter + equal
            left -= lighter + equal
            m = _keep_larger(a, b, m, pivot, y, z)
        a, y = y, a
        b, z = z, b
    return _walk(a, b, m, below, target)


@kernel(fastmath=REORDER, inner=True)
def dot(a, b):
    """Σ a·b."""
    total = 0.0
    for i in range(a.size):
        total += a[i] * b[i]
    return total


@kernel(fastmath=FINITE, inner=True)
def shortfall(z, u, b):
    """Σ_ω u_ω·(b − z_ω)₊."""
    total = 0.0
    for i in range(z.size):
        total += u[i] * max(b - z[i], 0.0)
    return total


@kernel(inner=True)
def tail_of(z, u, total, scratch):
    """(b, CVaR) of one sample; z, u (N,), total = Σu, scratch (4, N)."""
    b, _ = select(z, u, z.size, total, 1.0 - SLACK, scratch)
    return b, b - shortfall(z, u, b)


@kernel(inner=True)
def fill_tail(z, u, b, q):
    """Fill q (N,) with nature's weights, given the boundary value b from `tail_of`."""
    left = 1.0
    for i in range(z.size):
        q[i] = u[i] if z[i] < b else 0.0
        left -= q[i]
    for i in range(z.size):
        if left <= 0.0:
            break
        if z[i] == b:
            q[i] = min(u[i], left)
            left -= q[i]
    # What is left is the rounding of Σu (at most SLACK): it belongs to the boundary.
    if left > 0.0:
        for i in range(z.size - 1, -1, -1):
            if z[i] == b and u[i] > 0.0:
                q[i] += left
                break


@threaded
def _fill_tails(first, last, z, u, total, values, q):
    scratch = np.empty((4, z.shape[1]))
    for i in range(first, last):
        if not np.isfinite(dot(z[i], u)):
            values[i] = np.nan
            continue
        b, values[i] = tail_of(z[i], u, total, scratch)
        if q.size > 0:
            fill_tail(z[i], u, b, q[i])


def tail_values(
    z: FloatArray, u: FloatArray, threads: bool | None = None, weights: bool = False
) -> tuple[FloatArray, FloatArray]:
    """CVaR (n,) of the samples z (n, n_models), and with `weights` the q (n, n_models) of each.

    A row with NaN or infinity gives NaN. u (n_models,) = min(f/(1 − α), 1), and 1 where f > 0 at
    α = 1 (`SoftRobust.q_bounds`), has Σu ≥ 1. Without `weights` q has the shape (0, 0).

    Examples
    --------
    >>> values, q = tail_values(np.array([[3.0, 1.0, 2.0, 0.0]]), np.full(4, 0.4), weights=True)
    >>> float(round(values[0], 12)), q[0].round(12).tolist()
    (0.8, [0.0, 0.4, 0.2, 0.4])
    """
    z = np.ascontiguousarray(z, dtype=np.float64)
    u = np.ascontiguousarray(u, dtype=np.float64)
    values = np.empty(z.shape[0])
    q = np.empty(z.shape if weights else (0, 0))
    if threads is None:
        threads = z.size > 2_000_000
    _fill_tails(threads, 0, z.shape[0], z, u, float(u.sum()), values, q)
    return values, q


@kernel
def quantile_sweep(Z, f, live, target, lam, means, allowed, decision, fixed, values, picked):
    """One sweep of the quantile updates: VaR over models, alone or mixed with the mean.

        T v(s) = max_a λ·VaR_ω[Z(s,a,ω)] + (1 − λ)·m(s,a),      VaR = inf{z : Σ_{Z ≤ z} f ≥ target}

    Values (S,) ← Tv, decision (S,) ← a best action, picked (S,) ← its quantile's model: a quantile
    is the Z of one model, whose row is the slope of T there. It moves by no more than its sample,
    so that the rounding of Z bounds that of T. Z (S, A, N); f (L,) weights of the models `live`
    (L,); means (S, A); with `fixed` the decision is kept. Ties keep the decision that came in.
    """
    S, A = allowed.shape
    L = live.size
    x, scratch = np.empty(L), np.empty((4, L))
    for s in range(S):
        best, first = -np.inf, decision[s]
        for turn in range(A + 1):
            a = first if turn == 0 else turn - 1
            if (turn > 0 and (fixed or a == first)) or not allowed[s, a]:
                continue
            for i in range(L):
                x[i] = Z[s, a, live[i]]
            q, _ = select(x, f, L, 1.0, target, scratch)
            value = q if lam == 1.0 else lam * q + (1.0 - lam) * means[s, a]
            if value > best or turn == 0:
                best, decision[s] = value, a
                for i in range(L):
                    if x[i] == q:
                        picked[s] = live[i]
                        break
        values[s] = best


@kernel
def quantile_rows(prob, indptr, n_models, lam, mean, decision, picked, rows):
    """Rows (nnz,) of the decision's pairs ← λ·P̂^ω + (1 − λ)·p̄, ω the quantile's model."""
    A = (indptr.size - 1) // decision.size
    for s in range(decision.size):
        k = s * A + decision[s]
        P, lo = block_of(prob, indptr, k, n_models), indptr[k]
        for j in range(P.shape[1]):
            rows[lo + j] = lam * P[picked[s], j] + (1.0 - lam) * mean[lo + j]


# Numba's own sorts take seconds to compile. A heap has the smallest first, and is left where the
# tail ends.


@kernel
def _sink(heap, n, x, i):
    """Let heap[i], an index of x, sink among the first n until all below it are larger."""
    mine, value, child = heap[i], x[heap[i]], 2 * i + 1
    while child < n:
        if child + 1 < n and x[heap[child + 1]] < x[heap[child]]:
            child += 1
        if value <= x[heap[child]]:
            break
        heap[i] = heap[child]
        i, child = child, 2 * child + 1
    heap[i] = mine


@kernel(inner=True)
def heap_of(x):
    """The indices of x (N,) as a heap, from which `smallest` takes."""
    heap = np.empty(x.size, np.int64)
    for i in range(x.size):
        heap[i] = i
    for i in range(x.size // 2 - 1, -1, -1):
        _sink(heap, x.size, x, i)
    return heap


@kernel(inner=True)
def smallest(heap, n, x):
    """Take the index of the smallest x out of a heap of n, which n − 1 are left of."""
    first = heap[0]
    heap[0] = heap[n - 1]
    _sink(heap, n - 1, x, 0)
    return first


@kernel(inner=True)
def ascending(x):
    """The indices of x (N,) in ascending order, ties by index: short runs by insertion, merged."""
    n = x.size
    order, other = np.empty(n, np.int64), np.empty(n, np.int64)
    for k in range(n):
        i = k
        while i % RUN > 0 and x[order[i - 1]] > x[k]:
            order[i] = order[i - 1]
            i -= 1
        order[i] = k
    width = RUN
    while width < n:
        for lo in range(0, n, 2 * width):
            middle, hi = min(lo + width, n), min(lo + 2 * width, n)
            i, j = lo, middle
            for k in range(lo, hi):
                if i < middle and (j == hi or x[order[i]] <= x[order[j]]):
                    other[k] = order[i]
                    i += 1
                else:
                    other[k] = order[j]
                    j += 1
        order, other = other, order
        width *= 2
    return order


@kernel(inner=True)
def soft_robust_value(x, f, lam, alpha):
    """(1 − λ)·mean + λ·CVaR^α of x (N,) with positive weights f (N,) that sum to 1 (eqs. 3.1, 3.2).

    The arithmetic of `objective`, inside compiled loops.
    """
    N = x.size
    mean = 0.0
    for i in range(N):
        mean += f[i] * x[i]
    if lam == 0.0:
        return mean
    tail = 1.0 - alpha
    if tail <= SLACK:
        low = x[0]
        for i in range(1, N):
            low = min(low, x[i])
        return (1.0 - lam) * mean + lam * low
    heap, left, total = heap_of(x), 1.0, 0.0
    for i in range(N):
        omega = smallest(heap, N - i, x)
        weight = f[omega] / tail
        if weight >= left * (1.0 - SLACK) or i == N - 1:
            total += left * x[omega]
            break
        total += weight * x[omega]
        left -= weight
    return (1.0 - lam) * mean + lam * total


@kernel
def best_row(X, live, f, lam, alpha, xi, floor):
    """The row of X (n, N) of greatest soft-robust value above `floor`, among live (n,) ones.

    Returns (row, value), or (−1, floor) if none is above. Most candidates of a search are worse
    than the incumbent, and any xi (N,) ∈ Ξ proves it with one dot product, value ≤ ξ·x: the sort is
    paid for by the others only.
    """
    best, best_k = floor, -1
    for k in range(X.shape[0]):
        if live[k] and dot(X[k], xi) > best:
            value = soft_robust_value(X[k], f, lam, alpha)
            if value > best:
                best, best_k = value, k
    return best_k, best


@kernel
def best_reweighted(Z, order, W, lam, tail, out, which):
    """out[r] = max_k (1 − λ)·E_W[Z_k] + λ·CVaR of the worst `tail` of mass, and its k.

    Z (K, N) returns of K policies; order (K, N) their models in ascending order of return; W (R, N)
    weights, rows summing to 1; out, which (R,).
    """
    n_policies, n_models = Z.shape
    for r in range(W.shape[0]):
        best, at = -1e308, 0
        for k in range(n_policies):
            mean, left, low = 0.0, tail, 0.0
            for j in range(n_models):
                omega = order[k, j]
                w, z = W[r, omega], Z[k, omega]
                mean += w * z
                if left > 0.0 and w > 0.0:
                    take = min(w, left)
                    low += take * z
                    left -= take
            value = (1.0 - lam) * mean + lam * (low / tail)
            if value > best:
                best, at = value, k
        out[r] = best
        which[r] = at
