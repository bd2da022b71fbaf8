"""A randomized policy made deterministic, and what that costs.

Where randomizing is not wanted (a clinic, a plant), the policy is rounded to a decision rule.
Taking each state's likeliest action alone rounds badly, because states were tuned together: so that
rule and rules drawn from the policy itself are all improved by exact one-state exchanges.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, final

import numpy as np

from softrobust.bounds.reduction import reduce
from softrobust.errors import InputError
from softrobust.returns import check_policy, static_return
from softrobust.solvers.base import Deadline, Solution, Solver, Status, finish
from softrobust.solvers.local_search import Climber, onto, policy_of

if TYPE_CHECKING:
    from softrobust.problem import Problem


@final
@dataclass(frozen=True, slots=True, eq=False)
class Deterministic(Solver):
    """Round the policy of `solution`; `stats["cost"]` is what the objective loses by it.

    Parameters
    ----------
    solution : Solution
        Of any solver; a deterministic policy is improved by exchanges only.
    draws : int
        Rules drawn from the policy, besides its likeliest actions.
    seed : int or Generator
    time_limit : float, optional
        Seconds; the best rule so far comes back.
    """

    solution: Solution
    draws: int = 8
    seed: int | np.random.Generator = 0
    time_limit: float | None = None
    name: ClassVar[str] = "deterministic"

    def __post_init__(self) -> None:
        if self.draws < 0:
            raise InputError(f"draws must be at least 0; it is {self.draws}.")

    def solve(self, problem: Problem) -> Solution:
        """Round, improve, and keep the best rule."""
        began, deadline = time.perf_counter(), Deadline(self.time_limit)
        policy = self.solution.policy
        check_policy(problem, policy)
        reduced = reduce(problem)
        climber = Climber(reduced)
        rng = np.random.default_rng(self.seed)
        cumulative = np.cumsum(policy.probs, axis=1)
        rules = [policy.decision]
        for _ in range(self.draws):
            draw = rng.random((problem.n_states, 1)) * cumulative[:, -1:]
            rules.append(np.argmax(cumulative > draw, axis=1))
        best_value, best_rule, settled = -np.inf, rules[0], True
        for rule in rules:
            end, value, done = climber.climb(onto(rule, reduced.allowed), deadline)
            settled = settled and done
            if value > best_value:
                best_value, best_rule = value, end
            if deadline.passed:
                break
        randomized = static_return(problem, policy)
        rounded = policy_of(problem, reduced, best_rule)
        cost = randomized - static_return(problem, rounded)
        stats = {
            "seconds": time.perf_counter() - began,
            "of": self.solution.solver,
            "randomized_value": randomized,
            "cost": cost,
        }
        status = Status.LOCAL_OPTIMUM if settled else Status.TIME_LIMIT
        return finish(problem, solver=self.name, policy=rounded, status=status, stats=stats)
