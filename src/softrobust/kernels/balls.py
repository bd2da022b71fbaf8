"""One sweep of an SA-rectangular robust MDP whose sets are balls around a nominal row.

    T v(s) = max_a min {pᵀz : p ∈ Δ, ‖p − p̄_{s,a}‖ ≤ ψ_{s,a}},     z(s′) = r(s,a,s′) + γ·v(s′)

with the L1 or the L∞ norm, weighted or not. The worst case is at most p̄ᵀz, so the action of the
last sweep is tried first, and one whose nominal value is no better needs no sorting.

Storage: pair k = s·A + a has next states, p̄, r (and weights) at indptr[k]:indptr[k+1].
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from softrobust.kernels._jit import kernel
from softrobust.kernels.l1 import l1_reach, l1_worst
from softrobust.kernels.linf import linf_worst
from softrobust.kernels.weighted_l1 import weighted_l1_worst

FloatArray = NDArray[np.float64]

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
