"""The S-rectangular Bellman update of one state: the matrix game max_d min_ξ dᵀZξ (eq. 4.8, §4.2).

With ξ = (1 − λ)f + λq, 0 ≤ q ≤ u, Σq = 1 and M = (1 − λ)(Zf)1ᵀ + λZ it is the linear program

    nature:    min t                          s.t.  Mq ≤ t·1,  Σq = 1,  0 ≤ q ≤ u
    decision:  max b − Σ_ω u_ω·(b − dᵀM_ω)₊   s.t.  d ≥ 0,  Σd = 1

solved by the dual simplex method with bound flipping (`s_pivot`), from the basis (K, F) of the last
sweep where there is one: late in a solve most games need no pivot at all.

The bounds lb and ub are computed for the clipped, feasible d and q, and widened by the rounding
they can contain: lb ≤ true value ≤ ub whatever the pivots did. A game that stalls, or whose gap
exceeds 1e-9·max(spread of M, 1e-6·max|M|), is perturbed, solved, and taken up again from the basis
found; where that does not settle it either, it is `UNSETTLED`, a case for an LP. The test is on the
gap before rounding is added, and half of that rounding is allowed, for no solver could lower it:
about (20 + N/4)·ε of the spread of Z, which counts where M varies a million times less than Z.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from softrobust.kernels._jit import REORDER, kernel
from softrobust.kernels.s_matrix import EPS, NOISE, build_game, perturb
from softrobust.kernels.s_pivot import (
    BASIC,
    BINDING,
    MEANS,
    MODELS,
    RC,
    ROWS,
    SCRATCH,
    SIDE,
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
    set_sides,
)  # fmt: skip
from softrobust.kernels.tail import SLACK, select, shortfall

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]

GAP = 1e-9
TRACE = 1e-13  # probabilities of an action below this are rounding
REFRESH = 40  # pivots after which the inverse of the basis is computed afresh
STALL = 30  # pivots without progress before a game counts as degenerate
SOLVED, UNSETTLED, NOT_FINITE = 0, 1, 2
# Ways to solve a game: from the last basis; from the best mean; the true game from the basis of the
# perturbed one; perturbed, to be followed by BACK; perturbed for good.
WARM, COLD, BACK, NOISY, AGAIN, NO_MORE = 0, 1, 2, 3, 4, 5


@kernel
def _start_warm(n, k, u, slack, M, X, Y, J, W):
    """Bounds for the basis (K, F) of an earlier game; returns whether its d is feasible here."""
    if k < 1:
        return False
    clear(Y)
    for i in range(k):
        Y[BINDING, J[ROWS, i]] = 1.0
    if not factor_basis(k, M, J, W) or price(k, M, X, Y, J, W) < -slack:
        return False
    set_sides(n, k, u, M, X, Y, J)
    return True


@kernel
def _start_cold(n, u, total, M, X, Y, J, W):
    """K = {best mean}, F = {the model at its tail's boundary}, those below it at their bounds.

    Returns k = 1, typed: a literal would compile what takes it a second time.
    """
    a = 0
    for i in range(1, n):
        if Y[MEANS, i] > Y[MEANS, a]:
            a = i
    row = M[a]
    b, mass = select(row, u, u.size, total, 1.0 - SLACK, X[SCRATCH:])
    boundary = -1
    for i in range(u.size):
        X[SIDE, i] = -1.0 if row[i] < b else 1.0
    for i in range(u.size):
        if row[i] == b and mass < 1.0 - SLACK:  # ties by index until the mass is there
            if boundary >= 0:
                X[SIDE, boundary] = -1.0
            boundary = i
            mass += u[i]
    clear(Y)
    J[ROWS, 0], J[MODELS, 0] = a, boundary
    Y[BINDING, a], X[SIDE, boundary] = 1.0, 0.0
    refresh(n, u, M, X, Y)
    one = np.int64(1)
    factor_basis(one, M, J, W)
    price(one, M, X, Y, J, W)
    return one


@kernel
def _run(way, n, k, u, total, noise, M, X, Y, J, W):
    """Start one `way` and pivot until nothing is violated; returns (k, settled, pivots).

    W, d and the reduced costs belong to the basis; after some pivots, and before the end, they are
    computed afresh.
    """
    if way in (WARM, BACK):
        if not _start_warm(n, k, u, 1e-13 if way == WARM else 1e-9, M, X, Y, J, W):
            return k, False, 0
    else:
        if way >= NOISY:
            perturb(M, n, noise)
        k = _start_cold(n, u, total, M, X, Y, J, W)
    best, stalled, age, done = -np.inf, 0, 0, 0
    for _ in range(100 + 4 * (n + u.size)):
        t, worst, code = primal(n, k, u, M, X, Y, J, W)
        if worst == 0.0 and age == 0:
            return k, True, done
        if worst == 0.0 or age == REFRESH:
            if not factor_basis(k, M, J, W) or price(k, M, X, Y, J, W) < -1e-9:
                return k, False, done
            age = 0
            continue
        stalled = 0 if t > best + 1e-15 else stalled + 1
        best = max(best, t)
        if stalled > STALL:
            return k, False, done
        k_new, least = pivot(n, k, code, worst, u, M, X, Y, J, W)
        done += 1
        if k_new < 0:  # K and F are as they were
            return k, False, done
        k, age = k_new, age + 1
        if least < -1e-9:
            return k, False, done
    return k, False, done


@kernel(fastmath=REORDER)
def _basic_q(u, X):
    total = 0.0
    for i in range(u.size):
        X[Q, i] = u[i] * max(-X[SIDE, i], 0.0)
        total += X[Q, i]
    return total


@kernel
def _feasible_q(k, u, X, Y, J):
    """Set q to the basic solution, clipped to its bounds and completed to mass 1."""
    missing = 1.0 - _basic_q(u, X)
    for j in range(k):
        i = J[MODELS, j]
        missing += X[Q, i]
        X[Q, i] = min(max(Y[BASIC, j + 1], 0.0), u[i])
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
def _feasible_d(k, u, total, settled, M, X, Y, J):
    """Make d feasible, clipped and of sum 1, with its reduced costs; returns its b."""
    mass, clipped = 0.0, False
    for i in range(1, k + 1):
        if Y[D, i] < TRACE and Y[D, i] != 0.0:
            Y[D, i] = 0.0
            clipped = True
        mass += Y[D, i]
    for i in range(1, k + 1):
        Y[D, i] = Y[D, i] / mass if mass > 0.0 else 1.0 / k
    if settled and not clipped:
        return -Y[D, 0]
    Y[D, 0] = 0.0
    combine(M, J, Y, D, k, X, RC)
    b, _ = select(X[RC], u, u.size, total, 1.0 - SLACK, X[SCRATCH:])
    for i in range(u.size):
        X[RC, i] -= b
    return b


@kernel
def _certify(n, k, n_F, settled, u, total, error, M, X, Y, J):
    """(lb, ub, rounding) of the clipped d and q, in units of the spread."""
    lb = _feasible_d(k, u, total, settled, M, X, Y, J) - shortfall(X[RC], u, 0.0)
    _feasible_q(n_F, u, X, Y, J)
    ub = best_row(M, n, X)
    return lb, ub, error + EPS * (16.0 + 4.0 * k + 0.25 * u.size)


@kernel
def _outward(centre, unit, low, high):
    """Bounds in the units of Z."""
    lb, ub = centre + unit * low, centre + unit * high
    return lb - EPS * abs(lb), ub + EPS * abs(ub)


@kernel
def _next_way(way, settled):
    """What follows an attempt, or NO_MORE.

    The answer of a perturbed game is the start for the true one (BACK); where its basis is singular
    or infeasible there, the perturbed answer has to do (AGAIN, for BACK wrote over it).
    """
    if way == WARM:
        return NO_MORE if settled else COLD
    if way == NOISY:
        return BACK if settled else NO_MORE
    if way == BACK:
        return NO_MORE if settled else AGAIN
    return NO_MORE


@kernel
def solve_game(Z, n, f, u, total, lam, k, M, X, Y, J, W):
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
        J[ROWS, :k] and Y[D, 1:] hold the decision, X[Q] nature's weights, J[MODELS, :k] the basis's
        models. M, X, Y, J, W are the work arrays of `s_pivot.GameWork`.
    """
    finite, centre, unit, spread, size, error = build_game(Z, n, f, lam, M, Y)
    if not finite:
        return NOT_FINITE, 0, np.nan, np.nan, 0
    noise, pivots, way = NOISE * spread / unit if unit > 0.0 else 0.0, 0, WARM
    # One loop with one call, not a call per way: the simplex method is compiled where it is called.
    while True:
        k, settled, more = _run(way, n, k, u, total, noise, M, X, Y, J, W)
        pivots += more
        if way >= NOISY:
            build_game(Z, n, f, lam, M, Y)  # the true game again
        follows = _next_way(way, settled)
        if follows != NO_MORE:
            way = follows
            continue
        true_game = settled and way < NOISY
        low, high, slack = _certify(n, k, k, true_game, u, total, error, M, X, Y, J)
        # No solver could close what rounding leaves open.
        tol = max(GAP * max(spread, 1e-6 * size), 0.5 * unit * slack)
        if way > COLD or unit * (high - low) <= (tol if settled else 1e-3 * tol):
            break
        way = NOISY
    lb, ub = _outward(centre, unit, low - slack, high + slack)
    return (SOLVED if unit * (high - low) <= tol else UNSETTLED), k, lb, ub, pivots


@kernel
def certify_pair(Z, f, u, lam, d, q):
    """(lb, ub) that d (n,) and q (L,) prove for the game Z (n, L); both are mended in place."""
    n, L = Z.shape
    M, X, Y, J, _ = game_work(n, L)
    _, centre, unit, _, _, error = build_game(Z, n, f, lam, M, Y)
    for a in range(n):
        J[ROWS, a], Y[D, a + 1] = a, d[a]
    for i in range(L):
        X[SIDE, i] = -q[i] / u[i] if u[i] > 0.0 else 0.0
    low, high, slack = _certify(n, n, 0, False, u, u.sum(), error, M, X, Y, J)
    d[:] = Y[D, 1 : n + 1]
    q[:] = X[Q]
    return _outward(centre, unit, low - slack, high + slack)
