"""The S-rectangular Bellman update of one state: the matrix game max_d min_ξ dᵀZξ (eq. 12, §4.2).

With ξ = (1 − λ)f + λq, 0 ≤ q ≤ u, Σq = 1 and M = (1 − λ)(Zf)1ᵀ + λZ it is the linear program

    nature:    min t                          s.t.  Mq ≤ t·1,  Σq = 1,  0 ≤ q ≤ u
    decision:  max b − Σ_ω u_ω·(b − dᵀM_ω)₊   s.t.  d ≥ 0,  Σd = 1

solved by the dual simplex method with bound flipping (`s_pivot`), from the basis (K, F) of the last
sweep where there is one: late in a solve most games need no pivot at all.

The bounds lb and ub are computed for the clipped, feasible d and q, and widened by the rounding
they can contain: lb ≤ true value ≤ ub whatever the pivots did. A game that stalls, or whose gap
exceeds 1e-9·max(spread of M, 1e-6·max|M|), is perturbed, solved, and taken up again from the basis
found; where that does not settle it either, it is `UNSETTLED`, a case for an LP. The test is
on the gap before rounding is added, for no solver could lower that part: about (20 + N/4)·ε of the
spread of Z, which counts only where M varies a million times less than Z.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from softrobust.kernels._jit import REORDER, kernel
from softrobust.kernels.s_matrix import EPS, build_game, perturb
from softrobust.kernels.s_pivot import (
    BASIC,
    BINDING,
    FRACTIONAL,
    MEANS,
    MODELS,
    RC,
    ROWS,
    SCRATCH,
    UP,
    D,
    Q,
    best_row,
    clear,
    combine,
    factor_basis,
    game_work,
    pivot,
    price,
    primal,
    refresh,
    set_bounds,
)  # fmt: skip
from softrobust.kernels.tail import SLACK, select, shortfall

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]

GAP = 1e-9
TRACE = 1e-13  # probabilities of an action below this are rounding
STALL = 30  # pivots without progress before a game counts as degenerate
SOLVED, UNSETTLED, NOT_FINITE = 0, 1, 2


@kernel
def _run(n, k, b, priced, u, M, X, Y, J, B):
    """Pivot until nothing is violated; returns (k, b, settled, pivots).

    `priced` says that the basis is factored, and d, b and the reduced costs are there.
    """
    best, stalled = -np.inf, 0
    limit = 100 + 4 * (n + u.size)
    for pivots in range(limit):
        if pivots > 0 or not priced:
            if not factor_basis(k, M, X, Y, J, B):
                return k, b, False, pivots
            b, least = price(k, M, X, Y, J, B)
            if least < -1e-9:
                return k, b, False, pivots
        t, worst, code = primal(n, k, u, M, X, Y, J, B)
        if worst == 0.0:
            return k, b, True, pivots
        stalled = 0 if t > best + 1e-15 else stalled + 1
        best = max(best, t)
        if stalled > STALL:
            return k, b, False, pivots
        k_new = pivot(n, k, code, worst, u, M, X, Y, J, B)
        if k_new < 0:
            return k, b, False, pivots
        k = k_new
    return k, b, False, limit


@kernel
def _start_warm(n, k, u, slack, M, X, Y, J, B):
    """Bounds for the basis (K, F) of an earlier game; returns (its d is feasible here, b)."""
    if k < 1:
        return False, 0.0
    clear(X, Y)
    for i in range(k):
        Y[BINDING, J[ROWS, i]] = 1.0
        X[FRACTIONAL, J[MODELS, i]] = 1.0
    if not factor_basis(k, M, X, Y, J, B):
        return False, 0.0
    b, least = price(k, M, X, Y, J, B)
    if least < -slack:
        return False, b
    set_bounds(n, k, u, M, X, Y, J, B)
    return True, b


@kernel
def _start_cold(n, u, total, M, X, Y, J, B):
    """K = {best mean}, F = {the model at its tail's boundary}, those below it at their bounds.

    Returns k = 1, typed: a literal would compile the simplex method a second time.
    """
    a = 0
    for i in range(1, n):
        if Y[MEANS, i] > Y[MEANS, a]:
            a = i
    row = M[a]
    b, mass = select(row, u, u.size, total, 1.0 - SLACK, X[SCRATCH:])
    boundary = -1
    for i in range(u.size):
        X[UP, i] = 1.0 if row[i] < b else 0.0
    for i in range(u.size):
        if row[i] == b and mass < 1.0 - SLACK:  # ties by index until the mass is there
            if boundary >= 0:
                X[UP, boundary] = 1.0
            boundary = i
            mass += u[i]
    clear(X, Y)
    J[ROWS, 0], J[MODELS, 0] = a, boundary
    Y[BINDING, a], X[FRACTIONAL, boundary] = 1.0, 1.0
    refresh(n, u, M, X, Y, J, B)
    return np.int64(1)


@kernel(fastmath=REORDER)
def _basic_q(u, X):
    total = 0.0
    for i in range(u.size):
        X[Q, i] = u[i] * X[UP, i]
        total += X[Q, i]
    return total


@kernel
def _feasible_q(k, u, M, X, Y, J, B):
    """Set q to the basic solution, clipped to its bounds and completed to mass 1."""
    missing = 1.0 - _basic_q(u, X)
    for j in range(k):
        i = J[MODELS, j]
        missing += X[Q, i]
        X[Q, i] = min(max(Y[BASIC, j], 0.0), u[i])
        missing -= X[Q, i]
    for step in range(2):  # first the fractional models, then any
        for p in range(k if step == 0 else u.size):
            if abs(missing) <= EPS:
                return
            i = J[MODELS, p] if step == 0 else p
            new = min(max(X[Q, i] + missing, 0.0), u[i])
            missing -= new - X[Q, i]
            X[Q, i] = new


@kernel
def _feasible_d(k, u, total, b, settled, M, X, Y, J, B):
    """Make d feasible, clipped and of sum 1, with its reduced costs; returns its b."""
    mass, clipped = 0.0, False
    for i in range(k):
        if Y[D, i] < TRACE and Y[D, i] != 0.0:
            Y[D, i] = 0.0
            clipped = True
        mass += Y[D, i]
    for i in range(k):
        Y[D, i] = Y[D, i] / mass if mass > 0.0 else 1.0 / k
    if settled and not clipped:
        return b
    combine(M, J, Y, D, k, 0.0, X, RC)
    b, _ = select(X[RC], u, u.size, total, 1.0 - SLACK, X[SCRATCH:])
    for i in range(u.size):
        X[RC, i] -= b
    return b


@kernel
def _certify(n, k, n_F, b, settled, u, total, error, M, X, Y, J, B):
    """(lb, ub, rounding) of the clipped d and q, in units of the spread."""
    lb = _feasible_d(k, u, total, b, settled, M, X, Y, J, B) - shortfall(X[RC], u, 0.0)
    _feasible_q(n_F, u, M, X, Y, J, B)
    ub = best_row(M, n, X)
    return lb, ub, error + EPS * (16.0 + 4.0 * k + 0.25 * u.size)


@kernel
def _outward(centre, unit, low, high):
    """Bounds in the units of Z."""
    lb, ub = centre + unit * low, centre + unit * high
    return lb - EPS * abs(lb), ub + EPS * abs(ub)


@kernel
def _degenerate(Z, n, f, u, total, lam, M, X, Y, J, B):
    """Solve perturbed, then the true game from the basis found; (k, b, settled, pivots)."""
    perturb(M, n)
    k = _start_cold(n, u, total, M, X, Y, J, B)
    k, b, settled, pivots = _run(n, k, 0.0, False, u, M, X, Y, J, B)
    build_game(Z, n, f, lam, M, Y)
    settled, b = _start_warm(n, k, u, 1e-9, M, X, Y, J, B)
    if settled:
        k, b, settled, more = _run(n, k, b, True, u, M, X, Y, J, B)
        pivots += more
    return k, b, settled, pivots


@kernel
def solve_game(Z, n, f, u, total, lam, k, M, X, Y, J, B):
    """Bounds of the value, decision and worst case of one state.

    Parameters
    ----------
    Z : (n or more, N)
        Rows of the n allowed actions, columns of the models with f > 0.
    f, u : (N,)
        Weights, and the bounds of q; total = Σu.
    k : int
        Size of the basis in J to start from; 0 for a cold start.

    Returns
    -------
    status, k, lb, ub, pivots
        J[ROWS, :k] and Y[D, :k] hold the decision, X[Q] nature's weights, J[MODELS, :k] the basis's
        models. M, X, Y, J, B are the work arrays of `s_pivot.GameWork`.
    """
    finite, centre, unit, spread, size, error = build_game(Z, n, f, lam, M, Y)
    if not finite:
        return NOT_FINITE, 0, np.nan, np.nan, 0
    pivots = 0
    settled, b = _start_warm(n, k, u, 1e-13, M, X, Y, J, B)
    if settled:
        k, b, settled, pivots = _run(n, k, b, True, u, M, X, Y, J, B)
    if not settled:
        k = _start_cold(n, u, total, M, X, Y, J, B)
        k, b, settled, more = _run(n, k, 0.0, False, u, M, X, Y, J, B)
        pivots += more
    tol = GAP * max(spread, 1e-6 * size)
    low, high, slack = _certify(n, k, k, b, settled, u, total, error, M, X, Y, J, B)
    if unit * (high - low) > tol:
        k, b, settled, more = _degenerate(Z, n, f, u, total, lam, M, X, Y, J, B)
        pivots += more
        low, high, slack = _certify(n, k, k, b, settled, u, total, error, M, X, Y, J, B)
    lb, ub = _outward(centre, unit, low - slack, high + slack)
    return (SOLVED if unit * (high - low) <= tol else UNSETTLED), k, lb, ub, pivots


@kernel
def certify_pair(Z, f, u, lam, d, q):
    """(lb, ub) that d (n,) and q (L,) prove for the game Z (n, L); both are mended in place."""
    n, L = Z.shape
    M, X, Y, J, B = game_work(n, L)
    _, centre, unit, _, _, error = build_game(Z, n, f, lam, M, Y)
    for a in range(n):
        J[ROWS, a], Y[D, a] = a, d[a]
    for i in range(L):
        X[UP, i] = q[i] / u[i] if u[i] > 0.0 else 0.0
    low, high, slack = _certify(n, n, 0, 0.0, False, u, u.sum(), error, M, X, Y, J, B)
    d[:] = Y[D, :n]
    q[:] = X[Q]
    return _outward(centre, unit, low - slack, high + slack)
