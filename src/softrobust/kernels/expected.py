"""Expected values of the next step in every model: Z[s,a,ω] = R[s,a,ω] + γ·Σ_s′ P̂^ω(s′|s,a)·v(s′).

This is the only pass over the transition probabilities that a rectangular sweep makes (section 4),
so it is written to run at the speed of memory: long rows as one vectorised dot product each, short
rows eight at a time, and the next states of a pair gathered once for all its models.

float32 storage is read with float64 sums. A row of rounded numbers misses 1 by about 1e-8, which at
γ = .999 moves a value by 1e-5 of itself; so there a row p stands for the model p/Σp, computed as
c + p·(v − c)/Σp with c in the middle of v: what is left of the rounding is the model's own.

Shapes: S states, A actions, N models; storage as in `models.model_set`: pair k = s·A + a lists
next_states[indptr[k]:indptr[k+1]], and its block of prob is (N, n_next), row by row.
"""

from __future__ import annotations

import numpy as np
from numba import prange
from numpy.typing import NDArray

from softrobust.kernels._jit import REORDER, kernel
from softrobust.kernels.short_rows import STRIDE, fill_weights, fits, short_values

SHORT_ROW = 24  # below this many next states, eight rows share one loop
PARALLEL_READ = 4_000_000  # probabilities below which threads cost more than they bring
AHEAD = 512  # pairs whose v are gathered at once: jumps between reads upset prefetching
CHUNKS = 64  # parts into which the states are dealt out to threads

Probabilities = NDArray[np.float64] | NDArray[np.float32]
FloatArray = NDArray[np.float64]


@kernel
def block_of(prob, indptr, k, n_models):
    """The (N, n_next) block of pair k.

    Kernels index this view and not prob itself: with an offset of unknown sign numba would test
    every index for Python's negative ones, at five times the cost of the read.
    """
    lo, hi = indptr[k], indptr[k + 1]
    return prob[lo * n_models : hi * n_models].reshape(n_models, hi - lo)


@kernel(fastmath=REORDER)
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


@kernel(fastmath=REORDER)
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


@kernel
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


@kernel
def _expected_range(first, last, prob, indptr, next_states, R, v, centre, rounded, gamma, Z):
    A, N, shift = R.shape[1], R.shape[2], gamma * centre
    gathered, weights = np.empty(v.size), np.empty(AHEAD * STRIDE)
    for begin in range(first * A, last * A, AHEAD):
        end = min(begin + AHEAD, last * A)
        for k in range(begin, end):
            lo = indptr[k]
            width = indptr[k + 1] - lo
            if fits(width, N):
                fill_weights(v, next_states, lo, width, weights, (k - begin) * STRIDE)
        for k in range(begin, end):
            lo = indptr[k]
            width = indptr[k + 1] - lo
            if fits(width, N):
                at = (k - begin) * STRIDE
                short_values(prob, lo, width, weights, at, gamma, shift, R, k, Z, k)
            elif width > 0:
                long_values(
                    prob, indptr, next_states, k, v, shift, rounded, gamma, R, gathered, Z, k
                )  # fmt: skip
            else:
                for i in range(N):
                    Z[k, i] = 0.0


@kernel(parallel=True)
def _expected_parallel(prob, indptr, next_states, R, v, centre, rounded, gamma, Z):
    S = R.shape[0]
    for c in prange(CHUNKS):
        _expected_range(
            c * S // CHUNKS, (c + 1) * S // CHUNKS,
            prob, indptr, next_states, R, v, centre, rounded, gamma, Z,
        )  # fmt: skip


def centred(prob: Probabilities, v: FloatArray) -> tuple[FloatArray, float, bool]:
    """(v − c, c, rounded) for float32 storage, (v, 0, False) for float64.

    Returns
    -------
    v : (n_states,), read-only
    """
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
    """Z for all states, actions and models; 0 where a pair has no next states.

    Parameters
    ----------
    prob, indptr, next_states
        The models' storage, prob in float64 or float32.
    R : (n_states, n_actions, n_models)
    v : (n_states,)
    threads : bool, optional
        Share the states out over threads; by default where there is enough to read.
    out : (n_states, n_actions, n_models), optional
        Where to write Z; the pages of a new array cost as much as a fifth of a sparse pass.

    Returns
    -------
    (n_states, n_actions, n_models)
    """
    shifted, c, rounded = centred(prob, v)
    R = np.ascontiguousarray(R)
    Z = (np.empty(R.shape) if out is None else out).reshape(-1, R.shape[2])
    if threads is None:
        threads = prob.size > PARALLEL_READ
    if threads:
        _expected_parallel(prob, indptr, next_states, R, shifted, c, rounded, gamma, Z)
    else:
        _expected_range(0, R.shape[0], prob, indptr, next_states, R, shifted, c, rounded, gamma, Z)
    return Z.reshape(R.shape)


def rounding(width: int, v: FloatArray, R_max: float, rounded: bool, gamma: float) -> float:
    """A bound on |computed Z − exact Z| for rows of at most `width` entries.

    A sum of n products of which one factor is a probability is off by at most n·ε·max|v| in any
    order of summation; the reward and the shift add a few units in the last place.
    """
    eps = float(np.finfo(np.float64).eps)
    size = float(np.abs(v).max())
    spread = 0.5 * float(np.ptp(v)) if rounded else size
    return eps * (gamma * (width + 2) * spread + 2 * (R_max + gamma * size))
