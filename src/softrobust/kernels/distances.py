"""How far models are from a nominal row: ‖P̂^ω_{s,a} − p̄_{s,a}‖ for every pair and model.

The models and the nominal rows may list different next states: both lists are ascending, and a
next state that one of them lacks has probability 0 there.
"""

from __future__ import annotations

import numpy as np

from softrobust.kernels._jit import kernel
from softrobust.kernels.balls import LINF
from softrobust.kernels.expected import block_of


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
