"""Returns of all decision rules of a set, by eliminating one state after the other.

ρ(d, P̂^ω) = p₀ᵀ(I − G_d)⁻¹r_d, G = γP. A state s is taken out of the system by its own equation,

    v(s) = [R(s,a) + Σ_{j≠s} G(s,a,j)·v(j)] / D,     D = 1 − G(s,a,s),

which is put into the rows of all pairs of the states left, and into p₀. Rules that agree in the
first states share their elimination, so the rules are walked as a tree: what is done above the last
few states is done rarely, and a rule costs a few dozen operations, whatever the number of states.

No digits are lost. With the slack T = 1 − Σ_j G(·,j) kept as one more column, D is the sum of
T and all G(s,a,j) but j = s, without a subtraction (Grassmann, Taksar and Heyman), and all numbers
but the rewards are sums of products of non-negative ones. A step with k states left computes each
number of the smaller system within a factor 1 ± (k + 4)u of what exact arithmetic would make of the
numbers before it. By the matrix-tree theorem an entry of the inverse is a quotient of polynomials
with non-negative coefficients, of degree k − 1 over degree k in G and T; so that changes it by
(2k + 1)(k + 4)u of itself at most, p₀ and r included, and all S steps together the return by

    Σ_k (2k + 1)(k + 4)·u    of    p₀ᵀ(I − G_d)⁻¹|r_d|  ≤  max|R|·Σp₀/(1 − γσ).

The slacks themselves are off by (n + 3)u for rows of n entries, hence by (n + 3)u/min T of
themselves: (2S + 1) times that comes on top (`solvers.exact.enumeration`). All of it to first order
in u; `EPS` is 2u, which covers the rest.

BLOCK models are computed side by side. Shapes: S states, A actions, N models; storage as in
`kernels.evaluate`.
"""

from __future__ import annotations

import numpy as np
from numba import prange

from softrobust.kernels._jit import REORDER, kernel, threaded

BLOCK = 16  # models side by side: as many as fill the registers of a loop


@kernel
def _rows(indptr, next_states, prob, R, p0, gamma, order, pairs, first, omega, W):
    """W (rows, S + 2, BLOCK) ← p₀ and the rows of all pairs: G, the reward, the slack.

    order (S,): place → state; pairs (n,): (s·A + a) by place; first: the models' number.
    """
    S, A, N = R.shape
    place = np.empty(S, np.int64)
    for i in range(S):
        place[order[i]] = i
    W[:] = 0.0
    for b in range(omega):
        for s in range(S):
            W[0, place[s], b] = p0[s]
        for i in range(pairs.size):
            k = pairs[i]
            lo, width = indptr[k], indptr[k + 1] - indptr[k]
            row = lo * N + (first + b) * width
            total = 0.0
            for j in range(width):
                total += prob[row + j]
                W[i + 1, place[next_states[lo + j]], b] += gamma * prob[row + j]
            W[i + 1, S, b] = R[k // A, k % A, first + b]
            W[i + 1, S + 1, b] = 1.0 - gamma * total
    for b in range(omega, BLOCK):  # nobody's models: every system must have an answer
        W[1:, S + 1, b] = 1.0


@kernel(fastmath=REORDER)
def _take_out(W, q, n_rows, n_columns, keep, scale, factor, out):
    """out ← W without its first column, by row q; of W's n_rows, row 0 and those from `keep` on.

    W (…, n_columns, BLOCK): the state to take out has the first column; reward and slack the last.
    scale, factor (BLOCK,): room to work in.
    """
    for b in range(BLOCK):
        scale[b] = W[q, n_columns - 1, b]
    for j in range(1, n_columns - 2):
        for b in range(BLOCK):
            scale[b] += W[q, j, b]
    for b in range(BLOCK):
        scale[b] = 1.0 / scale[b]
    to = 0
    for i in range(n_rows):
        if 0 < i < keep:
            continue
        for b in range(BLOCK):
            factor[b] = W[i, 0, b] * scale[b]
        for j in range(1, n_columns):
            for b in range(BLOCK):
                out[to, j - 1, b] = W[i, j, b] + factor[b] * W[q, j, b]
        to += 1


@kernel(fastmath=REORDER)
def _last(W, n, scale, out):
    """out (n, BLOCK) ← returns with each of the n actions of the last state."""
    for q in range(n):
        for b in range(BLOCK):
            scale[b] = W[0, 0, b] / W[q + 1, 2, b]
            out[q, b] = W[0, 1, b] + scale[b] * W[q + 1, 1, b]


@kernel
def _block(indptr, next_states, prob, R, p0, gamma, order, sizes, pairs, digits, n, first, X):
    """Returns of n stops of the tree, from the one at `digits` on, for one block of models."""
    S, N = order.size, R.shape[2]
    own = min(BLOCK, N - first)
    starts = np.zeros(S + 1, np.int64)  # rows of the pairs left before each place, with p₀'s
    for i in range(S):
        starts[i + 1] = starts[i] + sizes[i]
    total = starts[S]
    fixed = 0
    while fixed < S - 1 and sizes[fixed] == 1:
        fixed += 1
    W = np.empty((total + 1, S + 2, BLOCK))
    _rows(indptr, next_states, prob, R, p0, gamma, order, pairs, first, own, W)
    other = np.empty((total + 1, S + 2, BLOCK)) if fixed else W
    scale, factor = np.empty(BLOCK), np.empty(BLOCK)
    for level in range(fixed):
        _take_out(W, 1, total - starts[level] + 1, S + 2 - level, 2, scale, factor, other)
        W, other = other, W
    room = np.zeros(S - fixed + 1, np.int64)  # where a level's numbers begin
    for level in range(fixed, S):
        cells = (total - starts[level] + 1) * (S + 2 - level) * BLOCK
        room[level - fixed + 1] = room[level - fixed] + cells
    stack = np.empty(room[S - fixed])
    n_rows, n_columns = total - starts[fixed] + 1, S + 2 - fixed
    at = stack[: room[1]].reshape(n_rows, n_columns, BLOCK)
    at[:] = W[:n_rows, :n_columns]
    digit, changed, A_last = digits.copy(), fixed, sizes[S - 1]
    found = np.empty((A_last, BLOCK))
    for stop in range(n):
        for level in range(changed, S - 1):
            i = level - fixed
            n_rows, n_columns = total - starts[level] + 1, S + 2 - level
            here = stack[room[i] : room[i + 1]].reshape(n_rows, n_columns, BLOCK)
            below = stack[room[i + 1] : room[i + 2]].reshape(
                n_rows - sizes[level], n_columns - 1, BLOCK
            )
            _take_out(
                here, digit[level] + 1, n_rows, n_columns, sizes[level] + 1, scale, factor, below
            )
        i = S - 1 - fixed
        _last(stack[room[i] : room[i + 1]].reshape(A_last + 1, 3, BLOCK), A_last, scale, found)
        for q in range(A_last):
            for b in range(own):
                X[stop, q, first + b] = found[q, b]
        changed = S - 2
        while changed >= fixed:
            digit[changed] += 1
            if digit[changed] < sizes[changed]:
                break
            digit[changed] = 0
            changed -= 1
        changed = max(changed, fixed)


@threaded
def tree_returns(indptr, next_states, prob, R, p0, gamma, order, sizes, pairs, digits, n, X):
    """Returns X (≥ n, actions of the last state, N) of n stops of the tree of rules.

    order (S,): the states as they are taken out, those without a choice first; sizes (S,) their
    numbers of actions; pairs (Σ sizes,): (s·A + a) in that order; digits (S,) the choices of the
    first stop, the last one's 0. The choice of the last state but one changes fastest.
    """
    for block in prange((R.shape[2] + BLOCK - 1) // BLOCK):
        _block(
            indptr, next_states, prob, R, p0, gamma, order, sizes, pairs, digits, n, block * BLOCK,
            X,
        )  # fmt: skip
