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

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal, final

import numpy as np

from softrobust._core.arrays import BoolArray, FloatArray
from softrobust._core.settings import instance, one_of
from softrobust.data import TransitionLog
from softrobust.errors import InputError
from softrobust.models.policy import Policy
from softrobust.returns import action_values, policy_values
from softrobust.solvers.base import Solution, Solver, Status, finish
from softrobust.solvers.baselines.nominal import empirical_model

if TYPE_CHECKING:
    from softrobust.problem import Problem


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
        if self.max_rounds < 1:
            raise InputError(f"max_rounds must be at least 1; it is {self.max_rounds!r}.")

    def solve(self, problem: Problem) -> Solution:
        """Policy iteration within the class."""
        start = time.perf_counter()
        m = problem.models
        if self.log.states != m.states or self.log.actions != m.actions:
            raise InputError(
                "SPIBB needs the log that the problem's models were made from; its states or "
                "actions differ from the problem's."
            )
        beta, unseen = behaviour(self.log, problem)
        rare = problem.allowed & (self.log.pair_counts < self.min_count)
        rare &= problem.decided[:, None]
        single, stats = self._model(problem)
        probs, v, status, rounds = self._iterate(single, beta, rare)
        policy = Policy(probs, m.states, m.actions, problem.decided)
        more = {
            "rounds": rounds,
            "rare_pairs": int(rare.sum()),
            "states_without_behaviour": unseen,
            "behaviour_value": float(problem.p0 @ _values(single, beta)),
        }
        stats = {"seconds": time.perf_counter() - start} | stats | more | self._notes(problem, rare)
        return finish(problem, solver=self.name, policy=policy, v=v, status=status, stats=stats)

    def _notes(self, problem: Problem, rare: BoolArray) -> dict[str, Any]:
        """Say so where nothing was free to change."""
        if not rare.any() or (rare != (problem.allowed & problem.decided[:, None])).any():
            return {}
        text = f"No allowed pair was seen {self.min_count:g} times: the policy is the log's own."
        return {"notes": [text]}

    def _model(self, problem: Problem) -> tuple[Problem, dict[str, Any]]:
        if self.model == "mean":
            return problem.mean_problem(), {}
        models, unseen = empirical_model(self.log, problem.allowed)
        return problem.with_models(models), {"unseen_pairs_as_self_loops": unseen}

    def _iterate(
        self, single: Problem, beta: FloatArray, rare: BoolArray
    ) -> tuple[FloatArray, FloatArray, Status, int]:
        """From β; a state changes only where it gains, so that the end is reached."""
        probs, v = beta, _values(single, beta)
        for step in range(1, self.max_rounds + 1):
            Q = action_values(single, v[None])[0]
            new = self._greedy(np.where(single.allowed, Q, -np.inf), beta, rare)
            terms = np.where(single.allowed, Q, 0.0)
            gain = ((new - probs) * terms).sum(axis=1)
            better = gain > BETTER * np.abs(terms).max(axis=1)
            if not better.any():
                return probs, v, Status.TOLERANCE_REACHED, step
            probs = np.where(better[:, None], new, probs)
            v = _values(single, probs)
        return probs, v, Status.ITERATION_LIMIT, self.max_rounds

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


def behaviour(log: TransitionLog, problem: Problem) -> tuple[FloatArray, int]:
    """β (n_states, n_actions) of the log on allowed actions, and in how many states it is unknown.

    There all allowed actions are equally likely.
    """
    counts = np.where(problem.allowed, log.pair_counts, 0).astype(np.float64)
    lost = counts.sum(axis=1) == 0
    counts[lost] = problem.allowed[lost]
    return counts / counts.sum(axis=1, keepdims=True), int((lost & problem.decided).sum())


def _values(single: Problem, probs: FloatArray) -> FloatArray:
    m = single.models
    return np.asarray(policy_values(single, Policy(probs, m.states, m.actions))[0])
