"""All one-exchange neighbours of a decision rule, in every model, from one inverse per model.

With N = (I − γP_d)⁻¹, v = N r_d and h = N ᵀp₀, the rule that differs from d only by taking a in s
has return (Sherman–Morrison; the denominator uses row s of (I − γP_d)N = I)

    ρ' = p₀ᵀv + h(s)·[R(s,a) + γP(s,a)ᵀv − v(s)] / [N(s,s) − γP(s,a)ᵀN(·,s)].

Shapes: S states, A actions, N models; storage as in `models.model_set`.
"""

from __future__ import annotations

import numpy as np
from numba import prange

from softrobust.kernels._jit import kernel


@kernel
def invert(M, out):
    """Out (S, S) ← M⁻¹ by Gauss–Jordan without pivoting (M is diagonally dominant); M is spoilt."""
    S = M.shape[0]
    out[:, :] = 0.0
    for i in range(S):
        out[i, i] = 1.0
    for k in range(S):
        pivot = 1.0 / M[k, k]
        for j in range(k, S):
            M[k, j] *= pivot
        for j in range(k + 1):
            out[k, j] *= pivot
        for i in range(S):
            factor = M[i, k]
            if i != k and factor != 0.0:
                for j in range(k, S):
                    M[i, j] -= factor * M[k, j]
                for j in range(k + 1):
                    out[i, j] -= factor * out[k, j]


@kernel
def system(indptr, next_states, prob, n_models, omega, decision, A, gamma, out):
    """Out (S, S) ← I − γP_d of model omega."""
    out[:, :] = 0.0
    for s in range(decision.size):
        k = s * A + decision[s]
        lo, width = indptr[k], indptr[k + 1] - indptr[k]
        row = lo * n_models + omega * width
        for j in range(width):
            out[s, next_states[lo + j]] -= gamma * prob[row + j]
        out[s, s] += 1.0


@kernel
def _one_model(indptr, next_states, prob, R, p0, allowed, decision, gamma, omega, X, gain, x):
    S, A, N = R.shape
    M = np.empty((S, S))
    inverse = np.empty((S, S))
    system(indptr, next_states, prob, N, omega, decision, A, gamma, M)
    invert(M, inverse)
    v = np.zeros(S)
    h = np.zeros(S)
    for s in range(S):
        for j in range(S):
            v[s] += inverse[s, j] * R[j, decision[j], omega]
            h[j] += p0[s] * inverse[s, j]
    base = 0.0
    for s in range(S):
        base += p0[s] * v[s]
    x[omega] = base
    columns = inverse.T.copy()
    for s in range(S):
        for a in range(A):
            k = s * A + a
            if not allowed[s, a]:
                continue
            lo, width = indptr[k], indptr[k + 1] - indptr[k]
            row = lo * N + omega * width
            ahead, back = 0.0, 0.0
            for j in range(width):
                p = prob[row + j]
                ahead += p * v[next_states[lo + j]]
                back += p * columns[s, next_states[lo + j]]
            step = h[s] * (R[s, a, omega] + gamma * ahead - v[s])
            gain[k, omega] = step
            X[k, omega] = base + step / (columns[s, s] - gamma * back)


@kernel(parallel=True)
def exchange_parallel(indptr, next_states, prob, R, p0, allowed, decision, gamma, X, gain, x):
    """Returns x (N,) of the decision and X (S·A, N) of its neighbours; forbidden pairs stay.

    gain (S·A, N) ← h(s)·[R + γPᵀv − v(s)], the first-order change, which orders block moves.
    """
    for omega in prange(R.shape[2]):
        _one_model(
            indptr, next_states, prob, R, p0, allowed, decision, gamma, omega, X, gain, x
        )  # fmt: skip


@kernel
def exchange_serial(indptr, next_states, prob, R, p0, allowed, decision, gamma, X, gain, x):
    """`exchange_parallel` on one thread."""
    for omega in range(R.shape[2]):
        _one_model(
            indptr, next_states, prob, R, p0, allowed, decision, gamma, omega, X, gain, x
        )  # fmt: skip
