"""Exact evaluation of one policy on every model: ρ(π, P̂^ω) = p₀ᵀ(I − γP̂^ω_π)⁻¹ r^ω_π.

I − γP is strictly diagonally dominant by rows, so Gaussian elimination needs no pivoting; without
it the inner loop is a plain row update, which beats a batched LAPACK call at tens of states.
Shapes: S states, A actions, N models; the models' storage is that of `models.model_set`.
"""

from __future__ import annotations

import numpy as np
from numba import prange

from softrobust.kernels._jit import kernel


@kernel
def policy_matrix(indptr, next_states, prob, n_models, omega, probs, out):
    """out (S, S) ← P_π of model omega; probs (S, A)."""
    S, A = probs.shape
    for s in range(S):
        out[s, :] = 0.0
        for a in range(A):
            weight = probs[s, a]
            if weight == 0.0:
                continue
            k = s * A + a
            lo, width = indptr[k], indptr[k + 1] - indptr[k]
            row = lo * n_models + omega * width
            for j in range(width):
                out[s, next_states[lo + j]] += weight * prob[row + j]


@kernel
def lu_inplace(M):
    """M (S, S) ← its factors L (unit lower, strictly below the diagonal) and U, no pivoting."""
    S = M.shape[0]
    for k in range(S):
        pivot = 1.0 / M[k, k]
        for i in range(k + 1, S):
            factor = M[i, k]
            if factor != 0.0:
                factor *= pivot
                M[i, k] = factor
                for j in range(k + 1, S):
                    M[i, j] -= factor * M[k, j]


@kernel
def lu_solve(LU, x):
    """x (S,) ← (LU)⁻¹ x."""
    S = LU.shape[0]
    for i in range(S):
        total = x[i]
        for j in range(i):
            total -= LU[i, j] * x[j]
        x[i] = total
    for i in range(S - 1, -1, -1):
        total = x[i]
        for j in range(i + 1, S):
            total -= LU[i, j] * x[j]
        x[i] = total / LU[i, i]


@kernel
def lu_solve_transposed(LU, x):
    """x (S,) ← (LU)⁻ᵀ x, row by row so that memory is read in order."""
    S = LU.shape[0]
    for i in range(S):
        x[i] /= LU[i, i]
        for j in range(i + 1, S):
            x[j] -= LU[i, j] * x[i]
    for i in range(S - 1, -1, -1):
        for j in range(i):
            x[j] -= LU[i, j] * x[i]


@kernel
def _one_model(indptr, next_states, prob, n_models, omega, probs, gamma, v, h):
    S = probs.shape[0]
    M = np.empty((S, S))
    policy_matrix(indptr, next_states, prob, n_models, omega, probs, M)
    for s in range(S):
        for j in range(S):
            M[s, j] *= -gamma
        M[s, s] += 1.0
    lu_inplace(M)
    lu_solve(M, v)
    lu_solve_transposed(M, h)


@kernel
def evaluate_serial(indptr, next_states, prob, probs, gamma, v, h):
    """v (N, S): r_π in, values out. h (N, S): p₀ in, discounted occupancies out."""
    N = v.shape[0]
    for omega in range(N):
        _one_model(indptr, next_states, prob, N, omega, probs, gamma, v[omega], h[omega])


@kernel(parallel=True)
def evaluate_parallel(indptr, next_states, prob, probs, gamma, v, h):
    """`evaluate_serial`, the models shared out over threads."""
    N = v.shape[0]
    for omega in prange(N):
        _one_model(indptr, next_states, prob, N, omega, probs, gamma, v[omega], h[omega])


@kernel
def fill_policy_rows(indptr, prob, n_models, omega, probs, out):
    """out (nnz of π's rows,) ← π(a|s)·P̂^ω(·|s,a), in the order of states, then actions taken."""
    S, A = probs.shape
    n = 0
    for s in range(S):
        for a in range(A):
            weight = probs[s, a]
            if weight == 0.0:
                continue
            k = s * A + a
            width = indptr[k + 1] - indptr[k]
            row = indptr[k] * n_models + omega * width
            for j in range(width):
                out[n] = weight * prob[row + j]
                n += 1
