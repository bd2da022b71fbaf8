"""LU factors with partial pivoting for the tiny systems of a simplex basis.

Vectors are rows of the work arrays J and Y of `s_pivot`. The kernel of a basis has a handful of
rows (1.5 to 6 on average), where LAPACK spends more on the call than on the arithmetic. Row i of
the factored matrix is row J[PERM, i] of the original.
"""

from __future__ import annotations

from softrobust.kernels._jit import kernel

# Rows of the integer and real work arrays, as in `s_pivot`.
PERM = 2
RHS, SOL, TMP, BASIC = 2, 3, 4, 6
SINGULAR = 1e-13  # a smaller pivot counts as zero; entries are of order 1


@kernel
def factor(B, n, J):
    """B[:n, :n] ← L (unit lower) and U; J[PERM] ← row order. False where B is singular."""
    for i in range(n):
        J[PERM, i] = i
    for c in range(n):
        p = c
        for i in range(c + 1, n):
            if abs(B[i, c]) > abs(B[p, c]):
                p = i
        if not abs(B[p, c]) > SINGULAR:
            return False
        if p != c:
            J[PERM, p], J[PERM, c] = J[PERM, c], J[PERM, p]
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
def solve(B, n, J, Y):
    """Solve Bx = Y[RHS] for x = Y[BASIC], from the factors."""
    for i in range(n):
        total = Y[RHS, J[PERM, i]]
        for j in range(i):
            total -= B[i, j] * Y[BASIC, j]
        Y[BASIC, i] = total
    for i in range(n - 1, -1, -1):
        total = Y[BASIC, i]
        for j in range(i + 1, n):
            total -= B[i, j] * Y[BASIC, j]
        Y[BASIC, i] = total / B[i, i]


@kernel
def solve_transposed(B, n, J, Y):
    """Solve Bᵀx = Y[RHS] for x = Y[SOL], from the factors; Y[TMP] is scratch."""
    for i in range(n):
        total = Y[RHS, i]
        for j in range(i):
            total -= B[j, i] * Y[TMP, j]
        Y[TMP, i] = total / B[i, i]
    for i in range(n - 1, -1, -1):
        total = Y[TMP, i]
        for j in range(i + 1, n):
            total -= B[j, i] * Y[TMP, j]
        Y[TMP, i] = total
    for i in range(n):
        Y[SOL, J[PERM, i]] = Y[TMP, i]
