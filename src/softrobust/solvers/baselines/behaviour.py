"""Policies that nobody searched for: what the log shows was done, and what a user hands in.

    π_b(a|s) = n(s, a)/n(s)      the share of each action among the decisions seen in state s

Current practice is what a new policy has to beat, so it is evaluated like any other one: exactly,
on the same models. It may take actions that `allowed` forbids the new policy (practice is not bound
by a mask), but none without transitions: where every action seen in a state has too little data to
have a model, its probability moves to the other actions seen there, and the share moved is counted.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, TypeVar, final

import numpy as np

from softrobust.data import TransitionLog
from softrobust.models.policy import Policy, TimedPolicy, action_shares
from softrobust.problem import Problem
from softrobust.returns import check_policy, pair_occupancies
from softrobust.returns.reference import unmasked as unmasked
from softrobust.solvers.base import Solution, Solver, Status, finish
from softrobust.solvers.baselines.nominal import check_log

P = TypeVar("P", Policy, TimedPolicy)
PRACTICE = "behaviour"
RARE = 5  # observations of a pair below which its model is mostly prior


@final
@dataclass(frozen=True, slots=True, eq=False)
class Behaviour(Solver):
    """Current practice, as the log shows it: nothing is optimised."""

    log: TransitionLog
    name: ClassVar[str] = PRACTICE

    def solve(self, problem: Problem) -> Solution:
        """Estimate π_b and evaluate it."""
        policy, moved = behaviour_policy(problem, self.log)
        return given(problem, policy, self.name, {"share_moved": moved})


def behaviour_policy(problem: Problem, log: TransitionLog) -> tuple[Policy, float]:
    """π_b on the problem's states, and the share of decisions that were for pairs without models.

    A state where nothing was seen to be decided gets every available action alike: it is not
    visited under π_b but for what the prior adds, and `decided` is False there.
    """
    models = problem.models
    check_log(problem, log, "Current practice")
    probs, known = action_shares(log.pair_counts, models.available)
    counts = np.asarray(log.pair_counts, dtype=np.float64)
    kept = float(np.where(models.available, counts, 0.0)[problem.decided].sum())
    moved = 1.0 - kept / max(float(counts.sum()), 1.0)
    policy = Policy(probs, models.states, models.actions, known & problem.decided)
    return policy, max(moved, 0.0)


def rare_share(
    problem: Problem, policy: Policy | TimedPolicy, log: TransitionLog
) -> tuple[float, tuple[int, int]]:
    """Share of the policy's discounted decisions on pairs seen rarely, and the busiest such pair.

    There the prior speaks louder than the data: what looks good among many pairs that were hardly
    seen is often what was lucky.
    """
    weight = np.where(problem.decided[:, None], pair_occupancies(problem, policy), 0.0)
    rare = np.asarray(log.pair_counts) < RARE
    share = float(weight[rare].sum() / max(float(weight.sum()), 1e-300))
    s, a = np.unravel_index(int(np.argmax(np.where(rare, weight, -1.0))), weight.shape)
    return share, (int(s), int(a))


def given(
    problem: Problem, policy: P, name: str, stats: dict[str, float] | None = None
) -> Solution[P]:
    """A policy that was handed in, evaluated exactly; it may leave the mask, but not the models."""
    check_policy(problem, policy, problem.models.available)
    return finish(unmasked(problem), name, policy, Status.GIVEN, stats)
