"""SPIBB: safe policy improvement with baseline bootstrapping (Laroche et al. 2019).

Where a pair (s, a) was seen fewer than `min_count` times, the model is not to be trusted, and the
policy does what the log's own policy β did. Elsewhere it is free:

    Π_b  :  π(a|s) = β(a|s) on rare pairs          (variant "equal")
    Π_≤b :  π(a|s) ≤ β(a|s) on rare pairs          (variant "at-most")

and policy iteration in one model finds the best policy of the class: each class is a product over
states, so greedy steps improve all states at once. β is in both, so the result is at least as good
as β in that model. With min_count = 0 it is the model's optimal policy, with min_count = ∞ it is β.

β is the share of each action in the log, among allowed actions; in states where no allowed action
was seen every allowed one is equally likely (counted in the stats).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, final

import numpy as np

from softrobust._core.arrays import BoolArray, FloatArray
from softrobust._core.limits import Deadline
from softrobust._core.notes import Level, Note
from softrobust._core.settings import instance, one_of, whole
from softrobust.data import TransitionLog
from softrobust.errors import InputError
from softrobust.models.policy import Policy
from softrobust.problem import Problem
from softrobust.returns import action_values, policy_values
from softrobust.solvers.base import Solution, Solver, Status, finish
from softrobust.solvers.baselines.behaviour import action_shares
from softrobust.solvers.baselines.nominal import check_log, empirical_problem

BETTER = 1e-12  # of the size of the values: less is rounding


@final
@dataclass(frozen=True, slots=True, eq=False)
class SPIBB(Solver):
    """Improve the log's own policy, and only where the log shows enough.

    Parameters
    ----------
    log : TransitionLog
        Gives the counts and the behaviour policy.
    min_count : float
        Pairs seen fewer times are left to the behaviour policy; 0 … ∞.
    variant : "equal" or "at-most"
        What a rare pair may have: the behaviour's probability, or no more than it.
    model : "mean" or "empirical"
        In which model to improve: the mean of the problem's models, or the observed frequencies as
        in the original.
    max_rounds : int
        Steps of policy iteration at most.
    """

    log: TransitionLog
    min_count: float = 10
    variant: Literal["equal", "at-most"] = "equal"
    model: Literal["mean", "empirical"] = "mean"
    max_rounds: int = 1000
    name: ClassVar[str] = "spibb"

    def __post_init__(self) -> None:
        instance("log", self.log, TransitionLog)
        one_of("variant", self.variant, ("equal", "at-most"))
        one_of("model", self.model, ("mean", "empirical"))
        if not self.min_count >= 0:
            raise InputError(f"min_count is a number of rows, at least 0; it is {self.min_count}.")
        whole("max_rounds", self.max_rounds)

    def solve(self, problem: Problem) -> Solution:
        """Policy iteration within the class."""
        clock, m = Deadline(), problem.models
        check_log(problem, self.log, "SPIBB")
        beta, seen = action_shares(self.log, problem.allowed)
        rare = problem.allowed & (self.log.pair_counts < self.min_count)
        rare &= problem.decided[:, None]
        single, stats = problem.mean_problem(), {}
        if self.model == "empirical":
            single, unseen = empirical_problem(problem, self.log, "SPIBB")
            stats = {"unseen_pairs_as_self_loops": unseen}
        probs, v, status, rounds = improve(
            single, beta, lambda Q: self._greedy(Q, beta, rare), BETTER, self.max_rounds
        )
        policy = Policy(probs, m.states, m.actions, problem.decided)
        more = {
            "rounds": rounds,
            "rare_pairs": int(rare.sum()),
            "states_without_behaviour": int((~seen & problem.decided).sum()),
            "behaviour_value": float(problem.p0 @ one_value(single, beta)),
        }
        found = {"seconds": clock.elapsed} | stats | more | self._notes(problem, rare)
        return finish(problem, solver=self.name, policy=policy, v=v, status=status, stats=found)

    def _notes(self, problem: Problem, rare: BoolArray) -> dict[str, Any]:
        """Say so where nothing was free to change."""
        if not rare.any() or (rare != (problem.allowed & problem.decided[:, None])).any():
            return {}
        note = Note("no_pair_free", Level.CAUTION, {"least": self.min_count})
        return {"notes": [note.to_dict()]}

    def _greedy(self, Q: FloatArray, beta: FloatArray, rare: BoolArray) -> FloatArray:
        """The best policy of the class for action values Q; −∞ marks what is not allowed."""
        rows = np.arange(Q.shape[0])
        free = np.where(rare, -np.inf, Q)
        best = free.argmax(axis=1)
        some = np.isfinite(free[rows, best])  # states with a pair that is not rare
        kept = np.where(rare, beta, 0.0)
        if self.variant == "at-most":  # rare pairs better than the best free one keep their share
            kept = np.where(free[rows, best][:, None] < Q, kept, 0.0)
        out = np.where(some[:, None], kept, beta)
        out[rows[some], best[some]] += np.maximum(1.0 - kept[some].sum(axis=1), 0.0)
        return out


def improve(
    single: Problem,
    beta: FloatArray,
    best: Callable[[FloatArray], FloatArray],
    least: float,
    max_rounds: int,
) -> tuple[FloatArray, FloatArray, Status, int]:
    """Policy iteration from β in one model: probabilities, v, how it ended, and after how long.

    `best` gives the policy to take for action values Q, −∞ where an action is not allowed. A state
    changes only where that gains more than `least` of its values, so that the end is reached.
    """
    probs, v = beta, one_value(single, beta)
    for step in range(1, max_rounds + 1):
        Q = action_values(single, v[None])[0]
        new = best(np.where(single.allowed, Q, -np.inf))
        terms = np.where(single.allowed, Q, 0.0)
        gain = ((new - probs) * terms).sum(axis=1)
        better = gain > least * np.abs(terms).max(axis=1)
        if not better.any():
            return probs, v, Status.TOLERANCE_REACHED, step
        probs = np.where(better[:, None], new, probs)
        v = one_value(single, probs)
    return probs, v, Status.ITERATION_LIMIT, max_rounds


def one_value(single: Problem, probs: FloatArray) -> FloatArray:
    """(n_states,): values of a policy in a problem of one model."""
    m = single.models
    return np.asarray(policy_values(single, Policy(probs, m.states, m.actions))[0])
