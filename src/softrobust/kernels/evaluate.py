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

from softrobust.kernels._jit import EPS, REORDER, kernel, threaded
from softrobust.kernels.expected import block_of


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


@kernel(inner=True)
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
def evaluate_models(first, last, indptr, next_states, prob, probs, gamma, v, h):
    """v (N, S): r_π in, values out. h (N, S): p₀ in, discounted occupancies out."""
    N = v.shape[0]
    for omega in range(first, last):
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


@kernel(inner=True)
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


@threaded
def evaluate_sparse(
    first, last, indptr, prob, rows, columns, probs, gamma, share, want_occupancy, v, h, reached
):
    """`evaluate_models` for sparse models first … last; reached (N, 2): relative residuals."""
    N, values = v.shape[0], np.empty(columns.size)
    for omega in range(first, last):
        fill_policy_rows(indptr, prob, N, omega, probs, values)
        reached[omega, 0] = solve_csr(rows, columns, values, gamma, False, share, v[omega])
        if want_occupancy:
            reached[omega, 1] = solve_csr(rows, columns, values, gamma, True, share, h[omega])


CHUNK = 32  # models that go through the steps together


@kernel(fastmath=REORDER)
def _rows_ahead(P, listed, V, out):
    """out (n,) ← Σ_j P[i, j]·V[i, listed[j]]: a row, and values (n, S), of its own per model."""
    n, width = P.shape
    if width == V.shape[1]:  # all states, in order: no gather
        for i in range(n):
            total = 0.0
            for j in range(width):
                total += P[i, j] * V[i, j]
            out[i] = total
        return
    for i in range(n):
        total = 0.0
        for j in range(width):
            total += P[i, j] * V[i, listed[j]]
        out[i] = total


@kernel
def _state_values(indptr, next_states, prob, R, gamma, V, s, Q):
    N, ahead = V.shape[0], np.empty(V.shape[0])
    for a in range(R.shape[1]):
        k = s * R.shape[1] + a
        listed = next_states[indptr[k] : indptr[k + 1]]
        _rows_ahead(block_of(prob, indptr, k, N), listed, V, ahead)
        for omega in range(N):
            Q[omega, s, a] = R[s, a, omega] + gamma * ahead[omega]


@threaded
def fill_action_values(first, last, indptr, next_states, prob, R, gamma, V, Q):
    """Q[ω,s,a] = R[s,a,ω] + γ Σ_s′ P̂^ω(s′|s,a) v_ω(s′): Q (N, S, A) from V (N, S), R (S, A, N).

    For states first … last.
    """
    for s in range(first, last):
        _state_values(indptr, next_states, prob, R, gamma, V, s, Q)


@threaded
def first_order(first, last, indptr, next_states, prob, R, allowed, gamma, xi, V, h, score):
    """First-order change of the static value by taking a in s = first … last, without inverses.

        score(s,a) = Σ_ω ξ_ω h_ω(s)·[R(s,a,ω) + γP̂^ω(s,a)ᵀv_ω − v_ω(s)]

    Values V and occupancies h (N, S) are those of the current rule; score (S, A) is −1e308 where a
    pair is not allowed. The exact change is that of `exchange.exchange_returns`.
    """
    _, A, N = R.shape
    for s in range(first, last):
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


# A finite horizon: rules probs (T, S, A), one for every step (T = H) or the same for all (T = 1).
# All for models first … last.


@kernel(fastmath=REORDER)
def _four_rows(p0, p1, p2, p3, x):
    """Four sums that share x: each number of it is read once, and none waits for another."""
    t0, t1, t2, t3 = 0.0, 0.0, 0.0, 0.0
    for j in range(x.size):
        y = x[j]
        t0 += p0[j] * y
        t1 += p1[j] * y
        t2 += p2[j] * y
        t3 += p3[j] * y
    return t0, t1, t2, t3


@kernel
def _four_states(prob, indptr, R, at, s, lo, hi, gamma, v, new):
    """New (n, S) at s … s + 3, where the pairs `at` are taken, with rows of all states in order."""
    (_, A, N), S = R.shape, v.shape[1]
    k0, k1, k2, k3 = at[s], at[s + 1], at[s + 2], at[s + 3]
    q0 = prob[indptr[k0] * N + lo * S : indptr[k0] * N + hi * S]
    q1 = prob[indptr[k1] * N + lo * S : indptr[k1] * N + hi * S]
    q2 = prob[indptr[k2] * N + lo * S : indptr[k2] * N + hi * S]
    q3 = prob[indptr[k3] * N + lo * S : indptr[k3] * N + hi * S]
    r0, r1 = R[s, k0 % A, lo:hi], R[s + 1, k1 % A, lo:hi]
    r2, r3 = R[s + 2, k2 % A, lo:hi], R[s + 3, k3 % A, lo:hi]
    for i in range(hi - lo):
        a, b = i * S, (i + 1) * S
        t0, t1, t2, t3 = _four_rows(q0[a:b], q1[a:b], q2[a:b], q3[a:b], v[i])
        out = new[i]
        out[s], out[s + 1] = r0[i] + gamma * t0, r1[i] + gamma * t1
        out[s + 2], out[s + 3] = r2[i] + gamma * t2, r3[i] + gamma * t3


@threaded
def horizon_values(first, last, indptr, next_states, prob, probs, R, gamma, steps, V):
    """V (K, N, S) ← v_t of H = `steps` steps; K = 1 keeps v_0 alone, K = H + 1 all, v_H = 0."""
    (K, N, S), (T, _, A) = V.shape, probs.shape
    at = np.empty(S, np.int64)
    for lo in range(first, last, CHUNK):
        hi = min(lo + CHUNK, last)
        v, new = np.zeros((hi - lo, S)), np.empty((hi - lo, S))
        ahead, total = np.empty(hi - lo), np.empty(hi - lo)
        for t in range(steps - 1, -1, -1):
            rule = probs[min(t, T - 1)]
            for s in range(S):  # the pair that is surely taken, if its rows are dense
                at[s] = -1
                for k in range(s * A, (s + 1) * A):
                    if rule[s, k - s * A] == 1.0 and indptr[k + 1] - indptr[k] == S:
                        at[s] = k
            s = 0
            while s < S:
                four = min(s, S - 4)  # the last four may begin among states that are done
                if four >= 0 and min(at[four], at[four + 1], at[four + 2], at[four + 3]) >= 0:
                    _four_states(prob, indptr, R, at, four, lo, hi, gamma, v, new)
                    s = four + 4
                    continue
                total[:] = 0.0
                for a in range(A):
                    weight = rule[s, a]
                    if weight != 0.0:
                        k = s * A + a
                        block = block_of(prob, indptr, k, N)[lo:hi]
                        _rows_ahead(block, next_states[indptr[k] : indptr[k + 1]], v, ahead)
                        r = R[s, a, lo:hi]
                        for i in range(hi - lo):
                            total[i] += weight * (r[i] + gamma * ahead[i])
                new[:, s] = total
                s += 1
            v, new = new, v
            V[t if K > 1 else 0, lo:hi] = v
        if K > 1:
            V[steps, lo:hi] = 0.0


@threaded
def horizon_values_dense(first, last, indptr, next_states, prob, rules, R, gamma, steps, V):
    """`horizon_values` of one rule for all steps, by a model's own matrix kept in cache.

    Rules (1, S, A), or (N, S, A): one for each model.

    The matrix is transposed, and four columns are added at a time: sums over states vectorise
    without a remainder at the end of every row.
    """
    (K, N, S), A = V.shape, rules.shape[2]
    wide = (S + 3) // 4 * 4
    for omega in range(first, last):
        P, r = np.zeros((wide, S)), np.zeros(S)
        rule = rules[min(omega, rules.shape[0] - 1)]
        for s in range(S):
            for a in range(A):
                weight = rule[s, a]
                if weight != 0.0:
                    k = s * A + a
                    row, listed = block_of(prob, indptr, k, N)[omega], indptr[k]
                    for j in range(row.size):
                        P[next_states[listed + j], s] += gamma * weight * row[j]
                    r[s] += weight * R[s, a, omega]
        v, new = np.zeros(wide), np.zeros(wide)
        for t in range(steps - 1, -1, -1):
            new[:S] = r
            for j in range(0, wide, 4):
                x0, x1, x2, x3 = v[j], v[j + 1], v[j + 2], v[j + 3]
                p0, p1, p2, p3 = P[j], P[j + 1], P[j + 2], P[j + 3]
                for s in range(S):
                    new[s] += p0[s] * x0 + p1[s] * x1 + p2[s] * x2 + p3[s] * x3
            v, new = new, v
            if K > 1 or t == 0:
                V[t, omega] = v[:S]
        if K > 1:
            V[steps, omega] = 0.0


@threaded
def horizon_flows(first, last, indptr, next_states, prob, probs, B):
    """B (H, N, S) ← P(S_t = s) in every model; B[0] holds the start."""
    (H, N, S), (T, _, A) = B.shape, probs.shape
    for omega in range(first, last):
        for t in range(1, H):
            rule, b, out = probs[min(t - 1, T - 1)], B[t - 1, omega], B[t, omega]
            out[:] = 0.0
            for s in range(S):
                if b[s] == 0.0:
                    continue
                for a in range(A):
                    weight = rule[s, a] * b[s]
                    if weight != 0.0:
                        k = s * A + a
                        lo, width = indptr[k], indptr[k + 1] - indptr[k]
                        row = lo * N + omega * width
                        for j in range(width):
                            out[next_states[lo + j]] += weight * prob[row + j]


@threaded
def horizon_optima(first, last, indptr, next_states, prob, R, allowed, gamma, V, decisions, slack):
    """Backward induction in each model: V (H + 1, N, S), decisions (H, N, S), slack (N,).

    V[H] holds the values after the last step, and `slack`, which grows to at least what rounding
    can have done to any v_0(s), what it has done to those.
    """
    (H, N, S), A = decisions.shape, allowed.shape[1]
    for lo in range(first, last, CHUNK):
        hi = min(lo + CHUNK, last)
        ahead, scale, longest = np.empty(hi - lo), np.zeros(hi - lo), 0
        for t in range(H - 1, -1, -1):
            for s in range(S):
                V[t, lo:hi, s] = -np.inf
                for a in range(A):
                    if not allowed[s, a]:
                        continue
                    k = s * A + a
                    block = block_of(prob, indptr, k, N)[lo:hi]
                    longest = max(longest, block.shape[1])
                    listed = next_states[indptr[k] : indptr[k + 1]]
                    _rows_ahead(block, listed, V[t + 1, lo:hi], ahead)
                    for i in range(hi - lo):
                        q = R[s, a, lo + i] + gamma * ahead[i]
                        scale[i] = max(scale[i], abs(R[s, a, lo + i]))
                        if q > V[t, lo + i, s]:
                            V[t, lo + i, s], decisions[t, lo + i, s] = q, a
            for i in range(hi - lo):
                size = 0.0
                for s in range(S):
                    size = max(size, abs(V[t + 1, lo + i, s]))
                # Rows may miss 1 by 1e-8, by which errors of the step after may grow.
                step = 2.0 * EPS * (scale[i] + (longest + 3.0) * size)
                slack[lo + i] = slack[lo + i] * (1.0 + 2e-8) + step


@threaded
def least_flows(first, last, indptr, next_states, prob, allowed, p0, M):
    """M (H, N, S) ← the least P(S_t = s) of any allowed policy.

    W[s, to] is the least probability of being in `to` after t steps from s; M_t = p₀ᵀW_t.
    """
    (H, N, S), A = M.shape, allowed.shape[1]
    for omega in range(first, last):
        W, new, mix = np.eye(S), np.empty((S, S)), np.empty(S)
        for t in range(1, H):
            for s in range(S):
                new[s] = np.inf
                for a in range(A):
                    if not allowed[s, a]:
                        continue
                    k = s * A + a
                    lo, width = indptr[k], indptr[k + 1] - indptr[k]
                    row = lo * N + omega * width
                    mix[:] = 0.0
                    for j in range(width):
                        p, onward = prob[row + j], W[next_states[lo + j]]
                        if p != 0.0:
                            for to in range(S):
                                mix[to] += p * onward[to]
                    for to in range(S):
                        new[s, to] = min(new[s, to], mix[to])
            W, new = new, W
            for to in range(S):
                total = 0.0
                for s in range(S):
                    total += p0[s] * W[s, to]
                M[t, omega, to] = total * (1.0 - 4.0 * EPS * (S + 2) * (t + 1))


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


# One policy, and one reward, for every model.


@kernel
def expected_in_models(
    indptr, columns, prob, n_models, states, end, by_next, at_end, value, exact, out
):
    """out (n_rows, N) += Σ_s′ P^ω(s′)·r(s′, ω).

    r is `value` where `exact`, else by_next (N, S), and at_end (N, S) by the row's state on top
    for the next state `end`.
    """
    for i in range(indptr.size - 1):
        lo, hi = indptr[i], indptr[i + 1]
        for omega in range(n_models):
            at = lo * n_models + omega * (hi - lo) - lo
            total = 0.0
            for j in range(lo, hi):
                if exact[j]:
                    total += prob[at + j] * (value[j] - out[i, omega])
                else:
                    r = by_next[omega, columns[j]]
                    if columns[j] == end:
                        r += at_end[omega, states[i]]
                    total += prob[at + j] * r
            out[i, omega] += total


@kernel
def action_values(indptr, next_states, prob, R, gamma, v, out):
    """out (S, A, N) ← R + γ·P^ω v^ω for the pairs that have a model; v (N, S)."""
    S, A, N = R.shape
    for k in range(S * A):
        lo, hi = indptr[k], indptr[k + 1]
        for omega in range(N):
            at = lo * N + omega * (hi - lo) - lo
            total = 0.0
            for j in range(lo, hi):
                total += prob[at + j] * v[omega, next_states[j]]
            if hi > lo:
                out[k // A, k % A, omega] = R[k // A, k % A, omega] + gamma * total


@kernel
def simulate(rng, indptr, next_states, prob, n_models, omega, practice, starts, lengths, end, out):
    """out (n_rows, 4) ← episode, s, a, s′ of practice in model omega; returns the rows written.

    An episode runs for its length, or until `end` or a state without a model is reached.
    """
    A = practice.shape[1]
    row = 0
    for e in range(starts.size):
        s = starts[e]
        for _ in range(lengths[e]):
            u, a = rng.random(), -1
            for b in range(A):
                if practice[s, b] > 0.0:
                    a = b
                    u -= practice[s, b]
                    if u < 0.0:
                        break
            if a < 0:
                break
            k = s * A + a
            lo, hi = indptr[k], indptr[k + 1]
            if hi == lo:
                break
            at = lo * n_models + omega * (hi - lo) - lo
            u, to = rng.random(), next_states[hi - 1]
            for j in range(lo, hi):
                u -= prob[at + j]
                if u < 0.0:
                    to = next_states[j]
                    break
            out[row, 0], out[row, 1], out[row, 2], out[row, 3] = e, s, a, to
            row += 1
            s = to
            if s == end:
                break
    return row


@kernel
def evaluate_each(indptr, next_states, prob, probs, R, gamma, v):
    """v (N, S) ← values of policy probs[ω] (N, S, A) in model ω; R (S, A, N)."""
    N, S, A = probs.shape
    M = np.empty((S, S))
    for omega in range(N):
        policy_matrix(indptr, next_states, prob, N, omega, probs[omega], M)
        for s in range(S):
            total = 0.0
            for a in range(A):
                total += probs[omega, s, a] * R[s, a, omega]
            v[omega, s] = total
            for j in range(S):
                M[s, j] *= -gamma
            M[s, s] += 1.0
        lu_inplace(M)
        lu_solve(M, v[omega])


def policy_sparsity(indptr: Any, next_states: Any, probs: Any) -> tuple[Any, Any]:
    """Row pointers (S + 1,) and columns (nnz,) of a policy's rows, action after action."""
    widths, taken = np.diff(indptr), probs.reshape(-1) > 0
    lengths = np.where(taken, widths, 0).reshape(probs.shape).sum(axis=1)
    return np.concatenate([[0], np.cumsum(lengths)]), next_states[np.repeat(taken, widths)]
