"""ρ^D(π) = min over ξ ∈ Ξ of ρ(π, E_ξ[P̂]) (eq. 9): nature picks one mixture for all states.

The minimum is over a curved function of ξ, and hard in general. Frank–Wolfe descent from several
starts gives an upper estimate; ρ^R(π) ≤ ρ^D(π) (proposition 4.3) is its certified lower bound.
With h_ξ and v_ξ the occupancy and value of π in the mixture, the gradient is

    ∂ρ/∂ξ_ω = h_ξᵀ (r^ω_π + γP̂^ω_π v_ξ),

and the linear step over Ξ is the soft-robust worst case of these scores.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, final

import numpy as np
from numpy.typing import NDArray

from softrobust.returns.evaluation import occupancies, policy_return, policy_reward, policy_values
from softrobust.returns.rectangular import s_rect_return

if TYPE_CHECKING:
    from softrobust.models.policy import Policy
    from softrobust.problem import Problem

FloatArray = NDArray[np.float64]


@final
@dataclass(frozen=True, slots=True, eq=False)
class DynamicReturn:
    """An estimate of ρ^D(π) from above, the ξ that attains it, and a certified lower bound."""

    value: float
    lower: float
    xi: FloatArray


def dynamic_return(
    problem: Problem,
    policy: Policy,
    starts: int = 8,
    steps: int = 200,
    tol: float = 1e-10,
    seed: int | np.random.Generator = 0,
) -> DynamicReturn:
    """ρ^D of a policy by multi-start descent over ξ ∈ Ξ.

    Parameters
    ----------
    starts : int
        The nominal weights, the static worst case, and random vertices of Ξ up to this number.
    steps, tol
        Frank–Wolfe steps per start, and the relative decrease at which one stops.
    """
    rng = np.random.default_rng(seed)
    f, objective = problem.models.f, problem.objective
    points = [f.copy(), objective.worst_case(policy_return(problem, policy), f)]
    while len(points) < starts:
        points.append(objective.worst_case(rng.standard_normal(f.size), f))
    best_value, best_xi = np.inf, points[0]
    for start in points[:starts]:
        value, xi = _descend(problem, policy, start, steps, tol)
        if value < best_value:
            best_value, best_xi = value, xi
    lower = min(s_rect_return(problem, policy), best_value)
    return DynamicReturn(best_value, lower, best_xi)


def _descend(
    problem: Problem, policy: Policy, xi: FloatArray, steps: int, tol: float
) -> tuple[float, FloatArray]:
    value, gradient = _value_and_gradient(problem, policy, xi)
    for _ in range(steps):
        direction = problem.objective.worst_case(gradient, problem.models.f) - xi
        slope = float(gradient @ direction)
        if slope >= -tol * max(abs(value), 1e-300):
            break
        step = 1.0
        for _ in range(40):  # Armijo: halve until the decrease is a share of the promised one
            candidate = xi + step * direction
            new_value, new_gradient = _value_and_gradient(problem, policy, candidate)
            if new_value <= value + 1e-4 * step * slope:
                break
            step /= 2
        else:
            break
        xi, value, gradient = candidate, new_value, new_gradient
    return value, xi


def _value_and_gradient(
    problem: Problem, policy: Policy, xi: FloatArray
) -> tuple[float, FloatArray]:
    mixture = problem.mean_problem(xi)
    v = policy_values(mixture, policy)[0]
    h = occupancies(mixture, policy)[0]
    gradient = policy_reward(problem, policy.probs) @ h
    m, A = problem.models, problem.n_actions
    for k in np.flatnonzero(policy.probs.reshape(-1) > 0):
        s, a = divmod(int(k), A)
        if h[s] > 0:
            columns, block = m.block(s, a)
            gradient += problem.gamma * h[s] * policy.probs[s, a] * (block @ v[columns])
    return float(problem.p0 @ v), gradient
