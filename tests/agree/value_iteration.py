"""Plain value iteration on the rectangular operators, as a reference for the solvers (section 4).

v ← Tv, with the operator T of `SRect` or `SARect`: no decision is kept, no linear system solved. It
shares nothing with partial policy iteration but T itself and the certificate, MacQueen's bounds,
which also say when to stop. From sweep to sweep the residual shrinks by γ at worst, and faster if
the models mix: tens of passes over them where they mix well, thousands where they do not.
"""

from __future__ import annotations

import numpy as np

from softrobust.kernels.sweeps import S_GAME
from softrobust.problem import Problem
from softrobust.returns.rectangular_sweeps import Bracket, Sweeps
from softrobust.solvers.base import Status
from softrobust.solvers.rectangular.rectangular import at_rounding

PATIENCE = 20  # sweeps without a better bound before rounding has the last word


def rectangular_value_iteration(
    problem: Problem, kind: int = S_GAME, tol: float = 1e-8, max_sweeps: int = 100_000
) -> tuple[Bracket, Status, int]:
    """The certified value by value iteration from 0, and the number of sweeps it took."""
    sweeps = Sweeps(problem)
    sweeps.out = sweeps.out._replace(mixed=np.zeros(0))  # no linear system, no mixed rows
    v, best, waited, done = np.zeros(problem.n_states), None, 0, 0
    while done < max_sweeps and waited < PATIENCE:
        sweeps.run(kind, v)
        done, waited = done + 1, waited + 1
        found = sweeps.bounds(v)
        if best is None or found.width < best.width:
            best, waited = found, 0
        if best.tol <= tol:
            return best, Status.TOLERANCE_REACHED, done
        v = sweeps.value
    assert best is not None
    if waited < PATIENCE:
        return best, Status.ITERATION_LIMIT, done
    return *at_rounding(best, sweeps.R_max, tol), done
