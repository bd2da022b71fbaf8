"""One pivot of the dual simplex method with bound flipping, for the game of `s_game`.

A basis is K, the support of the decision d (binding rows), and as many fractional models F; every
other q sits at 0 or at u, as the sign of its reduced cost dᵀM_ω − b asks. The inverse W of its
kernel (`small_inverse`) gives d and b, its row of the border, and (t, q_F) = W·(1 − Σ_up u; −h_K).
A violated variable leaves (an action better than t, or a q_F out of its bounds), what enters comes
from the ratio test (`s_ratio`).

Who leaves: the violation is measured in units of how far a step changes reduced costs (dual
steepest edge), for which the range of an action's row stands: it halves the pivots of many actions.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from softrobust.kernels._jit import REORDER, kernel
from softrobust.kernels.borrow import borrow
from softrobust.kernels.s_ratio import flips, ratio_test
from softrobust.kernels.small_inverse import (
    SINGULAR,
    add_pair,
    invert,
    remove_pair,
    replace_column,
    replace_row,
    times,
    times_transposed,
)

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]

FEASIBLE = 2e-14  # violations below this, in units of the spread of Z, are rounding

# Rows of X (vectors over models): reduced costs dᵀM_ω − b, their change along a pivot, nature's q,
# the side of each model (1 at q = 0, −1 at q = u, 0 in F), how fast and from how far a reduced cost
# comes to 0, breakpoints and the slope lost at each; four rows from SCRATCH on are for `select`.
RC, DELTA, Q, SIDE, SPEED, AWAY, RATIO, DROP, SCRATCH = 0, 1, 2, 3, 4, 5, 6, 7, 8
# Rows of Y (vectors over actions, or over positions in K or F from 1 on, 0 being the border):
# Σ u·M over q at the upper bound, row means of M, a right-hand side, a direction (price, then K), a
# column (t, then F), (−b, d), (t, q_F), 1 for actions in K, one over the ranges of rows.
H, MEANS, RHS, SOL, COLUMN, D, BASIC, BINDING, SCALE = 0, 1, 2, 3, 4, 5, 6, 7, 8
# Rows of J (integers): the actions in K, the models in F, row order of an inversion, breakpoints.
ROWS, MODELS, PERM, WHICH = 0, 1, 2, 3


class GameWork(NamedTuple):
    """Scratch of one thread: A actions, N models with f > 0.

    Few arrays with named rows, and not an array for each: numba counts references to every array
    that a function takes out of a tuple, which cost more than the arithmetic of a small game.
    """

    M: FloatArray  # (A, N) the game, centred and divided by the spread of Z
    X: FloatArray  # (12, N)
    Y: FloatArray  # (9, A + 1)
    J: IntArray  # (4, max(N, A + 1))
    W: FloatArray  # (A + 1, A + 1) the inverse of the basis's kernel


@kernel
def game_work(A, N):
    """Allocate the scratch of one thread."""
    return GameWork(
        np.zeros((A, N)),
        np.zeros((SCRATCH + 4, N)),
        np.zeros((9, A + 1)),
        np.zeros((4, max(N, A + 1)), np.int64),
        np.zeros((A + 1, A + 1)),
    )


@kernel
def borrow_work(work):
    """The arrays of `work` without an owner; `keep(work)` after their last use."""
    return borrow(work.M), borrow(work.X), borrow(work.Y), borrow(work.J), borrow(work.W)


@kernel(fastmath=REORDER, inline=True)
def combine(M, J, Y, weights, k, X, out):
    """Fill X[out] with w_0 + Σ_{j ≤ k} w_j·M[K_j] for w = Y[weights]."""
    N = M.shape[1]
    start, first, share = Y[weights, 0], J[ROWS, 0], Y[weights, 1]  # a basis has k ≥ 1
    for i in range(N):
        X[out, i] = start + share * M[first, i]
    for j in range(1, k):
        a, weight = J[ROWS, j], Y[weights, j + 1]
        for i in range(N):
            X[out, i] += weight * M[a, i]


@kernel(fastmath=REORDER, inline=True)
def _add_row(M, a, X):
    for i in range(M.shape[1]):
        X[DELTA, i] += M[a, i]


@kernel(fastmath=REORDER, inline=True)
def _move_costs(theta, N, X):
    for i in range(N):
        X[RC, i] += theta * X[DELTA, i]


@kernel(inline=True)
def clear(Y):
    """Empty K."""
    for a in range(Y.shape[1]):
        Y[BINDING, a] = 0.0


@kernel(fastmath=REORDER)
def best_row(M, n, X):
    """max_a (Mq)_a over the first n rows."""
    best = -np.inf
    for a in range(n):
        total = 0.0
        for i in range(M.shape[1]):
            total += M[a, i] * X[Q, i]
        best = max(best, total)
    return best


@kernel(fastmath=REORDER, inline=True)
def _mass_up(u, X):
    total = 0.0
    for i in range(u.size):
        total += u[i] if X[SIDE, i] < 0.0 else 0.0
    return total


@kernel
def factor_basis(k, M, J, W):
    """W afresh for (K, F); False where the basis is singular."""
    if k == 1:  # the most frequent by far
        W[0, 0], W[0, 1], W[1, 0], W[1, 1] = M[J[ROWS, 0], J[MODELS, 0]], -1.0, 1.0, 0.0
        return True
    W[0, 0] = 0.0
    for i in range(k):
        W[0, i + 1] = 1.0
        W[i + 1, 0] = -1.0
        for j in range(k):
            W[i + 1, j + 1] = M[J[ROWS, i], J[MODELS, j]]
    return invert(W, k + 1, J)


@kernel(inline=True)
def _read_decision(k, Y, W):
    """(−b, d) from W; returns the smallest d."""
    least = 1.0
    Y[D, 0] = -W[0, 0]
    for i in range(1, k + 1):
        Y[D, i] = -W[0, i]
        least = min(least, Y[D, i])
    return least


@kernel
def price(k, M, X, Y, J, W):
    """(−b, d) and the reduced costs of all models from W; returns the smallest d."""
    least = _read_decision(k, Y, W)
    combine(M, J, Y, D, k, X, RC)
    return least


@kernel(fastmath=REORDER)
def _sides(N, X):
    for i in range(N):
        X[SIDE, i] = -1.0 if X[RC, i] < 0.0 else 1.0


@kernel
def set_sides(n, k, u, M, X, Y, J):
    """Every q outside F to the bound its reduced cost asks for; h afresh."""
    _sides(u.size, X)
    for j in range(k):
        X[SIDE, J[MODELS, j]] = 0.0
    refresh(n, u, M, X, Y)


@kernel(fastmath=REORDER)
def refresh(n, u, M, X, Y):
    """Compute h afresh."""
    for a in range(n):
        total = 0.0
        for i in range(u.size):
            total += M[a, i] * (u[i] if X[SIDE, i] < 0.0 else 0.0)
        Y[H, a] = total


@kernel(inline=True)
def _apply_flips(n, count, M, X, Y, J):
    """Add to h the steps X[DROP, :count] of the models J[WHICH, :count]."""
    for a in range(n):
        total = 0.0
        for p in range(count):
            total += X[DROP, p] * M[a, J[WHICH, p]]
        Y[H, a] += total


@kernel(inline=True)
def primal(n, k, u, M, X, Y, J, W):
    """t and q_F from W; returns (t, violation, code) of who leaves, a violation of 0 if none.

    Codes: a ≥ 0 an action outside K; −1 − 2j model F[j] below 0, −2 − 2j above its bound.
    """
    Y[RHS, 0] = 1.0 - _mass_up(u, X)
    for i in range(k):
        Y[RHS, i + 1] = -Y[H, J[ROWS, i]]
    times(W, k + 1, Y, RHS, BASIC)
    t = Y[BASIC, 0]
    worst, code, score = 0.0, -9, 0.0
    for a in range(n):
        total = Y[H, a] - t
        for j in range(k):
            total += M[a, J[MODELS, j]] * Y[BASIC, j + 1]
        if total > FEASIBLE and Y[BINDING, a] == 0.0 and total * Y[SCALE, a] > score:
            worst, code, score = total, a, total * Y[SCALE, a]
    # Steps of actions change more the larger the basis: models go first in large ones.
    scale = max(1.0, (0.2 * k) ** 0.5)
    for j in range(k):
        low, high = -Y[BASIC, j + 1], Y[BASIC, j + 1] - u[J[MODELS, j]]
        if low > FEASIBLE and low * scale > score:
            worst, code, score = low, -1 - 2 * j, low * scale
        if high > FEASIBLE and high * scale > score:
            worst, code, score = high, -2 - 2 * j, high * scale
    return t, worst, code


@kernel(inline=True)
def _direction(k, code, M, X, Y, J, W):
    """Change of (−b, d) and of every reduced cost per unit step of the leaving variable."""
    if code >= 0:
        Y[RHS, 0] = 1.0
        for j in range(k):
            Y[RHS, j + 1] = -M[code, J[MODELS, j]]
        times_transposed(W, k + 1, Y, RHS, SOL)
    else:
        j = (-1 - code) // 2
        sign = 1.0 if (-1 - code) % 2 == 0 else -1.0
        for i in range(k + 1):
            Y[SOL, i] = sign * W[j + 1, i]
    combine(M, J, Y, SOL, k, X, DELTA)
    if code >= 0:
        _add_row(M, code, X)


@kernel(inline=True)
def _column(k, entering, M, Y, J, W):
    """The column of a model that enters, in terms of the basis."""
    Y[RHS, 0] = 1.0
    for i in range(k):
        Y[RHS, i + 1] = M[J[ROWS, i], entering]
    times(W, k + 1, Y, RHS, COLUMN)


@kernel(inline=True)
def _exchange(k, code, kind, entering, M, Y, J, W):
    """W, K and F after the pivot; returns their size, −1 where rounding made the basis singular."""
    position = (-1 - code) // 2 if code < 0 else -1  # of the leaving model in F
    if kind == 0:
        _column(k, entering, M, Y, J, W)
        if position >= 0:
            if not abs(Y[COLUMN, position + 1]) > SINGULAR:
                return -1
            replace_column(W, k + 1, Y, COLUMN, position + 1)
            J[MODELS, position] = entering
            return k
        pivot = M[code, entering]
        for i in range(k + 1):
            pivot += Y[SOL, i] * Y[RHS, i]
        if not abs(pivot) > SINGULAR:
            return -1
        add_pair(W, k + 1, Y, SOL, COLUMN, pivot)
        J[MODELS, k], J[ROWS, k] = entering, code
        Y[BINDING, code] = 1.0
        return k + 1
    Y[BINDING, J[ROWS, entering - 1]] = 0.0
    if code >= 0:
        replace_row(W, k + 1, Y, SOL, entering)
        J[ROWS, entering - 1] = code
        Y[BINDING, code] = 1.0
        return k
    remove_pair(W, k + 1, entering, position + 1)
    J[ROWS, entering - 1] = J[ROWS, k - 1]
    J[MODELS, position] = J[MODELS, k - 1]
    return k - 1


@kernel(inline=True)
def pivot(n, k, code, slope, u, M, X, Y, J, W):
    """One exchange of K, F and sides; returns (k, smallest d), k = −1 where nothing can enter."""
    _direction(k, code, M, X, Y, J, W)
    kind, entering, m, theta = ratio_test(k, slope, u, X, Y, J)
    if kind < 0:
        return -1, 0.0
    count = flips(m, theta, entering if kind == 0 else -1, u, X, J)
    if code < 0:
        leaving = J[MODELS, (-1 - code) // 2]
        X[SIDE, leaving] = 1.0
        if (-1 - code) % 2 == 1:  # it was above its bound, where it now stays
            X[SIDE, leaving] = -1.0
            J[WHICH, count], X[DROP, count] = leaving, u[leaving]
            count += 1
    if kind == 0:
        if X[SIDE, entering] < 0.0:
            J[WHICH, count], X[DROP, count] = entering, -u[entering]
            count += 1
        X[SIDE, entering] = 0.0
    _apply_flips(n, count, M, X, Y, J)
    _move_costs(theta, u.size, X)
    k = _exchange(k, code, kind, entering, M, Y, J, W)
    return (k, _read_decision(k, Y, W)) if k > 0 else (-1, 0.0)
