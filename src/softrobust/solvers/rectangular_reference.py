"""Plain value iteration on the rectangular operators, as a reference for the solvers (section 4).

v ← Tv, with the operator T of `SRect` or `SARect`: no decision is kept, no linear system solved. It
shares nothing with partial policy iteration but T itself and the certificate, MacQueen's bounds,
which also say when to stop. From sweep to sweep the residual shrinks by γ at worst, and faster if
the models mix: tens of passes over them where they mix well, thousands where they do not.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from softrobust.errors import InputError
from softrobust.kernels.sweeps import S_GAME, SA_GAME
from softrobust.returns._rectangle import Sweeps
from softrobust.solvers.base import Status
from softrobust.solvers.rectangular import Answer, at_rounding

if TYPE_CHECKING:
    from softrobust.problem import Problem

PATIENCE = 20  # sweeps without a better bound before rounding has the last word


def rectangular_value_iteration(
    problem: Problem, kind: int = S_GAME, tol: float = 1e-8, max_sweeps: int = 100_000
) -> tuple[Answer, int]:
    """The certified value by value iteration from 0, and the number of sweeps it took.

    Parameters
    ----------
    kind : int
        `kernels.sweeps.S_GAME` or `SA_GAME`.
    tol : float
        Half-width of the bounds to reach, relative to max|v|.
    """
    if kind not in (S_GAME, SA_GAME):
        raise InputError(f"kind is S_GAME ({S_GAME}) or SA_GAME ({SA_GAME}); it is {kind!r}.")
    if max_sweeps < 1:
        raise InputError(f"max_sweeps must be at least 1; it is {max_sweeps!r}.")
    sweeps = Sweeps(problem)
    sweeps.out = sweeps.out._replace(mixed=np.zeros(0))  # no linear system, no mixed rows
    v, best, waited, done = np.zeros(problem.n_states), None, 0, 0
    while done < max_sweeps and waited < PATIENCE:
        sweeps.run(kind, v)
        done += 1
        lower, upper = sweeps.bounds(v)
        if best is None or (upper - lower).max() < (best.upper - best.lower).max():
            best, waited = Answer(lower, upper, sweeps.out.d.copy()), 0
        else:
            waited += 1
        if best.tol <= tol:
            best.status = Status.TOLERANCE_REACHED
            return best, done
        v = sweeps.value
    assert best is not None  # max_sweeps is at least 1
    return (at_rounding(best, sweeps.R_max, tol) if waited == PATIENCE else best), done
