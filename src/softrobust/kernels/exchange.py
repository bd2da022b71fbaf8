"""Rules that differ in a state or two, evaluated from one inverse per model.

With N = (I − γP_d)⁻¹, v = N r_d and h = N ᵀp₀, the rule that differs from d only by taking a in s
has return (Sherman–Morrison; the denominator uses row s of (I − γP_d)N = I)

    ρ' = p₀ᵀv + h(s)·[R(s,a) + γP(s,a)ᵀv − v(s)] / [N(s,s) − γP(s,a)ᵀN(·,s)].

`exchange_returns` has all these neighbours of a rule, `prefix_returns` states that change one after
the other, `best_exchanged` policies whose models change in a row, `walk_returns` all rules of a
Gray code.
Shapes: S states, A actions, N models; storage as in `kernels.evaluate`.
"""

from __future__ import annotations

import numpy as np
from numba import prange

from softrobust.kernels._jit import EPS, REORDER, kernel, threaded
from softrobust.kernels.tail import dot


@kernel
def gauss_jordan(M, out):
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
def _exchange_model(indptr, next_states, prob, R, p0, allowed, decision, gamma, omega, X, gain, x):
    S, A, N = R.shape
    M = np.empty((S, S))
    inverse = np.empty((S, S))
    system(indptr, next_states, prob, N, omega, decision, A, gamma, M)
    gauss_jordan(M, inverse)
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


@threaded
def exchange_returns(indptr, next_states, prob, R, p0, allowed, decision, gamma, X, gain, x):
    """Returns x (N,) of the decision and X (S·A, N) of its neighbours; forbidden pairs stay.

    gain (S·A, N) ← h(s)·[R + γPᵀv − v(s)], the first-order change, which orders block moves.
    """
    for omega in prange(R.shape[2]):
        _exchange_model(
            indptr, next_states, prob, R, p0, allowed, decision, gamma, omega, X, gain, x
        )  # fmt: skip


@kernel(parallel=True)
def prefix_returns(rho, h, d, G, order, starts, out):
    """out[i] ← returns after the state order[i] and those before it in its sequence.

    Let B = I − γ(P_a − P_π)N on the states changed so far and d = R_a + γP_a v − v. By Woodbury's
    identity the return is then

        ρ' = ρ + h_Kᵀ B⁻¹ d_K.

    B grows by a row and a column with every state, and so does its LU factorisation: with y = L⁻¹d
    and zᵀ = hᵀU⁻¹ each further state adds z_k·y_k. Leading minors of B are ratios of determinants
    of M-matrices, hence positive: no pivots are exchanged.

    rho (N,), h, d (N, S), G (N, S, S) = γ(P_a − P_π)N; order (n,) the states of all sequences,
    starts (m + 1,) where each begins; out (n, N).
    """
    for w in prange(rho.size):
        longest = 0
        for q in range(starts.size - 1):
            longest = max(longest, starts[q + 1] - starts[q])
        factor = np.empty((longest, longest))  # L below the diagonal, U on and above it
        y = np.empty(longest)
        z = np.empty(longest)
        for q in range(starts.size - 1):
            part = order[starts[q] : starts[q + 1]]
            _sequence(rho[w], h[w], d[w], G[w], part, factor, y, z, out[starts[q] :, w])


@kernel
def _sequence(rho, h, d, G, part, factor, y, z, out):
    total = rho
    for k in range(part.size):
        s = part[k]
        for j in range(k):
            low, up = -G[s, part[j]], -G[part[j], s]
            for m in range(j):
                low -= factor[k, m] * factor[m, j]
                up -= factor[j, m] * factor[m, k]
            factor[k, j] = low / factor[j, j]
            factor[j, k] = up
        pivot, right, left = 1.0 - G[s, s], d[s], h[s]
        for m in range(k):
            pivot -= factor[k, m] * factor[m, k]
            right -= factor[k, m] * y[m]
            left -= z[m] * factor[m, k]
        factor[k, k] = pivot
        y[k] = right
        z[k] = left / pivot
        total += y[k] * z[k]
        out[k] = total


@kernel(parallel=True)
def best_exchanged(rho, h, z, g, q, p, rows, gamma, lam, tail, known, out, which, mean_of):
    """out[r] = max_k (1 − λ)·mean + λ·CVaR of the worst `tail` of the N exchanged returns.

    Of K policies when one row of every model is exchanged for that of another draw: rho, h (K, N)
    returns and visits to the state; z, g (K, N, n) values r + γv and discounted visits to the
    state, at the n next states of the pair; q (K,) probability of the action; p (N, n) the rows;
    rows (R, N) which draw's row each model gets; out, which, mean_of (R,). `mean_of` is the mean
    return of policy `known`, a control variate.
    """
    K, N, n = z.shape
    for r in prange(rows.shape[0]):
        values = np.empty(N)
        best, at = -1e308, 0
        for k in range(K):
            mean = 0.0
            for w in range(N):
                value = rho[k, w]
                if q[k] > 0.0 and h[k, w] > 0.0:
                    j = rows[r, w]
                    gain, turn = 0.0, 0.0
                    for i in range(n):
                        d = p[j, i] - p[w, i]
                        gain += d * z[k, w, i]
                        turn += d * g[k, w, i]
                    value += h[k, w] * q[k] * gain / (1.0 - gamma * q[k] * turn)
                values[w] = value
                mean += value
            if k == known:
                mean_of[r] = mean / N
            value = (1.0 - lam) * mean / N
            if lam > 0.0:
                value += lam * _equal_cvar(values, tail)
            if value > best:
                best, at = value, k
        out[r] = best
        which[r] = at


@kernel
def _equal_cvar(values, tail):
    """CVaR of equally weighted values: the average of the worst `tail` of them."""
    ordered = np.sort(values)
    left, low = tail * ordered.size, 0.0
    for j in range(ordered.size):
        take = min(1.0, left)
        low += take * ordered[j]
        left -= take
        if left <= 0.0:
            break
    return low / (tail * ordered.size)


# All decision rules in Gray-code order: each differs from the last in one state. Successive rules
# share their inverses up to a rank-1 exchange, and one state s₀ is not walked at all: at every stop
# all its actions are read off the column t = N(·,s₀),
#
#     v' = v + κ·t,    κ = [R(s₀,a) + γP(s₀,a)ᵀv − v(s₀)] / [t(s₀) − γP(s₀,a)ᵀt],    ρ' = p₀ᵀv'.
#
# How far v and t have drifted from the true value and column is measured, not assumed. For any
# vector v', with σ the largest row sum, ‖(I − γP_d)⁻¹‖∞ ≤ 1/(1 − γσ) (Neumann series), hence
#
#     |ρ' − ρ(d, P̂^ω)| ≤ Σp₀·‖r_d + γP_d v' − v'‖∞/(1 − γσ).
#
# The residual of v' is that of v plus κ times that of t, except in s₀, where κ makes it vanish. A
# residual computed in floating point is off by at most (n + 3)·u·Σ|terms| for a row of n entries,
# in any order of summation (Higham 2002, §3.1; `EPS` is 2u, which covers the products of such
# factors). The greatest error of a walk is therefore a theorem about its returns, not an estimate.

ROW_SUM = 1.0 + 1e-6  # more than any row sum, γ < 1 included


@kernel
def gray_steps(sizes, digits, directions, focus, which, value):
    """The next steps of the reflected mixed-radix Gray code (Knuth 7.2.1.1, algorithm H).

    sizes (n,) ≥ 2; digits, directions (n,), focus (n + 1,) = 0 … n are its state. Step i sets digit
    which[i] to value[i]. Returns the number of steps, fewer than asked for at the end.
    """
    n = sizes.size
    for i in range(which.size):
        j = focus[0]
        if j == n:
            return i
        focus[0] = 0
        digits[j] += directions[j]
        which[i] = j
        value[i] = digits[j]
        if digits[j] == 0 or digits[j] == sizes[j] - 1:
            directions[j] = -directions[j]
            focus[j] = focus[j + 1]
            focus[j + 1] = j + 1
    return which.size


@kernel(fastmath=REORDER)
def rank_one(T, w, s, scale):
    """T (S, S) ← T − scale·w·T(s,·), T the transposed inverse; row s by its factor `scale`."""
    S = w.size
    for c in range(S):
        factor = w[c] * scale
        if c != s and factor != 0.0:
            for j in range(S):
                T[c, j] -= factor * T[s, j]
    for j in range(S):  # row s itself last, since the others read it
        T[s, j] *= scale


@kernel(fastmath=REORDER)
def _ahead(next_states, prob, lo, width, row, gamma, x):
    """γ·P(s,a)ᵀx for the pair whose next states begin at lo and whose row begins at `row`."""
    total = 0.0
    for j in range(width):
        total += prob[row + j] * x[next_states[lo + j]]
    return gamma * total


@kernel
def _residuals(indptr, next_states, prob, R, omega, gamma, decision, s0, v, t, widest):
    """Bounds of ‖r + γPv − v‖ and ‖t − γPt‖ outside s₀, rounding included.

    Also how far the same expressions can be off in s₀, and the largest |v| and |t|.
    """
    S, A, N = R.shape
    of_v, of_t, v_max, t_max, r_max, total = 0.0, 0.0, 0.0, 0.0, 0.0, 0.0
    for s in range(S):
        total += abs(v[s]) + abs(t[s])
        v_max, t_max = max(v_max, abs(v[s])), max(t_max, abs(t[s]))
        if s == s0:
            continue
        k = s * A + decision[s]
        lo, width = indptr[k], indptr[k + 1] - indptr[k]
        row = lo * N + omega * width
        r = R[s, decision[s], omega]
        r_max = max(r_max, abs(r))
        of_v = max(of_v, abs(r + _ahead(next_states, prob, lo, width, row, gamma, v) - v[s]))
        of_t = max(of_t, abs(t[s] - _ahead(next_states, prob, lo, width, row, gamma, t)))
    for a in range(A):
        r_max = max(r_max, abs(R[s0, a, omega]))
    if not total < np.inf:  # maxima pass over NaN
        of_v = np.inf
    round_v = (widest + 3) * EPS * (r_max + (1.0 + ROW_SUM) * v_max)
    round_t = (widest + 3) * EPS * (1.0 + ROW_SUM) * t_max
    return of_v + round_v, of_t + round_t, round_v, round_t, v_max, t_max


@kernel
def _star(
    indptr, next_states, prob, R, p0, omega, gamma, decision, s0, actions, widest, reach, v, t, out
):
    """Out (n, N) at omega ← returns with each of `actions` in s₀; returns their greatest error.

    reach ≥ Σp₀/(1 − γσ). An answer that is not finite has an infinite error.
    """
    S, A, N = R.shape
    of_v, of_t, round_v, round_t, v_max, t_max = _residuals(
        indptr, next_states, prob, R, omega, gamma, decision, s0, v, t, widest
    )
    base, along, start = dot(p0, v), dot(p0, t), 0.0
    for s in range(S):
        start += p0[s]
    worst = 0.0
    for i in range(actions.size):
        k = s0 * A + actions[i]
        lo, width = indptr[k], indptr[k + 1] - indptr[k]
        row = lo * N + omega * width
        gain = R[s0, actions[i], omega] + _ahead(next_states, prob, lo, width, row, gamma, v)
        gain -= v[s0]
        kappa = gain / (t[s0] - _ahead(next_states, prob, lo, width, row, gamma, t))
        out[i, omega] = base + kappa * along
        size = abs(kappa)
        # In s₀: the rounding of gain, of the denominator, and of their quotient.
        residual = of_v + size * of_t + round_v + size * round_t + 2.0 * EPS * abs(gain)
        rounding = (S + 4) * EPS * 2.0 * start * (v_max + size * t_max)  # of p₀ᵀv + κ·p₀ᵀt
        error = (reach * residual + rounding) * (1.0 + 1e-9)
        worst = max(worst, error) if error < np.inf else np.inf
    return worst


@kernel
def _walk_model(
    indptr, next_states, prob, R, p0, gamma, start, states, new, s0, actions, omega, widest, reach,
    X, errors,
):  # fmt: skip
    S, A, N = R.shape
    M, T = np.empty((S, S)), np.empty((S, S))
    decision = start.copy()
    system(indptr, next_states, prob, N, omega, decision, A, gamma, M)
    gauss_jordan(M, T)
    v, w, change = np.zeros(S), np.empty(S), np.empty(S)
    for s in range(S):
        for j in range(S):
            v[s] += T[s, j] * R[j, decision[j], omega]
    T = T.T.copy()
    worst = _star(
        indptr, next_states, prob, R, p0, omega, gamma, decision, s0, actions, widest, reach,
        v, T[s0], X[0],
    )  # fmt: skip
    errors[0, omega] = worst
    for i in range(states.size):
        s, a, old = states[i], new[i], decision[states[i]]
        change[:] = 0.0  # γ·(P(s,old) − P(s,a))
        for b in (old, a):
            k = s * A + b
            lo, width = indptr[k], indptr[k + 1] - indptr[k]
            row = lo * N + omega * width
            sign = gamma if b == old else -gamma
            for j in range(width):
                change[next_states[lo + j]] += sign * prob[row + j]
        k = s * A + a
        lo, width = indptr[k], indptr[k + 1] - indptr[k]
        ahead = _ahead(next_states, prob, lo, width, lo * N + omega * width, gamma, v)
        for c in range(S):
            w[c] = dot(T[c], change)
        scale = 1.0 / (1.0 + w[s])
        step = (R[s, a, omega] + ahead - v[s]) * scale
        for j in range(S):
            v[j] += step * T[s, j]
        rank_one(T, w, s, scale)
        decision[s] = a
        error = _star(
            indptr, next_states, prob, R, p0, omega, gamma, decision, s0, actions, widest, reach,
            v, T[s0], X[i + 1],
        )  # fmt: skip
        worst = max(worst, error)
    errors[1, omega] = worst


@threaded
def walk_returns(
    indptr, next_states, prob, R, p0, gamma, start, states, new, s0, actions, widest, reach, X,
    errors,
):  # fmt: skip
    """Returns X (n + 1, len(actions), N) along a walk of n steps from the rule `start` (S,).

    Step i takes new[i] in states[i]. errors (2, N) ← by how much the returns of the first stop, and
    of any stop, can be off. reach (N,) ≥ Σp₀/(1 − γσ); widest: the entries of the longest row.
    """
    for omega in prange(R.shape[2]):
        _walk_model(
            indptr, next_states, prob, R, p0, gamma, start, states, new, s0, actions, omega, widest,
            reach[omega], X, errors,
        )  # fmt: skip
