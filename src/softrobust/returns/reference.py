"""What returns are measured against, and the objective of what is left.

The objective is a measure of x_ω − c_ω, with c_ω the return of the reference in the same model:

    none       c_ω = 0: the return itself
    a policy   c_ω = ρ(π_ref, P̂^ω): the gain over it; practice is one
    optimum    c_ω ≥ max_π ρ(π, P̂^ω) over allowed π, by no more than arithmetic leaves open: the
               regret, which is never above 0

c is one constant per model, whatever policy is judged: a solver, a bound or a certificate that
works with the returns x works with x − c. So it is computed here alone, for any set of models
(those chosen on, held-out ones, replications), and kept with them.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, replace
from typing import Any, final
from weakref import WeakKeyDictionary

import numpy as np

from softrobust._core.arrays import FloatArray, seal
from softrobust.data.rewards import Rewards
from softrobust.errors import InputError
from softrobust.models.policy import Policy
from softrobust.objective import Reference
from softrobust.problem import Problem
from softrobust.returns.evaluation import (
    RELATIVE_ERROR,
    AnyPolicy,
    is_large_and_sparse,
    policy_return,
    return_gradients,
    total_time,
)
from softrobust.returns.optimal import optimal_returns

EPS = float(np.finfo(np.float64).eps)
KEPT = 6  # references kept per set of models


@final
@dataclass(frozen=True, slots=True, eq=False)
class _Known:
    """Constants, and all that they depend on besides the models."""

    rewards: Rewards
    gamma: float
    horizon: int | None
    p0: FloatArray
    reference: Reference
    returns: FloatArray

    def serves(self, problem: Problem) -> bool:
        return (
            self.rewards is problem.paid
            and (self.gamma, self.horizon) == (problem.gamma, problem.horizon)
            and self.reference is problem.objective.reference
            and np.array_equal(self.p0, problem.p0)
        )


_KNOWN: WeakKeyDictionary[Any, deque[_Known]] = WeakKeyDictionary()


def reference_returns(problem: Problem) -> FloatArray:
    """(n_models,): what the reference of the objective earns in every model; 0 without one."""
    reference = problem.objective.reference
    if reference is None:
        return seal(np.zeros(problem.n_models))
    if reference.returns is not None:
        if reference.returns.shape != (problem.n_models,):
            raise InputError(
                f"The reference has {reference.returns.size} returns, one for each model; the "
                f"problem has {problem.n_models} models."
            )
        return np.asarray(reference.returns)
    kept = _KNOWN.setdefault(problem.models, deque(maxlen=KEPT))
    for known in list(kept):
        if known.serves(problem):
            return known.returns
    c = seal(_computed(problem, reference))
    kept.append(_Known(problem.paid, problem.gamma, problem.horizon, problem.p0, reference, c))
    return c


def _computed(problem: Problem, reference: Reference) -> FloatArray:
    if reference.policy is not None:
        return policy_return(unmasked(problem), reference.policy)
    own = problem
    if reference.allowed is not None and not np.array_equal(reference.allowed, problem.allowed):
        own = replace(problem, allowed=reference.allowed)
    best = optimal_returns(own)
    # The returns of policies are rounded too: by this share of the values at most.
    share = 8 * EPS * problem.n_states * total_time(problem)
    share = max(share, 2 * RELATIVE_ERROR if is_large_and_sparse(own) else 0.0)
    return np.asarray(best.upper + share * np.abs(best.V).max(axis=1))


def unmasked(problem: Problem) -> Problem:
    """The problem in which every pair with transitions may be used, as practice does."""
    available = problem.models.available
    if np.array_equal(problem.allowed, available):
        return problem
    return replace(problem, allowed=available)


def measured(problem: Problem, x: FloatArray) -> FloatArray:
    """Returns x (…, n_models) less those of the reference: what the objective is taken of."""
    if problem.objective.reference is None:
        return x
    return np.asarray(x - reference_returns(problem))


def reference_size(problem: Problem) -> float:
    """The largest |return| of the reference, 0 without one: what x − c was rounded at."""
    return float(np.abs(reference_returns(problem)).max())


def static_return(problem: Problem, policy: AnyPolicy) -> float:
    """ρ^S(π): the objective applied to returns less the reference's (eq. 3.1)."""
    x = measured(problem, policy_return(problem, policy))
    return problem.objective.value(x, problem.models.f)


def uniform_value(problem: Problem) -> float:
    """ρ^S of the uniform policy over allowed actions: the zero of `gap_share`."""
    return static_return(problem, problem.uniform_policy())


def static_gradient(problem: Problem, policy: Policy) -> FloatArray:
    """Gradient of ρ^S in the action probabilities, (n_states, n_actions)."""
    returns, gradients = return_gradients(problem, policy)
    xi = problem.objective.worst_case(measured(problem, returns), problem.models.f)
    return np.asarray(np.einsum("n,nsa->sa", xi, gradients))
