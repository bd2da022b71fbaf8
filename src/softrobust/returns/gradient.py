"""How a policy's returns change with its action probabilities, exactly.

For one model, with v and h the value and occupancy of π (the adjoint costs one more solve),

    ∂ρ(π, P̂^ω)/∂π(a|s) = h^ω(s)·Q^ω(s, a),        Q^ω(s, a) = R[s, a, ω] + γ P̂^ω_{s,a}ᵀ v^ω,

along directions that keep Σ_a π(a|s) = 1. The objective ρ^S is the minimum over ξ ∈ Ξ of
Σ_ω ξ_ω ρ_ω, so its gradient is the ξ-average of the models' gradients at the worst-case ξ: where
that ξ is not unique, ρ^S has a kink and this is one of its supergradients.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from softrobust.returns.evaluation import evaluate_policy

if TYPE_CHECKING:
    from softrobust.models.policy import Policy
    from softrobust.problem import Problem

FloatArray = NDArray[np.float64]
PARALLEL_WORK = 200_000  # stored probabilities below which threads cost more than they bring


def action_values(problem: Problem, V: FloatArray) -> FloatArray:
    """Q (n_models, n_states, n_actions) of one value function per model, V (n_models, n_states)."""
    from softrobust.kernels.action_values import action_values_parallel, action_values_serial

    m = problem.models
    Q = np.empty((m.n_models, m.n_states, m.n_actions))
    run = action_values_parallel if m.prob.size > PARALLEL_WORK else action_values_serial
    run(m.indptr, m.next_states, m.prob, problem.R, problem.gamma, np.ascontiguousarray(V), Q)
    return Q


def return_gradients(problem: Problem, policy: Policy) -> tuple[FloatArray, FloatArray]:
    """Returns ρ(π, P̂^ω), (n_models,), and their gradients, (n_models, n_states, n_actions).

    Pairs that are not allowed have gradient 0.
    """
    v, h = evaluate_policy(problem, policy)
    gradient = h[:, :, None] * action_values(problem, v)
    gradient *= problem.allowed
    return v @ problem.p0, gradient


def static_gradient(problem: Problem, policy: Policy) -> FloatArray:
    """Gradient of ρ^S in the action probabilities, (n_states, n_actions)."""
    returns, gradients = return_gradients(problem, policy)
    xi = problem.objective.worst_case(returns, problem.models.f)
    return np.asarray(np.einsum("n,nsa->sa", xi, gradients))
