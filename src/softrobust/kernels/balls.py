"""SA-rectangular robust MDPs whose sets are balls around a nominal row (BCR, RSVF, L1Robust).

    T v(s) = max_a min {pᵀz : p ∈ Δ, ‖p − p̄_{s,a}‖ ≤ ψ_{s,a}},     z(s′) = r(s,a,s′) + γ·v(s′)

with the L1 or the L∞ norm, weighted or not; each worst case takes O(n log n). It is at most p̄ᵀz, so
a sweep tries the action of the last one first, and one whose nominal value is no better needs no
sorting.

Storage: pair k = s·A + a has next states, p̄, r (and weights) at indptr[k]:indptr[k+1].
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from softrobust._core.arrays import FloatArray
from softrobust.kernels._jit import kernel
from softrobust.kernels.expected import block_of
from softrobust.kernels.tail import ascending

L1, LINF = 0, 1


@kernel
def l1_worst(p, z, budget, out):
    """Fill out (n,) with the worst distribution in the L1 ball around p (n,); returns its E[z].

    Moving mass ε costs 2ε of the budget, so ε = min(ψ/2, 1 − p̄ at the smallest z) goes onto the
    smallest z, taken from the largest z downwards.
    """
    order = ascending(z)
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

    The movement of `l1_worst` read backwards: how far p̄ is from the half-space pᵀz ≤ level, and its
    nearest point there. Infinite where no distribution gets there; out is then all on the smallest
    z.
    """
    order = ascending(z)
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
def _envelope(z, w, hull, start):
    """Lower envelope of the lines z + κ·w over κ ≥ 0; returns the number of its pieces.

    hull (n,) are the lines from κ = 0 upwards, start (n,) the prices where they begin.
    """
    by_z = ascending(z)
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
    """`l1_worst` with the norm Σ w_j·|p_j − p̄_j|.

    With a price κ on the budget, a unit of mass moved from j to i saves z_j − z_i and costs
    κ·(w_j + w_i). So the best receiver is the lowest of the lines z_i + κ·w_i, and j gives all it
    has where

        z_j − κ·w_j  >  m(κ) = min_i (z_i + κ·w_i).

    The left side falls and m rises with κ: j gives below one price κ_j and not above. m is the
    lower envelope of n lines. Walking κ down from infinity, two things happen, in order of their
    prices: a giver joins, or the receiver changes and takes over what was moved. Each uses up
    budget; the one that would use up more than is left is done in part, which is optimal as both
    ends of it are at that price.
    """
    n = p.size
    hull, start, price = np.empty(n, np.int64), np.empty(n), np.empty(n)
    cost = np.empty(n)
    size = _envelope(z, w, hull, start)
    for j in range(n):
        price[j] = _giving_price(z, w, hull, start, size, j)
        cost[j] = -price[j]
    givers = ascending(cost)
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


@kernel
def linf_worst(p, z, w, budget, out):
    """Fill out (n,) with the worst distribution in the box around p (n,); returns its E[z].

    The box is that of w_j·|p_j − p̄_j| ≤ ψ; w (n,) are the weights, or (0,) for ones. Everything
    starts at its lower end, and the mass that is missing goes to the smallest z first, up to the
    upper ends.
    """
    n = p.size
    order = ascending(z)
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


class Balls(NamedTuple):
    """The ambiguity sets and rewards of all pairs."""

    indptr: NDArray[np.int64]  # (S·A + 1,)
    next_states: NDArray[np.int32]  # (nnz,)
    p: FloatArray  # (nnz,) centres
    r: FloatArray  # (nnz,) rewards of the transitions
    w: FloatArray  # (nnz,) weights of the norm, or (0,) for ones
    budgets: FloatArray  # (S·A,)
    allowed: NDArray[np.bool_]  # (S, A)
    gamma: float
    norm: int  # L1 or LINF


@kernel
def _pair_worst(b, k, z, out):
    """Nature's answer to pair k: fills out (n_next,), returns the value."""
    lo, hi = b.indptr[k], b.indptr[k + 1]
    p, w = b.p[lo:hi], b.w[lo:hi] if b.w.size > 0 else b.w
    if b.norm == LINF:
        return linf_worst(p, z, w, b.budgets[k], out)
    if w.size > 0:
        return weighted_l1_worst(p, z, w, b.budgets[k], out)
    return l1_worst(p, z, b.budgets[k], out)


@kernel
def ball_sweep(b, v, decision, fixed, values, rows):
    """Values (S,) ← Tv, decision (S,) ← a best action, rows of its pairs (nnz,) ← the worst p.

    With `fixed` the decision is kept: T_π v.
    """
    S, A = b.allowed.shape
    z, worst = np.empty(S), np.empty(S)
    for s in range(S):
        best, first = -np.inf, decision[s]
        for turn in range(A + 1):  # the last decision first, then all others
            a = first if turn == 0 else turn - 1
            if (turn > 0 and (fixed or a == first)) or not b.allowed[s, a]:
                continue
            k = s * A + a
            lo, n = b.indptr[k], b.indptr[k + 1] - b.indptr[k]
            nominal = 0.0
            for j in range(n):
                z[j] = b.r[lo + j] + b.gamma * v[b.next_states[lo + j]]
                nominal += b.p[lo + j] * z[j]
            if nominal <= best:
                continue
            value = nominal
            if b.budgets[k] > 0.0:
                value = _pair_worst(b, k, z[:n], worst[:n])
            else:
                worst[:n] = b.p[lo : lo + n]
            if value > best or turn == 0:
                best, decision[s] = value, a
                rows[lo : lo + n] = worst[:n]
        values[s] = best


@kernel
def reach_sweep(indptr, p, z, levels, live, out, nearest):
    """L1 distances (S·A,) of rows p to the half-spaces pᵀz ≤ level, and the nearest points (nnz,).

    p, z (nnz,); levels, live (S·A,): pairs that are not live keep their row, at distance 0.
    """
    for k in range(live.size):
        lo, hi = indptr[k], indptr[k + 1]
        if live[k]:
            out[k] = l1_reach(p[lo:hi], z[lo:hi], levels[k], nearest[lo:hi])
        else:
            out[k] = 0.0
            nearest[lo:hi] = p[lo:hi]


@kernel
def meets_all(p, Z, levels, slack, out):
    """Whether one half-space decides: fill out (n,) with its point nearest p that lies in all.

    Z (m, n), levels, slack (m,). Where the projection onto one set lies in the others, no point
    of all of them is nearer.
    """
    for i in range(Z.shape[0]):
        l1_reach(p, Z[i], levels[i], out)
        inside = True
        for other in range(Z.shape[0]):
            total = 0.0
            for j in range(p.size):
                total += Z[other, j] * out[j]
            if total > levels[other] + slack[other]:
                inside = False
                break
        if inside:
            return True
    return False


@kernel
def _match(mine, theirs, place):
    """Place (len(mine),) ← where each entry of one ascending list stands in another, or −1."""
    i = 0
    for j in range(mine.size):
        while i < theirs.size and theirs[i] < mine[j]:
            i += 1
        place[j] = i if i < theirs.size and theirs[i] == mine[j] else -1


@kernel
def _pair_distances(P, columns, w, p, nominal, u, norm, out):
    """Distances of the rows of P (N, n) to p (m,); w (n,), u (m,) are weights, or (0,)."""
    back, place = np.empty(p.size, np.int64), np.empty(columns.size, np.int64)
    _match(nominal, columns, back)
    _match(columns, nominal, place)
    base = 0.0  # next states that the models do not list
    for i in range(p.size):
        if back[i] < 0:
            term = p[i] * (u[i] if u.size > 0 else 1.0)
            base = max(base, term) if norm == LINF else base + term
    centre = np.zeros(columns.size)
    for j in range(columns.size):
        if place[j] >= 0:
            centre[j] = p[place[j]]
    for omega in range(P.shape[0]):
        total = base
        for j in range(columns.size):
            term = abs(P[omega, j] - centre[j]) * (w[j] if w.size > 0 else 1.0)
            total = max(total, term) if norm == LINF else total + term
        out[omega] = total


@kernel
def distances(prob, indptr, next_states, w, p, nominal_indptr, nominal_states, u, live, norm, out):
    """Out (S·A, N) ← ‖P̂^ω_{s,a} − p̄_{s,a}‖ of every live pair and model, 0 elsewhere.

    The models and the nominal rows may list different next states: both lists are ascending, and a
    next state that one of them lacks has probability 0 there.

    prob, indptr, next_states: storage of the models, w (nnz,) weights of their entries or (0,);
    p, nominal_indptr, nominal_states: the nominal rows, u (nnz′,) weights or (0,).
    """
    for k in range(live.size):
        if not live[k]:
            out[k] = 0.0
            continue
        lo, hi = indptr[k], indptr[k + 1]
        a, b = nominal_indptr[k], nominal_indptr[k + 1]
        _pair_distances(
            block_of(prob, indptr, k, out.shape[1]), next_states[lo:hi],
            w[lo:hi] if w.size > 0 else w, p[a:b], nominal_states[a:b],
            u[a:b] if u.size > 0 else u, norm, out[k],
        )  # fmt: skip


@kernel
def reached_states(prob, indptr, n_models, out):
    """Out (nnz,) ← whether any model gives the listed next state a positive probability."""
    for k in range(indptr.size - 1):
        P = block_of(prob, indptr, k, n_models)
        lo = indptr[k]
        for j in range(P.shape[1]):
            out[lo + j] = False
            for omega in range(n_models):
                if P[omega, j] > 0.0:
                    out[lo + j] = True
                    break
