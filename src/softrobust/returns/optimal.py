"""The optimal return of every model on its own: what one could earn if told which model is true."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, final

import numpy as np
from numpy.typing import NDArray

from softrobust.errors import InputError
from softrobust.returns.late import Late, chunks

if TYPE_CHECKING:
    from softrobust.problem import Problem

FloatArray = NDArray[np.float64]
PARALLEL_WORK = 200_000  # stored probabilities below which threads cost more than they bring
ITERATION_LIMIT = 20_000
FIRST = 8  # models of the first chunk, where a model takes long


@final
@dataclass(frozen=True, slots=True, eq=False)
class ModelOptima:
    """Optimal values V (n_models, n_states), decisions (n_models, n_states), certified brackets.

    `lower` and `upper` (n_models,) bracket p₀ᵀV*_ω, rounding included.
    """

    V: FloatArray
    decisions: NDArray[np.int64]
    lower: FloatArray
    upper: FloatArray


def optimal_returns(problem: Problem, tol: float = 1e-11, late: Late | None = None) -> ModelOptima:
    """Solve every model of the problem exactly, under the allowed actions.

    Parameters
    ----------
    tol : float
        Stop when the bracket of a model is narrower than this share of its largest value; the
        bracket returned is true at any tolerance.
    late : callable, optional
        Asked between chunks of models. Once True, the models left get one Bellman step each: their
        brackets are wide, and as true as the others.
    """
    from softrobust.kernels.optimal import solve_range_parallel, solve_range_serial

    m, S, N = problem.models, problem.n_states, problem.n_models
    if not np.isfinite(problem.R).all():
        raise InputError("Rewards must be finite to solve the models.")
    V = np.zeros((N, S))
    masked = np.where(problem.allowed, problem.R @ m.f, -np.inf)
    decisions = np.tile(np.argmax(masked, axis=1), (N, 1))
    below, above = np.empty(N), np.empty(N)
    large = N > 1 and m.prob.size > PARALLEL_WORK
    run = solve_range_parallel if large else solve_range_serial
    for part in chunks(N, FIRST if large else N):
        cut = part.start > 0 and late is not None and late()
        steps = 1 if cut else ITERATION_LIMIT
        run(
            m.indptr, m.next_states, m.prob, problem.R, problem.allowed, problem.gamma,
            tol, steps, part.start, part.stop, V, decisions, below, above,
        )  # fmt: skip
    start = V @ problem.p0
    # The sum p₀ᵀv rounds too.
    slack = 2 * S * np.finfo(float).eps * (np.abs(V) @ problem.p0)
    total = problem.p0.sum()
    return ModelOptima(V, decisions, start + total * below - slack, start + total * above + slack)
