"""One sweep of an SA-rectangular robust MDP whose sets are balls around a nominal row.

    T v(s) = max_a min {pᵀz : p ∈ Δ, ‖p − p̄_{s,a}‖ ≤ ψ_{s,a}},     z(s′) = r(s,a,s′) + γ·v(s′)

with the L1 or the L∞ norm, weighted or not. The worst case is at most p̄ᵀz, so the action of the
last sweep is tried first, and one whose nominal value is no better needs no sorting.

Storage: pair k = s·A + a has next states, p̄, r (and weights) at indptr[k]:indptr[k+1].
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import prange
from numpy.typing import NDArray

from softrobust._core.arrays import FloatArray
from softrobust.kernels._jit import REORDER, kernel
from softrobust.kernels.ball_minima import l1_reach, l1_worst, linf_worst, weighted_l1_worst
from softrobust.kernels.expected import CHUNKS, block_of

L1, LINF = 0, 1


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
def _worst(b, k, z, out):
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
                value = _worst(b, k, z[:n], worst[:n])
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


# --------------------------------------------------------------------------------------------------
# How far models are from a nominal row: ‖P̂^ω_{s,a} − p̄_{s,a}‖ for every pair and model.
#
# The models and the nominal rows may list different next states: both lists are ascending, and a
# next state that one of them lacks has probability 0 there.


@kernel
def _match(mine, theirs, place):
    """Place (len(mine),) ← where each entry of one ascending list stands in another, or −1."""
    i = 0
    for j in range(mine.size):
        while i < theirs.size and theirs[i] < mine[j]:
            i += 1
        place[j] = i if i < theirs.size and theirs[i] == mine[j] else -1


@kernel
def _pair(P, columns, w, p, nominal, u, norm, out):
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
    """Out (S·A, N) ← distances of every live pair and model, 0 elsewhere.

    prob, indptr, next_states: storage of the models, w (nnz,) weights of their entries or (0,);
    p, nominal_indptr, nominal_states: the nominal rows, u (nnz′,) weights or (0,).
    """
    for k in range(live.size):
        if not live[k]:
            out[k] = 0.0
            continue
        lo, hi = indptr[k], indptr[k + 1]
        a, b = nominal_indptr[k], nominal_indptr[k + 1]
        _pair(
            block_of(prob, indptr, k, out.shape[1]), next_states[lo:hi],
            w[lo:hi] if w.size > 0 else w, p[a:b], nominal_states[a:b],
            u[a:b] if u.size > 0 else u, norm, out[k],
        )  # fmt: skip


@kernel
def reached(prob, indptr, n_models, out):
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


# --------------------------------------------------------------------------------------------------
# The mean model Σ_ω f_ω·P̂^ω and the largest miss of a row sum, in one pass over the models.


@kernel(fastmath=REORDER)
def _pair_mean_rows(P, f, out):
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
            worst = max(worst, _pair_mean_rows(block_of(prob, indptr, k, f.size), f, rows[lo:hi]))
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
