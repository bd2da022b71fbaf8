"""How long parts of the page would take, told from sizes alone.

The page must be the same on every machine, so what goes into it is decided by an estimate and never
by a clock: one evaluation of a policy takes about N·nnz steps of an iterative method, or N·S³ of a
factorisation, whichever is less. The constants are rough figures of an ordinary computer.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from softrobust.problem import Problem

SPARSE, DENSE = 6e-7, 4e-10  # seconds per stored entry, and per S³
SMALL_STATES = 96  # up to here one compiled kernel does it all
OVERHEAD = {True: 2e-4, False: 1e-2}  # per evaluation, small or not


def evaluation_seconds(problem: Problem) -> float:
    """One policy on all models of the problem."""
    S, A, N = problem.n_states, problem.n_actions, problem.n_models
    stored = problem.models.next_states.size / A
    return OVERHEAD[S <= SMALL_STATES] + N * min(SPARSE * stored, DENSE * S**3)
