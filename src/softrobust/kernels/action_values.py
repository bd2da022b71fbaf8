"""Action values of one value function per model: Q[ω,s,a] = R[s,a,ω] + γ Σ_s′ P̂^ω(s′|s,a) v_ω(s′).

Shapes: S states, A actions, N models; the models' storage is that of `models.model_set`.
"""

from __future__ import annotations

from numba import prange

from softrobust.kernels._jit import kernel


@kernel
def _one_state(indptr, next_states, prob, R, gamma, V, s, Q):
    N = V.shape[0]
    for a in range(R.shape[1]):
        k = s * R.shape[1] + a
        lo, width = indptr[k], indptr[k + 1] - indptr[k]
        for omega in range(N):
            row = lo * N + omega * width
            total = 0.0
            for j in range(width):
                total += prob[row + j] * V[omega, next_states[lo + j]]
            Q[omega, s, a] = R[s, a, omega] + gamma * total


@kernel
def action_values_serial(indptr, next_states, prob, R, gamma, V, Q):
    """Q (N, S, A) from V (N, S) and R (S, A, N)."""
    for s in range(V.shape[1]):
        _one_state(indptr, next_states, prob, R, gamma, V, s, Q)


@kernel(parallel=True)
def action_values_parallel(indptr, next_states, prob, R, gamma, V, Q):
    """`action_values_serial`, the states shared out over threads."""
    for s in prange(V.shape[1]):
        _one_state(indptr, next_states, prob, R, gamma, V, s, Q)
