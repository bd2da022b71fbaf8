"""First-order change of the static value by taking another action in one state, without inverses.

    score(s,a) = Σ_ω ξ_ω h_ω(s)·[R(s,a,ω) + γP̂^ω(s,a)ᵀv_ω − v_ω(s)]

with v_ω and h_ω the values and occupancies of the current rule: one pass over the models, for
problems whose inverses would not fit (see `kernels.exchange` for the exact change).
"""

from __future__ import annotations

from numba import prange

from softrobust.kernels._jit import kernel


@kernel(parallel=True)
def first_order(indptr, next_states, prob, R, allowed, gamma, xi, V, h, score):
    """score (S, A) ← the change for allowed pairs, −inf for others; V and h are (N, S)."""
    S, A, N = R.shape
    for s in prange(S):
        for a in range(A):
            if not allowed[s, a]:
                score[s, a] = -1e308
                continue
            k = s * A + a
            lo, width = indptr[k], indptr[k + 1] - indptr[k]
            total = 0.0
            for omega in range(N):
                weight = xi[omega] * h[omega, s]
                if weight != 0.0:
                    row = lo * N + omega * width
                    ahead = 0.0
                    for j in range(width):
                        ahead += prob[row + j] * V[omega, next_states[lo + j]]
                    total += weight * (R[s, a, omega] + gamma * ahead - V[omega, s])
            score[s, a] = total
