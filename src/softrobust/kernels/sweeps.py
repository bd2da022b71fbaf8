"""One sweep over all states: read the models once, update every state while its block is in cache.

Four updates share one shape. For a value function v and Z[a, ω] of a state,

    S-rectangular       T v(s)   = max_d min_ξ dᵀZξ                      (eq. 4.8, `s_game`)
    SA-rectangular      T v(s)   = max_a min_ξ Z_aᵀξ                     (app. A, `sa_select`)
    nature's S answer   T_π v(s) = min_ξ πᵀZξ
    nature's SA answer  T_π v(s) = Σ_a π_a·min_ξ Z_aᵀξ

and each returns lb ≤ T v ≤ ub, the decision d, and the mixed rows Σ_ω ξ_ω·P̂^ω of the pairs
with d > 0: the transition matrix P_{d,ξ} of the Newton step v + (I − γP_{d,ξ})⁻¹(Tv − v). As
ξ = (1 − λ)f + λq, they are (1 − λ) of the mean model's row and λ of the models in the tail (q > 0),
the only ones that are read again.

Memory is read at full speed in one long stream. A game after every state would interrupt it, which
on short rows costs more than the read itself; so the rows of a batch of states come first, then
their games. A batch is as many states as leave their models in the second cache, where the mixed
rows find them again. Within a batch the v of all next states are gathered before the first read.

Shapes: S states, A actions, N models, L ≤ N of them with f > 0.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from softrobust._core.arrays import FloatArray
from softrobust.kernels._jit import REORDER, keep_alive, kernel, threaded, unowned
from softrobust.kernels.expected import (
    STRIDE,
    Probabilities,
    block_of,
    fill_weights,
    long_values,
    short_row,
    short_values,
)
from softrobust.kernels.s_game import NOT_FINITE, SOLVED, solve_game
from softrobust.kernels.s_simplex import MODELS, ROWS, D, Q, game_work
from softrobust.kernels.sa_select import best_action, rounding_of_sums, tail_bounds
from softrobust.kernels.tail import fill_tail

NEAR = 32_768  # probabilities that the second cache holds with room to spare
BATCH = 16  # states of a batch at most; more gain nothing
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
    mean: FloatArray  # (nnz,) rows of the mean model, for mixed rows


class WarmStart(NamedTuple):
    """What the next sweep starts from; positions count allowed actions and live models."""

    K: NDArray[np.int32]  # (S, A)
    F: NDArray[np.int32]  # (S, A)
    k: NDArray[np.int32]  # (S,), 0 where nothing is known


class SweepResult(NamedTuple):
    """What a sweep writes."""

    lb: FloatArray  # (S,)
    ub: FloatArray  # (S,)
    d: FloatArray  # (S, A); nature's sweeps read it
    status: NDArray[np.int8]  # (S,)
    pivots: NDArray[np.int32]  # (S,)
    read: NDArray[np.int64]  # (S,) probabilities read for mixed rows
    mixed: FloatArray  # (nnz,)


class RowsWork(NamedTuple):
    """Scratch of one thread, for a batch of b states."""

    Z: FloatArray  # (b, A, L)
    actions: NDArray[np.int64]  # (b, A) the actions of Z's rows
    n: NDArray[np.int64]  # (b,) and their number
    weights: FloatArray  # (b·A·STRIDE,) v at the next states of short rows
    gathered: FloatArray  # (S,) and of a long one
    raw: FloatArray  # (1, N) a row with the models of weight 0


@kernel(inner=True)
def batch_of(g):
    """How many states make a batch."""
    S, A, N = g.R.shape
    size = max(g.indptr[S * A] * N // max(S, 1), 1)
    return max(1, min(BATCH, NEAR // size))


@kernel(inner=True)
def rows_work(g, b):
    """Allocate the scratch of one thread."""
    S, A, N = g.R.shape
    return RowsWork(
        np.empty((b, A, g.live.size)),
        np.empty((b, A), np.int64),
        np.empty(b, np.int64),
        np.empty(b * A * STRIDE),
        np.empty(S),
        np.empty((1, N)),
    )


@kernel
def _list_actions(g, v, first, last, d, only_taken, w):
    """Fill w.actions, w.n and w.weights."""
    A, N = g.R.shape[1], g.R.shape[2]
    for s in range(first, last):
        n = 0
        for a in range(A):
            if not g.allowed[s, a] or (only_taken and d[s, a] == 0.0):
                continue
            w.actions[s - first, n] = a
            n += 1
            lo = g.indptr[s * A + a]
            width = g.indptr[s * A + a + 1] - lo
            if short_row(width, N):
                at = ((s - first) * A + a) * STRIDE
                fill_weights(v, g.next_states, lo, width, w.weights, at)
        w.n[s - first] = n


@kernel(inner=True)
def batch_rows(g, v, centre, first, last, d, only_taken, w):
    """w.Z[s − first] ← rows of the allowed actions of states s (with `only_taken`, where d > 0).

    v (S,) and centre come from `expected.centred`.
    """
    _list_actions(g, v, first, last, d, only_taken, w)
    A, N = g.R.shape[1], g.R.shape[2]
    whole, shift = g.live.size == N, g.gamma * centre
    for s in range(first, last):
        Z = w.Z[s - first]
        for n in range(w.n[s - first]):
            a = w.actions[s - first, n]
            k, row = s * A + a, n if whole else 0
            target = Z if whole else w.raw
            lo = g.indptr[k]
            width = g.indptr[k + 1] - lo
            if short_row(width, N):
                at = ((s - first) * A + a) * STRIDE
                short_values(g.prob, lo, width, w.weights, at, g.gamma, shift, g.R, k, target, row)
            else:
                long_values(
                    g.prob, g.indptr, g.next_states, k, v, shift, g.rounded, g.gamma,
                    g.R, w.gathered, target, row,
                )  # fmt: skip
            if not whole:
                for i in range(g.live.size):
                    Z[n, i] = w.raw[0, g.live[i]]


@kernel
def state_rows(g, v, centre, s, d):
    """Rows (n, L) of the n allowed actions of one state, and these; d (S, A) is not read."""
    w = rows_work(g, 1)
    batch_rows(g, v, centre, s, s + 1, d, False, w)
    return w.Z[0, : w.n[0]], w.actions[0, : w.n[0]]


@kernel
def _tail_models(q, live, which):
    """Positions with q > 0, without branches; returns their number."""
    count = 0
    for i in range(live.size):
        which[count] = i
        count += q[i] > 0.0
    return count


@kernel(fastmath=REORDER)
def _mix(P, lam, q, live, which, count, mean, out):
    """Fill out (width,) with (1 − λ)·mean + λ·Σ q_i·P[live_i] over i in which[:count]."""
    width = out.size
    for j in range(width):
        out[j] = (1.0 - lam) * mean[j]
    p = 0
    while p + 4 <= count:  # four rows at a time: out is read and written a quarter as often
        a, b, c, d = which[p], which[p + 1], which[p + 2], which[p + 3]
        x, y, z, w = lam * q[a], lam * q[b], lam * q[c], lam * q[d]
        a, b, c, d = live[a], live[b], live[c], live[d]
        for j in range(width):
            out[j] += x * P[a, j] + y * P[b, j] + z * P[c, j] + w * P[d, j]
        p += 4
    for r in range(p, count):
        x, a = lam * q[which[r]], live[which[r]]
        for j in range(width):
            out[j] += x * P[a, j]


@kernel(inner=True)
def record_pair(g, s, a, q, which, out):
    """The mixed row of pair (s, a) for nature's q (L,); which (L,) is scratch."""
    k = s * g.R.shape[1] + a
    lo, hi = g.indptr[k], g.indptr[k + 1]
    count = _tail_models(q, g.live, which) if g.lam > 0.0 else 0
    P = block_of(g.prob, g.indptr, k, g.R.shape[2])
    _mix(P, g.lam, q, g.live, which, count, g.mean[lo:hi], out.mixed[lo:hi])
    out.read[s] += count * (hi - lo)


@kernel
def record_state(g, s, actions, d, q, out):
    """`record_pair` of all actions (n,) of a state that d (n,) takes."""
    which = np.empty(g.live.size, np.int64)
    for i in range(actions.size):
        if d[i] > 0.0:
            record_pair(g, s, actions[i], q, which, out)


@kernel(inner=True)
def s_state(g, s, Z, n, actions, warm, M, X, Y, J, W, which, out):
    """The S game of state s on Z[:n]."""
    k = np.int64(warm.k[s])
    for i in range(k):
        J[ROWS, i], J[MODELS, i] = warm.K[s, i], warm.F[s, i]
    status, k, lb, ub, pivots = solve_game(Z, n, g.f, g.u, g.total, g.lam, k, M, X, Y, J, W)
    out.status[s], out.pivots[s], out.lb[s], out.ub[s] = status, pivots, lb, ub
    out.read[s] = 0
    warm.k[s] = k if status == SOLVED else 0
    for a in range(out.d.shape[1]):
        out.d[s, a] = 0.0
    for i in range(k):
        warm.K[s, i], warm.F[s, i] = J[ROWS, i], J[MODELS, i]
        out.d[s, actions[J[ROWS, i]]] = Y[D, i + 1]
    for i in range(k):
        if Y[D, i + 1] > 0.0:
            record_pair(g, s, actions[J[ROWS, i]], X[Q], which, out)


@kernel(inner=True)
def sa_state(g, s, Z, n, actions, error, warm, q, scratch, which, out):
    """The SA selection of state s on Z[:n]."""
    first = warm.K[s, 0] if warm.k[s] > 0 else -1
    best, b, lb, ub, finite = best_action(Z, n, g.f, g.u, g.total, g.lam, error, first, scratch)
    out.status[s], out.pivots[s], out.read[s] = (SOLVED if finite else NOT_FINITE), 0, 0
    out.lb[s], out.ub[s] = lb, ub
    warm.K[s, 0], warm.k[s] = best, 1
    out.d[s] = 0.0
    out.d[s, actions[best]] = 1.0
    if finite:
        fill_tail(Z[best], g.u, b, q)
        record_pair(g, s, actions[best], q, which, out)


@kernel
def _s_nature(g, s, Z, n, actions, error, z, q, scratch, which, out):
    z[:] = 0.0
    for i in range(n):
        weight = out.d[s, actions[i]]
        for j in range(z.size):
            z[j] += weight * Z[i, j]
    b, lb, ub, finite = tail_bounds(z, g.f, g.u, g.total, g.lam, error, scratch)
    out.status[s], out.pivots[s], out.read[s] = (SOLVED if finite else NOT_FINITE), 0, 0
    slack = 0.125 * n * error
    out.lb[s], out.ub[s] = lb - slack, ub + slack
    if finite:
        fill_tail(z, g.u, b, q)
        for i in range(n):
            record_pair(g, s, actions[i], q, which, out)


@kernel
def _sa_nature(g, s, Z, n, actions, error, q, scratch, which, out):
    lb = ub = 0.0
    out.status[s], out.pivots[s], out.read[s] = SOLVED, 0, 0
    for i in range(n):
        weight = out.d[s, actions[i]]
        b, low, high, finite = tail_bounds(Z[i], g.f, g.u, g.total, g.lam, error, scratch)
        if not finite:
            out.status[s] = NOT_FINITE
            return
        lb += weight * low
        ub += weight * high
        fill_tail(Z[i], g.u, b, q)
        record_pair(g, s, actions[i], q, which, out)
    slack = 0.125 * n * error
    out.lb[s], out.ub[s] = lb - slack, ub + slack


# One range per update, and not one with a switch: a user of one waits for the compilation of one.


@threaded
def _s_sweep(first, last, g, v, centre, warm, out):
    A, L, b = g.R.shape[1], g.live.size, batch_of(g)
    g, warm, out, v = unowned(g), unowned(warm), unowned(out), unowned(v)
    work, own, chosen = game_work(A, L), rows_work(g, b), np.empty(L, np.int64)
    M, X, Y, J, W = unowned(work)
    rows, which = unowned(own), unowned(chosen)
    for begin in range(first, last, b):
        end = min(begin + b, last)
        batch_rows(g, v, centre, begin, end, out.d, False, rows)
        for s in range(begin, end):
            n, i = rows.n[s - begin], s - begin
            s_state(g, s, rows.Z[i], n, rows.actions[i], warm, M, X, Y, J, W, which, out)
    keep_alive((work, own, chosen))


@threaded
def _sa_sweep(first, last, g, v, centre, size, warm, out):
    L, b = g.live.size, batch_of(g)
    g, warm, out, v = unowned(g), unowned(warm), unowned(out), unowned(v)
    own, room, chosen = rows_work(g, b), np.empty((5, L)), np.empty(L, np.int64)
    rows, scratch, which = unowned(own), unowned(room), unowned(chosen)
    error = rounding_of_sums(L, size)
    for begin in range(first, last, b):
        end = min(begin + b, last)
        batch_rows(g, v, centre, begin, end, out.d, False, rows)
        for s in range(begin, end):
            i = s - begin
            sa_state(
                g, s, rows.Z[i], rows.n[i], rows.actions[i], error, warm,
                scratch[4], scratch, which, out,
            )  # fmt: skip
    keep_alive((own, room, chosen))


@threaded
def _nature_sweep(first, last, kind, g, v, centre, size, out):
    L, b = g.live.size, batch_of(g)
    g, out, v = unowned(g), unowned(out), unowned(v)
    own, room, chosen = rows_work(g, b), np.empty((6, L)), np.empty(L, np.int64)
    rows, scratch, which = unowned(own), unowned(room), unowned(chosen)
    error = rounding_of_sums(L, size)
    for begin in range(first, last, b):
        end = min(begin + b, last)
        batch_rows(g, v, centre, begin, end, out.d, True, rows)
        for s in range(begin, end):
            Z, n, actions = rows.Z[s - begin], rows.n[s - begin], rows.actions[s - begin]
            if kind == S_NATURE:
                _s_nature(g, s, Z, n, actions, error, scratch[5], scratch[4], scratch, which, out)
            else:
                _sa_nature(g, s, Z, n, actions, error, scratch[4], scratch, which, out)
    keep_alive((own, room, chosen))


def sweep_states(
    kind: int,
    g: Rectangle,
    v: FloatArray,
    centre: float,
    size: float,
    warm: WarmStart,
    out: SweepResult,
    threads: bool,
) -> None:
    """One update of every state into `out`; `kind` is S_GAME, SA_GAME, S_NATURE or SA_NATURE.

    v (n_states,) and centre come from `expected.centred`; size bounds |Z|.
    """
    if kind == S_GAME:
        _s_sweep(threads, 0, v.size, g, v, centre, warm, out)
    elif kind == SA_GAME:
        _sa_sweep(threads, 0, v.size, g, v, centre, size, warm, out)
    else:
        _nature_sweep(threads, 0, v.size, kind, g, v, centre, size, out)
