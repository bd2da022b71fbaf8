"""The default for logs: improve on current practice where the log shows that it pays.

`promise` chooses a policy and measures the optimism of its own choice; λ says how clear a change
must be: an action replaces practice where the mean of its paired gain exceeds 2λ standard
deviations, so that λ = 0 looks at the average alone. The policy of any other solver is judged by
the same splits, and trusted no more than the choices made there.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar, final

import numpy as np

from softrobust._core.arguments import names_arguments
from softrobust._core.arrays import FloatArray
from softrobust._core.limits import time_bound, within
from softrobust._core.settings import instance, whole
from softrobust.data import TransitionLog
from softrobust.errors import InputError
from softrobust.models.policy import TimedPolicy
from softrobust.solvers.base import Solution, Solver, Status, finish
from softrobust.solvers.cautious import clear_pairs
from softrobust.solvers.practice_class import TOLERANCE, PracticeClass
from softrobust.solvers.promise import (
    LEVEL,
    Choice,
    Promise,
    Verdict,
    candidates_for,
    choose,
)

if TYPE_CHECKING:
    from softrobust.models.policy import Policy
    from softrobust.problem import Problem

PROMISE_SHARE = 0.7  # of the time left: certificates make do with what is left of it


@names_arguments
@final
@dataclass(frozen=True, slots=True)
class Improve(Solver):
    """Practice, changed where the log shows a gain that halves of it confirm.

    Parameters
    ----------
    log : TransitionLog
    seed : int
    min_count : int, optional
        How often a pair must have been seen to replace practice; by default chosen by the promise.
    """

    name: ClassVar[str] = "improve"
    log: TransitionLog
    seed: int = 0
    min_count: int | None = None

    def __post_init__(self) -> None:
        instance("log", self.log, TransitionLog)
        whole("seed", self.seed, 0)
        if self.min_count is not None:
            whole("min_count", self.min_count, 0)

    def choice(self, problem: Problem) -> Choice:
        """The policy with what is promised of it."""
        if not problem.allowed[problem.models.available].all():
            raise InputError(
                f"The solver '{self.name}' starts from what practice does, and some of that is not "
                "allowed here. Allow what the log shows, or choose another solver, such as exact.",
                arguments={"solver": "exact"},
            )
        caution = 2.0 * problem.objective.lam
        ways = candidates_for(caution)
        if self.min_count is not None:
            ways = candidates_for(caution, (max(self.min_count, 1),))
        with within(PROMISE_SHARE * time_bound().left):
            return choose(
                self.log, problem.gamma, seed=self.seed, candidates=ways, horizon=problem.horizon
            )

    def solve(self, problem: Problem) -> Solution:
        """Choose, and evaluate the policy on the problem's models."""
        return self.solution(problem, self.choice(problem))

    def solution(self, problem: Problem, choice: Choice) -> Solution:
        """A choice as the solution of the problem."""
        found, status = choice.candidate, Status.LOCAL_OPTIMUM
        policy = replace(choice.policy, probs=_everywhere(problem, choice.policy))
        stats: dict[str, object] = {"verdict": str(choice.promise.verdict)}
        if found is None:
            status = Status.GIVEN
        else:
            stats |= {"min_count": found.min_count, "caution": found.caution}
        return finish(problem, solver=self.name, policy=policy, status=status, stats=stats)


def clear_changes(problem: Problem, choice: Choice) -> PracticeClass | None:
    """The policies that change practice only where a gain is clear, of which the choice is one.

    None where the problem has other states and actions, or lacks what practice does.
    """
    practice, found = choice.practice, choice.candidate
    available = problem.models.available
    if practice.probs.shape != available.shape or not problem.allowed[available].all():
        return None
    shares = _everywhere(problem, practice)
    if (shares[~available] > 0).any():
        return None
    free = choice.policies.free
    if found is not None and choice.belief is not None:
        free = clear_pairs(choice.belief, choice.policies, found.caution, choice.policy.probs)
    # What was chosen belongs to it, also where its last step went round in a circle.
    taken = choice.policy.probs > practice.probs + TOLERANCE
    return PracticeClass(shares, (free | taken) & available, clear=True)


def _everywhere(problem: Problem, policy: Policy) -> FloatArray:
    """A policy's shares; where nothing was ever done, any action of the models will do."""
    known, available = np.asarray(policy.decided)[:, None], problem.models.available
    alike = available / available.sum(axis=1, keepdims=True)
    return np.where(known, policy.probs, alike)


def promise_of(
    log: TransitionLog,
    gamma: float,
    policy: Policy | TimedPolicy,
    *,
    lam: float = 0.5,
    horizon: int | None = None,
    seed: int = 0,
    level: float = LEVEL,
) -> Promise | None:
    """What can be promised of a policy that another solver chose, or somebody brought.

    What `Improve` would choose with this λ and seed is promised as it promises it. None where the
    policy takes actions that were never seen where it takes them (no part of the log can judge
    them), and where the time was over first. None, too, for a policy with a rule for each step:
    halves of the log choose among stationary ones, which luck misleads less than a choice for
    every step.
    """
    if isinstance(policy, TimedPolicy):
        return None
    counts = np.asarray(log.pair_counts)
    decided = np.asarray(policy.decided) & (counts.sum(axis=1) > 0)
    if ((policy.probs > 0) & (counts == 0))[decided].any():
        return None
    given = np.where(decided[:, None], policy.probs, np.nan)
    ways = candidates_for(2.0 * lam)
    with within(PROMISE_SHARE * time_bound().left):
        found = choose(
            log, gamma, seed=seed, level=level, candidates=ways, horizon=horizon, given=given
        )
    return None if found.promise.verdict is Verdict.NO_TIME else found.promise
