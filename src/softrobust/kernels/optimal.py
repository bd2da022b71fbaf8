"""The ordinary (not robust) optimal value of every model, with bounds that hold in floating point.

Policy iteration: values of a decision rule by LU at small S, by sweeps over its own rows at large S
(modified policy iteration). Whatever v comes out, the Bellman residual brackets the optimum
(Puterman, thm. 6.6.3): with T the optimality operator and g = γ·(largest row sum),

    v + min(Tv − v)/(1 − g)  ≤  V*  ≤  v + max(Tv − v)/(1 − g)     where min ≤ 0 ≤ max,

to which a term for the rounding of Tv itself is added.
"""

from __future__ import annotations

import numpy as np

from softrobust.kernels._jit import EPS, kernel, threaded
from softrobust.kernels.evaluate import lu_inplace, lu_solve, lu_solve_transposed
from softrobust.kernels.exchange import system

LU_STATES = 96  # above this, sweeps beat factorisations
SWEEPS = 30  # evaluation sweeps between two improvements


@kernel
def _copy_model(indptr, prob, n_models, omega, out):
    """out (nnz,) ← the rows of one model, made contiguous."""
    for k in range(indptr.size - 1):
        lo, width = indptr[k], indptr[k + 1] - indptr[k]
        row = lo * n_models + omega * width
        for j in range(width):
            out[lo + j] = prob[row + j]


@kernel
def _improve(indptr, next_states, rows, R, allowed, omega, gamma, v, decision, new):
    """New (S,) ← Tv; decision (S,) ← a greedy rule that keeps its action among equals.

    Returns min(Tv − v), max(Tv − v) and the largest |term| met, which scales the rounding error.
    """
    S, A = allowed.shape
    low, high, scale = np.inf, -np.inf, 0.0
    for s in range(S):
        best, best_a = -np.inf, -1
        keep = -np.inf
        for a in range(A):
            if not allowed[s, a]:
                continue
            k = s * A + a
            total, size = 0.0, 0.0
            for j in range(indptr[k], indptr[k + 1]):
                term = rows[j] * v[next_states[j]]
                total += term
                size += abs(term)
            q = R[s, a, omega] + gamma * total
            size = abs(R[s, a, omega]) + gamma * size * (indptr[k + 1] - indptr[k] + 2)
            scale = max(scale, size)
            if a == decision[s]:
                keep = q
            if q > best:
                best, best_a = q, a
        if keep < best - 1e-13 * max(abs(best), abs(keep)):
            decision[s] = best_a
        new[s] = best
        low = min(low, best - v[s])
        high = max(high, best - v[s])
    return low, high, scale


@kernel
def _evaluate_lu(indptr, next_states, rows, R, omega, gamma, decision, v):
    S, A = R.shape[0], R.shape[1]
    M = np.zeros((S, S))
    for s in range(S):
        k = s * A + decision[s]
        for j in range(indptr[k], indptr[k + 1]):
            M[s, next_states[j]] -= gamma * rows[j]
        M[s, s] += 1.0
        v[s] = R[s, decision[s], omega]
    lu_inplace(M)
    lu_solve(M, v)


@kernel
def _evaluate_sweeps(indptr, next_states, rows, R, omega, gamma, decision, v, sweeps):
    """Gauss–Seidel sweeps of the decision's own equations, in place."""
    S, A = R.shape[0], R.shape[1]
    for _ in range(sweeps):
        for s in range(S):
            k = s * A + decision[s]
            total = 0.0
            for j in range(indptr[k], indptr[k + 1]):
                total += rows[j] * v[next_states[j]]
            v[s] = R[s, decision[s], omega] + gamma * total


@kernel(inner=True)
def solve_model(
    indptr, next_states, prob, n_models, R, allowed, omega, gamma, tol, limit, v, decision
):
    """Optimal v (S,) and decision (S,) of model omega; returns a lower and an upper correction.

    The decision that comes in must take allowed actions.

    p₀ᵀv + lower ≤ p₀ᵀV* ≤ p₀ᵀv + upper for any distribution p₀.
    """
    S, A = allowed.shape
    rows = np.empty(next_states.size)
    _copy_model(indptr, prob, n_models, omega, rows)
    largest = 0.0
    for k in range(S * A):
        total = 0.0
        for j in range(indptr[k], indptr[k + 1]):
            total += rows[j]
        largest = max(largest, total)
    g = gamma * max(largest, 1.0)
    new = np.empty(S)
    lower, upper = -np.inf, np.inf
    for i in range(limit):
        low, high, scale = _improve(
            indptr, next_states, rows, R, allowed, omega, gamma, v, decision, new
        )
        slack = 2.0 * EPS * scale
        lower = (min(low, 0.0) - slack) / (1.0 - g)
        upper = (max(high, 0.0) + slack) / (1.0 - g)
        size = 0.0
        for s in range(S):
            size = max(size, abs(v[s]))
        if max(high, -low) / (1.0 - g) <= tol * max(size, 1e-300) or (
            high <= slack and low >= -slack
        ):
            break
        if i == limit - 1:  # the bracket is that of v as it stands
            break
        if S <= LU_STATES:
            _evaluate_lu(indptr, next_states, rows, R, omega, gamma, decision, v)
        else:
            for s in range(S):
                v[s] = new[s]
            _evaluate_sweeps(indptr, next_states, rows, R, omega, gamma, decision, v, SWEEPS)
    return lower, upper


@threaded
def solve_models(
    first, last, indptr, next_states, prob, R, allowed, gamma, tol, limit, V, decisions, lower,
    upper,
):  # fmt: skip
    """`solve_model` for models first … last: V (N, S), decisions (N, S), lower and upper (N,)."""
    N = V.shape[0]
    for omega in range(first, last):
        lo, hi = solve_model(
            indptr, next_states, prob, N, R, allowed, omega, gamma, tol, limit,
            V[omega], decisions[omega],
        )  # fmt: skip
        lower[omega] = lo
        upper[omega] = hi


# Every model's optimum under a shrinking set of allowed actions. A branch and bound asks for the
# same models again and again with fewer and fewer actions: a model whose optimal rule is still
# allowed keeps its value, the others start from where they were. Beside V_ω come the advantages and
# the occupancy of the optimal rule,
#
#     adv_ω(s,a) = R(s,a) + γP(s,a)ᵀV_ω − V_ω(s) ≤ 0,      h_ω = (I − γP_d)⁻ᵀ p₀,
#
# and a correction `upper` ≥ 0 that makes p₀ᵀV_ω + upper_ω a true bound in floating point: it covers
# both the rounding of adv and whatever is left of its positive part.

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
def _restrict_model(
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
        _, up = solve_model(
            indptr,
            next_states,
            prob,
            N,
            R,
            allowed,
            omega,
            gamma,
            TOL,
            np.int64(LIMIT),
            v,
            decision,
        )
        upper[omega] = up
        if S <= OCCUPANCY_STATES:
            M = np.empty((S, S))
            system(indptr, next_states, prob, N, omega, decision, A, gamma, M)
            lu_inplace(M)
            for s in range(S):
                h[omega, s] = p0[s]
            lu_solve_transposed(M, h[omega])
        _advantages(indptr, next_states, prob, R, allowed, gamma, omega, v, adv)
        return
    for s in range(S):  # v is what it was, and so are the advantages of the actions left
        for a in range(A):
            if not allowed[s, a]:
                adv[s, a, omega] = 0.0


@threaded
def restrict_models(
    first, last, indptr, next_states, prob, R, p0, allowed, gamma, fresh, V, decisions, upper, adv,
    h,
):  # fmt: skip
    """Update V (N, S), decisions (N, S), upper (N,), adv (S, A, N), h (N, S) for `allowed` (S, A).

    For models first … last. With `fresh`, V and decisions are a start only; else they are those of
    a larger set of actions, and kept where the decision is still allowed.
    """
    for omega in range(first, last):
        _restrict_model(
            indptr, next_states, prob, R, p0, allowed, gamma, omega, fresh,
            V, decisions, upper, adv, h,
        )  # fmt: skip
