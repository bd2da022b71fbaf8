"""The usual answer: solve one model. `Nominal` takes E[P̂], `Empirical` the observed frequencies."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, final

import numpy as np

from softrobust._core.arrays import BoolArray
from softrobust._core.limits import Deadline
from softrobust.data import TransitionLog
from softrobust.errors import InputError
from softrobust.models import ModelSet, Policy, TimedPolicy
from softrobust.problem import Problem
from softrobust.returns import ModelOptima, nominal_optima, optimal_returns
from softrobust.solvers.base import Solution, Solver, Status, finish


@final
@dataclass(frozen=True, slots=True)
class Nominal(Solver):
    """Optimal for the mean model E[P̂]: the dynamic soft-robust policy at λ = 0.

    With a horizon it has a rule for each step.
    """

    name: ClassVar[str] = "nominal"

    def solve(self, problem: Problem) -> Solution:
        """Solve the mean model."""
        return nominal_solution(problem, self.name)


@final
@dataclass(frozen=True, slots=True, eq=False)
class Empirical(Solver):
    """Optimal for the observed frequencies of a log; a pair never seen stays where it is."""

    log: TransitionLog
    name: ClassVar[str] = "empirical"

    def solve(self, problem: Problem) -> Solution:
        """Solve the model of observed frequencies."""
        clock = Deadline()
        single, unseen = empirical_problem(problem, self.log, "Empirical")
        optima = optimal_returns(single, every=True)
        return _of_optima(problem, optima, self.name, clock, unseen_pairs_as_self_loops=unseen)


def nominal_solution(problem: Problem, name: str, **stats: Any) -> Solution[Any]:
    """The optimum of the mean model, under the name of a method that it is a case of."""
    clock = Deadline()
    return _of_optima(problem, nominal_optima(problem, every=True), name, clock, **stats)


def _of_optima(
    problem: Problem, optima: ModelOptima, name: str, clock: Deadline, **stats: Any
) -> Solution[Any]:
    """The optimum of one model, as a solution of the problem."""
    policy: Policy | TimedPolicy = problem.policy(optima.decisions[0])
    if optima.steps is not None:
        policy = problem.timed_policy(optima.steps[1][:, 0])
    width = float(optima.upper[0] - optima.lower[0])  # of the certified bracket of its return
    own = {"seconds": clock.elapsed, "model_value_error": width / 2}
    # The tolerance is that of its own model; nothing is proven of the objective.
    return finish(problem, name, policy, Status.TOLERANCE_REACHED, own | stats, optima.V[0])


def check_log(problem: Problem, log: TransitionLog, who: str) -> None:
    """A log that counts are taken from must have the problem's own states and actions."""
    if log.states != problem.models.states or log.actions != problem.models.actions:
        raise InputError(
            f"{who} needs the log that the problem's models were made from; its states or actions "
            "differ from the problem's."
        )


def empirical_problem(problem: Problem, log: TransitionLog, who: str) -> tuple[Problem, int]:
    """The problem in the observed frequencies, and how many allowed pairs were never seen."""
    check_log(problem, log, who)
    models, unseen = empirical_model(log, problem.allowed)
    return problem.with_models(models), unseen


def empirical_model(log: TransitionLog, allowed: BoolArray) -> tuple[ModelSet, int]:
    """The observed frequencies as a one-model set, and how many allowed pairs were never seen."""
    S, A = len(log.states), len(log.actions)
    pairs, s_next, count = log.counts()
    seen = np.bincount(pairs, weights=count, minlength=S * A)
    unseen = np.flatnonzero(allowed.reshape(-1) & (seen == 0))
    keys = np.concatenate([pairs, unseen])
    order = np.argsort(keys, kind="stable")
    prob = np.concatenate([count / seen[pairs], np.ones(unseen.size)])[order]
    indptr = np.concatenate([[0], np.cumsum(np.bincount(keys, minlength=S * A))])
    listed = np.concatenate([s_next, unseen // A])[order].astype(np.int32)
    sinks = np.asarray(log.pair_counts).sum(axis=1) == 0
    stored = (indptr, listed, prob, np.ones(1))
    return ModelSet(*stored, log.states, log.actions, sinks=sinks), int(unseen.size)
