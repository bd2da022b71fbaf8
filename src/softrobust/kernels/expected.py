"""Expected values of the next step in every model: Z[s,a,ω] = R[s,a,ω] + γ·Σ_s′ P̂^ω(s′|s,a)·v(s′).

This is the only pass over the transition probabilities that a rectangular sweep makes (section 4),
so it is written to run at the speed of memory: long rows as one vectorised dot product each, short
rows four at a time, and the next states of a pair gathered once for all its models.

Rows of about ten numbers, as sparse models have them, are too short for a loop to vectorise, and
eight rows beside each other run one number at a time; both spend more on arithmetic than memory on
the read. So their loop is written in vectors of four: the weights w = v(next states) stay in
registers, a row is a few loads, and four rows are added up together. A row of 4·q − 4 < width ≤ 4·q
numbers is read in q vectors, the last one ending with the row. What it shares with the one before
has weight 0 there (`fill_weights`), so nothing is read twice into the sum, and nothing beyond the
row. In the same way the last four models overlap those before them.

float32 storage is read with float64 sums. A row of rounded numbers misses 1 by about 1e-8, which
at γ = .999 moves a value by 1e-5 of itself; so there a row p stands for the model p/Σp, computed
as c + p·(v − c)/Σp with c in the middle of v: what is left of the rounding is the model's own.

Shapes: S states, A actions, N models; storage as in `models.model_set`: pair k = s·A + a lists
next_states[indptr[k]:indptr[k+1]], and its block of prob is (N, n_next), row by row.
"""

from __future__ import annotations

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic
from numpy.typing import NDArray

from softrobust._core.arrays import FloatArray
from softrobust.kernels._jit import REORDER, kernel, threaded

LANES = 4
REGISTERS = 6  # vectors of weights kept in registers
STRIDE = LANES * REGISTERS  # room for the weights of one pair
FLAGS = tuple(sorted(REORDER))
SHORT_ROW = 24  # below this many next states, eight rows share one loop
PARALLEL_READ = 4_000_000  # probabilities below which threads cost more than they bring
AHEAD = 512  # pairs whose v are gathered at once: jumps between reads upset prefetching

Probabilities = NDArray[np.float64] | NDArray[np.float32]

LONG, INDEX = ir.IntType(64), ir.IntType(32)
DOUBLES = ir.VectorType(ir.DoubleType(), LANES)


@kernel(inner=True)
def short_row(width, n):
    """Whether n rows of this width can go this way."""
    return width >= LANES and width <= STRIDE and n >= LANES


@kernel(inner=True)
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


def vector_loader(b, data, single):
    """Loads of four numbers as doubles, from doubles or from `single` ones."""

    def load(offset):
        kind = ir.FloatType() if single else ir.DoubleType()
        pointer = b.bitcast(b.gep(data, [offset]), ir.VectorType(kind, LANES).as_pointer())
        found = b.load(pointer)
        found.align = 4 if single else 8
        return b.fpext(found, DOUBLES) if single else found

    return load


def _total(b, rows):
    """The sums of four vectors, as one vector."""

    def mix(x, y, order):
        return b.shuffle_vector(x, y, ir.Constant(ir.VectorType(INDEX, LANES), order))

    def pairs(x, y):
        return b.fadd(mix(x, y, [0, 4, 2, 6]), mix(x, y, [1, 5, 3, 7]))

    low, high = pairs(rows[0], rows[1]), pairs(rows[2], rows[3])
    return b.fadd(mix(low, high, [0, 1, 4, 5]), mix(low, high, [2, 3, 6, 7]))


def everywhere(b, x):
    """A vector of one number."""
    kind = ir.VectorType(x.type, LANES)
    start = b.insert_element(ir.Constant(kind, ir.Undefined), x, ir.Constant(INDEX, 0))
    order = ir.Constant(ir.VectorType(INDEX, LANES), [0] * LANES)
    return b.shuffle_vector(start, ir.Constant(kind, ir.Undefined), order)


def _uncounted(b, q, width, x):
    """The last vector of a row with 0 for what it shares with the one before."""
    lanes = ir.Constant(ir.VectorType(LONG, LANES), list(range(LANES)))
    first = everywhere(b, b.sub(ir.Constant(LONG, LANES * q), width))
    return b.select(b.icmp_signed(">=", lanes, first), x, ir.Constant(DOUBLES, [0.0] * LANES))


def _group(b, load, q, single, base, width, weights):
    """Pw for the four rows from `base` on; with float32 storage over the rows' own sums."""
    last = b.sub(width, ir.Constant(LONG, LANES))
    totals, masses = [], []
    for r in range(LANES):
        row = b.add(base, b.mul(width, ir.Constant(LONG, r)))
        starts = [ir.Constant(LONG, LANES * c) for c in range(q - 1)] + [last]
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

            load_prob, load_w, load_R = (
                vector_loader(b, data, kind)
                for data, kind in ((prob, single), (w, False), (R, False))
            )
            weights = [load_w(b.add(at, ir.Constant(LONG, LANES * c))) for c in range(q)]
            scale, added = everywhere(b, gamma), everywhere(b, shift)
            four = ir.Constant(LONG, LANES)
            groups = b.sdiv(b.add(n, ir.Constant(LONG, LANES - 1)), four)
            with cgutils.for_range(b, groups) as loop:
                i, end = b.mul(loop.index, four), b.sub(n, four)
                i = b.select(b.icmp_signed("<", i, end), i, end)
                base = b.add(start, b.mul(i, width))
                answer = _group(b, load_prob, q, single, base, width, weights)
                ahead = b.fadd(b.fmul(answer, scale, flags=FLAGS), added, flags=FLAGS)
                z = b.fadd(load_R(b.add(reward, i)), ahead, flags=FLAGS)
                place = b.gep(out, [b.add(to, i)])
                b.store(z, b.bitcast(place, DOUBLES.as_pointer())).align = 8
            return target.get_dummy_value()

        return signature, codegen

    return rows


_rows_1, _rows_2, _rows_3, _rows_4, _rows_5, _rows_6 = (_vectors(q + 1) for q in range(REGISTERS))


@kernel(inner=True)
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


@kernel(inner=True)
def block_of(prob, indptr, k, n_models):
    """The (N, n_next) block of pair k.

    Kernels index this view and not prob itself: with an offset of unknown sign numba would test
    every index for Python's negative ones, at five times the cost of the read.
    """
    lo, hi = indptr[k], indptr[k + 1]
    return prob[lo * n_models : hi * n_models].reshape(n_models, hi - lo)


@kernel(fastmath=REORDER, inner=True)
def dot_rows(P, w, out):
    """Fill out (n,) with Pw; P (n, width), w (width,)."""
    n, width = P.shape
    i = 0
    if width < SHORT_ROW:
        while i + 8 <= n:
            a0 = a1 = a2 = a3 = a4 = a5 = a6 = a7 = 0.0
            for j in range(width):
                x = w[j]
                a0 += P[i, j] * x
                a1 += P[i + 1, j] * x
                a2 += P[i + 2, j] * x
                a3 += P[i + 3, j] * x
                a4 += P[i + 4, j] * x
                a5 += P[i + 5, j] * x
                a6 += P[i + 6, j] * x
                a7 += P[i + 7, j] * x
            out[i], out[i + 1], out[i + 2], out[i + 3] = a0, a1, a2, a3
            out[i + 4], out[i + 5], out[i + 6], out[i + 7] = a4, a5, a6, a7
            i += 8
    for r in range(i, n):
        total = 0.0
        for j in range(width):
            total += P[r, j] * w[j]
        out[r] = total


@kernel(fastmath=REORDER, inner=True)
def dot_rows_rounded(P, w, out):
    """`dot_rows` with each row divided by its own sum: the models rounded storage stands for."""
    n, width = P.shape
    for i in range(n):
        total = mass = 0.0
        for j in range(width):
            x = np.float64(P[i, j])
            total += x * w[j]
            mass += x
        out[i] = total / mass


@kernel(inner=True)
def long_values(prob, indptr, next_states, k, v, shift, rounded, gamma, R, gathered, Z, row):
    """Fill row `row` of Z (…, N) with Z of pair k, by one dot product per model.

    v (S,) is shifted by −centre if `rounded`, and shift = γ·centre; gathered (S,) is scratch.
    """
    out, reward = Z[row], R[k // R.shape[1], k % R.shape[1]]
    N = out.size
    P = block_of(prob, indptr, k, N)
    width = P.shape[1]
    if width == v.size:  # the list is all states: read v itself
        if rounded:
            dot_rows_rounded(P, v, out)
        else:
            dot_rows(P, v, out)
    else:
        w, columns = gathered[:width], next_states[indptr[k] : indptr[k + 1]]
        for j in range(width):
            w[j] = v[columns[j]]
        if rounded:
            dot_rows_rounded(P, w, out)
        else:
            dot_rows(P, w, out)
    for i in range(N):
        out[i] = reward[i] + (gamma * out[i] + shift)


@threaded
def _fill_expected(first, last, prob, indptr, next_states, R, v, centre, rounded, gamma, Z):
    A, N, shift = R.shape[1], R.shape[2], gamma * centre
    gathered, weights = np.empty(v.size), np.empty(AHEAD * STRIDE)
    for begin in range(first * A, last * A, AHEAD):
        end = min(begin + AHEAD, last * A)
        for k in range(begin, end):
            lo = indptr[k]
            width = indptr[k + 1] - lo
            if short_row(width, N):
                fill_weights(v, next_states, lo, width, weights, (k - begin) * STRIDE)
        for k in range(begin, end):
            lo = indptr[k]
            width = indptr[k + 1] - lo
            if short_row(width, N):
                at = (k - begin) * STRIDE
                short_values(prob, lo, width, weights, at, gamma, shift, R, k, Z, k)
            elif width > 0:
                long_values(
                    prob, indptr, next_states, k, v, shift, rounded, gamma, R, gathered, Z, k
                )  # fmt: skip
            else:
                for i in range(N):
                    Z[k, i] = 0.0


def centred(prob: Probabilities, v: FloatArray) -> tuple[FloatArray, float, bool]:
    """(v − c, c, rounded) for float32 storage, (v, 0, False) for float64; v is read-only."""
    rounded = prob.dtype == np.float32
    c = 0.5 * float(v.min() + v.max()) if rounded else 0.0
    shifted = np.ascontiguousarray(v - c if rounded else v, dtype=np.float64).view()
    shifted.flags.writeable = False
    return shifted, c, rounded


def expected_values(
    prob: Probabilities,
    indptr: NDArray[np.int64],
    next_states: NDArray[np.int32],
    R: FloatArray,
    v: FloatArray,
    gamma: float,
    threads: bool | None = None,
    out: FloatArray | None = None,
) -> FloatArray:
    """Z (n_states, n_actions, n_models), like R and `out`; 0 where a pair has no next states.

    prob, indptr, next_states are the models' storage, prob in float64 or float32; v (n_states,).
    The states are shared out over threads where there is enough to read. Z goes to `out`, if given:
    the pages of a new array cost as much as a fifth of a sparse pass.
    """
    shifted, c, rounded = centred(prob, v)
    R = np.ascontiguousarray(R)
    Z = (np.empty(R.shape) if out is None else out).reshape(-1, R.shape[2])
    if threads is None:
        threads = prob.size > PARALLEL_READ
    _fill_expected(
        threads, 0, R.shape[0], prob, indptr, next_states, R, shifted, c, rounded, gamma, Z
    )
    return Z.reshape(R.shape)


def expected_rounding(
    width: int, v: FloatArray, R_max: float, rounded: bool, gamma: float
) -> float:
    """A bound on |computed Z − exact Z| for rows of at most `width` entries.

    A sum of n products of which one factor is a probability is off by at most n·ε·max|v| in any
    order of summation; the reward and the shift add a few units in the last place.
    """
    eps = float(np.finfo(np.float64).eps)
    size = float(np.abs(v).max())
    spread = 0.5 * float(np.ptp(v)) if rounded else size
    return eps * (gamma * (width + 2) * spread + 2 * (R_max + gamma * size))


@kernel(fastmath=REORDER)
def _mean_row(P, f, out):
    worst = 0.0
    for omega in range(P.shape[0]):
        total, weight = 0.0, f[omega]
        for j in range(P.shape[1]):
            total += P[omega, j]
            out[j] += weight * P[omega, j]
        worst = max(worst, abs(total - 1.0))
    return worst


@threaded
def _add_means(first, last, prob, indptr, f, rows, worst):
    for k in range(first, last):
        lo, hi = indptr[k], indptr[k + 1]
        if hi > lo:
            worst[k] = _mean_row(block_of(prob, indptr, k, f.size), f, rows[lo:hi])


def mean_rows(
    prob: FloatArray, indptr: NDArray[np.int64], f: FloatArray, rows: FloatArray, threads: bool
) -> float:
    """Add the mean model Σ_ω f_ω·P̂^ω to rows (nnz,), in one pass over the models.

    Returns max |row sum − 1| over pairs and models.
    """
    worst = np.zeros(indptr.size - 1)
    _add_means(threads, 0, worst.size, prob, indptr, f, rows, worst)
    return float(worst.max())
