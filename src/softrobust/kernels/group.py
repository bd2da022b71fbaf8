"""Sweeps for several points (λ, α) at once: each state's models are read once for all of them.

A grid of (λ, α) sweeps the same models with a value function per point (section 4). Where the pass
is bound by memory, eight of them together cost little more than two. The first four read the block
from memory, row after row as memory likes it; the others find it in the cache, where four rows
meet four value functions in sixteen sums, so that eight reads serve sixteen products. As for short
rows in `expected` the loops are written in vectors of four; the compiler's own choice is half as
fast.

Every point has its own value function, games and warm start (those of `kernels.sweeps`), here
stacked along a first axis of slots; the slots listed in `Group.slots` take part. The updates are
those of `kernels.sweeps`, on the same Z but for the order of summation.

Shapes: G value functions, a multiple of `LANES` (fill up with copies), N models; the storage is
that of `kernels.expected`.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic
from numpy.typing import NDArray

from softrobust._core.arrays import FloatArray
from softrobust.kernels._jit import REORDER, keep_alive, kernel, threaded, unowned
from softrobust.kernels.expected import (
    DOUBLES,
    FLAGS,
    INDEX,
    LANES,
    LONG,
    STRIDE,
    block_of,
    everywhere,
    fill_weights,
    short_row,
    short_values,
    vector_loader,
)
from softrobust.kernels.s_simplex import game_work
from softrobust.kernels.sa_select import rounding_of_sums
from softrobust.kernels.sweeps import (
    NEAR,
    S_GAME,
    Rectangle,
    SweepResult,
    WarmStart,
    batch_of,
    s_state,
    sa_state,
)

_BYTES = ir.IntType(8).as_pointer()
_ZEROS = ir.Constant(DOUBLES, [0.0] * LANES)


def _prefetch(b, prob, offset):
    signature = ir.FunctionType(ir.VoidType(), [_BYTES, INDEX, INDEX, INDEX])
    function = cgutils.get_or_insert_function(b.module, signature, "llvm.prefetch.p0")
    pointer = b.bitcast(b.gep(prob, [offset]), _BYTES)
    b.call(function, [pointer, INDEX(0), INDEX(3), INDEX(1)])


def _sums(b, n_rows, load, load_v, prefetch, width, rows, columns):
    """Sums of n_rows rows from offsets `rows` on times four value functions from `columns` on."""
    sums = [cgutils.alloca_once_value(b, _ZEROS) for _ in range(n_rows * LANES)]

    def add(at, mask=None):
        found = [load(b.add(row, at)) for row in rows]
        if mask is not None:
            found = [b.select(mask, x, _ZEROS) for x in found]
        for q, column in enumerate(columns):
            v = load_v(b.add(column, at))
            for r in range(n_rows):
                cell = sums[r * LANES + q]
                product = b.fmul(found[r], v, flags=FLAGS)
                b.store(b.fadd(b.load(cell), product, flags=FLAGS), cell)

    full = b.sdiv(width, LONG(LANES))
    with cgutils.for_range(b, full) as loop:
        at = b.mul(loop.index, LONG(LANES))
        prefetch(b.add(rows[0], b.add(at, b.mul(width, LONG(2)))))  # two rows ahead
        add(at)
    # What is left of the row, in a vector that ends with it; the rest of that was counted.
    counted = b.sub(LONG(LANES), b.sub(width, b.mul(full, LONG(LANES))))
    lanes = ir.Constant(ir.VectorType(LONG, LANES), list(range(LANES)))
    add(b.sub(width, LONG(LANES)), b.icmp_signed(">=", lanes, everywhere(b, counted)))
    answer = []
    for cell in sums:
        parts = [b.extract_element(b.load(cell), INDEX(i)) for i in range(LANES)]
        answer.append(b.fadd(b.fadd(parts[0], parts[1]), b.fadd(parts[2], parts[3])))
    return answer


def _tile(n_rows, from_memory):
    """The kernel for n_rows rows and four value functions."""

    @intrinsic
    def tile(context, prob, start, width, V, g):
        if prob.layout != "C" or V.layout != "C":
            return None
        i8 = types.int64
        signature = types.UniTuple(types.float64, LANES * n_rows)(prob, i8, i8, V, i8)

        def codegen(target, b, signature, values):
            start, width, g = values[1], values[2], values[4]
            data = target.make_array(signature.args[0])(target, b, values[0]).data
            matrix = target.make_array(signature.args[3])(target, b, values[3])
            stride = cgutils.unpack_tuple(b, matrix.shape)[1]
            sums = _sums(
                b,
                n_rows,
                vector_loader(b, data, signature.args[0].dtype == types.float32),
                vector_loader(b, matrix.data, False),
                (lambda offset: _prefetch(b, data, offset)) if from_memory else lambda _: None,
                width,
                [b.add(start, b.mul(width, LONG(r))) for r in range(n_rows)],
                [b.mul(b.add(g, LONG(q)), stride) for q in range(LANES)],
            )
            return target.make_tuple(b, signature.return_type, sums)

        return signature, codegen

    return tile


_row_tile, _near_row_tile, _four_row_tile = _tile(1, True), _tile(1, False), _tile(4, False)


@kernel
def _one_row(prob, start, width, V, g, Z, n, i, from_memory):
    if from_memory:
        t = _row_tile(prob, start, width, V, g)
    else:
        t = _near_row_tile(prob, start, width, V, g)
    Z[g, n, i], Z[g + 1, n, i], Z[g + 2, n, i], Z[g + 3, n, i] = t[0], t[1], t[2], t[3]


@kernel
def _four_rows(prob, start, width, V, g, Z, n, i):
    t = _four_row_tile(prob, start, width, V, g)
    Z[g, n, i], Z[g + 1, n, i], Z[g + 2, n, i], Z[g + 3, n, i] = t[0], t[1], t[2], t[3]
    i += 1
    Z[g, n, i], Z[g + 1, n, i], Z[g + 2, n, i], Z[g + 3, n, i] = t[4], t[5], t[6], t[7]
    i += 1
    Z[g, n, i], Z[g + 1, n, i], Z[g + 2, n, i], Z[g + 3, n, i] = t[8], t[9], t[10], t[11]
    i += 1
    Z[g, n, i], Z[g + 1, n, i], Z[g + 2, n, i], Z[g + 3, n, i] = t[12], t[13], t[14], t[15]


@kernel
def _products(prob, start, N, width, V, Z, n):
    """Z[:, n] (G, …, N) ← VPᵀ for P (N, width), width ≥ 4, at prob[start:]."""
    step = max(4, NEAR // width)
    for first in range(0, N, step):
        last = min(first + step, N)
        for i in range(first, last):
            _one_row(prob, start + i * width, width, V, 0, Z, n, i, True)
        for g in range(LANES, V.shape[0], LANES):
            i = first
            while i + 4 <= last:
                _four_rows(prob, start + i * width, width, V, g, Z, n, i)
                i += 4
            for r in range(i, last):
                _one_row(prob, start + r * width, width, V, g, Z, n, r, False)


@kernel
def _narrow_products(P, V, Z, n):
    """`_products` for less than four columns."""
    for g in range(V.shape[0]):
        for i in range(P.shape[0]):
            total = 0.0
            for j in range(P.shape[1]):
                total += P[i, j] * V[g, j]
            Z[g, n, i] = total


@kernel(fastmath=REORDER)
def _row_sum(P, i):
    total = 0.0
    for j in range(P.shape[1]):
        total += np.float64(P[i, j])
    return total


@kernel
def _long_values(prob, indptr, next_states, k, V, rounded, gathered, Z, n):
    N, lo = Z.shape[2], indptr[k]
    width = indptr[k + 1] - lo
    P = block_of(prob, indptr, k, N)
    w = V
    if width != V.shape[1]:  # the list is not all states
        w = gathered
        for j in range(width):
            column = next_states[lo + j]
            for g in range(V.shape[0]):
                gathered[g, j] = V[g, column]
    if width < LANES:
        _narrow_products(P, w, Z, n)
    else:
        _products(prob, lo * N, N, width, w, Z, n)
    if rounded:
        for i in range(N):
            mass = _row_sum(P, i)
            for g in range(V.shape[0]):
                Z[g, n, i] /= mass


@kernel
def group_values(prob, indptr, next_states, k, V, shifts, rounded, gamma, R, gathered, Z, n):
    """Z[:, n] (G, …, N) ← R_k + (γ·Pv + shift) of pair k for all value functions v in V (G, S).

    V is shifted by −centre if `rounded`, shifts (G,) = γ·centre; gathered (G, S) is scratch.
    """
    N, lo = R.shape[2], indptr[k]
    width = indptr[k + 1] - lo
    if short_row(width, N) and gathered.shape[1] >= STRIDE:
        for g in range(V.shape[0]):  # the block stays in the nearest cache
            fill_weights(V[g], next_states, lo, width, gathered[g], 0)
            short_values(prob, lo, width, gathered[g], 0, gamma, shifts[g], R, k, Z[g], n)
        return
    _long_values(prob, indptr, next_states, k, V, rounded, gathered, Z, n)
    reward = R[k // R.shape[1], k % R.shape[1]]
    for g in range(V.shape[0]):
        for i in range(N):
            Z[g, n, i] = reward[i] + (gamma * Z[g, n, i] + shifts[g])


class Group(NamedTuple):
    """The G points of a sweep, and the stacks that they write to."""

    slots: NDArray[np.int64]  # (G,) where each point is stacked
    V: FloatArray  # (G or a little more, S) value functions, as `group_values` wants them
    shifts: FloatArray  # (as V,) γ·centre
    sizes: FloatArray  # (G,) bounds of |Z|
    lam: FloatArray  # (G,)
    u: FloatArray  # (G, L) bounds of q
    total: FloatArray  # (G,) Σu
    K: NDArray[np.int32]  # (slots, S, A), as of `WarmStart`
    F: NDArray[np.int32]  # (slots, S, A)
    k: NDArray[np.int32]  # (slots, S)
    lb: FloatArray  # (slots, S), as of `SweepResult`
    ub: FloatArray  # (slots, S)
    d: FloatArray  # (slots, S, A)
    status: NDArray[np.int8]  # (slots, S)
    pivots: NDArray[np.int32]  # (slots, S)
    read: NDArray[np.int64]  # (slots, S)
    mixed: FloatArray  # (slots, nnz)


@kernel
def _point(g, x, p):
    """What point p reads, remembers and writes."""
    j = x.slots[p]
    return (
        Rectangle(
            g.prob, g.indptr, g.next_states, g.R, g.allowed, g.live, g.f, x.u[p], x.total[p],
            x.lam[p], g.gamma, g.rounded, g.mean,
        ),
        WarmStart(x.K[j], x.F[j], x.k[j]),
        SweepResult(x.lb[j], x.ub[j], x.d[j], x.status[j], x.pivots[j], x.read[j], x.mixed[j]),
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
def _group_rows(g, x, s, actions, gathered, raw, Z):
    """Z[:, :n] (G, n, L) ← rows of the allowed actions of s for every point; returns n."""
    A, N, L, G = g.R.shape[1], g.R.shape[2], g.live.size, x.slots.size
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


@threaded
def _s_group_sweep(first, last, g, x):
    A, L, b = g.R.shape[1], g.live.size, batch_of(g)
    g, x = unowned(g), unowned(x)
    work, own, chosen = game_work(A, L), _group_work(g, x, b), np.empty(L, np.int64)
    M, X, Y, J, W = unowned(work)
    Z, actions, count, gathered, raw = unowned(own)
    which = unowned(chosen)
    for begin in range(first, last, b):
        end = min(begin + b, last)
        for s in range(begin, end):
            count[s - begin] = _group_rows(g, x, s, actions[s - begin], gathered, raw, Z[s - begin])
        for p in range(x.slots.size):
            mine, warm, out = _point(g, x, p)
            for s in range(begin, end):
                i = s - begin
                s_state(mine, s, Z[i, p], count[i], actions[i], warm, M, X, Y, J, W, which, out)
    keep_alive((work, own, chosen))


@threaded
def _sa_group_sweep(first, last, g, x):
    L, b = g.live.size, batch_of(g)
    g, x = unowned(g), unowned(x)
    own, room, chosen = _group_work(g, x, b), np.empty((5, L)), np.empty(L, np.int64)
    Z, actions, count, gathered, raw = unowned(own)
    scratch, which = unowned(room), unowned(chosen)
    for begin in range(first, last, b):
        end = min(begin + b, last)
        for s in range(begin, end):
            count[s - begin] = _group_rows(g, x, s, actions[s - begin], gathered, raw, Z[s - begin])
        for p in range(x.slots.size):
            mine, warm, out = _point(g, x, p)
            error = rounding_of_sums(L, x.sizes[p])
            for s in range(begin, end):
                i = s - begin
                sa_state(
                    mine, s, Z[i, p], count[i], actions[i], error, warm,
                    scratch[4], scratch, which, out,
                )  # fmt: skip
    keep_alive((own, room, chosen))


def sweep_group(kind: int, g: Rectangle, group: Group, threads: bool) -> None:
    """One update of every state at every point; `kind` is S_GAME or SA_GAME.

    g is the rectangle of any point: its u, total and λ are not read.
    """
    run = _s_group_sweep if kind == S_GAME else _sa_group_sweep
    run(threads, 0, g.R.shape[0], g, group)
