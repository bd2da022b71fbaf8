"""The S game as a linear program, for the rare state that the dual simplex kernel left unsettled.

The LP's answer is only a proposal: d and q are made feasible and certified by the same bounds as
any other, so a sloppy tolerance widens the interval and never breaks it. If the proposal is no
better than what the kernel had, the kernel's stays.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from softrobust.errors import SolverError
from softrobust.kernels.s_game import certify_pair
from softrobust.kernels.state_values import batch_rows, rows_work
from softrobust.kernels.sweeps import Rectangle, Update, record_pair

FloatArray = NDArray[np.float64]


def game_lp(
    Z: FloatArray, f: FloatArray, u: FloatArray, lam: float
) -> tuple[FloatArray, FloatArray]:
    """(d, q) of max_d min_q dᵀMq by HiGHS at its tightest tolerances; Z (n, N)."""
    from scipy.optimize import linprog

    n, N = Z.shape
    centre, unit = 0.5 * (Z.min() + Z.max()), max(float(np.ptp(Z)), np.finfo(float).tiny)
    M = (Z - centre) / unit
    M = (1 - lam) * (M @ f)[:, None] + lam * M
    # min t over (q, t): Mq − t ≤ 0, Σq = 1, 0 ≤ q ≤ u; d are the multipliers of the rows.
    answer = linprog(
        np.r_[np.zeros(N), 1.0],
        A_ub=np.c_[M, -np.ones(n)],
        b_ub=np.zeros(n),
        A_eq=np.r_[np.ones(N), 0.0][None],
        b_eq=[1.0],
        bounds=[*((0.0, float(x)) for x in u), (None, None)],
        method="highs",
        options={"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10},
    )
    if answer.x is None:
        raise SolverError(f"The linear program of a state's game failed: {answer.message}")
    return np.maximum(-answer.ineqlin.marginals, 0.0), np.clip(answer.x[:N], 0.0, u)


def settle(g: Rectangle, v: FloatArray, centre: float, s: int, out: Update) -> None:
    """Improve state s of `out` by the LP where that narrows its bounds."""
    work = rows_work(g, 1)
    batch_rows(g, v, centre, s, s + 1, out.d, False, work)
    n, Z, actions, L = int(work.n[0]), work.Z[0], work.actions[0], g.live.size
    d, q = game_lp(Z[:n], g.f, g.u, g.lam)
    lb, ub = certify_pair(Z[:n], g.f, g.u, g.lam, d, q)
    if ub - lb < out.ub[s] - out.lb[s]:
        out.lb[s], out.ub[s] = lb, ub
        out.d[s] = 0.0
        out.d[s, actions[:n]] = d
        for i in np.flatnonzero(d > 0):
            record_pair(g, s, int(actions[i]), q, np.empty(L, np.int64), out)
