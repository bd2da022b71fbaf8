"""All decision rules in Gray-code order: each differs from the last in one state.

Successive rules share their inverses up to a rank-1 exchange (see `kernels.exchange`), and one
state s₀ is not walked at all: at every stop all its actions are read off the column t = N(·,s₀),

    v' = v + κ·t,    κ = [R(s₀,a) + γP(s₀,a)ᵀv − v(s₀)] / [t(s₀) − γP(s₀,a)ᵀt],    ρ' = p₀ᵀv'.

How far v and t have drifted from the true value and column is measured, not assumed. For any vector
v', with σ the largest row sum, ‖(I − γP_d)⁻¹‖∞ ≤ 1/(1 − γσ) (Neumann series), hence

    |ρ' − ρ(d, P̂^ω)| ≤ Σp₀·‖r_d + γP_d v' − v'‖∞/(1 − γσ).

The residual of v' is that of v plus κ times that of t, except in s₀, where κ makes it vanish. A
residual computed in floating point is off by at most (n + 3)·u·Σ|terms| for a row of n entries, in
any order of summation (Higham 2002, §3.1; `EPS` is 2u, which covers the products of such factors).
The greatest error of a walk comes with its returns: it is a theorem about them, not an estimate.
"""

from __future__ import annotations

import numpy as np
from numba import prange

from softrobust.kernels._jit import REORDER, kernel
from softrobust.kernels.exchange import invert, system
from softrobust.kernels.soft_robust import dot

EPS = 2.220446049250313e-16
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
def _rank_one(T, w, s, scale):
    """T (S, S) ← T − (w/…)·T(s,·), T the transposed inverse; row s last."""
    S = w.size
    for c in range(S):
        factor = w[c] * scale
        if c != s and factor != 0.0:
            for j in range(S):
                T[c, j] -= factor * T[s, j]
    for j in range(S):
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
def _one_model(
    indptr, next_states, prob, R, p0, gamma, start, states, new, s0, actions, omega, widest, reach,
    X, errors,
):  # fmt: skip
    S, A, N = R.shape
    M, T = np.empty((S, S)), np.empty((S, S))
    decision = start.copy()
    system(indptr, next_states, prob, N, omega, decision, A, gamma, M)
    invert(M, T)
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
        _rank_one(T, w, s, scale)
        decision[s] = a
        error = _star(
            indptr, next_states, prob, R, p0, omega, gamma, decision, s0, actions, widest, reach,
            v, T[s0], X[i + 1],
        )  # fmt: skip
        worst = max(worst, error)
    errors[1, omega] = worst


@kernel(parallel=True)
def walk_parallel(
    indptr, next_states, prob, R, p0, gamma, start, states, new, s0, actions, widest, reach, X,
    errors,
):  # fmt: skip
    """Returns X (n + 1, len(actions), N) along a walk of n steps from the rule `start` (S,).

    Step i takes new[i] in states[i]. errors (2, N) ← by how much the returns of the first stop, and
    of any stop, can be off. reach (N,) ≥ Σp₀/(1 − γσ); widest: the entries of the longest row.
    """
    for omega in prange(R.shape[2]):
        _one_model(
            indptr, next_states, prob, R, p0, gamma, start, states, new, s0, actions, omega, widest,
            reach[omega], X, errors,
        )  # fmt: skip


@kernel
def walk_serial(
    indptr, next_states, prob, R, p0, gamma, start, states, new, s0, actions, widest, reach, X,
    errors,
):  # fmt: skip
    """`walk_parallel` on one thread."""
    for omega in range(R.shape[2]):
        _one_model(
            indptr, next_states, prob, R, p0, gamma, start, states, new, s0, actions, omega, widest,
            reach[omega], X, errors,
        )  # fmt: skip
