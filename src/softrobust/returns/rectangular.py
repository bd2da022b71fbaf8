"""Returns of a given policy where nature answers state by state: ρ^R and ρ^RA (eq. 4.7, app. A).

    S-rectangular   ρ^R(π):   one ξ per state,          v(s) = min_ξ Σ_a π_a Z_aᵀξ
    SA-rectangular  ρ^RA(π):  one ξ per state and action, v(s) = Σ_a π_a min_ξ Z_aᵀξ

Nature's policy iteration: sweep for the worst ξ at v, solve for the value of that ξ, repeat. Its
values fall to the fixed point, and certified bounds say when to stop. ρ^RA ≤ ρ^R ≤ ρ^D.
"""

from __future__ import annotations

import numpy as np

from softrobust._core.arrays import FloatArray
from softrobust.kernels.sweeps import S_NATURE, SA_NATURE
from softrobust.models.policy import Policy
from softrobust.problem import Problem
from softrobust.returns.evaluation import check_policy
from softrobust.returns.rectangular_sweeps import Bracket, Sweeps

MAX_SWEEPS = 200


def s_rect_return(problem: Problem, policy: Policy, tol: float = 1e-10) -> float:
    """ρ^R(π): the return of a policy where nature picks ξ ∈ Ξ anew in every state (eq. 4.7)."""
    return float(problem.p0 @ rectangular_value(problem, policy, S_NATURE, tol).v)


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
    check_policy(problem, policy)
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
        if best.tol <= tol or worse > 3:  # worse: rounding has the last word
            break
        v = sweeps.step(v)
    assert best is not None  # the loop runs at least once
    return best


def nature_response(sweeps: Sweeps, kind: int, v: FloatArray, target: float) -> FloatArray:
    """Nature's policy iteration for the decision in `sweeps.out.d`, from v.

    Stops where the span of the residual is at most `target` or no longer falls.
    """
    best = np.inf
    for _ in range(MAX_SWEEPS):
        sweeps.run(kind, v)
        span = float(np.ptp(sweeps.value - v))
        if span <= target or span >= best:
            return v
        best = span
        v = sweeps.step(v)
    return v
