"""Z of a pair with few next states: out_i = reward_i + (γ·P_iᵀw + shift), four models at a time.

Section 4's pass over sparse models has rows of about ten numbers. A loop per row is too short to
vectorise, and eight rows beside each other run one number at a time; both spend more on arithmetic
than memory on the read. So the loop is written in vectors of four here: the weights w stay in
registers, a row is a few loads, and four rows are added up together.

A row of 4·q − 4 < width ≤ 4·q numbers is read in q vectors, the last one ending with the row. What
it shares with the one before has weight 0 there (`fill_weights`), so nothing is read twice into the
sum, and nothing beyond the row. In the same way the last four models overlap those before them.
"""

from __future__ import annotations

import numpy as np
from llvmlite import ir  # type: ignore[import-untyped]
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from softrobust.kernels._jit import REORDER, kernel

LANES = 4
MOST = 6  # vectors of weights kept in registers
STRIDE = LANES * MOST  # room for the weights of one pair
FLAGS = tuple(sorted(REORDER))

_LONG, _INDEX = ir.IntType(64), ir.IntType(32)
_DOUBLES = ir.VectorType(ir.DoubleType(), LANES)


@kernel
def fits(width, n):
    """Whether n rows of this width can go this way."""
    return width >= LANES and width <= STRIDE and n >= LANES


@kernel
def fill_weights(v, next_states, lo, width, w, at):
    """Fill w[at : at + 4·q] with v at next_states[lo : lo + width], for overlapping vectors."""
    full = (width - 1) // LANES * LANES
    gap = full + LANES - width  # numbers of the last vector that the one before has counted
    for j in range(full):
        w[np.uint64(at + j)] = v[np.uint32(next_states[np.uint64(lo + j)])]
    for j in range(full, full + gap):
        w[np.uint64(at + j)] = 0.0
    for j in range(full, width):
        w[np.uint64(at + j + gap)] = v[np.uint32(next_states[np.uint64(lo + j)])]


def _total(b, rows):
    """The sums of four vectors, as one vector."""

    def mix(x, y, order):
        return b.shuffle_vector(x, y, ir.Constant(ir.VectorType(_INDEX, LANES), order))

    def pairs(x, y):
        return b.fadd(mix(x, y, [0, 4, 2, 6]), mix(x, y, [1, 5, 3, 7]))

    low, high = pairs(rows[0], rows[1]), pairs(rows[2], rows[3])
    return b.fadd(mix(low, high, [0, 1, 4, 5]), mix(low, high, [2, 3, 6, 7]))


def everywhere(b, x):
    """A vector of one number."""
    kind = ir.VectorType(x.type, LANES)
    start = b.insert_element(ir.Constant(kind, ir.Undefined), x, ir.Constant(_INDEX, 0))
    order = ir.Constant(ir.VectorType(_INDEX, LANES), [0] * LANES)
    return b.shuffle_vector(start, ir.Constant(kind, ir.Undefined), order)


def _uncounted(b, q, width, x):
    """The last vector of a row with 0 for what it shares with the one before."""
    lanes = ir.Constant(ir.VectorType(_LONG, LANES), list(range(LANES)))
    first = everywhere(b, b.sub(ir.Constant(_LONG, LANES * q), width))
    return b.select(b.icmp_signed(">=", lanes, first), x, ir.Constant(_DOUBLES, [0.0] * LANES))


def _group(b, load, q, single, base, width, weights):
    """Pw for the four rows from `base` on; with float32 storage over the rows' own sums."""
    last = b.sub(width, ir.Constant(_LONG, LANES))
    totals, masses = [], []
    for r in range(LANES):
        row = b.add(base, b.mul(width, ir.Constant(_LONG, r)))
        starts = [ir.Constant(_LONG, LANES * c) for c in range(q - 1)] + [last]
        parts = [load(b.add(row, start)) for start in starts]
        products = [b.fmul(x, w, flags=FLAGS) for x, w in zip(parts, weights, strict=True)]
        totals.append(_added(b, products))
        masses.append(_added(b, [*parts[:-1], _uncounted(b, q, width, parts[-1])]))
    answer = _total(b, totals)
    return b.fdiv(answer, _total(b, masses)) if single else answer  # unused code is dropped


def _added(b, vectors):
    total = vectors[0]
    for x in vectors[1:]:
        total = b.fadd(total, x, flags=FLAGS)
    return total


def _vectors(q):
    """The kernel for rows of q vectors."""

    @intrinsic
    def rows(context, prob, start, n, width, w, at, gamma, shift, R, k, out, row):
        if any(x.layout != "C" for x in (prob, w, R, out)):
            return None
        single = prob.dtype == types.float32
        i8, f8 = types.int64, types.float64
        signature = types.void(prob, i8, i8, i8, w, i8, f8, f8, R, i8, out, i8)

        def codegen(target, b, signature, values):
            prob, w, R, out = (
                target.make_array(signature.args[i])(target, b, values[i]).data
                for i in (0, 4, 8, 10)
            )
            start, n, width, at, gamma, shift = (values[i] for i in (1, 2, 3, 5, 6, 7))
            reward, to = b.mul(values[9], n), b.mul(values[11], n)

            def pointer(data, offset, kind=_DOUBLES):
                return b.bitcast(b.gep(data, [offset]), kind.as_pointer())

            def load(data, offset):
                found = b.load(pointer(data, offset))
                found.align = 8
                return found

            def load_prob(offset):
                if not single:
                    return load(prob, offset)
                kind = ir.VectorType(ir.FloatType(), LANES)
                found = b.load(pointer(prob, offset, kind))
                found.align = 4
                return b.fpext(found, _DOUBLES)

            weights = [load(w, b.add(at, ir.Constant(_LONG, LANES * c))) for c in range(q)]
            scale, added = everywhere(b, gamma), everywhere(b, shift)
            four = ir.Constant(_LONG, LANES)
            groups = b.sdiv(b.add(n, ir.Constant(_LONG, LANES - 1)), four)
            with cgutils.for_range(b, groups) as loop:
                i, end = b.mul(loop.index, four), b.sub(n, four)
                i = b.select(b.icmp_signed("<", i, end), i, end)
                base = b.add(start, b.mul(i, width))
                answer = _group(b, load_prob, q, single, base, width, weights)
                ahead = b.fadd(b.fmul(answer, scale, flags=FLAGS), added, flags=FLAGS)
                z = b.fadd(load(R, b.add(reward, i)), ahead, flags=FLAGS)
                b.store(z, pointer(out, b.add(to, i))).align = 8
            return target.get_dummy_value()

        return signature, codegen

    return rows


_rows_1, _rows_2, _rows_3, _rows_4, _rows_5, _rows_6 = (_vectors(q + 1) for q in range(MOST))


@kernel
def short_values(prob, lo, width, w, at, gamma, shift, R, k, out, row):
    """Fill row `row` of out (…, N) with R_k + (γ·Pw + shift): Z of pair k.

    P (N, width) starts at prob[lo·N]; R_k is row k of R (…, N); w[at:] is from `fill_weights`.
    float32 rows are divided by their sums. A leaf on whole arrays: numba counts references to every
    view, and to the arrays of a function that calls others, which stalls the reads around it.
    """
    N = R.shape[R.ndim - 1]
    q = (width + LANES - 1) // LANES
    if q == 1:
        _rows_1(prob, lo * N, N, width, w, at, gamma, shift, R, k, out, row)
    elif q == 2:
        _rows_2(prob, lo * N, N, width, w, at, gamma, shift, R, k, out, row)
    elif q == 3:
        _rows_3(prob, lo * N, N, width, w, at, gamma, shift, R, k, out, row)
    elif q == 4:
        _rows_4(prob, lo * N, N, width, w, at, gamma, shift, R, k, out, row)
    elif q == 5:
        _rows_5(prob, lo * N, N, width, w, at, gamma, shift, R, k, out, row)
    else:
        _rows_6(prob, lo * N, N, width, w, at, gamma, shift, R, k, out, row)
