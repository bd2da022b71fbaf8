"""LU factors with partial pivoting for the tiny systems of a simplex basis.

The kernel of a basis has a handful of rows (1.5 to 6 on average), where LAPACK spends more on the
call than on the arithmetic. Row i of the factored matrix is row perm[i] of the original.
"""

from __future__ import annotations

from softrobust.kernels._jit import kernel

SINGULAR = 1e-13  # a smaller pivot counts as zero; entries are of order 1


@kernel
def factor(B, n, perm):
    """B[:n, :n] ← L (unit lower) and U; perm (n,) ← row order. False where B is singular."""
    for i in range(n):
        perm[i] = i
    for c in range(n):
        p = c
        for i in range(c + 1, n):
            if abs(B[i, c]) > abs(B[p, c]):
                p = i
        if not abs(B[p, c]) > SINGULAR:
            return False
        if p != c:
            perm[p], perm[c] = perm[c], perm[p]
            for j in range(n):
                B[p, j], B[c, j] = B[c, j], B[p, j]
        inverse = 1.0 / B[c, c]
        for i in range(c + 1, n):
            if B[i, c] != 0.0:
                B[i, c] *= inverse
                for j in range(c + 1, n):
                    B[i, j] -= B[i, c] * B[c, j]
    return True


@kernel
def solve(B, n, perm, rhs, x):
    """Solve Bx = rhs for x (n,), from the factors."""
    for i in range(n):
        total = rhs[perm[i]]
        for j in range(i):
            total -= B[i, j] * x[j]
        x[i] = total
    for i in range(n - 1, -1, -1):
        total = x[i]
        for j in range(i + 1, n):
            total -= B[i, j] * x[j]
        x[i] = total / B[i, i]


@kernel
def solve_transposed(B, n, perm, rhs, x, y):
    """Solve Bᵀx = rhs for x (n,), from the factors; y (n,) is scratch."""
    for i in range(n):
        total = rhs[i]
        for j in range(i):
            total -= B[j, i] * y[j]
        y[i] = total / B[i, i]
    for i in range(n - 1, -1, -1):
        total = y[i]
        for j in range(i + 1, n):
            total -= B[j, i] * y[j]
        y[i] = total
    for i in range(n):
        x[perm[i]] = y[i]
