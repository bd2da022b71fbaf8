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

from softrobust.kernels._jit import kernel
from softrobust.kernels.s_matrix import EPS, build_game, not_finite, perturb
from softrobust.kernels.s_pivot import (
    add_row,
    dot,
    factor_basis,
    game_work,
    pivot,
    price,
    primal,
    refresh,
    set_bounds,
)  # fmt: skip
from softrobust.kernels.tail import SLACK, select

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]

GAP = 1e-9
TRACE = 1e-13  # probabilities of an action below this are rounding
STALL = 30  # pivots without progress before a game counts as degenerate
SOLVED, UNSETTLED, NOT_FINITE = 0, 1, 2


@kernel
def _run(n, k, u, w):
    """Pivot until nothing is violated; returns (k, b, settled, pivots)."""
    best, stalled, b = -np.inf, 0, 0.0
    limit = 100 + 4 * (n + u.size)
    for pivots in range(limit):
        if not factor_basis(k, w):
            return k, b, False, pivots
        b, least = price(k, w)
        if least < -1e-9:
            return k, b, False, pivots
        t, worst, code = primal(n, k, u, w)
        if worst == 0.0:
            return k, b, True, pivots
        stalled = 0 if t > best + 1e-15 else stalled + 1
        best = max(best, t)
        if stalled > STALL:
            return k, b, False, pivots
        k_new = pivot(n, k, code, worst, u, w)
        if k_new < 0:
            return k, b, False, pivots
        k = k_new
    return k, b, False, limit


@kernel
def _start_warm(n, k, u, w, slack):
    """Bounds for the basis (K, F) of an earlier game; False where its d is not feasible here."""
    if k < 1:
        return False
    w.binding[:] = False
    w.fractional[:] = False
    for i in range(k):
        w.binding[w.K[i]] = True
        w.fractional[w.F[i]] = True
    if not factor_basis(k, w):
        return False
    _, least = price(k, w)
    if least < -slack:
        return False
    set_bounds(n, u, w)
    return True


@kernel
def _start_cold(n, f, u, total, w):
    """K = {best mean}, F = {the model at its tail's boundary}, those below it at their bounds.

    Returns k = 1, typed: a literal would compile the simplex method a second time.
    """
    a, best = 0, -np.inf
    for i in range(n):
        mean = dot(w.M[i], f)
        if mean > best:
            a, best = i, mean
    row, s = w.M[a], w.scratch
    b, mass = select(row, u, u.size, total, 1.0 - SLACK, s[0], s[1], s[2], s[3])
    boundary = -1
    for i in range(u.size):
        w.up[i] = 1.0 if row[i] < b else 0.0
        if row[i] == b and mass < 1.0 - SLACK:  # ties by index until the mass is there
            if boundary >= 0:
                w.up[boundary] = 1.0
            boundary = i
            mass += u[i]
    w.binding[:] = False
    w.fractional[:] = False
    w.K[0], w.F[0] = a, boundary
    w.binding[a], w.fractional[boundary] = True, True
    refresh(n, u, w)
    return np.int64(1)


@kernel
def _feasible_q(k, u, w):
    """Set q to the basic solution, clipped to its bounds and completed to mass 1."""
    for i in range(u.size):
        w.q[i] = u[i] * w.up[i]
    for j in range(k):
        w.q[w.F[j]] = min(max(w.basic[j], 0.0), u[w.F[j]])
    missing = 1.0
    for i in range(u.size):
        missing -= w.q[i]
    for step in range(2):  # first the fractional models, then any
        for p in range(k if step == 0 else u.size):
            if abs(missing) <= EPS:
                return
            i = w.F[p] if step == 0 else p
            new = min(max(w.q[i] + missing, 0.0), u[i])
            missing -= new - w.q[i]
            w.q[i] = new


@kernel
def _feasible_d(k, u, total, b, settled, w):
    """Make d feasible, clipped and of sum 1, with its reduced costs; returns its b."""
    mass, clipped = 0.0, False
    for i in range(k):
        if w.d[i] < TRACE and w.d[i] != 0.0:
            w.d[i] = 0.0
            clipped = True
        mass += w.d[i]
    for i in range(k):
        w.d[i] = w.d[i] / mass if mass > 0.0 else 1.0 / k
    if settled and not clipped:
        return b
    w.rc[:] = 0.0
    for i in range(k):
        add_row(w.rc, w.M[w.K[i]], w.d[i])
    s = w.scratch
    b, _ = select(w.rc, u, u.size, total, 1.0 - SLACK, s[0], s[1], s[2], s[3])
    for i in range(u.size):
        w.rc[i] -= b
    return b


@kernel
def _certify(n, k, n_F, b, settled, u, total, error, w):
    """(lb, ub, rounding) of the clipped d and q, in units of the spread."""
    lb = _feasible_d(k, u, total, b, settled, w)
    for i in range(u.size):
        lb += u[i] * min(w.rc[i], 0.0)
    _feasible_q(n_F, u, w)
    ub = -np.inf
    for a in range(n):
        ub = max(ub, dot(w.M[a], w.q))
    return lb, ub, error + EPS * (8.0 + 2.0 * k + 0.125 * u.size)


@kernel
def _outward(centre, unit, low, high):
    """Bounds in the units of Z."""
    lb, ub = centre + unit * low, centre + unit * high
    return lb - EPS * abs(lb), ub + EPS * abs(ub)


@kernel
def _degenerate(Z, n, f, u, total, lam, w):
    """Solve perturbed, then the true game from the basis found; (k, b, settled, pivots)."""
    perturb(w.M, n)
    k = _start_cold(n, f, u, total, w)
    k, b, settled, pivots = _run(n, k, u, w)
    build_game(Z, n, f, lam, w.M)
    settled = False
    if _start_warm(n, k, u, w, 1e-9):
        k, b, settled, more = _run(n, k, u, w)
        pivots += more
    return k, b, settled, pivots


@kernel
def solve_game(Z, n, f, u, total, lam, k, w):
    """Bounds of the value, decision and worst case of one state.

    Parameters
    ----------
    Z : (n or more, N)
        Rows of the n allowed actions, columns of the models with f > 0.
    f, u : (N,)
        Weights, and the bounds of q; total = Σu.
    k : int
        Size of the basis in w.K, w.F to start from; 0 for a cold start.

    Returns
    -------
    status, k, lb, ub, pivots
        w.K[:k] and w.d[:k] hold the decision, w.q nature's weights, w.K and w.F the basis.
    """
    if not_finite(Z, n):
        return NOT_FINITE, 0, np.nan, np.nan, 0
    centre, unit, spread, size, error = build_game(Z, n, f, lam, w.M)
    settled, pivots, b = False, 0, 0.0
    if _start_warm(n, k, u, w, 1e-13):
        k, b, settled, pivots = _run(n, k, u, w)
    if not settled:
        k = _start_cold(n, f, u, total, w)
        k, b, settled, more = _run(n, k, u, w)
        pivots += more
    tol = GAP * max(spread, 1e-6 * size)
    low, high, slack = _certify(n, k, k, b, settled, u, total, error, w)
    if unit * (high - low) > tol:
        k, b, settled, more = _degenerate(Z, n, f, u, total, lam, w)
        pivots += more
        low, high, slack = _certify(n, k, k, b, settled, u, total, error, w)
    lb, ub = _outward(centre, unit, low - slack, high + slack)
    return (SOLVED if unit * (high - low) <= tol else UNSETTLED), k, lb, ub, pivots


@kernel
def certify_pair(Z, f, u, lam, d, q):
    """(lb, ub) that d (n,) and q (L,) prove for the game Z (n, L); both are mended in place."""
    n, L = Z.shape
    w = game_work(n, L)
    centre, unit, _, _, error = build_game(Z, n, f, lam, w.M)
    for a in range(n):
        w.K[a], w.d[a] = a, d[a]
    for i in range(L):
        w.up[i] = q[i] / u[i] if u[i] > 0.0 else 0.0
    low, high, slack = _certify(n, n, 0, 0.0, False, u, u.sum(), error, w)
    d[:] = w.d[:n]
    q[:] = w.q
    return _outward(centre, unit, low - slack, high + slack)
