"""Exact evaluation of one policy on every model: ρ(π, P̂^ω) = p₀ᵀ(I − γP̂^ω_π)⁻¹ r^ω_π.

I − γP is strictly diagonally dominant by rows, so Gaussian elimination needs no pivoting; without
it the inner loop is a plain row update, which beats a batched LAPACK call at tens of states. Large
sparse systems are solved by BiCGStab with a checked residual. Beside the values stand what follows
from them, action values and first-order changes, and episodes drawn instead of expected.

Shapes: S states, A actions, N models; the storage is that of `models.model_set`: pair k = s·A + a
lists next_states[indptr[k]:indptr[k+1]], and its block of prob is (N, n_next), row by row.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import prange

from softrobust.kernels._jit import kernel, threaded


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
def _evaluate_model(indptr, next_states, prob, n_models, omega, probs, gamma, v, h):
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


@threaded
def evaluate_models(indptr, next_states, prob, probs, gamma, v, h):
    """v (N, S): r_π in, values out. h (N, S): p₀ in, discounted occupancies out."""
    N = v.shape[0]
    for omega in prange(N):
        _evaluate_model(indptr, next_states, prob, N, omega, probs, gamma, v[omega], h[omega])


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


# Large sparse systems. One model's rows fit in cache, so a product costs little more than its
# multiplications; the residual that decides is always recomputed from x itself, recurrences only
# propose. Shapes: rows (S + 1,), columns and values (nnz,): the policy's own transition rows, CSR.

ITERATIONS = 150  # of one cycle
CYCLES = 8


@kernel
def _product(rows, columns, values, gamma, transposed, x, out):
    """out ← (I − γP)x, or (I − γPᵀ)x."""
    S = x.size
    if transposed:
        out[:] = x
        for s in range(S):
            weight = gamma * x[s]
            if weight != 0.0:
                for j in range(rows[s], rows[s + 1]):
                    out[columns[j]] -= weight * values[j]
    else:
        for s in range(S):
            total = 0.0
            for j in range(rows[s], rows[s + 1]):
                total += values[j] * x[columns[j]]
            out[s] = x[s] - gamma * total


@kernel
def _norm(x, one_norm):
    """‖x‖₁ or ‖x‖∞."""
    out = 0.0
    for value in x:
        out = out + abs(value) if one_norm else max(out, abs(value))
    return out


@kernel
def _cycle(rows, columns, values, gamma, transposed, r, target, dx):
    """dx (S,) ← an approximate solution for the residual r (S,), by BiCGStab from zero.

    `target` is the size of the residual to reach in the 1- or ∞-norm.
    """
    S = r.size
    dx[:] = 0.0
    r = r.copy()
    shadow = r.copy()
    p, v, s_, t = np.zeros(S), np.zeros(S), np.empty(S), np.empty(S)
    rho, alpha, omega = 1.0, 1.0, 1.0
    for _ in range(ITERATIONS):
        before, rho = rho, np.dot(shadow, r)
        if rho == 0.0 or omega == 0.0:
            return
        beta = rho / before * alpha / omega
        for i in range(S):
            p[i] = r[i] + beta * (p[i] - omega * v[i])
        _product(rows, columns, values, gamma, transposed, p, v)
        along = np.dot(shadow, v)
        if along == 0.0:
            return
        alpha = rho / along
        for i in range(S):
            s_[i] = r[i] - alpha * v[i]
        _product(rows, columns, values, gamma, transposed, s_, t)
        length = np.dot(t, t)
        omega = np.dot(t, s_) / length if length > 0.0 else 0.0
        for i in range(S):
            dx[i] += alpha * p[i] + omega * s_[i]
            r[i] = s_[i] - omega * t[i]
        size = _norm(r, transposed)
        if not np.isfinite(size):
            dx[:] = 0.0
            return
        if size <= target:
            return


@kernel
def solve_csr(rows, columns, values, gamma, transposed, share, x):
    """x (S,): right-hand side in, solution out; returns ‖b − Mx‖/‖x‖, at most `share` on success.

    The norm is the one in which ‖M⁻¹‖ = 1/(1 − γ): 1 for the transpose, ∞ else.
    """
    b = x.copy()
    r = b.copy()
    x[:] = 0.0
    trial, dx, product = np.empty_like(b), np.empty_like(b), np.empty_like(b)
    best = np.inf
    for _ in range(CYCLES):
        target = 0.1 * share * max(_norm(x, transposed), _norm(b, transposed))
        _cycle(rows, columns, values, gamma, transposed, r, target, dx)
        for i in range(b.size):
            trial[i] = x[i] + dx[i]
        _product(rows, columns, values, gamma, transposed, trial, product)
        for i in range(b.size):
            product[i] = b[i] - product[i]
        size = _norm(trial, transposed)
        reached = _norm(product, transposed) / size if size > 0.0 else 0.0
        if not reached < best:
            break
        best = reached
        x[:] = trial
        r[:] = product
        if best <= share:
            break
    return best


@kernel(parallel=True)
def evaluate_sparse(
    indptr, prob, rows, columns, probs, gamma, share, want_occupancy, first, last, v, h, reached
):
    """`evaluate_models` for sparse models first … last; reached (N, 2): relative residuals."""
    N = v.shape[0]
    for omega in prange(first, last):
        values = np.empty(columns.size)
        fill_policy_rows(indptr, prob, N, omega, probs, values)
        reached[omega, 0] = solve_csr(rows, columns, values, gamma, False, share, v[omega])
        if want_occupancy:
            reached[omega, 1] = solve_csr(rows, columns, values, gamma, True, share, h[omega])


@kernel
def _state_values(indptr, next_states, prob, R, gamma, V, s, Q):
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


@threaded
def fill_action_values(indptr, next_states, prob, R, gamma, V, Q):
    """Q[ω,s,a] = R[s,a,ω] + γ Σ_s′ P̂^ω(s′|s,a) v_ω(s′): Q (N, S, A) from V (N, S), R (S, A, N)."""
    for s in prange(V.shape[1]):
        _state_values(indptr, next_states, prob, R, gamma, V, s, Q)


@kernel(parallel=True)
def first_order(indptr, next_states, prob, R, allowed, gamma, xi, V, h, score):
    """First-order change of the static value by taking a in s, without inverses.

        score(s,a) = Σ_ω ξ_ω h_ω(s)·[R(s,a,ω) + γP̂^ω(s,a)ᵀv_ω − v_ω(s)]

    Values V and occupancies h (N, S) are those of the current rule; score (S, A) is −1e308 where a
    pair is not allowed. The exact change is that of `exchange.exchange_returns`.
    """
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


@kernel
def roll_episodes(
    indptr, next_states, prob, n_models, probs, stop, start, omega, length, u, s, a, s_next
):
    """Walk every episode for its length, or until a state of `stop` (S,) bool.

    probs (S, A) the policy; start, omega, length (E,), the last cut to the steps walked; uniforms
    u (E, T, 2); out s, a, s_next (E, T).
    """
    n_actions = probs.shape[1]
    for e in range(start.size):
        now = start[e]
        t = 0
        while t < length[e] and not stop[now]:
            x, act = u[e, t, 0], 0
            for j in range(n_actions):  # the last action of positive probability takes what is left
                if probs[now, j] > 0.0:
                    act = j
            for j in range(n_actions):
                x -= probs[now, j]
                if x < 0.0 and probs[now, j] > 0.0:
                    act = j
                    break
            k = now * n_actions + act
            n_next = indptr[k + 1] - indptr[k]
            row = indptr[k] * n_models + omega[e] * n_next
            y = u[e, t, 1]
            to = n_next - 1
            while to > 0 and prob[row + to] <= 0.0:
                to -= 1
            for j in range(n_next):
                y -= prob[row + j]
                if y < 0.0 and prob[row + j] > 0.0:
                    to = j
                    break
            s[e, t], a[e, t] = now, act
            now = next_states[indptr[k] + to]
            s_next[e, t] = now
            t += 1
        length[e] = t


def policy_sparsity(indptr: Any, next_states: Any, probs: Any) -> tuple[Any, Any]:
    """Row pointers (S + 1,) and columns (nnz,) of a policy's rows, action after action."""
    widths, taken = np.diff(indptr), probs.reshape(-1) > 0
    lengths = np.where(taken, widths, 0).reshape(probs.shape).sum(axis=1)
    return np.concatenate([[0], np.cumsum(lengths)]), next_states[np.repeat(taken, widths)]
