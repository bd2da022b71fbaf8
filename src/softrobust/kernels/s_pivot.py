"""One pivot of the dual simplex method with bound flipping, for the game of `s_game`.

A basis is K, the support of the decision d (binding rows), and as many fractional models F; every
other q sits at 0 or at u, as the sign of its reduced cost dᵀM_ω − b asks. The kernel of the basis,
B = [[M_KF, −1], [1ᵀ, 0]], gives (q_F, t), its transpose (d, b). The worst violated variable leaves
(an action better than t, or a q_F out of its bounds). The ratio test is a weighted selection:
breakpoints are passed, and their q flipped, while the slope of the decision's value stays positive.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from softrobust.kernels._jit import REORDER, kernel
from softrobust.kernels.borrow import borrow
from softrobust.kernels.small_lu import factor, solve, solve_transposed
from softrobust.kernels.tail import select

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]

FEASIBLE = 2e-14  # violations below this, in units of the spread of Z, are rounding
PIVOT = 1e-11  # smaller directions cannot turn a reduced cost


# Rows of X (vectors over models): reduced costs dᵀM_ω − b, their change along a pivot, nature's q,
# 1 where q sits at its upper bound, 1 for models in F, breakpoints and the slope lost at each; the
# four rows from SCRATCH on belong to `select`.
RC, DELTA, Q, UP, FRACTIONAL, RATIO, DROP, SCRATCH = 0, 1, 2, 3, 4, 5, 6, 7
# Rows of Y (vectors over actions and one more): Σ u·M over q at the upper bound, row means of M, a
# right-hand side, a solution, scratch, d by position in K, q_F then t, 1 for actions in K.
H, MEANS, RHS, SOL, TMP, D, BASIC, BINDING = 0, 1, 2, 3, 4, 5, 6, 7
# Rows of J (integers): the actions in K, the models in F, row order of the factors, breakpoints.
ROWS, MODELS, PERM, WHICH = 0, 1, 2, 3


class GameWork(NamedTuple):
    """Scratch of one thread: A actions, N models with f > 0.

    Few arrays with named rows, and not an array for each: numba counts references to every array
    that a function takes out of a tuple, which cost more than the arithmetic of a small game.
    """

    M: FloatArray  # (A, N) the game, centred and divided by the spread of Z
    X: FloatArray  # (11, N)
    Y: FloatArray  # (8, A + 1)
    J: IntArray  # (4, max(N, A + 1))
    B: FloatArray  # (A + 1, A + 1) the kernel of the basis, factored


@kernel
def game_work(A, N):
    """Allocate the scratch of one thread."""
    return GameWork(
        np.zeros((A, N)),
        np.zeros((SCRATCH + 4, N)),
        np.zeros((8, A + 1)),
        np.zeros((4, max(N, A + 1)), np.int64),
        np.zeros((A + 1, A + 1)),
    )


@kernel
def borrow_work(work):
    """The arrays of `work` without an owner; `keep(work)` after their last use."""
    return borrow(work.M), borrow(work.X), borrow(work.Y), borrow(work.J), borrow(work.B)


@kernel(fastmath=REORDER)
def combine(M, J, Y, weights, k, start, X, out):
    """Fill X[out] with start + Σ_{j < k} Y[weights, j]·M[K_j]."""
    N = X.shape[1]
    first, share = J[ROWS, 0], Y[weights, 0]  # a basis has k ≥ 1
    for i in range(N):
        X[out, i] = start + share * M[first, i]
    for j in range(1, k):
        a, weight = J[ROWS, j], Y[weights, j]
        for i in range(N):
            X[out, i] += weight * M[a, i]


@kernel(fastmath=REORDER)
def _add_row(M, a, X):
    for i in range(X.shape[1]):
        X[DELTA, i] += M[a, i]


@kernel
def clear(X, Y):
    """Empty K and F."""
    for a in range(Y.shape[1]):
        Y[BINDING, a] = 0.0
    for i in range(X.shape[1]):
        X[FRACTIONAL, i] = 0.0


@kernel(fastmath=REORDER)
def best_row(M, n, X):
    """max_a (Mq)_a over the first n rows."""
    best = -np.inf
    for a in range(n):
        total = 0.0
        for i in range(X.shape[1]):
            total += M[a, i] * X[Q, i]
        best = max(best, total)
    return best


@kernel(fastmath=REORDER)
def _mass_up(u, X):
    total = 0.0
    for i in range(u.size):
        total += u[i] * X[UP, i]
    return total


@kernel
def factor_basis(k, M, X, Y, J, B):
    """Factor B; False where it is singular."""
    if k == 1:  # the most frequent by far; the row of ones first
        B[0, 0], B[0, 1], B[1, 0], B[1, 1] = 1.0, 0.0, M[J[ROWS, 0], J[MODELS, 0]], -1.0
        J[PERM, 0], J[PERM, 1] = 1, 0
        return True
    for i in range(k):
        for j in range(k):
            B[i, j] = M[J[ROWS, i], J[MODELS, j]]
        B[i, k] = -1.0
        B[k, i] = 1.0
    B[k, k] = 0.0
    return factor(B, k + 1, J)


@kernel
def price(k, M, X, Y, J, B):
    """d, b from Bᵀ and the reduced costs of all models; returns (b, smallest d)."""
    for i in range(k):
        Y[RHS, i] = 0.0
    Y[RHS, k] = -1.0
    solve_transposed(B, k + 1, J, Y)
    b = -Y[SOL, k]
    least = 1.0
    for i in range(k):
        Y[D, i] = Y[SOL, i]
        least = min(least, Y[D, i])
    combine(M, J, Y, D, k, -b, X, RC)
    return b, least


@kernel(fastmath=REORDER)
def _signs(X):
    for i in range(X.shape[1]):
        X[UP, i] = 1.0 if X[RC, i] < 0.0 else 0.0


@kernel
def set_bounds(n, k, u, M, X, Y, J, B):
    """Every q outside F to the bound its reduced cost asks for; h afresh."""
    _signs(X)
    for j in range(k):
        X[UP, J[MODELS, j]] = 0.0
    refresh(n, u, M, X, Y, J, B)


@kernel(fastmath=REORDER)
def _row_sums(M, n, u, X, Y):
    for a in range(n):
        total = 0.0
        for i in range(u.size):
            total += M[a, i] * (u[i] * X[UP, i])
        Y[H, a] = total


@kernel
def refresh(n, u, M, X, Y, J, B):
    """Compute h afresh."""
    _row_sums(M, n, u, X, Y)


@kernel
def _flip(i, n, u, M, X, Y, J, B):
    """Model i from one bound to the other."""
    step = u[i] if X[UP, i] == 0.0 else -u[i]
    X[UP, i] = 1.0 - X[UP, i]
    for a in range(n):
        Y[H, a] += step * M[a, i]


@kernel
def primal(n, k, u, M, X, Y, J, B):
    """q_F and t from B; returns (t, worst violation, code of who leaves).

    Codes: a ≥ 0 an action outside K; −1 − 2j model F[j] below 0, −2 − 2j above its bound.
    """
    for i in range(k):
        Y[RHS, i] = -Y[H, J[ROWS, i]]
    Y[RHS, k] = 1.0 - _mass_up(u, X)
    solve(B, k + 1, J, Y)
    t = Y[BASIC, k]
    worst, code = FEASIBLE, -9
    found = False
    for a in range(n):
        total = Y[H, a]
        for j in range(k):
            total += M[a, J[MODELS, j]] * Y[BASIC, j]
        if Y[BINDING, a] == 0.0 and total - t > worst:
            worst, code, found = total - t, a, True
    for j in range(k):
        if -Y[BASIC, j] > worst:
            worst, code, found = -Y[BASIC, j], -1 - 2 * j, True
        if Y[BASIC, j] - u[J[MODELS, j]] > worst:
            worst, code, found = Y[BASIC, j] - u[J[MODELS, j]], -2 - 2 * j, True
    return t, (worst if found else 0.0), code


@kernel
def _direction(k, code, M, X, Y, J, B):
    """x_K and the change of every reduced cost per unit step of the leaving variable."""
    if code >= 0:
        for j in range(k):
            Y[RHS, j] = -M[code, J[MODELS, j]]
        Y[RHS, k] = 1.0
    else:
        for i in range(k + 1):
            Y[RHS, i] = 0.0
        j = (-1 - code) // 2
        Y[RHS, j] = 1.0 if (-1 - code) % 2 == 0 else -1.0
    solve_transposed(B, k + 1, J, Y)
    combine(M, J, Y, SOL, k, Y[SOL, k], X, DELTA)  # x[k] is −x_b
    if code >= 0:
        _add_row(M, code, X)


@kernel(fastmath=REORDER)
def _breakpoints(u, X, J):
    """Models whose reduced cost moves towards 0, without branches: (number, their slope)."""
    m, total = 0, 0.0
    for i in range(u.size):
        sign = 1.0 - 2.0 * X[UP, i]
        speed = -sign * X[DELTA, i]
        drop = speed * u[i]
        X[RATIO, m] = max(sign * X[RC, i], 0.0) / speed
        X[DROP, m] = drop
        J[WHICH, m] = i
        counts = speed > PIVOT and X[FRACTIONAL, i] == 0.0
        total += drop if counts else 0.0
        m += counts
    return m, total


@kernel
def _ratio_test(k, slope, u, M, X, Y, J, B):
    """Who enters: (kind, index, number of breakpoints, θ).

    Kind 0 is a model, 1 a position in K, −1 none.
    """
    m, total = _breakpoints(u, X, J)
    block, position = np.inf, -1
    for i in range(k):
        if Y[SOL, i] < -PIVOT:
            r = max(Y[D, i], 0.0) / -Y[SOL, i]
            if r < block:
                block, position = r, i
    theta, below = np.inf, 0.0
    if total >= slope:
        theta, below = select(X[RATIO], X[DROP], m, total, slope, X[SCRATCH:])
    if block <= theta:
        return (1, position, m, block) if position >= 0 else (-1, -1, m, np.inf)
    # Among ties pass what the slope allows, in order; the one that turns it enters.
    left, last = slope - below, -1
    for p in range(m):
        if X[RATIO, p] == theta:
            last = J[WHICH, p]
            left -= X[DROP, p]
            if left <= 0.0:
                break
            X[RATIO, p] = -1.0  # passed
    return 0, last, m, theta


@kernel
def pivot(n, k, code, slope, u, M, X, Y, J, B):
    """One exchange of K, F and bounds; returns the new k, or −1 where nothing can enter."""
    _direction(k, code, M, X, Y, J, B)
    kind, entering, m, theta = _ratio_test(k, slope, u, M, X, Y, J, B)
    if kind < 0:
        return -1
    stays = entering if kind == 0 else -1  # of kind 1, entering is no model
    for p in range(m):
        if X[RATIO, p] < theta and J[WHICH, p] != stays:
            _flip(J[WHICH, p], n, u, M, X, Y, J, B)
    position = -1  # of the leaving model in F
    if code < 0:
        position = (-1 - code) // 2
        leaving = J[MODELS, position]
        X[FRACTIONAL, leaving] = 0.0
        if (-1 - code) % 2 == 1:  # it was above its bound, where it now stays
            _flip(leaving, n, u, M, X, Y, J, B)
    if kind == 0:
        if X[UP, entering] == 1.0:
            _flip(entering, n, u, M, X, Y, J, B)
        X[FRACTIONAL, entering] = 1.0
        if position >= 0:
            J[MODELS, position] = entering
            return k
        J[MODELS, k], J[ROWS, k] = entering, code
        Y[BINDING, code] = 1.0
        return k + 1
    Y[BINDING, J[ROWS, entering]] = 0.0
    if code >= 0:
        J[ROWS, entering] = code
        Y[BINDING, code] = 1.0
        return k
    J[ROWS, entering] = J[ROWS, k - 1]
    J[MODELS, position] = J[MODELS, k - 1]
    return k - 1
