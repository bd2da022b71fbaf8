"""Returns of a given policy where nature answers state by state: ρ^R and ρ^RA (eq. 4.7, app. A).

    S-rectangular   ρ^R(π):   one ξ per state,          v(s) = min_ξ Σ_a π_a Z_aᵀξ
    SA-rectangular  ρ^RA(π):  one ξ per state and action, v(s) = Σ_a π_a min_ξ Z_aᵀξ

Nature's policy iteration: sweep for the worst ξ at v, solve for the value of that ξ, repeat. Its
values fall to the fixed point, and certified bounds say when to stop. ρ^RA ≤ ρ^R ≤ ρ^D.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, final

import numpy as np
from numpy.typing import NDArray

from softrobust.kernels.sweeps import S_NATURE, SA_NATURE
from softrobust.returns._rectangle import Sweeps
from softrobust.returns.evaluation import check_policy

if TYPE_CHECKING:
    from softrobust.models.policy import Policy
    from softrobust.problem import Problem

FloatArray = NDArray[np.float64]

MAX_SWEEPS = 200


@final
@dataclass(frozen=True, slots=True, eq=False)
class RectangularValue:
    """A value function known to lie in [lower, upper], each (n_states,), and v in the middle."""

    v: FloatArray
    lower: FloatArray
    upper: FloatArray

    @property
    def tol(self) -> float:
        """The achieved tolerance: the largest half-width, relative to max|v|."""
        return relative_width(self.lower, self.upper)


def relative_width(lower: FloatArray, upper: FloatArray, unit: float = 0.0) -> float:
    """max(upper − lower)/2, relative to the largest |value|, or to `unit` if that is larger."""
    size = max(float(np.abs(0.5 * (lower + upper)).max()), unit)
    return 0.5 * float((upper - lower).max()) / max(size, float(np.finfo(float).tiny))


def s_rect_return(problem: Problem, policy: Policy, tol: float = 1e-10) -> float:
    """ρ^R(π): the return of a policy where nature picks ξ ∈ Ξ anew in every state (eq. 4.7)."""
    return float(problem.p0 @ rectangular_value(problem, policy, S_NATURE, tol).v)


def sa_rect_return(problem: Problem, policy: Policy, tol: float = 1e-10) -> float:
    """ρ^RA(π): the return where nature picks ξ ∈ Ξ anew for every state and action (eq. A.3)."""
    return float(problem.p0 @ rectangular_value(problem, policy, SA_NATURE, tol).v)


def rectangular_value(
    problem: Problem, policy: Policy, kind: int = S_NATURE, tol: float = 1e-10
) -> RectangularValue:
    """The worst-case value function of a policy, with certified bounds.

    Parameters
    ----------
    kind : int
        `kernels.sweeps.S_NATURE` or `SA_NATURE`.
    tol : float
        Half-width of the bounds to reach, relative to max|v|; rounding can keep it from there.
    """
    check_policy(problem, policy)
    sweeps = Sweeps(problem)
    sweeps.out.d[:] = policy.probs
    v = np.zeros(problem.n_states)
    best: RectangularValue | None = None
    worse = 0
    for _ in range(MAX_SWEEPS):
        sweeps.run(kind, v)
        lower, upper = sweeps.bounds(v)
        if best is None or (upper - lower).max() < (best.upper - best.lower).max():
            best = RectangularValue(0.5 * (lower + upper), lower, upper)
            worse = 0
        else:
            worse += 1
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
