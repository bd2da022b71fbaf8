"""One sweep for several points (λ, α) at once: each state's models are read once for all of them.

Every point has its own value function, games and memory (`sweeps.Memory`, `sweeps.Update`), here
stacked along a first axis of lanes; the lanes listed in `Group.lanes` take part. The updates are
those of `kernels.sweeps`, on the same Z but for the order of summation.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import prange
from numpy.typing import NDArray

from softrobust.kernels._jit import kernel
from softrobust.kernels.borrow import borrow, keep
from softrobust.kernels.expected import CHUNKS
from softrobust.kernels.group_values import group_values
from softrobust.kernels.s_pivot import borrow_work, game_work
from softrobust.kernels.sa_select import rounding_of_sums
from softrobust.kernels.state_values import batch_of
from softrobust.kernels.sweeps import (
    S_GAME,
    Memory,
    Rectangle,
    Update,
    borrow_rectangle,
    s_state,
    sa_state,
)

FloatArray = NDArray[np.float64]


class Group(NamedTuple):
    """The G points of a sweep, and the stacks of all lanes that they write to."""

    lanes: NDArray[np.int64]  # (G,) the lane of each point
    V: FloatArray  # (G or a little more, S) value functions, as `group_values` wants them
    shifts: FloatArray  # (as V,) γ·centre
    sizes: FloatArray  # (G,) bounds of |Z|
    lam: FloatArray  # (G,)
    u: FloatArray  # (G, L) bounds of q
    total: FloatArray  # (G,) Σu
    K: NDArray[np.int32]  # (lanes, S, A), as of `Memory`
    F: NDArray[np.int32]  # (lanes, S, A)
    k: NDArray[np.int32]  # (lanes, S)
    lb: FloatArray  # (lanes, S), as of `Update`
    ub: FloatArray  # (lanes, S)
    d: FloatArray  # (lanes, S, A)
    status: NDArray[np.int8]  # (lanes, S)
    pivots: NDArray[np.int32]  # (lanes, S)
    read: NDArray[np.int64]  # (lanes, S)
    mixed: FloatArray  # (lanes, nnz)
    xi: FloatArray  # (0, 0): not kept


@kernel
def _borrow_group(x):
    return Group(
        borrow(x.lanes), borrow(x.V), borrow(x.shifts), borrow(x.sizes), borrow(x.lam),
        borrow(x.u), borrow(x.total), borrow(x.K), borrow(x.F), borrow(x.k), borrow(x.lb),
        borrow(x.ub), borrow(x.d), borrow(x.status), borrow(x.pivots), borrow(x.read),
        borrow(x.mixed), borrow(x.xi),
    )  # fmt: skip


@kernel
def _point(g, x, p):
    """What point p reads, remembers and writes."""
    j = x.lanes[p]
    return (
        Rectangle(
            g.prob, g.indptr, g.next_states, g.R, g.allowed, g.live, g.f, x.u[p], x.total[p],
            x.lam[p], g.gamma, g.rounded, g.mean,
        ),
        Memory(x.K[j], x.F[j], x.k[j]),
        Update(
            x.lb[j], x.ub[j], x.d[j], x.status[j], x.pivots[j], x.read[j], x.mixed[j], x.xi,
        ),
    )  # fmt: skip


@kernel
def _group_work(g, x, b):
    """Z (b, G, A, L), lists of actions and their numbers, gathered v, a row of every point."""
    A, N, L, G = g.R.shape[1], g.R.shape[2], g.live.size, x.V.shape[0]
    return (
        np.empty((b, G, A, L)),
        np.empty((b, A), np.int64),
        np.empty(b, np.int64),
        np.empty(x.V.shape),
        np.empty((G, 1, N)),
    )


@kernel
def _borrow_values(w):
    return borrow(w[0]), borrow(w[1]), borrow(w[2]), borrow(w[3]), borrow(w[4])


@kernel
def _rows(g, x, s, actions, gathered, raw, Z):
    """Z[:, :n] (G, n, L) ← rows of the allowed actions of s for every point; returns n."""
    A, N, L, G = g.R.shape[1], g.R.shape[2], g.live.size, x.lanes.size
    n = 0
    for a in range(A):
        if g.allowed[s, a]:
            group_values(
                g.prob, g.indptr, g.next_states, s * A + a, x.V, x.shifts, g.rounded,
                g.gamma, g.R, gathered, Z if L == N else raw, n if L == N else 0,
            )  # fmt: skip
            if L < N:
                for p in range(G):
                    for i in range(L):
                        Z[p, n, i] = raw[p, 0, g.live[i]]
            actions[n] = a
            n += 1
    return n


@kernel
def _s_range(first, last, g, x):
    A, L, b = g.R.shape[1], g.live.size, batch_of(g)
    g, x = borrow_rectangle(g), _borrow_group(x)
    work, own, chosen = game_work(A, L), _group_work(g, x, b), np.empty(L, np.int64)
    M, X, Y, J, W = borrow_work(work)
    Z, actions, count, gathered, raw = _borrow_values(own)
    which = borrow(chosen)
    for begin in range(first, last, b):
        end = min(begin + b, last)
        for s in range(begin, end):
            count[s - begin] = _rows(g, x, s, actions[s - begin], gathered, raw, Z[s - begin])
        for p in range(x.lanes.size):
            mine, memory, out = _point(g, x, p)
            for s in range(begin, end):
                i = s - begin
                s_state(
                    mine, s, Z[i, p], count[i], actions[i], memory, M, X, Y, J, W, which, out
                )  # fmt: skip
    keep((work, own, chosen))


@kernel
def _sa_range(first, last, g, x):
    L, b = g.live.size, batch_of(g)
    g, x = borrow_rectangle(g), _borrow_group(x)
    own, room, chosen = _group_work(g, x, b), np.empty((5, L)), np.empty(L, np.int64)
    Z, actions, count, gathered, raw = _borrow_values(own)
    scratch, which = borrow(room), borrow(chosen)
    for begin in range(first, last, b):
        end = min(begin + b, last)
        for s in range(begin, end):
            count[s - begin] = _rows(g, x, s, actions[s - begin], gathered, raw, Z[s - begin])
        for p in range(x.lanes.size):
            mine, memory, out = _point(g, x, p)
            error = rounding_of_sums(L, x.sizes[p])
            for s in range(begin, end):
                i = s - begin
                sa_state(
                    mine, s, Z[i, p], count[i], actions[i], error, memory,
                    scratch[4], scratch, which, out,
                )  # fmt: skip
    keep((own, room, chosen))


@kernel(parallel=True)
def _s_parallel(g, x):
    S = g.R.shape[0]
    for c in prange(CHUNKS):
        _s_range(c * S // CHUNKS, (c + 1) * S // CHUNKS, g, x)


@kernel(parallel=True)
def _sa_parallel(g, x):
    S = g.R.shape[0]
    for c in prange(CHUNKS):
        _sa_range(c * S // CHUNKS, (c + 1) * S // CHUNKS, g, x)


def sweep_group(kind: int, g: Rectangle, group: Group, threads: bool) -> None:
    """One update of every state at every point; `kind` is S_GAME or SA_GAME.

    g is the rectangle of any point: its u, total and λ are not read.
    """
    if kind == S_GAME:
        if threads:
            _s_parallel(g, group)
        else:
            _s_range(0, g.R.shape[0], g, group)
    elif threads:
        _sa_parallel(g, group)
    else:
        _sa_range(0, g.R.shape[0], g, group)
