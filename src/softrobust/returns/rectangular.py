"""Returns of a given policy where nature answers state by state: ρ^R and ρ^RA (eq. 4.7, app. A).

    S-rectangular   ρ^R(π):   one ξ per state,          v(s) = min_ξ Σ_a π_a Z_aᵀξ
    SA-rectangular  ρ^RA(π):  one ξ per state and action, v(s) = Σ_a π_a min_ξ Z_aᵀξ

Nature's policy iteration: sweep for the worst ξ at v, solve for the value of that ξ, repeat. Its
values fall to the fixed point, and certified bounds say when to stop. ρ^RA ≤ ρ^R ≤ ρ^D.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, final

import numpy as np

from softrobust._core.arrays import FloatArray, refuse_if_too_large
from softrobust.kernels.expected import LANES as VECTOR
from softrobust.kernels.expected import centred
from softrobust.kernels.group import Group, sweep_group
from softrobust.kernels.sweeps import S_NATURE, SA_NATURE, Memory, Update
from softrobust.returns.evaluation import check_policy
from softrobust.returns.rectangular_sweeps import Sweeps

if TYPE_CHECKING:
    from softrobust.models.model_set import ModelSet
    from softrobust.models.policy import Policy
    from softrobust.problem import Problem


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


# --------------------------------------------------------------------------------------------------
# Rectangular sweeps of several points (λ, α) in lock step: one read of the models serves all.
#
# Each lane is a `Sweeps` of its own, with its own (λ, α), bases and answers, laid out side by side
# so that one kernel fills them (`kernels.group_sweeps`). A lane's single sweeps, bounds and Newton
# steps are those of any other `Sweeps`.


def lane_bytes(models: ModelSet) -> float:
    """What one lane allocates, in bytes."""
    S, A = models.n_states, models.n_actions
    return 8.0 * models.next_states.size + 16.0 * S * A + 40.0 * S


@final
class Lanes:
    """`count` sweeps that can run together.

    Parameters
    ----------
    first : Sweeps
        A sweep of the problem, whose models and rewards all lanes share.
    """

    def __init__(self, first: Sweeps, count: int) -> None:
        if count == 1:
            self.sweeps = [first]
            return
        m = first.models
        S, A, nnz = m.n_states, m.n_actions, m.next_states.size
        refuse_if_too_large(
            count * lane_bytes(m),
            f"The working memory of {count} points solved together (mixed rows, bases)",
            "Solve fewer points together.",
        )
        self.K, self.F = np.zeros((count, S, A), np.int32), np.zeros((count, S, A), np.int32)
        self.k = np.zeros((count, S), np.int32)
        self.out = Update(
            np.zeros((count, S)), np.zeros((count, S)), np.zeros((count, S, A)),
            np.zeros((count, S), np.int8), np.zeros((count, S), np.int32),
            np.zeros((count, S), np.int64), np.zeros((count, nnz)), np.zeros((0, 0)),
        )  # fmt: skip
        self.sweeps = [
            first.lane(
                Memory(self.K[j], self.F[j], self.k[j]),
                Update._make([*(x[j] for x in self.out[:-1]), self.out.xi]),
            )
            for j in range(count)
        ]

    def run(self, kind: int, lanes: Sequence[int], values: Sequence[FloatArray]) -> None:
        """One sweep of each lane listed, at its v; `kind` is S_GAME or SA_GAME."""
        members = [self.sweeps[j] for j in lanes]
        one = members[0]
        if len(members) == 1:
            one.run(kind, values[0])
            return
        shifted = [centred(one.prob, v) for v in values]
        room = -len(members) % VECTOR  # filled up with copies
        V = np.stack([x for x, _, _ in shifted] + [shifted[0][0]] * room)
        centres = np.array([c for _, c, _ in shifted] + [shifted[0][1]] * room)
        group = Group(
            np.array(lanes, dtype=np.int64), V, one.gamma * centres,
            np.array([x.size_of(v) for x, v in zip(members, values, strict=True)]),
            np.array([x.rect.lam for x in members]), np.stack([x.rect.u for x in members]),
            np.array([x.rect.total for x in members]), self.K, self.F, self.k, *self.out,
        )  # fmt: skip
        sweep_group(kind, one.rect, group, one.threads)
        for x, v, (flat, centre, _) in zip(members, values, shifted, strict=True):
            x.conclude(kind, v, flat, centre, share=1.0 / len(members))
