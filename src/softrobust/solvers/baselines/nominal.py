"""The usual answer: solve one model. `Nominal` takes E[P̂], `Empirical` the observed frequencies."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, final

import numpy as np

from softrobust.data import TransitionLog
from softrobust.errors import InputError
from softrobust.models.model_set import ModelSet
from softrobust.models.policy import Policy
from softrobust.problem import Problem
from softrobust.returns import ModelOptima, optimal_returns
from softrobust.solvers.base import Solution, Solver, Status, finish

if TYPE_CHECKING:
    from numpy.typing import NDArray


@final
@dataclass(frozen=True, slots=True)
class Nominal(Solver):
    """Optimal for the mean model E[P̂]: the dynamic soft-robust policy at λ = 0."""

    name: ClassVar[str] = "nominal"

    def solve(self, problem: Problem) -> Solution:
        """Solve the mean model."""
        start = time.perf_counter()
        return _from_one_model(problem, self.name, problem.mean_problem(), start, {})


@final
@dataclass(frozen=True, slots=True, eq=False)
class Empirical(Solver):
    """Optimal for the observed frequencies of a log; a pair never seen stays where it is."""

    log: TransitionLog
    name: ClassVar[str] = "empirical"

    def solve(self, problem: Problem) -> Solution:
        """Solve the model of observed frequencies."""
        start = time.perf_counter()
        if self.log.states != problem.models.states or self.log.actions != problem.models.actions:
            raise InputError(
                "Empirical needs the log that the problem's models were made from; its states or "
                "actions differ from the problem's."
            )
        models, unseen = empirical_model(self.log, problem.allowed)
        stats = {"unseen_pairs_as_self_loops": unseen}
        return _from_one_model(problem, self.name, problem.with_models(models), start, stats)


def empirical_model(log: TransitionLog, allowed: NDArray[np.bool_]) -> tuple[ModelSet, int]:
    """The observed frequencies as a one-model set, and how many allowed pairs were never seen."""
    S, A = len(log.states), len(log.actions)
    pairs, s_next, count = log.counts()
    seen = np.bincount(pairs, weights=count, minlength=S * A)
    unseen = np.flatnonzero(allowed.reshape(-1) & (seen == 0))
    keys = np.concatenate([pairs, unseen])
    order = np.argsort(keys, kind="stable")
    prob = np.concatenate([count / seen[pairs], np.ones(unseen.size)])[order]
    models = ModelSet(
        indptr=np.concatenate([[0], np.cumsum(np.bincount(keys, minlength=S * A))]),
        next_states=np.concatenate([s_next, unseen // A])[order].astype(np.int32),
        prob=prob,
        f=np.ones(1),
        states=log.states,
        actions=log.actions,
        sinks=np.asarray(log.pair_counts).sum(axis=1) == 0,
    )
    return models, int(unseen.size)


def _from_one_model(
    problem: Problem, name: str, single: Problem, start: float, stats: Mapping[str, object]
) -> Solution:
    optima: ModelOptima = optimal_returns(single)
    policy = Policy.from_decision(
        optima.decisions[0], problem.models.states, problem.models.actions, problem.decided
    )
    seconds = time.perf_counter() - start
    return finish(
        problem,
        solver=name,
        policy=policy,
        v=optima.V[0],
        status=Status.TOLERANCE_REACHED,  # of its own model; nothing is proven of the objective
        stats={"seconds": seconds, "model_value_error": _width(optima), **stats},
    )


def _width(optima: ModelOptima) -> float:
    """Half the certified bracket of the one model's optimal return."""
    return float(optima.upper[0] - optima.lower[0]) / 2
