"""Returns by dynamic programming: the optimum of every model on its own, and finite horizons.

The optimum is what one could earn if told which model is true. With a finite horizon it has a rule
for each step, found backwards:

    v^ω_t(s) = max_a R[s, a, ω] + γ P̂^ω_{s,a}ᵀ v^ω_{t+1},   v_H = 0.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import numpy as np
from numpy.typing import NDArray

from softrobust._core.arrays import FloatArray, refuse_if_too_large
from softrobust._core.limits import NO_LIMIT, Deadline, chunks
from softrobust.errors import InputError
from softrobust.problem import Problem

PARALLEL_WORK = 200_000  # stored probabilities below which threads cost more than they bring
ITERATION_LIMIT = 20_000
FIRST = 8  # models of the first chunk, where a model takes long


@final
@dataclass(frozen=True, slots=True, eq=False)
class ModelOptima:
    """Optimal values V (n_models, n_states), decisions (n_models, n_states), certified brackets.

    `lower` and `upper` (n_models,) bracket p₀ᵀV*_ω, rounding included. With a horizon, V and
    decisions are those of the first step, and `steps` has the values (horizon + 1, n_models,
    n_states) and decisions (horizon, n_models, n_states) of all.
    """

    V: FloatArray
    decisions: NDArray[np.int64]
    lower: FloatArray
    upper: FloatArray
    steps: tuple[FloatArray, NDArray[np.int64]] | None = None


def optimal_returns(
    problem: Problem, tol: float = 1e-11, deadline: Deadline = NO_LIMIT
) -> ModelOptima:
    """Solve every model of the problem exactly, under the allowed actions.

    A model is done when its bracket is narrower than `tol` of its largest value. Once the deadline
    has passed, the models left get one Bellman step each: brackets are true at any tolerance.
    """
    from softrobust.kernels.optimal import solve_models

    m, S, N = problem.models, problem.n_states, problem.n_models
    if not np.isfinite(problem.R).all():
        raise InputError("Rewards must be finite to solve the models.")
    if problem.horizon is not None:
        return _horizon_optima(problem, problem.horizon)
    V = np.zeros((N, S))
    masked = np.where(problem.allowed, problem.R @ m.f, -np.inf)
    decisions = np.tile(np.argmax(masked, axis=1), (N, 1))
    below, above = np.empty(N), np.empty(N)
    large = N > 1 and m.prob.size > PARALLEL_WORK
    for part in chunks(N, FIRST if large else N):
        steps = 1 if part.start > 0 and deadline.passed else ITERATION_LIMIT
        solve_models(
            large, part.start, part.stop, m.indptr, m.next_states, m.prob, problem.R,
            problem.allowed, problem.gamma, tol, steps, V, decisions, below, above,
        )  # fmt: skip
    start = V @ problem.p0
    # The sum p₀ᵀv rounds too.
    slack = 2 * S * np.finfo(float).eps * (np.abs(V) @ problem.p0)
    total = problem.p0.sum()
    return ModelOptima(V, decisions, start + total * below - slack, start + total * above + slack)


def _horizon_optima(problem: Problem, horizon: int) -> ModelOptima:
    from softrobust.kernels.evaluate import horizon_optima

    m, (N, S) = problem.models, (problem.n_models, problem.n_states)
    refuse_if_too_large(
        16.0 * (horizon + 1) * N * S,
        "The optimal rules of every model at every step",
        "Use fewer models, or a shorter horizon.",
    )
    V, d, slack = np.empty((horizon + 1, N, S)), np.empty((horizon, N, S), np.int64), np.empty(N)
    horizon_optima(
        horizon * m.prob.size > PARALLEL_WORK, 0, N, m.indptr, m.next_states, m.prob, problem.R,
        problem.allowed, problem.gamma, V, d, slack,
    )  # fmt: skip
    start = V[0] @ problem.p0
    slack = problem.p0.sum() * slack + 2 * S * np.finfo(float).eps * (np.abs(V[0]) @ problem.p0)
    return ModelOptima(V[0], d[0], start - slack, start + slack, (V, d))
