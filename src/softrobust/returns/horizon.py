"""Finite horizon: returns of a time-dependent policy on every model, by going back and forth.

Backward, v^ω_t(s) = R[s, d_t(s), ω] + γ P̂^ωᵀ v^ω_{t+1} with v_T = 0. Forward, the probability of
being in s at step t in model ω, which CADP uses as weights. Both read the models once per step.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from softrobust.errors import InputError
from softrobust.returns.evaluation import policy_rows
from softrobust.returns.gradient import action_values

if TYPE_CHECKING:
    from softrobust.models.timed_policy import TimedPolicy
    from softrobust.problem import Problem

FloatArray = NDArray[np.float64]


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
