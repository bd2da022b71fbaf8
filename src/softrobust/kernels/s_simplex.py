"""One pivot of the dual simplex method with bound flipping, for the game of `s_game`.

A basis is K, the support of the decision d (binding rows), and as many fractional models F; every
other q sits at 0 or at u, as the sign of its reduced cost dᵀM_ω − b asks. The kernel of a basis of
size k is the bordered matrix of its k actions (rows) and k models (columns),

    B = [[0, 1ᵀ], [−1, M_KF]],      W = B⁻¹,

with position 0 for the border: Σq = 1 and its price. W gives d and b, its row of the border, and
(t, q_F) = W·(1 − Σ_up u; −h_K). A pivot adds, replaces or removes one row and one column of B: a
correction of rank one to W, k² operations where factors cost k³. The handful of rows (1.5 to 6 on
average) is far below what LAPACK's calls pay for.

Who leaves: a violated variable, an action better than t or a q_F out of its bounds. The violation
is measured in units of how far a step changes reduced costs (dual steepest edge), for which the
range of an action's row stands: it halves the pivots of many actions.

Who enters: along a pivot d moves by θ·y and reduced costs by θ·Δ. A model's breakpoint is where its
reduced cost comes to 0, and passing it costs |Δ|·u of the slope of the decision's value. So the
models in order of their breakpoints are passed, and their q flipped, until the slope turns: a
weighted selection. It ends earlier where an action of K comes to d = 0. Few of the breakpoints are
passed, and a horizon guessed from their mean leaves few to select from; finding it takes sums over
all models, which vectorise, and no division.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from softrobust._core.arrays import FloatArray, IntArray
from softrobust.kernels._jit import FINITE, REORDER, kernel
from softrobust.kernels.tail import select

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

PIVOT = 1e-11  # smaller directions cannot turn a reduced cost
FAR = 1e300
SINGULAR = 1e-13  # a smaller pivot counts as zero; entries are of order 1
FEASIBLE = 2e-14  # violations below this, in units of the spread of Z, are rounding


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


@kernel(inner=True)
def game_work(A, N):
    """Allocate the scratch of one thread."""
    return GameWork(
        np.zeros((A, N)),
        np.zeros((SCRATCH + 4, N)),
        np.zeros((9, A + 1)),
        np.zeros((4, max(N, A + 1)), np.int64),
        np.zeros((A + 1, A + 1)),
    )


@kernel(fastmath=FINITE, inline=True)
def _approach(u, X):
    """Speed and distance at which reduced costs come to 0: (slope lost in all, Σ of it times θ)."""
    total = moment = 0.0
    for i in range(u.size):
        speed = -X[SIDE, i] * X[DELTA, i]
        speed = speed if speed > PIVOT else 0.0
        away = max(X[SIDE, i] * X[RC, i], 0.0)
        X[SPEED, i], X[AWAY, i] = speed, away
        total += u[i] * speed
        moment += u[i] * away if speed > 0.0 else 0.0
    return total, moment


@kernel(fastmath=FINITE, inline=True)
def _lost(u, X, theta):
    """The slope lost before θ."""
    total = 0.0
    for i in range(u.size):
        total += u[i] * X[SPEED, i] if X[AWAY, i] < theta * X[SPEED, i] else 0.0
    return total


@kernel(inline=True)
def _horizon(slope, block, u, X):
    """θ before which the slope turns or d blocks, not far beyond the first of the two."""
    total, moment = _approach(u, X)
    if total < slope:
        return block
    # If breakpoints were spread evenly up to twice their mean, the slope would turn at 2/3 of this.
    theta = 3.0 * moment * slope / (total * total)
    for _ in range(4):
        if theta >= block:
            break
        if _lost(u, X, theta) >= slope:
            return theta
        theta *= 3.0
    return block


@kernel(inline=True)
def _gather(theta, u, X, J):
    """Breakpoints before θ, by index; returns their number."""
    m = 0
    for i in range(u.size):  # without branches
        J[WHICH, m] = i
        m += X[AWAY, i] < theta * X[SPEED, i]
    for p in range(m):
        i = J[WHICH, p]
        X[RATIO, p] = X[AWAY, i] / X[SPEED, i]
        X[DROP, p] = X[SPEED, i] * u[i]
    return m


@kernel(inline=True, inner=True)
def ratio_test(k, slope, u, X, Y, J):
    """Who enters along Y[SOL] and X[DELTA]: (kind, index, number of breakpoints, θ).

    Kind 0 is a model, 1 a position in K from 1 on, −1 none. Breakpoints are J[WHICH], X[RATIO].
    """
    block, position = FAR, 0
    for i in range(1, k + 1):
        if Y[SOL, i] < -PIVOT:
            r = max(Y[D, i], 0.0) / -Y[SOL, i]
            if r < block:
                block, position = r, i
    m = _gather(_horizon(slope, block, u, X), u, X, J)
    theta, below = select(X[RATIO], X[DROP], m, slope, slope, X[SCRATCH:])
    if block <= theta:
        return (1, position, m, block) if position > 0 else (-1, -1, m, np.inf)
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


@kernel(inline=True, inner=True)
def flips(m, theta, stays, u, X, J):
    """Flip the breakpoints before θ but `stays`; returns their number.

    Models go to J[WHICH], the steps of their q to X[DROP].
    """
    count = 0
    for p in range(m):
        i = J[WHICH, p]
        if X[RATIO, p] < theta and i != stays:
            J[WHICH, count], X[DROP, count] = i, X[SIDE, i] * u[i]
            X[SIDE, i] = -X[SIDE, i]
            count += 1
    return count


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
def invert_basis(W, n, J):
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


@kernel(fastmath=REORDER, inline=True, inner=True)
def basis_times(W, n, Y, rhs, out):
    """Fill Y[out, :n] with W·Y[rhs]."""
    for i in range(n):
        total = 0.0
        for j in range(n):
            total += W[i, j] * Y[rhs, j]
        Y[out, i] = total


@kernel(fastmath=REORDER, inline=True, inner=True)
def basis_transposed_times(W, n, Y, rhs, out):
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


@kernel(fastmath=REORDER, inline=True, inner=True)
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


@kernel(inline=True, inner=True)
def clear(Y):
    """Empty K."""
    for a in range(Y.shape[1]):
        Y[BINDING, a] = 0.0


@kernel(fastmath=REORDER, inner=True)
def largest_row(M, n, X):
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


@kernel(inner=True)
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
    return invert_basis(W, k + 1, J)


@kernel(inline=True)
def _read_decision(k, Y, W):
    """(−b, d) from W; returns the smallest d."""
    least = 1.0
    Y[D, 0] = -W[0, 0]
    for i in range(1, k + 1):
        Y[D, i] = -W[0, i]
        least = min(least, Y[D, i])
    return least


@kernel(inner=True)
def price_models(k, M, X, Y, J, W):
    """(−b, d) and the reduced costs of all models from W; returns the smallest d."""
    least = _read_decision(k, Y, W)
    combine(M, J, Y, D, k, X, RC)
    return least


@kernel(fastmath=REORDER)
def _sides(N, X):
    for i in range(N):
        X[SIDE, i] = -1.0 if X[RC, i] < 0.0 else 1.0


@kernel(inner=True)
def set_sides(n, k, u, M, X, Y, J):
    """Every q outside F to the bound its reduced cost asks for; h afresh."""
    _sides(u.size, X)
    for j in range(k):
        X[SIDE, J[MODELS, j]] = 0.0
    refresh(n, u, M, X, Y)


@kernel(fastmath=REORDER, inner=True)
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


@kernel(inline=True, inner=True)
def primal(n, k, u, M, X, Y, J, W):
    """t and q_F from W; returns (t, violation, code) of who leaves, a violation of 0 if none.

    Codes: a ≥ 0 an action outside K; −1 − 2j model F[j] below 0, −2 − 2j above its bound.
    """
    Y[RHS, 0] = 1.0 - _mass_up(u, X)
    for i in range(k):
        Y[RHS, i + 1] = -Y[H, J[ROWS, i]]
    basis_times(W, k + 1, Y, RHS, BASIC)
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
        basis_transposed_times(W, k + 1, Y, RHS, SOL)
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
    basis_times(W, k + 1, Y, RHS, COLUMN)


@kernel(inline=True)
def _exchange_basis(k, code, kind, entering, M, Y, J, W):
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


@kernel(inline=True, inner=True)
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
    k = _exchange_basis(k, code, kind, entering, M, Y, J, W)
    return (k, _read_decision(k, Y, W)) if k > 0 else (-1, 0.0)
