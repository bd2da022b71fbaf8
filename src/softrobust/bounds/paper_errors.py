"""The paper's error terms ε₁, ε₂ and corollary 5.3, corrected; indicative only (section 5).

    ε₁(π) = max over ω₁, ω₂ of ‖h^ω₁_π − h^ω₂_π‖₁            |ρ^D(π) − ρ^S(π)| ≤ r_max·ε₁(π)/(1 − γ)
    ε₂    = max_s max_{ξ∈Ξ} [v_D(s) − Σ_a π_D(a|s)·Σ_ω ξ_ω P̂^ωᵀ(r + γv_D)]
    ρ^S(π*_S) − ρ^S(π*_R) ≤ (2·r_max·ε₁ + ε₂)/(1 − γ),     ε₁ = max over all π of ε₁(π).

These are never a `Bound`: ε₁ is needed for all policies and ε₂ for the NP-hard π_D, and both are
evaluated for the policies at hand, which the result names. Even so they come out thousands of times
the true error. The certificate to lead with is the a-posteriori one.

ERRATUM: theorem 5.1 as printed has a factor γ that holds only where rewards do not depend on the
next state. ERRATUM: lemma 5.2's ε₂ is printed with the opposite sign and a minimum over ξ.
r_max is half the range of expected rewards, which a shift of all rewards allows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, final

import numpy as np

from softrobust._core.arguments import names_arguments
from softrobust._core.arrays import FloatArray
from softrobust.errors import InputError
from softrobust.models.policy import Policy
from softrobust.problem import Problem
from softrobust.returns import occupancies, policy_reward, policy_values
from softrobust.returns.dynamic import worst_mixture


@final
@dataclass(frozen=True, slots=True)
class PaperErrors:
    """Corollary 5.3's terms, evaluated for the policies named; indicative, never a bound."""

    eps1: float  # the largest ε₁(π) among the policies given
    eps2: float  # ε₂ with the first policy standing in for π_D
    r_max: float  # half the range of the expected rewards
    error: float  # (2·r_max·eps1 + eps2)/(1 − γ)
    policies: tuple[str, ...]  # what stood in for "all policies" and for π_D

    def to_dict(self) -> dict[str, Any]:
        """The part `indicative` of `solution.json`."""
        return {
            "eps1": self.eps1,
            "eps2": self.eps2,
            "r_max": self.r_max,
            "corollary": self.error,
            "policies": list(self.policies),
            "note": "not_a_bound",
        }


def eps1(problem: Problem, policy: Policy) -> float:
    """ε₁(π): the largest L1 distance between occupancies of two models of positive weight."""
    h = occupancies(problem, policy)[problem.models.f > 0]
    return max(float(np.abs(h - row).sum(axis=1).max()) for row in h)


def eps2(problem: Problem, policy: Policy) -> float:
    """ε₂ with `policy` standing in for π_D; v_D is that of the worst mixture that descent finds."""
    _, xi = worst_mixture(problem, policy)
    v = policy_values(problem.mean_problem(xi), policy)[0]
    z = policy_reward(problem, policy.probs) + problem.gamma * _ahead_of(problem, policy.probs, v)
    f = problem.models.f
    worst = [problem.objective.value(column, f) for column in z.T]  # min over ξ of Σ ξ_ω z_ω(s)
    return max(float(np.max(v - np.array(worst))), 0.0)  # v itself is reached by its own ξ


def reward_radius(problem: Problem) -> float:
    """Half the range of expected rewards over allowed pairs and models."""
    R = problem.R[problem.allowed]
    return 0.5 * float(R.max() - R.min())


@names_arguments
def paper_errors(problem: Problem, policies: Sequence[Policy], names: Sequence[str]) -> PaperErrors:
    """Corollary 5.3's right-hand side for the policies at hand, the first one as π_D."""
    if not len(policies):
        raise InputError("The paper's error terms need at least one policy; none was given.")
    first = max(eps1(problem, policy) for policy in policies)
    second = eps2(problem, policies[0])
    r_max = reward_radius(problem)
    error = (2 * r_max * first + second) / (1 - problem.gamma)
    return PaperErrors(first, second, r_max, error, tuple(names))


def _ahead_of(problem: Problem, probs: FloatArray, v: FloatArray) -> FloatArray:
    """(n_models, n_states): Σ_a π(a|s)·P̂^ω(·|s,a)ᵀv."""
    m, A = problem.models, problem.n_actions
    out = np.zeros((m.n_models, m.n_states))
    for k in np.flatnonzero(probs.reshape(-1) > 0):
        s, a = divmod(int(k), A)
        columns, block = m.block(s, a)
        out[:, s] += probs[s, a] * (block @ v[columns])
    return out
