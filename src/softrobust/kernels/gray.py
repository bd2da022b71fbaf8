"""All decision rules in Gray-code order: each differs from the last in one state.

Successive rules share their inverses up to a rank-1 exchange (see `kernels.exchange`), and one
state s₀ is not walked at all: at every stop all its actions are read off the inverse,

    ρ' = ρ + h(s₀)·[R(s₀,a) + γP(s₀,a)ᵀv − v(s₀)] / [N(s₀,s₀) − γP(s₀,a)ᵀN(·,s₀)].

Every walk of a few hundred stops begins with a fresh inverse, and ends where the next one begins:
the difference of the two returns there measures what rounding has added up to.
"""

from __future__ import annotations

import numpy as np
from numba import prange

from softrobust.kernels._jit import REORDER, kernel
from softrobust.kernels.exchange import invert, system
from softrobust.kernels.soft_robust import dot


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


@kernel
def _star(indptr, next_states, prob, R, omega, gamma, s, actions, T, v, h, base, out):
    """Out (n, N) at omega ← returns with each of `actions` in s."""
    _, A, N = R.shape
    for i in range(actions.size):
        k = s * A + actions[i]
        lo, width = indptr[k], indptr[k + 1] - indptr[k]
        row = lo * N + omega * width
        ahead, back = 0.0, 0.0
        for j in range(width):
            p = prob[row + j]
            ahead += p * v[next_states[lo + j]]
            back += p * T[s, next_states[lo + j]]
        gain = R[s, actions[i], omega] + gamma * ahead - v[s]
        out[i, omega] = base + h[s] * gain / (T[s, s] - gamma * back)


@kernel
def _one_model(
    indptr, next_states, prob, R, p0, gamma, start, states, new, s0, actions, omega, X, ends
):
    S, A, N = R.shape
    M, N_inv = np.empty((S, S)), np.empty((S, S))
    decision = start.copy()
    system(indptr, next_states, prob, N, omega, decision, A, gamma, M)
    invert(M, N_inv)
    v, h, w, change = np.zeros(S), np.zeros(S), np.empty(S), np.empty(S)
    for s in range(S):
        for j in range(S):
            v[s] += N_inv[s, j] * R[j, decision[j], omega]
            h[j] += p0[s] * N_inv[s, j]
    T = N_inv.T.copy()
    base = 0.0
    for s in range(S):
        base += p0[s] * v[s]
    ends[0, omega] = base
    _star(indptr, next_states, prob, R, omega, gamma, s0, actions, T, v, h, base, X[0])
    for i in range(states.size):
        s, a, old = states[i], new[i], decision[states[i]]
        change[:] = 0.0  # γ·(P(s,old) − P(s,a))
        ahead = 0.0
        for b in (old, a):
            k = s * A + b
            lo, width = indptr[k], indptr[k + 1] - indptr[k]
            row = lo * N + omega * width
            for j in range(width):
                p = prob[row + j]
                if b == a:
                    ahead += p * v[next_states[lo + j]]
                    p = -p
                change[next_states[lo + j]] += gamma * p
        for c in range(S):
            w[c] = dot(T[c], change)
        scale = 1.0 / (1.0 + w[s])
        step = (R[s, a, omega] + gamma * ahead - v[s]) * scale
        base += h[s] * step
        moved = h[s] * scale
        for j in range(S):
            v[j] += step * T[s, j]
            h[j] -= moved * w[j]
        _rank_one(T, w, s, scale)
        decision[s] = a
        _star(indptr, next_states, prob, R, omega, gamma, s0, actions, T, v, h, base, X[i + 1])
    ends[1, omega] = base


@kernel(parallel=True)
def walk_parallel(
    indptr, next_states, prob, R, p0, gamma, start, states, new, s0, actions, X, ends
):
    """Returns X (n + 1, len(actions), N) along a walk of n steps from the rule `start` (S,).

    Step i takes new[i] in states[i]; ends (2, N) are the first and last rule's own returns.
    """
    for omega in prange(R.shape[2]):
        _one_model(
            indptr, next_states, prob, R, p0, gamma, start, states, new, s0, actions, omega, X, ends
        )


@kernel
def walk_serial(indptr, next_states, prob, R, p0, gamma, start, states, new, s0, actions, X, ends):
    """`walk_parallel` on one thread."""
    for omega in range(R.shape[2]):
        _one_model(
            indptr, next_states, prob, R, p0, gamma, start, states, new, s0, actions, omega, X, ends
        )
