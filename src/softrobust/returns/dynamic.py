"""Returns of a given policy where nature answers it: in every state anew, or with one mixture.

    S-rectangular   ρ^R(π):   one ξ per state,            v(s) = min_ξ Σ_a π_a Z_aᵀξ      (eq. 4.7)
    SA-rectangular  ρ^RA(π):  one ξ per state and action, v(s) = Σ_a π_a min_ξ Z_aᵀξ      (eq. A.3)
    dynamic         ρ^D(π):   one ξ for all states,       min over ξ ∈ Ξ of ρ(π, E_ξ[P̂])  (eq. 4.4)

ρ^RA ≤ ρ^R ≤ ρ^D. The first two are fixed points. Nature's policy iteration: sweep for the worst ξ
at v, solve for the value of that ξ, repeat; its values fall, and certified bounds say when to stop.
The last (over P^D, eq. 4.5) is the minimum of a curved function of ξ, and hard in general.
Frank–Wolfe descent from several starts gives an upper estimate, with ρ^R(π) (proposition 4.3) as
certified lower bound. With h_ξ and v_ξ the occupancy and value of π in the mixture, the gradient is

    ∂ρ/∂ξ_ω = h_ξᵀ (r^ω_π + γP̂^ω_π v_ξ),

and the linear step over Ξ is the soft-robust worst case of these scores.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import numpy as np

from softrobust._core.arguments import names_arguments
from softrobust._core.arrays import FloatArray
from softrobust._core.limits import generator
from softrobust._core.settings import whole
from softrobust.kernels.sweeps import S_NATURE, SA_NATURE
from softrobust.models.policy import Policy
from softrobust.problem import Problem
from softrobust.returns import evaluation
from softrobust.returns.rectangular_sweeps import Bracket, Sweeps

MAX_SWEEPS = 200
LEAST_FALL = 1e-15  # of the values: less is rounding
DENSE_STATES = 1000  # up to here the mixture's linear system is solved directly


@names_arguments
def s_rect_return(problem: Problem, policy: Policy, tol: float = 1e-10) -> float:
    """ρ^R(π): the return of a policy where nature picks ξ ∈ Ξ anew in every state (eq. 4.7)."""
    return float(problem.p0 @ rectangular_value(problem, policy, S_NATURE, tol).v)


@names_arguments
def sa_rect_return(problem: Problem, policy: Policy, tol: float = 1e-10) -> float:
    """ρ^RA(π): the return where nature picks ξ ∈ Ξ anew for every state and action (eq. A.3)."""
    return float(problem.p0 @ rectangular_value(problem, policy, SA_NATURE, tol).v)


def rectangular_value(
    problem: Problem, policy: Policy, kind: int = S_NATURE, tol: float = 1e-10
) -> Bracket:
    """The worst-case value function of a policy, with certified bounds.

    `kind` is S_NATURE or SA_NATURE of `kernels.sweeps`; `tol` the half-width of the bounds to
    reach, relative to max|v|, from which rounding can keep it.
    """
    evaluation.check_policy(problem, policy)
    sweeps = Sweeps(problem)
    sweeps.out.d[:] = policy.probs
    v = np.zeros(problem.n_states)
    best: Bracket | None = None
    worse = 0
    for _ in range(MAX_SWEEPS):
        sweeps.run(kind, v)
        found = sweeps.bounds(v)
        worse += 1
        if best is None or found.width < best.width:
            best, worse = found, 0
        new = sweeps.step(v)
        still = float((v - new).max()) <= LEAST_FALL * float(np.abs(v).max())
        if best.tol <= tol or (worse > 3 and still):  # rounding has the last word
            break
        v = new
    assert best is not None  # the loop runs at least once
    return best


def nature_response(sweeps: Sweeps, kind: int, v: FloatArray, target: float) -> FloatArray:
    """Nature's policy iteration for the decision in `sweeps.out.d`, from v.

    Stops where the span of the residual is at most `target`, or where the value no longer falls:
    the residual itself may rise on the way, while every answer of nature lowers the value.
    """
    for i in range(MAX_SWEEPS):
        sweeps.run(kind, v)
        if float(np.ptp(sweeps.value - v)) <= target:
            return v
        new = sweeps.step(v)
        if i > 0 and float((v - new).max()) <= LEAST_FALL * float(np.abs(v).max()):
            return v
        v = new
    return v


@final
@dataclass(frozen=True, slots=True, eq=False)
class DynamicReturn:
    """An estimate of ρ^D(π) from above, the ξ that attains it, and a certified lower bound."""

    value: float
    lower: float
    xi: FloatArray


@names_arguments
def dynamic_return(
    problem: Problem,
    policy: Policy,
    starts: int = 8,
    steps: int = 200,
    tol: float = 1e-10,
    seed: int | np.random.Generator = 0,
) -> DynamicReturn:
    """ρ^D of a policy by multi-start descent over ξ ∈ Ξ.

    Starts are the nominal weights, the static worst case, and random vertices of Ξ. Each makes at
    most `steps` Frank–Wolfe steps, and stops at a relative decrease of `tol`.
    """
    value, xi = worst_mixture(problem, policy, starts, steps, tol, seed)
    lower = min(float(problem.p0 @ rectangular_value(problem, policy).lower), value)
    return DynamicReturn(value, lower, xi)


def worst_mixture(
    problem: Problem,
    policy: Policy,
    starts: int = 8,
    steps: int = 200,
    tol: float = 1e-10,
    seed: int | np.random.Generator = 0,
) -> tuple[float, FloatArray]:
    """The least ρ(π, E_ξ[P̂]) that descent finds, and its ξ (n_models,); no bound from below."""
    evaluation.check_policy(problem, policy)
    whole("starts", starts, most=2**31)
    whole("steps", steps)
    rng = generator(seed)
    f, objective = problem.models.f, problem.objective
    points = [f.copy(), objective.worst_case(evaluation.policy_return(problem, policy), f)]
    while len(points) < starts:
        points.append(objective.worst_case(rng.standard_normal(f.size), f))
    mixtures = _Mixtures(problem, policy)
    best_value, best_xi = np.inf, points[0]
    for start in points[:starts]:
        value, xi = _descend(problem, mixtures, start, steps, tol)
        if value < best_value:
            best_value, best_xi = value, xi
    return best_value, best_xi


def _descend(
    problem: Problem, mixtures: _Mixtures, xi: FloatArray, steps: int, tol: float
) -> tuple[float, FloatArray]:
    value, gradient = mixtures.value_and_gradient(xi)
    for _ in range(steps):
        direction = problem.objective.worst_case(gradient, problem.models.f) - xi
        slope = float(gradient @ direction)
        if slope >= -tol * max(abs(value), 1e-300):
            break
        step = 1.0
        for _ in range(40):  # Armijo: halve until the decrease is a share of the promised one
            candidate = xi + step * direction
            new_value, new_gradient = mixtures.value_and_gradient(candidate)
            if new_value <= value + 1e-4 * step * slope:
                break
            step /= 2
        else:
            break
        xi, value, gradient = candidate, new_value, new_gradient
    return value, xi


@final
class _Mixtures:
    """A policy's own rows in all models, ready to be mixed."""

    def __init__(self, problem: Problem, policy: Policy) -> None:
        # One sparsity for all models: (n_states + 1,), (nnz,) and (n_models, nnz).
        self.rows, self.columns, self.P = evaluation.policy_rows(problem, policy.probs)
        self.r = evaluation.policy_reward(problem, policy.probs)  # (n_models, n_states)
        self.p0, self.gamma = problem.p0, problem.gamma

    def value_and_gradient(self, xi: FloatArray) -> tuple[float, FloatArray]:
        """ρ(π, E_ξ[P̂]) and its gradient in ξ."""
        v, h = self._solve(xi)
        ahead = np.add.reduceat(self.P * v[self.columns], self.rows[:-1], axis=1)
        return float(self.p0 @ v), (self.r + self.gamma * ahead) @ h

    def _solve(self, xi: FloatArray) -> tuple[FloatArray, FloatArray]:
        import scipy.sparse as sp

        S = self.p0.size
        mixed = sp.csr_array((xi @ self.P, self.columns, self.rows), shape=(S, S))
        M = sp.eye_array(S, format="csr") - self.gamma * mixed
        r = xi @ self.r
        if S > DENSE_STATES:
            v = evaluation.solve_checked(M, r, self.gamma)
            return v, evaluation.solve_checked(M.T.tocsr(), self.p0, self.gamma, norm=1)
        dense = M.toarray()
        v = np.linalg.solve(dense, r).astype(np.float64, copy=False)
        return v, np.linalg.solve(dense.T, self.p0).astype(np.float64, copy=False)
