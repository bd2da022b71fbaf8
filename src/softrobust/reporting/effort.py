"""How long parts of the page would take, told from sizes alone.

The page must be the same on every machine, so what goes into it is decided by an estimate and never
by a clock: one evaluation of a policy takes about N·nnz steps of an iterative method, or N·S³ of a
factorisation, whichever is less. The constants are rough figures of an ordinary computer.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from softrobust.problem import Problem

SPARSE, DENSE, OVERHEAD = 6e-7, 4e-10, 2e-4  # seconds per stored entry, per S³, per evaluation


def evaluation_seconds(problem: Problem) -> float:
    """One policy on all models of the problem."""
    S, A, N = problem.n_states, problem.n_actions, problem.n_models
    stored = problem.models.next_states.size / A
    return OVERHEAD + N * min(SPARSE * stored, DENSE * S**3)
