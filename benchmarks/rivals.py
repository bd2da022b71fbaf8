"""The rivals of the rectangular solvers, each written as one would write it well."""

from __future__ import annotations

from typing import Any

import highspy
import numpy as np
import scipy.sparse as sp
from numba import njit
from numpy.typing import NDArray
from scipy.optimize import linprog

from softrobust.kernels.sweeps import S_GAME
from softrobust.problem import Problem
from softrobust.returns.rectangular_sweeps import Sweeps

FloatArray = NDArray[np.float64]


def paper_lp(Z: FloatArray, f: FloatArray, lam: float, alpha: float) -> dict[str, Any]:
    """Eq. (4.8) as printed, over (d, b, y), in the form that `linprog` takes; Z (A, N)."""
    A, N = Z.shape
    return {
        "c": -np.r_[(1 - lam) * Z @ f, lam, -lam * f / (1 - alpha)],
        "A_ub": np.c_[-Z.T, np.ones(N), -np.eye(N)],
        "b_ub": np.zeros(N),
        "A_eq": np.r_[np.ones(A), np.zeros(1 + N)][None],
        "b_eq": [1.0],
        "bounds": [(0, None)] * A + [(None, None)] + [(0, None)] * N,
    }


def linprog_games(Z: FloatArray, f: FloatArray, lam: float, alpha: float) -> FloatArray:
    """One `linprog` per state."""
    values = []
    for z in Z:
        answer = linprog(**paper_lp(z, f, lam, alpha), method="highs")
        values.append(-float(answer.fun or 0.0))
    return np.array(values)


def block_lp(Z: FloatArray, f: FloatArray, lam: float, alpha: float) -> FloatArray:
    """All states in one block-diagonal LP."""
    parts = [paper_lp(z, f, lam, alpha) for z in Z]
    answer = linprog(
        np.concatenate([p["c"] for p in parts]),
        A_ub=sp.block_diag([p["A_ub"] for p in parts], format="csr"),
        b_ub=np.concatenate([p["b_ub"] for p in parts]),
        A_eq=sp.block_diag([p["A_eq"] for p in parts], format="csr"),
        b_eq=np.ones(len(parts)),
        bounds=[b for p in parts for b in p["bounds"]],
        method="highs",
    )
    return np.asarray(answer.x)


class WarmHighs:
    """One HiGHS per state that keeps its basis: new numbers in, few pivots, value out."""

    def __init__(self, Z: FloatArray, f: FloatArray, lam: float, alpha: float) -> None:
        self.f, self.lam, self.alpha = f, lam, alpha
        self.solvers = [self._model(z) for z in Z]
        for solver in self.solvers:
            solver.run()

    def _model(self, Z: FloatArray) -> Any:
        lp = paper_lp(Z, self.f, self.lam, self.alpha)
        rows = sp.csc_array(np.r_[lp["A_ub"], lp["A_eq"]])
        infinite = highspy.kHighsInf
        model = highspy.HighsLp()
        model.num_col_, model.num_row_ = rows.shape[1], rows.shape[0]
        model.col_cost_ = lp["c"]
        model.col_lower_ = np.array([-infinite if b[0] is None else b[0] for b in lp["bounds"]])
        model.col_upper_ = np.full(rows.shape[1], infinite)
        model.row_lower_ = np.r_[np.full(Z.shape[1], -infinite), 1.0]
        model.row_upper_ = np.r_[np.zeros(Z.shape[1]), 1.0]
        model.a_matrix_.format_ = highspy.MatrixFormat.kColwise
        model.a_matrix_.start_ = rows.indptr
        model.a_matrix_.index_ = rows.indices
        model.a_matrix_.value_ = rows.data
        solver = highspy.Highs()
        solver.setOptionValue("output_flag", False)
        solver.passModel(model)
        return solver

    def solve(self, Z: FloatArray) -> FloatArray:
        """Values at new Z (S, A, N), each from the last basis."""
        values = np.empty(len(Z))
        for s, (solver, z) in enumerate(zip(self.solvers, Z, strict=True)):
            basis = solver.getBasis()
            lp = paper_lp(z, self.f, self.lam, self.alpha)
            rows = sp.csc_array(np.r_[lp["A_ub"], lp["A_eq"]])
            model = solver.getLp()
            model.col_cost_ = lp["c"]
            model.a_matrix_.value_ = rows.data
            solver.passModel(model)
            solver.setBasis(basis)
            solver.run()
            values[s] = -solver.getObjectiveValue()
        return values


def argsort_sa(Z: FloatArray, f: FloatArray, lam: float, alpha: float) -> FloatArray:
    """max_a of the objective by one weighted argsort of everything; Z (S, A, N)."""
    order = Z.argsort(axis=-1)
    mass = f[order]
    taken = np.clip((1 - alpha) - (mass.cumsum(axis=-1) - mass), 0, mass)
    cvar = (taken * np.take_along_axis(Z, order, -1)).sum(axis=-1) / (1 - alpha)
    return np.asarray(((1 - lam) * (Z @ f) + lam * cvar).max(axis=-1))


@njit(fastmath=True)
def read_streams(x):  # type: ignore[no-untyped-def]
    """Add up x in eight streams: what the memory can deliver."""
    n = x.size // 8
    a0 = a1 = a2 = a3 = a4 = a5 = a6 = a7 = 0.0
    for i in range(n):
        a0 += x[i]
        a1 += x[n + i]
        a2 += x[2 * n + i]
        a3 += x[3 * n + i]
        a4 += x[4 * n + i]
        a5 += x[5 * n + i]
        a6 += x[6 * n + i]
        a7 += x[7 * n + i]
    return a0 + a1 + a2 + a3 + a4 + a5 + a6 + a7


def value_iteration(
    problem: Problem, kind: int = S_GAME, tol: float = 1e-8, limit: int = 100_000
) -> tuple[FloatArray, int]:
    """Plain value iteration with the same games until γ/(1 − γ)·‖Tv − v‖ ≤ tol·max|v|; sweeps."""
    sweeps = Sweeps(problem)
    sweeps.out = sweeps.out._replace(mixed=np.zeros(0))
    v = np.zeros(problem.n_states)
    factor = problem.gamma / (1 - problem.gamma)
    for done in range(1, limit + 1):
        sweeps.run(kind, v)
        new = sweeps.value
        if factor * np.abs(new - v).max() <= tol * np.abs(new).max():
            return new, done
        v = new
    return v, limit
