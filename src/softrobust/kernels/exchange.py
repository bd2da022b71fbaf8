"""Rules that differ in a state or two, evaluated from one inverse per model.

With N = (I − γP_d)⁻¹, v = N r_d and h = N ᵀp₀, the rule that differs from d only by taking a in s
has return (Sherman–Morrison; the denominator uses row s of (I − γP_d)N = I)

    ρ' = p₀ᵀv + h(s)·[R(s,a) + γP(s,a)ᵀv − v(s)] / [N(s,s) − γP(s,a)ᵀN(·,s)].

`exchange_returns` has all these neighbours of a rule, `prefix_returns` states that change one after
the other, `best_exchanged` policies whose models change in a row; `eliminate` has all rules.
Shapes: S states, A actions, N models; storage as in `kernels.evaluate`.
"""

from __future__ import annotations

import numpy as np

from softrobust.kernels._jit import REORDER, kernel, threaded
from softrobust.kernels.tail import dot, heap_of, smallest


@kernel(inner=True)
def gauss_jordan(M, out):
    """Out (S, S) ← M⁻¹ by Gauss–Jordan without pivoting (M is diagonally dominant)."""
    S = M.shape[0]
    out[:, :] = M
    for k in range(S):
        pivot = 1.0 / out[k, k]
        out[k, k] = 1.0
        for j in range(S):
            out[k, j] *= pivot
        for i in range(S):
            factor = out[i, k]
            if i != k and factor != 0.0:
                out[i, k] = 0.0
                for j in range(S):
                    out[i, j] -= factor * out[k, j]


@kernel(inner=True)
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
def _inverse_of(indptr, next_states, prob, N, omega, decision, A, gamma, out):
    """Out (S, S) ← the transposed inverse of I − γP_d."""
    M, inverse = np.empty_like(out), np.empty_like(out)
    system(indptr, next_states, prob, N, omega, decision, A, gamma, M)
    gauss_jordan(M, inverse)
    out[:, :] = inverse.T


@kernel(fastmath=REORDER, inner=True)
def _sums(p, to, v, w):
    """Σ_j p_j·v(to_j), and the same of w; a row that leads to every state has them in order."""
    one, two = 0.0, 0.0
    if p.size == v.size:
        for j in range(p.size):
            one += p[j] * v[j]
            two += p[j] * w[j]
    else:
        for j in range(p.size):
            one += p[j] * v[to[j]]
            two += p[j] * w[to[j]]
    return one, two


@kernel
def _one_further(indptr, next_states, prob, N, omega, s, old, new, A, gamma, before, out):
    """Out (S, S) ← `before`, once s takes action `new` and not `old`."""
    w = np.zeros(before.shape[0])
    for a, sign in ((old, gamma), (new, -gamma)):
        lo, width = indptr[s * A + a], indptr[s * A + a + 1] - indptr[s * A + a]
        row = lo * N + omega * width
        p, to = prob[row : row + width], next_states[lo : lo + width]
        for c in range(w.size):
            w[c] += sign * _sums(p, to, before[c], before[c])[0]
    out[:, :] = before
    rank_one(out, w, s, 1.0 / (1.0 + w[s]))


@kernel
def _values_of(R, p0, decision, omega, columns, v, h):
    """Values v (S,) and visits h (S,) of the decision; its return."""
    S = v.size
    v[:] = 0.0
    for j in range(S):
        h[j] = dot(p0, columns[j])
        reward = R[j, decision[j], omega]
        for s in range(S):
            v[s] += columns[j, s] * reward
    base = 0.0
    for s in range(S):
        base += p0[s] * v[s]
    return base


@kernel
def _neighbours(
    first, last, indptr, next_states, prob, R, allowed, gamma, columns, v, h, X, gain, x
):
    """X and gain of models first … last, whose columns, v and h begin with those of `first`.

    Pair after pair, as probabilities are stored.
    """
    S, A, N = R.shape
    for s in range(S):
        for a in range(A):
            k = s * A + a
            if not allowed[s, a]:
                continue
            lo, width = indptr[k], indptr[k + 1] - indptr[k]
            to = next_states[lo : lo + width]
            for omega in range(first, last):
                i, row = omega - first, lo * N + omega * width
                p = prob[row : row + width]
                ahead, back = _sums(p, to, v[i], columns[i, s])
                step = h[i, s] * (R[s, a, omega] + gamma * ahead - v[i, s])
                gain[k, omega] = step
                X[k, omega] = x[omega] + step / (columns[i, s, s] - gamma * back)


@threaded
def exchange_returns(
    first, last, indptr, next_states, prob, R, p0, allowed, decision, gamma, s, old, before,
    inverses, X, gain, x,
):  # fmt: skip
    """Returns x (N,) of the decision and X (S·A, N) of its neighbours, in models first … last.

    Forbidden pairs stay. gain (S·A, N) ← h(s)·[R + γPᵀv − v(s)], the first-order change, which
    orders block moves. `inverses` (N, S, S) ← their transposed inverses, from those `before`, of
    the rule that takes `old` in s, if s ≥ 0; where they are one only, (1, S, S), none is kept.
    """
    S, A, N = R.shape
    step = last - first if inverses.shape[0] == N else 1
    v, h = np.empty((step, S)), np.empty((step, S))
    for begin in range(first, last, step):
        end = begin + step
        own = inverses[begin:end] if inverses.shape[0] == N else np.empty_like(inverses)
        for omega in range(begin, end):
            i = omega - begin
            if s < 0:
                _inverse_of(indptr, next_states, prob, N, omega, decision, A, gamma, own[i])
            else:
                new, known = decision[s], before[omega]
                _one_further(
                    indptr, next_states, prob, N, omega, s, old, new, A, gamma, known, own[i]
                )
            x[omega] = _values_of(R, p0, decision, omega, own[i], v[i], h[i])
        _neighbours(begin, end, indptr, next_states, prob, R, allowed, gamma, own, v, h, X, gain, x)


@threaded
def prefix_returns(first, last, rho, h, d, G, order, starts, out):
    """out[i] ← returns after the state order[i] and those before it, in models first … last.

    Let B = I − γ(P_a − P_π)N on the states changed so far and d = R_a + γP_a v − v. By Woodbury's
    identity the return is then

        ρ' = ρ + h_Kᵀ B⁻¹ d_K.

    B grows by a row and a column with every state, and so does its LU factorisation: with y = L⁻¹d
    and zᵀ = hᵀU⁻¹ each further state adds z_k·y_k. Leading minors of B are ratios of determinants
    of M-matrices, hence positive: no pivots are exchanged.

    rho (N,), h, d (N, S), G (N, S, S) = γ(P_a − P_π)N; order (n,) the states of all sequences,
    starts (m + 1,) where each begins; out (n, N).
    """
    longest = 0
    for q in range(starts.size - 1):
        longest = max(longest, starts[q + 1] - starts[q])
    factor = np.empty((longest, longest))  # L below the diagonal, U on and above it
    y, z = np.empty(longest), np.empty(longest)
    for w in range(first, last):
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


@threaded
def best_exchanged(
    first, last, rho, h, z, g, q, p, rows, gamma, lam, tail, known, out, which, mean_of
):
    """out[r] = max_k (1 − λ)·mean + λ·CVaR of the worst `tail` of the N exchanged returns.

    Of K policies when one row of every model is exchanged for that of another draw: rho, h (K, N)
    returns and visits to the state; z, g (K, N, n) values r + γv and discounted visits to the
    state, at the n next states of the pair; q (K,) probability of the action; p (N, n) the rows;
    rows (R, N) which draw's row each model gets, r = first … last of them; out, which, mean_of
    (R,). `mean_of` is the mean return of policy `known`, a control variate.
    """
    K, N, n = z.shape
    values = np.empty(N)
    for r in range(first, last):
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
    heap, left, low = heap_of(values), tail * values.size, 0.0
    for j in range(values.size):
        take = min(1.0, left)
        low += take * values[smallest(heap, values.size - j, values)]
        left -= take
        if left <= 0.0:
            break
    return low / (tail * values.size)


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
