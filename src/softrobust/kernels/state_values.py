"""Z of the states of a sweep, some states ahead of their games.

Memory is read at full speed in one long stream. A game after every state would interrupt it, which
on short rows costs more than the read itself; so the rows of a batch of states come first, then
their games. A batch is as many states as leave their models in the second cache, where the mixed
rows find them again. Within a batch the v of all next states are gathered before the first read.

Arguments g are a `sweeps.Rectangle`. Shapes: S states, A actions, N models, L of them with f > 0.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from softrobust.kernels._jit import kernel
from softrobust.kernels.borrow import borrow
from softrobust.kernels.expected import long_values
from softrobust.kernels.short_rows import STRIDE, fill_weights, fits, short_values

FloatArray = NDArray[np.float64]

NEAR = 32_768  # probabilities that the second cache holds with room to spare
MOST = 16  # states of a batch; more gain nothing


class RowsWork(NamedTuple):
    """Scratch of one thread, for a batch of b states."""

    Z: FloatArray  # (b, A, L)
    actions: NDArray[np.int64]  # (b, A) the actions of Z's rows
    n: NDArray[np.int64]  # (b,) and their number
    weights: FloatArray  # (b·A·STRIDE,) v at the next states of short rows
    gathered: FloatArray  # (S,) and of a long one
    raw: FloatArray  # (1, N) a row with the models of weight 0


@kernel
def batch_of(g):
    """How many states make a batch."""
    S, A, N = g.R.shape
    size = max(g.indptr[S * A] * N // max(S, 1), 1)
    return max(1, min(MOST, NEAR // size))


@kernel
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
def borrow_rows(w):
    """The same without owners; `keep(w)` after their last use."""
    return RowsWork(
        borrow(w.Z), borrow(w.actions), borrow(w.n), borrow(w.weights), borrow(w.gathered),
        borrow(w.raw),
    )  # fmt: skip


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
            if fits(width, N):
                at = ((s - first) * A + a) * STRIDE
                fill_weights(v, g.next_states, lo, width, w.weights, at)
        w.n[s - first] = n


@kernel
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
            if fits(width, N):
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
