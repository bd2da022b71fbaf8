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

from softrobust.kernels._jit import REORDER, kernel, threaded
from softrobust.kernels.tail import dot, heap_of, smallest, soft_robust_value

BLOCK = 16  # models side by side: as many as fill the registers of a loop


@kernel
def _rows(indptr, next_states, prob, R, p0, gamma, order, pairs, first, own, W):
    """W (rows, S + 2, BLOCK) ← p₀ and the rows of all pairs: G, the reward, the slack.

    order (S,): place → state; pairs (n,): (s·A + a) by place; `own` models from `first` on.
    """
    S, A, N = R.shape
    place = np.empty(S, np.int64)
    for i in range(S):
        place[order[i]] = i
    W[:] = 0.0
    for b in range(own):
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
    for b in range(own, BLOCK):  # nobody's models: every system must have an answer
        for i in range(1, W.shape[0]):
            W[i, S + 1, b] = 1.0


@kernel(fastmath=REORDER)
def _take_out(W, level, q, n_rows, n_columns, keep, below, scale, factor):
    """W[below] ← W[level] without its first column, by row q.

    Of n_rows, row 0 and those from `keep` on are kept. The state to take out has the first of
    n_columns, reward and slack the last; scale, factor (BLOCK,) are room to work in.
    """
    for b in range(BLOCK):
        scale[b] = W[level, q, n_columns - 1, b]
    for j in range(1, n_columns - 2):
        for b in range(BLOCK):
            scale[b] += W[level, q, j, b]
    for b in range(BLOCK):
        scale[b] = 1.0 / scale[b]
    to = 0
    for i in range(n_rows):
        if 0 < i < keep:
            continue
        for b in range(BLOCK):
            factor[b] = W[level, i, 0, b] * scale[b]
        for j in range(1, n_columns):
            for b in range(BLOCK):
                W[below, to, j - 1, b] = W[level, i, j, b] + factor[b] * W[level, q, j, b]
        to += 1


@kernel
def _block(indptr, next_states, prob, R, p0, gamma, order, sizes, pairs, digits, n, first, X):
    """Returns of n stops of the tree, from the one at `digits` on, for one block of models."""
    S, N = order.size, R.shape[2]
    own = min(BLOCK, N - first)
    left = np.zeros(S + 1, np.int64)  # rows before each place is taken out, p₀'s among them
    left[S] = 1
    for i in range(S - 1, -1, -1):
        left[i] = left[i + 1] + sizes[i]
    fixed = 0
    while fixed < S - 1 and sizes[fixed] == 1:
        fixed += 1
    scale, factor = np.empty(BLOCK), np.empty(BLOCK)
    start = np.empty((2, left[0], S + 2, BLOCK))
    _rows(indptr, next_states, prob, R, p0, gamma, order, pairs, first, own, start[0])
    for level in range(fixed):
        at = level % 2
        own_row = left[S]  # 1, but no constant, for which numba would compile it anew
        _take_out(
            start, at, own_row, left[level], S + 2 - level, own_row + 1, 1 - at, scale, factor
        )
    stack = np.empty((S - fixed, left[fixed], S + 2 - fixed, BLOCK))
    for i in range(left[fixed]):
        for j in range(S + 2 - fixed):
            for b in range(BLOCK):
                stack[0, i, j, b] = start[fixed % 2, i, j, b]
    digit, changed, last = np.empty(S, np.int64), fixed, S - 1 - fixed
    for i in range(S):
        digit[i] = digits[i]
    for stop in range(n):
        for level in range(changed, S - 1):
            i = level - fixed
            _take_out(
                stack, i, digit[level] + 1, left[level], S + 2 - level, sizes[level] + 1, i + 1,
                scale, factor,
            )  # fmt: skip
        for q in range(sizes[S - 1]):
            for b in range(own):
                share = stack[last, 0, 0, b] / stack[last, q + 1, 2, b]
                X[stop, q, first + b] = stack[last, 0, 1, b] + share * stack[last, q + 1, 1, b]
        changed = S - 2
        while changed >= fixed:
            digit[changed] += 1
            if digit[changed] < sizes[changed]:
                break
            digit[changed] = 0
            changed -= 1
        changed = max(changed, fixed)


@threaded
def tree_returns(
    first, last, indptr, next_states, prob, R, p0, gamma, order, sizes, pairs, digits, n, X
):
    """Returns X (≥ n, actions of the last state, N) of n stops of the tree, blocks first … last.

    order (S,): the states as they are taken out, those without a choice first; sizes (S,) their
    numbers of actions; pairs (Σ sizes,): (s·A + a) in that order; digits (S,) the choices of the
    first stop, the last one's 0. The choice of the last state but one changes fastest.
    """
    for block in range(first, last):
        _block(
            indptr, next_states, prob, R, p0, gamma, order, sizes, pairs, digits, n, block * BLOCK,
            X,
        )  # fmt: skip


@kernel
def best_stop(X, f, lam, alpha, xi, floor):
    """The row of X (n, N) of greatest soft-robust value above `floor`; (−1, floor) if none is.

    Any ξ ∈ Ξ shows that a row is not, by value ≤ ξ·x. Rows that follow each other are alike, so the
    worst case of the last row that ξ let through is the ξ (N,) for the next; in place.
    """
    tail = 1.0 - alpha
    best, best_k = floor, -1
    for k in range(X.shape[0]):
        if not dot(X[k], xi) > best:
            continue
        value = soft_robust_value(X[k], f, lam, alpha)
        if value > best:
            best, best_k = value, k
        for omega in range(xi.size):
            xi[omega] = (1.0 - lam) * f[omega]
        heap, n, left = heap_of(X[k]), xi.size, tail
        if tail <= 0.0:
            xi[heap[0]] += lam
        while n > 0 and left > 0.0:
            omega = smallest(heap, n, X[k])
            take = min(f[omega], left)
            xi[omega] += lam * take / tail
            n, left = n - 1, left - take
    return best_k, best
