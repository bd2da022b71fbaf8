"""One sweep over all states: read the models once, update every state while its block is in cache.

Four updates share one shape. For a value function v and Z[a, ω] of a state,

    S-rectangular       T v(s)   = max_d min_ξ dᵀZξ                      (eq. 12, `s_game`)
    SA-rectangular      T v(s)   = max_a min_ξ Z_aᵀξ                     (app. B, `sa_select`)
    nature's S answer   T_π v(s) = min_ξ πᵀZξ
    nature's SA answer  T_π v(s) = Σ_a π_a·min_ξ Z_aᵀξ

and each returns lb ≤ T v ≤ ub, the decision d, and if asked the mixed rows Σ_ω ξ_ω·P̂^ω of the pairs
with d > 0: the transition matrix P_{d,ξ} of the Newton step v + (I − γP_{d,ξ})⁻¹(Tv − v).

Shapes: S states, A actions, N models, L ≤ N of them with f > 0.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import prange
from numpy.typing import NDArray

from softrobust.kernels._jit import REORDER, kernel
from softrobust.kernels.borrow import borrow, keep
from softrobust.kernels.expected import CHUNKS, Probabilities, block_of, long_values
from softrobust.kernels.s_game import NOT_FINITE, SOLVED, solve_game
from softrobust.kernels.s_pivot import MODELS, ROWS, D, Q, borrow_work, game_work
from softrobust.kernels.sa_select import best_action, rounding_of_sums, tail_bounds
from softrobust.kernels.short_rows import STRIDE, fill_weights, fits, short_values
from softrobust.kernels.tail import fill_tail

FloatArray = NDArray[np.float64]

S_GAME, SA_GAME, S_NATURE, SA_NATURE = 0, 1, 2, 3


class Rectangle(NamedTuple):
    """What a sweep reads."""

    prob: Probabilities  # (nnz·N,)
    indptr: NDArray[np.int64]  # (S·A + 1,)
    next_states: NDArray[np.int32]  # (nnz,)
    R: FloatArray  # (S, A, N)
    allowed: NDArray[np.bool_]  # (S, A)
    live: NDArray[np.int64]  # (L,) models with f > 0
    f: FloatArray  # (L,)
    u: FloatArray  # (L,) bounds of q
    total: float  # Σu
    lam: float
    gamma: float
    rounded: bool  # prob is float32: rows stand for themselves over their sum


class Memory(NamedTuple):
    """What the next sweep starts from; positions count allowed actions and live models."""

    K: NDArray[np.int32]  # (S, A)
    F: NDArray[np.int32]  # (S, A)
    k: NDArray[np.int32]  # (S,), 0 where nothing is known


class Update(NamedTuple):
    """What a sweep writes."""

    lb: FloatArray  # (S,)
    ub: FloatArray  # (S,)
    d: FloatArray  # (S, A); nature's sweeps read it
    status: NDArray[np.int8]  # (S,)
    pivots: NDArray[np.int32]  # (S,)
    mixed: FloatArray  # (nnz,), or (0,) if not wanted
    xi: FloatArray  # (S, N) worst cases, or (0, 0); for SA updates those of the likeliest action


@kernel
def _borrow_rectangle(g):
    """The same without owners, whose counts would cost more than many a state's work."""
    return Rectangle(
        borrow(g.prob), borrow(g.indptr), borrow(g.next_states), borrow(g.R), borrow(g.allowed),
        borrow(g.live), borrow(g.f), borrow(g.u), g.total, g.lam, g.gamma, g.rounded,
    )  # fmt: skip


@kernel
def _borrow_memory(m):
    return Memory(borrow(m.K), borrow(m.F), borrow(m.k))


@kernel
def _borrow_update(out):
    return Update(
        borrow(out.lb), borrow(out.ub), borrow(out.d), borrow(out.status), borrow(out.pivots),
        borrow(out.mixed), borrow(out.xi),
    )  # fmt: skip


@kernel
def state_rows(g, v, centre, s, d, only_taken, actions, gathered, raw, Z):
    """Z[:n] (n, L) ← rows of the allowed actions of s (or those with d > 0); returns n."""
    prob, indptr, next_states, R, allowed, live = (
        g.prob, g.indptr, g.next_states, g.R, g.allowed, g.live
    )  # fmt: skip
    A, N = R.shape[1], R.shape[2]
    whole, shift, n = live.size == N, g.gamma * centre, 0
    target = Z if whole else raw.reshape(1, N)
    for a in range(A):
        if not allowed[s, a] or (only_taken and d[s, a] == 0.0):
            continue
        k, row = s * A + a, n if whole else 0
        lo = indptr[k]
        width = indptr[k + 1] - lo
        if fits(width, N) and gathered.size >= STRIDE:
            fill_weights(v, next_states, lo, width, gathered, 0)
            short_values(prob, lo, width, gathered, 0, g.gamma, shift, R, k, target, row)
        else:
            long_values(
                prob, indptr, next_states, k, v, shift, g.rounded, g.gamma,
                R, gathered, target, row,
            )  # fmt: skip
        if not whole:
            for i in range(live.size):
                Z[n, i] = raw[live[i]]
        actions[n] = a
        n += 1
    return n


@kernel(fastmath=REORDER)
def _mix(P, xi, out):
    """Fill out (width,) with Σ_ω ξ_ω·P[ω]."""
    n, width = P.shape
    for j in range(width):
        out[j] = 0.0
    i = 0
    while i + 4 <= n:  # four rows at a time: out is read and written a quarter as often
        w0, w1, w2, w3 = xi[i], xi[i + 1], xi[i + 2], xi[i + 3]
        for j in range(width):
            out[j] += w0 * P[i, j] + w1 * P[i + 1, j] + w2 * P[i + 2, j] + w3 * P[i + 3, j]
        i += 4
    for r in range(i, n):
        for j in range(width):
            out[j] += xi[r] * P[r, j]


@kernel
def record_pair(g, s, a, q, xi, out):
    """Fill xi (N,) with (1 − λ)f + λq, and the mixed row of pair (s, a)."""
    for i in range(g.live.size):
        xi[g.live[i]] = (1.0 - g.lam) * g.f[i] + g.lam * q[i]
    if out.mixed.size > 0:
        k = s * g.R.shape[1] + a
        P = block_of(g.prob, g.indptr, k, g.R.shape[2])
        _mix(P, xi, out.mixed[g.indptr[k] : g.indptr[k + 1]])


@kernel
def _s_state(g, s, Z, n, actions, memory, M, X, Y, J, B, xi, out):
    k = np.int64(memory.k[s])
    for i in range(k):
        J[ROWS, i], J[MODELS, i] = memory.K[s, i], memory.F[s, i]
    status, k, lb, ub, pivots = solve_game(Z, n, g.f, g.u, g.total, g.lam, k, M, X, Y, J, B)
    out.status[s], out.pivots[s], out.lb[s], out.ub[s] = status, pivots, lb, ub
    memory.k[s] = k if status == SOLVED else 0
    for a in range(out.d.shape[1]):
        out.d[s, a] = 0.0
    for i in range(k):
        memory.K[s, i], memory.F[s, i] = J[ROWS, i], J[MODELS, i]
        out.d[s, actions[J[ROWS, i]]] = Y[D, i]
    for i in range(k):
        if Y[D, i] > 0.0:
            record_pair(g, s, actions[J[ROWS, i]], X[Q], xi, out)


@kernel
def _sa_state(g, s, Z, n, actions, error, memory, q, scratch, xi, out):
    first = memory.K[s, 0] if memory.k[s] > 0 else -1
    best, b, lb, ub, finite = best_action(Z, n, g.f, g.u, g.total, g.lam, error, first, scratch)
    out.status[s], out.pivots[s] = (SOLVED if finite else NOT_FINITE), 0
    out.lb[s], out.ub[s] = lb, ub
    memory.K[s, 0], memory.k[s] = best, 1
    out.d[s] = 0.0
    out.d[s, actions[best]] = 1.0
    if finite:
        fill_tail(Z[best], g.u, b, q)
        record_pair(g, s, actions[best], q, xi, out)


@kernel
def _s_nature(g, s, Z, n, actions, error, z, q, scratch, xi, out):
    z[:] = 0.0
    for i in range(n):
        weight = out.d[s, actions[i]]
        for j in range(z.size):
            z[j] += weight * Z[i, j]
    b, lb, ub, finite = tail_bounds(z, g.f, g.u, g.total, g.lam, error, scratch)
    out.status[s], out.pivots[s] = (SOLVED if finite else NOT_FINITE), 0
    slack = 0.125 * n * error
    out.lb[s], out.ub[s] = lb - slack, ub + slack
    if finite:
        fill_tail(z, g.u, b, q)
        for i in range(n):
            record_pair(g, s, actions[i], q, xi, out)


@kernel
def _sa_nature(g, s, Z, n, actions, error, one, q, scratch, xi, out):
    lb = ub = most = 0.0
    out.status[s], out.pivots[s] = SOLVED, 0
    for i in range(n):
        weight = out.d[s, actions[i]]
        b, low, high, finite = tail_bounds(Z[i], g.f, g.u, g.total, g.lam, error, scratch)
        if not finite:
            out.status[s] = NOT_FINITE
            return
        lb += weight * low
        ub += weight * high
        fill_tail(Z[i], g.u, b, q)
        record_pair(g, s, actions[i], q, one, out)
        if weight > most:
            most = weight
            for j in range(g.live.size):
                xi[g.live[j]] = one[g.live[j]]
    slack = 0.125 * n * error
    out.lb[s], out.ub[s] = lb - slack, ub + slack


# One range per update, and not one with a switch: a user of one waits for the compilation of one.


@kernel
def _s_range(first, last, g, v, centre, memory, out):
    A, N, L = g.R.shape[1], g.R.shape[2], g.live.size
    g, memory, out, v = _borrow_rectangle(g), _borrow_memory(memory), _borrow_update(out), borrow(v)
    work, values, own = game_work(A, L), np.empty((A, L)), np.empty(v.size)
    M, X, Y, J, B = borrow_work(work)
    Z, raw, gathered = borrow(values), np.empty(N), borrow(own)
    actions, xi = np.empty(A, np.int64), np.zeros(N)
    for s in range(first, last):
        n = state_rows(g, v, centre, s, out.d, False, actions, gathered, raw, Z)
        _s_state(g, s, Z, n, actions, memory, M, X, Y, J, B, xi, out)
        if out.xi.size > 0:
            out.xi[s] = xi
    keep((work, values, own))


@kernel
def _sa_range(first, last, g, v, centre, size, memory, out):
    A, N, L = g.R.shape[1], g.R.shape[2], g.live.size
    g, memory, out, v = _borrow_rectangle(g), _borrow_memory(memory), _borrow_update(out), borrow(v)
    values, own, mine = np.empty((A, L)), np.empty(v.size), np.empty((4, L))
    Z, raw, gathered, scratch = borrow(values), np.empty(N), borrow(own), borrow(mine)
    actions, xi, q = np.empty(A, np.int64), np.zeros(N), np.empty(L)
    error = rounding_of_sums(L, size)
    for s in range(first, last):
        n = state_rows(g, v, centre, s, out.d, False, actions, gathered, raw, Z)
        _sa_state(g, s, Z, n, actions, error, memory, q, scratch, xi, out)
        if out.xi.size > 0:
            out.xi[s] = xi
    keep((values, own, mine))


@kernel
def _nature_range(kind, first, last, g, v, centre, size, out):
    A, N, L = g.R.shape[1], g.R.shape[2], g.live.size
    g, out, v = _borrow_rectangle(g), _borrow_update(out), borrow(v)
    Z, raw, gathered = np.empty((A, L)), np.empty(N), np.empty(v.size)
    actions, xi, q, scratch = np.empty(A, np.int64), np.zeros(N), np.empty(L), np.empty((4, L))
    z, one = np.empty(L), np.zeros(N)
    error = rounding_of_sums(L, size)
    for s in range(first, last):
        n = state_rows(g, v, centre, s, out.d, True, actions, gathered, raw, Z)
        if kind == S_NATURE:
            _s_nature(g, s, Z, n, actions, error, z, q, scratch, xi, out)
        else:
            _sa_nature(g, s, Z, n, actions, error, one, q, scratch, xi, out)
        if out.xi.size > 0:
            out.xi[s] = xi


@kernel(parallel=True)
def _s_parallel(g, v, centre, memory, out):
    S = v.size
    for c in prange(CHUNKS):
        _s_range(c * S // CHUNKS, (c + 1) * S // CHUNKS, g, v, centre, memory, out)


@kernel(parallel=True)
def _sa_parallel(g, v, centre, size, memory, out):
    S = v.size
    for c in prange(CHUNKS):
        _sa_range(c * S // CHUNKS, (c + 1) * S // CHUNKS, g, v, centre, size, memory, out)


@kernel(parallel=True)
def _nature_parallel(kind, g, v, centre, size, out):
    S = v.size
    for c in prange(CHUNKS):
        _nature_range(kind, c * S // CHUNKS, (c + 1) * S // CHUNKS, g, v, centre, size, out)


def sweep(
    kind: int,
    g: Rectangle,
    v: FloatArray,
    centre: float,
    size: float,
    memory: Memory,
    out: Update,
    threads: bool,
) -> None:
    """One update of every state into `out`; `kind` is S_GAME, SA_GAME, S_NATURE or SA_NATURE.

    v (n_states,) and centre come from `expected.centred`; size bounds |Z|.
    """
    S = v.size
    if kind == S_GAME:
        if threads:
            _s_parallel(g, v, centre, memory, out)
        else:
            _s_range(0, S, g, v, centre, memory, out)
    elif kind == SA_GAME:
        if threads:
            _sa_parallel(g, v, centre, size, memory, out)
        else:
            _sa_range(0, S, g, v, centre, size, memory, out)
    elif threads:
        _nature_parallel(kind, g, v, centre, size, out)
    else:
        _nature_range(kind, 0, S, g, v, centre, size, out)
