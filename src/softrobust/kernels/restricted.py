"""Every model's optimum under a shrinking set of allowed actions, with its advantages.

A branch and bound asks for the same models again and again with fewer and fewer actions. A model
whose optimal rule is still allowed keeps its value; the others start from where they were. Beside
V_ω come the advantages and the occupancy of the optimal rule,

    adv_ω(s,a) = R(s,a) + γP(s,a)ᵀV_ω − V_ω(s) ≤ 0,      h_ω = (I − γP_d)⁻ᵀ p₀,

and a correction `upper` ≥ 0 that makes p₀ᵀV_ω + upper_ω a true bound in floating point: it covers
both the rounding of adv and whatever is left of its positive part (see `kernels.optimal`).
"""

from __future__ import annotations

import numpy as np
from numba import prange

from softrobust.kernels._jit import kernel
from softrobust.kernels.evaluate import lu_inplace, lu_solve_transposed
from softrobust.kernels.exchange import system
from softrobust.kernels.optimal import solve_one

TOL, LIMIT = 1e-11, 20_000
OCCUPANCY_STATES = 400  # above this, h (a branching hint only) is not computed


@kernel
def _advantages(indptr, next_states, prob, R, allowed, gamma, omega, v, adv):
    """Adv (S, A, N) at omega ← min(R + γPᵀv − v(s), 0); 0 where not allowed."""
    S, A, N = R.shape
    for s in range(S):
        for a in range(A):
            if not allowed[s, a]:
                adv[s, a, omega] = 0.0
                continue
            k = s * A + a
            lo, width = indptr[k], indptr[k + 1] - indptr[k]
            row = lo * N + omega * width
            total = 0.0
            for j in range(width):
                total += prob[row + j] * v[next_states[lo + j]]
            adv[s, a, omega] = min(R[s, a, omega] + gamma * total - v[s], 0.0)


@kernel
def _one_model(
    indptr, next_states, prob, R, p0, allowed, gamma, omega, fresh, V, decisions, upper, adv, h
):
    S, A, N = R.shape
    v, decision = V[omega], decisions[omega]
    still = not fresh
    for s in range(S):
        if not allowed[s, decision[s]]:
            still = False
            for a in range(A):  # policy iteration starts from an allowed rule
                if allowed[s, a]:
                    decision[s] = a
                    break
    if not still:
        _, up = solve_one(
            indptr, next_states, prob, N, R, allowed, omega, gamma, TOL, LIMIT, v, decision
        )
        upper[omega] = up
        if S <= OCCUPANCY_STATES:
            M = np.empty((S, S))
            system(indptr, next_states, prob, N, omega, decision, A, gamma, M)
            lu_inplace(M)
            h[omega] = p0
            lu_solve_transposed(M, h[omega])
        _advantages(indptr, next_states, prob, R, allowed, gamma, omega, v, adv)
        return
    for s in range(S):  # v is what it was, and so are the advantages of the actions left
        for a in range(A):
            if not allowed[s, a]:
                adv[s, a, omega] = 0.0


@kernel(parallel=True)
def restrict_parallel(
    indptr, next_states, prob, R, p0, allowed, gamma, fresh, first, last, V, decisions, upper, adv,
    h,
):  # fmt: skip
    """Update V (N, S), decisions (N, S), upper (N,), adv (S, A, N), h (N, S) for `allowed` (S, A).

    For models first … last. With `fresh`, V and decisions are a start only; else they are those of
    a larger set of actions, and kept where the decision is still allowed.
    """
    for omega in prange(first, last):
        _one_model(
            indptr, next_states, prob, R, p0, allowed, gamma, omega, fresh,
            V, decisions, upper, adv, h,
        )  # fmt: skip


@kernel
def restrict_serial(
    indptr, next_states, prob, R, p0, allowed, gamma, fresh, first, last, V, decisions, upper, adv,
    h,
):  # fmt: skip
    """`restrict_parallel` on one thread."""
    for omega in range(first, last):
        _one_model(
            indptr, next_states, prob, R, p0, allowed, gamma, omega, fresh,
            V, decisions, upper, adv, h,
        )  # fmt: skip
