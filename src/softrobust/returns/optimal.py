"""Returns by dynamic programming: the optimum of every model on its own, and finite horizons.

The optimum is what one could earn if told which model is true. With a finite horizon, backward

    v^ω_t(s) = R[s, d_t(s), ω] + γ P̂^ωᵀ v^ω_{t+1},   v_T = 0,

and forward the probability of being in s at step t in model ω, which CADP uses as weights; both
read the models once per step.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import numpy as np
from numpy.typing import NDArray

from softrobust._core.arrays import FloatArray
from softrobust._core.limits import NO_LIMIT, Deadline, chunks
from softrobust.errors import InputError
from softrobust.models.policy import TimedPolicy
from softrobust.problem import Problem
from softrobust.returns.evaluation import action_values, policy_rows

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
    V = np.zeros((N, S))
    masked = np.where(problem.allowed, problem.R @ m.f, -np.inf)
    decisions = np.tile(np.argmax(masked, axis=1), (N, 1))
    below, above = np.empty(N), np.empty(N)
    large = N > 1 and m.prob.size > PARALLEL_WORK
    for part in chunks(N, FIRST if large else N):
        steps = 1 if part.start > 0 and deadline.passed else ITERATION_LIMIT
        solve_models(
            large, m.indptr, m.next_states, m.prob, problem.R, problem.allowed, problem.gamma,
            tol, steps, part.start, part.stop, V, decisions, below, above,
        )  # fmt: skip
    start = V @ problem.p0
    # The sum p₀ᵀv rounds too.
    slack = 2 * S * np.finfo(float).eps * (np.abs(V) @ problem.p0)
    total = problem.p0.sum()
    return ModelOptima(V, decisions, start + total * below - slack, start + total * above + slack)


def horizon_return(problem: Problem, policy: TimedPolicy) -> FloatArray:
    """Σ_{t<T} γ^t r_t of a timed policy in every model, (n_models,)."""
    check_timed_policy(problem, policy)
    v = np.zeros((problem.n_models, problem.n_states))
    rows = np.arange(problem.n_states)
    for decision in policy.decisions[::-1]:
        v = action_values(problem, v)[:, rows, decision]
    return v @ problem.p0


def check_timed_policy(problem: Problem, policy: TimedPolicy) -> None:
    """The policy must speak of the problem's states and actions, and take allowed actions only."""
    m = problem.models
    if policy.states != m.states or policy.actions != m.actions:
        raise InputError("The timed policy is for other states or actions than the problem's.")
    rows = np.arange(problem.n_states)
    bad = np.argwhere(~problem.allowed[rows, policy.decisions])
    if bad.size:
        t, s = bad[0]
        raise InputError(
            f"The timed policy takes action '{m.actions[policy.decisions[t, s]]}' in state "
            f"'{m.states[s]}' at step {t}, which is not allowed there ({len(bad)} such places)."
        )


def state_probabilities(problem: Problem, policy: TimedPolicy) -> FloatArray:
    """P(S_t = s) in every model, (horizon, n_models, n_states)."""
    check_timed_policy(problem, policy)
    out = np.empty((policy.horizon, problem.n_models, problem.n_states))
    out[0] = problem.p0
    for t in range(1, policy.horizon):
        out[t] = _forward(problem, policy.decisions[t - 1], out[t - 1])
    return out


def _forward(problem: Problem, decision: NDArray[np.int64], b: FloatArray) -> FloatArray:
    """One step of the state distribution b (n_models, n_states) under a decision rule."""
    probs = np.zeros((problem.n_states, problem.n_actions))
    probs[np.arange(problem.n_states), decision] = 1.0
    rows, columns, P = policy_rows(problem, probs)
    flow = P * np.repeat(b, np.diff(rows), axis=1)
    out = np.zeros_like(b)
    for omega in range(problem.n_models):
        out[omega] = np.bincount(columns, weights=flow[omega], minlength=problem.n_states)
    return out
