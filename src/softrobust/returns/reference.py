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

from dataclasses import dataclass, replace
from typing import final

import numpy as np
from numpy.typing import NDArray

from softrobust._core.arguments import names_arguments
from softrobust._core.arrays import FloatArray, Recent, refuse_if_too_large, seal
from softrobust._core.limits import NO_LIMIT, Deadline, chunks
from softrobust.errors import InputError
from softrobust.models.policy import Policy
from softrobust.objective import Reference
from softrobust.problem import Problem
from softrobust.returns.evaluation import (
    BLOCK,
    RELATIVE_ERROR,
    AnyPolicy,
    is_large_and_sparse,
    policy_return,
    return_gradients,
    total_time,
)

EPS = float(np.finfo(np.float64).eps)
KEPT = 6  # references kept per set of models
_KNOWN: Recent[tuple[FloatArray, float]] = Recent(KEPT)


@names_arguments
def reference_returns(problem: Problem) -> FloatArray:
    """(n_models,): what the reference of the objective earns in every model; 0 without one.

    Optima are taken at the upper end of what they may be: no policy has a regret above 0.
    """
    return _known(problem)[0]


def reference_error(problem: Problem) -> float:
    """By how much the reference may earn less than is said, in any model; 0 for a policy."""
    return _known(problem)[1]


def _known(problem: Problem) -> tuple[FloatArray, float]:
    reference = problem.objective.reference
    if reference is None:
        return seal(np.zeros(problem.n_models)), 0.0
    if reference.returns is not None:
        if reference.returns.shape != (problem.n_models,):
            raise InputError(
                f"The reference has {reference.returns.size} returns, one for each model; the "
                f"problem has {problem.n_models} models."
            )
        return np.asarray(reference.returns), 0.0
    key = (problem.paid, problem.gamma, problem.horizon, problem.p0, reference)
    known = _KNOWN.get(problem.models, *key)
    if known is None:
        known = _KNOWN.put(_computed(problem, reference), problem.models, *key)
    return known


def _computed(problem: Problem, reference: Reference) -> tuple[FloatArray, float]:
    if reference.policy is not None:
        return seal(policy_return(unmasked(problem), reference.policy)), 0.0
    own = problem
    if reference.allowed is not None and not np.array_equal(reference.allowed, problem.allowed):
        own = replace(problem, allowed=reference.allowed)
    best = optimal_returns(own)
    # The returns of policies are rounded too: by this share of the values at most.
    share = 8 * EPS * problem.n_states * total_time(problem)
    share = max(share, 2 * RELATIVE_ERROR if is_large_and_sparse(own) else 0.0)
    upper = best.upper + share * np.abs(best.V).max(axis=1)
    return seal(np.asarray(upper)), float((upper - best.lower).max())


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


@names_arguments
def static_return(problem: Problem, policy: AnyPolicy) -> float:
    """ρ^S(π): the objective applied to returns less the reference's (eq. 3.1)."""
    x = measured(problem, policy_return(problem, policy))
    return problem.objective.value(x, problem.models.f)


def uniform_value(problem: Problem) -> float:
    """ρ^S of the uniform policy over allowed actions: the zero of `gap_share`."""
    return static_return(problem, problem.uniform_policy())


@names_arguments
def static_gradient(problem: Problem, policy: Policy) -> FloatArray:
    """Gradient of ρ^S in the action probabilities, (n_states, n_actions)."""
    returns, gradients = return_gradients(problem, policy)
    xi = problem.objective.worst_case(measured(problem, returns), problem.models.f)
    return np.asarray(np.einsum("n,nsa->sa", xi, gradients))


# --------------------------------------------------------------------------------------------------
# The optimum of every model on its own: what one could earn if told which model is true. With a
# finite horizon it has a rule for each step, found backwards:
#
#     v^ω_t(s) = max_a R[s, a, ω] + γ P̂^ω_{s,a}ᵀ v^ω_{t+1},   v_H = 0.

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
    problem: Problem, tol: float = 1e-11, deadline: Deadline = NO_LIMIT, every: bool = False
) -> ModelOptima:
    """Solve every model of the problem exactly, under the allowed actions.

    A model is done when its bracket is narrower than `tol` of its largest value. Once the deadline
    has passed, the models left get one Bellman step each: brackets are true at any tolerance.
    With a horizon and `every`, values and decisions of every step are kept; once time is over, the
    steps left are taken for the best, and for the worst, that any state pays.
    """
    from softrobust.kernels.optimal import solve_models

    m, S, N = problem.models, problem.n_states, problem.n_models
    if not np.isfinite(problem.R).all():
        raise InputError("Rewards must be finite to solve the models.")
    if problem.horizon is not None:
        return _horizon_optima(problem, problem.horizon, every, deadline)
    V = np.zeros((N, S))
    masked = np.where(problem.allowed, problem.R @ m.f, -np.inf)
    decisions = np.tile(np.argmax(masked, axis=1), (N, 1))
    below, above = np.empty(N), np.empty(N)
    large = N > 1 and m.prob.size > PARALLEL_WORK
    for part in chunks(N, FIRST if large else N):
        steps = 1 if deadline.passed and (large or part.start > 0) else ITERATION_LIMIT
        solve_models(
            large, part.start, part.stop, m.indptr, m.next_states, m.prob, problem.R,
            problem.allowed, problem.gamma, tol, steps, V, decisions, below, above,
        )  # fmt: skip
    start = V @ problem.p0
    # The sum p₀ᵀv rounds too.
    slack = 2 * S * np.finfo(float).eps * (np.abs(V) @ problem.p0)
    total = problem.p0.sum()
    return ModelOptima(V, decisions, start + total * below - slack, start + total * above + slack)


_NOMINAL: Recent[ModelOptima] = Recent(2)


def nominal_optima(problem: Problem, every: bool = False) -> ModelOptima:
    """The optimum of the mean model, as `optimal_returns` has it; kept for others who ask."""
    every = every and problem.horizon is not None
    own = (problem.R, problem.gamma, problem.horizon, problem.p0, problem.allowed, every)
    known = _NOMINAL.get(problem.models, *own)
    if known is None:
        best = optimal_returns(problem.mean_problem(), every=every)
        known = _NOMINAL.put(best, problem.models, *own)
    return known


def _horizon_optima(problem: Problem, horizon: int, every: bool, deadline: Deadline) -> ModelOptima:
    from softrobust.kernels.evaluate import horizon_optima

    m, (N, S) = problem.models, (problem.n_models, problem.n_states)
    block = horizon if every else min(horizon, BLOCK)
    refuse_if_too_large(
        16.0 * (block + 1) * N * S,
        "The optimal rules of every model at every step",
        "Use fewer models, or a shorter horizon.",
    )
    V, d, slack = np.empty((block + 1, N, S)), np.empty((block, N, S), np.int64), np.zeros(N)
    v, left = np.zeros((N, S)), horizon
    while left and not (deadline.passed and left < horizon):
        n = min(block, left)
        V[n], left = v, left - n
        horizon_optima(
            n * m.prob.size > PARALLEL_WORK, 0, N, m.indptr, m.next_states, m.prob, problem.R,
            problem.allowed, problem.gamma, V[: n + 1], d[:n], slack,
        )  # fmt: skip
        v = V[0].copy()
    start = V[0] @ problem.p0
    slack = problem.p0.sum() * slack + 2 * S * np.finfo(float).eps * (np.abs(V[0]) @ problem.p0)
    if left:  # rows may miss 1 by 1e-8
        best = np.where(problem.allowed[:, :, None], problem.R, -np.inf).max(axis=1)  # (S, N)
        earned, grown = (problem.gamma ** np.arange(left)).sum(), (1.0 + 2e-8) ** left
        ends = problem.gamma**left * v
        size = earned * np.abs(best).max(axis=0) + np.abs(ends).max(axis=1)
        slack = grown * slack + (grown - 1.0 + 8 * left * np.finfo(float).eps) * size
        low = problem.p0.sum() * (earned * best.min(axis=0) + ends.min(axis=1))
        high = problem.p0.sum() * (earned * best.max(axis=0) + ends.max(axis=1))
        return ModelOptima(v, d[0].copy(), low - slack, high + slack)
    steps = (V, d) if every else None
    return ModelOptima(v, d[0].copy(), start - slack, start + slack, steps)
