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
from softrobust.kernels.small_lu import factor, solve, solve_transposed
from softrobust.kernels.tail import select

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]

FEASIBLE = 2e-14  # violations below this, in units of the spread of Z, are rounding
PIVOT = 1e-11  # smaller directions cannot turn a reduced cost


class GameWork(NamedTuple):
    """Scratch of one thread: A actions, N models with f > 0."""

    M: FloatArray  # (A, N) the game, centred and divided by the spread of Z
    rc: FloatArray  # (N,) reduced costs dᵀM_ω − b
    delta: FloatArray  # (N,) their change along a pivot
    q: FloatArray  # (N,) nature's weights
    up: FloatArray  # (N,) 1 where q sits at its upper bound
    fractional: NDArray[np.bool_]  # (N,)
    binding: NDArray[np.bool_]  # (A,)
    h: FloatArray  # (A,) Σ over q at the upper bound of u·M
    Mq: FloatArray  # (A,)
    ratio: FloatArray  # (N,) breakpoints
    drop: FloatArray  # (N,) slope lost at each
    which: IntArray  # (N,) their models
    scratch: FloatArray  # (4, N)
    B: FloatArray  # (A + 1, A + 1)
    perm: IntArray  # (A + 1,)
    rhs: FloatArray  # (A + 1,)
    x: FloatArray  # (A + 1,)
    y: FloatArray  # (A + 1,)
    d: FloatArray  # (A,) by position in K
    basic: FloatArray  # (A + 1,) by position in F, then t
    K: IntArray  # (A,)
    F: IntArray  # (A,)


@kernel
def game_work(A, N):
    """Allocate the scratch of one thread."""
    return GameWork(
        np.zeros((A, N)), np.zeros(N), np.zeros(N), np.zeros(N), np.zeros(N),
        np.zeros(N, np.bool_), np.zeros(A, np.bool_), np.zeros(A), np.zeros(A),
        np.zeros(N), np.zeros(N), np.zeros(N, np.int64), np.zeros((4, N)),
        np.zeros((A + 1, A + 1)), np.zeros(A + 1, np.int64), np.zeros(A + 1), np.zeros(A + 1),
        np.zeros(A + 1), np.zeros(A), np.zeros(A + 1), np.zeros(A, np.int64), np.zeros(A, np.int64),
    )  # fmt: skip


@kernel(fastmath=REORDER)
def add_row(out, row, weight):
    """Add weight·row to out."""
    for i in range(out.size):
        out[i] += weight * row[i]


@kernel(fastmath=REORDER)
def dot(x, y):
    """Σ x·y."""
    total = 0.0
    for i in range(x.size):
        total += x[i] * y[i]
    return total


@kernel(fastmath=REORDER)
def _masked_dot(x, y, z):
    total = 0.0
    for i in range(x.size):
        total += x[i] * y[i] * z[i]
    return total


@kernel
def factor_basis(k, w):
    """Factor B; False where it is singular."""
    for i in range(k):
        for j in range(k):
            w.B[i, j] = w.M[w.K[i], w.F[j]]
        w.B[i, k] = -1.0
        w.B[k, i] = 1.0
    w.B[k, k] = 0.0
    return factor(w.B, k + 1, w.perm)


@kernel
def price(k, w):
    """d, b from Bᵀ and the reduced costs of all models; returns (b, smallest d)."""
    w.rhs[:k] = 0.0
    w.rhs[k] = -1.0
    solve_transposed(w.B, k + 1, w.perm, w.rhs, w.x, w.y)
    b = -w.x[k]
    w.rc[:] = -b
    least = 1.0
    for i in range(k):
        w.d[i] = w.x[i]
        least = min(least, w.d[i])
        add_row(w.rc, w.M[w.K[i]], w.d[i])
    return b, least


@kernel
def set_bounds(n, u, w):
    """Every q outside F to the bound its reduced cost asks for; h afresh."""
    for i in range(u.size):
        w.up[i] = 1.0 if w.rc[i] < 0.0 and not w.fractional[i] else 0.0
    refresh(n, u, w)


@kernel
def refresh(n, u, w):
    """Compute h afresh."""
    for a in range(n):
        w.h[a] = _masked_dot(w.M[a], u, w.up)


@kernel
def _flip(i, n, u, w):
    """Model i from one bound to the other."""
    step = u[i] if w.up[i] == 0.0 else -u[i]
    w.up[i] = 1.0 - w.up[i]
    for a in range(n):
        w.h[a] += step * w.M[a, i]


@kernel
def primal(n, k, u, w):
    """q_F and t from B, then Mq; returns (t, worst violation, code of who leaves).

    Codes: a ≥ 0 an action outside K; −1 − 2j model F[j] below 0, −2 − 2j above its bound.
    """
    for i in range(k):
        w.rhs[i] = -w.h[w.K[i]]
    w.rhs[k] = 1.0 - dot(u, w.up)
    solve(w.B, k + 1, w.perm, w.rhs, w.basic)
    t = w.basic[k]
    worst, code = FEASIBLE, -9
    found = False
    for a in range(n):
        total = w.h[a]
        for j in range(k):
            total += w.M[a, w.F[j]] * w.basic[j]
        w.Mq[a] = total
        if not w.binding[a] and total - t > worst:
            worst, code, found = total - t, a, True
    for j in range(k):
        if -w.basic[j] > worst:
            worst, code, found = -w.basic[j], -1 - 2 * j, True
        if w.basic[j] - u[w.F[j]] > worst:
            worst, code, found = w.basic[j] - u[w.F[j]], -2 - 2 * j, True
    return t, (worst if found else 0.0), code


@kernel
def _direction(k, code, w):
    """x_K and the change of every reduced cost per unit step of the leaving variable."""
    if code >= 0:
        for j in range(k):
            w.rhs[j] = -w.M[code, w.F[j]]
        w.rhs[k] = 1.0
    else:
        w.rhs[: k + 1] = 0.0
        j = (-1 - code) // 2
        w.rhs[j] = 1.0 if (-1 - code) % 2 == 0 else -1.0
    solve_transposed(w.B, k + 1, w.perm, w.rhs, w.x, w.y)
    w.delta[:] = w.x[k]  # −x_b
    if code >= 0:
        add_row(w.delta, w.M[code], 1.0)
    for i in range(k):
        add_row(w.delta, w.M[w.K[i]], w.x[i])


@kernel
def _ratio_test(k, slope, u, w):
    """Who enters: (kind, index, number of breakpoints, θ).

    Kind 0 is a model, 1 a position in K, −1 none.
    """
    m, total = 0, 0.0
    for i in range(u.size):
        change = w.delta[i]
        toward_zero = -change if w.up[i] == 0.0 else change
        if toward_zero > PIVOT and not w.fractional[i]:
            gap = w.rc[i] if w.up[i] == 0.0 else -w.rc[i]
            w.ratio[m] = max(gap, 0.0) / toward_zero
            w.drop[m] = toward_zero * u[i]
            total += w.drop[m]
            w.which[m] = i
            m += 1
    block, position = np.inf, -1
    for i in range(k):
        if w.x[i] < -PIVOT:
            r = max(w.d[i], 0.0) / -w.x[i]
            if r < block:
                block, position = r, i
    theta, below = np.inf, 0.0
    if total >= slope:
        s = w.scratch
        theta, below = select(w.ratio, w.drop, m, total, slope, s[0], s[1], s[2], s[3])
    if block <= theta:
        return (1, position, m, block) if position >= 0 else (-1, -1, m, np.inf)
    # Among ties pass what the slope allows, in order; the one that turns it enters.
    left, last = slope - below, -1
    for p in range(m):
        if w.ratio[p] == theta:
            last = w.which[p]
            left -= w.drop[p]
            if left <= 0.0:
                break
            w.ratio[p] = -1.0  # passed
    return 0, last, m, theta


@kernel
def pivot(n, k, code, slope, u, w):
    """One exchange of K, F and bounds; returns the new k, or −1 where nothing can enter."""
    _direction(k, code, w)
    kind, entering, m, theta = _ratio_test(k, slope, u, w)
    if kind < 0:
        return -1
    for p in range(m):
        if w.ratio[p] < theta and w.which[p] != entering:
            _flip(w.which[p], n, u, w)
    position = -1  # of the leaving model in F
    if code < 0:
        position = (-1 - code) // 2
        leaving = w.F[position]
        w.fractional[leaving] = False
        if (-1 - code) % 2 == 1:  # it was above its bound, where it now stays
            _flip(leaving, n, u, w)
    if kind == 0:
        if w.up[entering] == 1.0:
            _flip(entering, n, u, w)
        w.fractional[entering] = True
        if position >= 0:
            w.F[position] = entering
            return k
        w.F[k], w.K[k] = entering, code
        w.binding[code] = True
        return k + 1
    w.binding[w.K[entering]] = False
    if code >= 0:
        w.K[entering] = code
        w.binding[code] = True
        return k
    w.K[entering] = w.K[k - 1]
    w.F[position] = w.F[k - 1]
    return k - 1
