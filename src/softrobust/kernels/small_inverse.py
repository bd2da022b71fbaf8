"""The inverse of a simplex basis, kept up to date from pivot to pivot.

The kernel of a basis of size k is the bordered matrix of k actions (rows) and k models (columns),

    B = [[0, 1ᵀ], [−1, M_KF]],      W = B⁻¹,

with position 0 for the border: Σq = 1 and its price. A pivot adds, replaces or removes one row and
one column of B, which is a correction of rank one to W: k² operations where factors cost k³. The
handful of rows (1.5 to 6 on average) is far below what LAPACK's calls pay for.
"""

from __future__ import annotations

from softrobust.kernels._jit import REORDER, kernel

SINGULAR = 1e-13  # a smaller pivot counts as zero; entries are of order 1
PERM = 2  # row of the integer work array, as in `s_pivot`


@kernel(inline=True)
def _largest(W, c, n):
    p = c
    for i in range(c + 1, n):
        if abs(W[i, c]) > abs(W[p, c]):
            p = i
    return p


@kernel(fastmath=REORDER, inline=True)
def _eliminate(W, c, n):
    inverse = 1.0 / W[c, c]
    W[c, c] = 1.0
    for j in range(n):
        W[c, j] *= inverse
    for i in range(n):
        if i != c:
            factor = W[i, c]
            W[i, c] = 0.0
            for j in range(n):
                W[i, j] -= factor * W[c, j]


@kernel
def invert(W, n, J):
    """Replace W[:n, :n] by its inverse (Gauss and Jordan, partial pivoting); False if singular."""
    for c in range(n):
        p = _largest(W, c, n)
        if not abs(W[p, c]) > SINGULAR:
            return False
        J[PERM, c] = p
        if p != c:
            for j in range(n):
                W[p, j], W[c, j] = W[c, j], W[p, j]
        _eliminate(W, c, n)
    for c in range(n - 1, -1, -1):
        p = J[PERM, c]
        if p != c:
            for i in range(n):
                W[i, p], W[i, c] = W[i, c], W[i, p]
    return True


@kernel(fastmath=REORDER, inline=True)
def times(W, n, Y, rhs, out):
    """Fill Y[out, :n] with W·Y[rhs]."""
    for i in range(n):
        total = 0.0
        for j in range(n):
            total += W[i, j] * Y[rhs, j]
        Y[out, i] = total


@kernel(fastmath=REORDER, inline=True)
def times_transposed(W, n, Y, rhs, out):
    """Fill Y[out, :n] with Wᵀ·Y[rhs]."""
    for j in range(n):
        Y[out, j] = Y[rhs, 0] * W[0, j]
    for i in range(1, n):
        weight = Y[rhs, i]
        for j in range(n):
            Y[out, j] += weight * W[i, j]


@kernel(fastmath=REORDER, inline=True)
def add_pair(W, n, Y, row, column, pivot):
    """Border B by an action, y = Y[row] = Wᵀ(1; −M_aF), and a model, c = Y[column] = W(1; M_Ke).

    pivot = M_ae + yᵀ(1; M_Ke).
    """
    inverse = 1.0 / pivot
    for i in range(n):
        share = Y[column, i] * inverse
        for j in range(n):
            W[i, j] -= share * Y[row, j]
        W[i, n] = -share
    for j in range(n):
        W[n, j] = Y[row, j] * inverse
    W[n, n] = inverse


@kernel(fastmath=REORDER, inline=True)
def replace_row(W, n, Y, row, i):
    """Another action at position i of K, y = Y[row] as in `add_pair`."""
    inverse = 1.0 / Y[row, i]
    for r in range(n):
        share = W[r, i] * inverse
        for j in range(n):
            W[r, j] -= share * Y[row, j]
        W[r, i] = -share


@kernel(fastmath=REORDER, inline=True)
def replace_column(W, n, Y, column, j):
    """Another model at position j of F, c = Y[column] as in `add_pair`."""
    inverse = 1.0 / Y[column, j]
    for i in range(n):
        W[j, i] *= inverse
    for r in range(n):
        if r != j:
            share = Y[column, r]
            for i in range(n):
                W[r, i] -= share * W[j, i]


@kernel(fastmath=REORDER, inline=True)
def remove_pair(W, n, i, j):
    """Drop position i of K and j of F; the last ones take their places."""
    inverse = 1.0 / W[j, i]
    for r in range(n):
        if r != j:
            share = W[r, i] * inverse
            for c in range(n):
                W[r, c] -= share * W[j, c]
    for c in range(n):
        W[j, c] = W[n - 1, c]
    for r in range(n):
        W[r, i] = W[r, n - 1]
