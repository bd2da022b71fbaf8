"""What the questions of this stage are asked of, and what several of them need."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

import numpy as np

from softrobust._core.arrays import FloatArray
from softrobust.errors import InputError
from softrobust.returns import occupancies

if TYPE_CHECKING:
    from softrobust.data import TransitionLog
    from softrobust.models.model_set import ModelSet
    from softrobust.models.policy import Policy
    from softrobust.posterior import FittedPosterior
    from softrobust.problem import Problem
    from softrobust.solvers.base import Solution

SPARSE, DENSE = 6e-7, 4e-10  # seconds per stored entry, and per S³
SMALL_STATES = 96  # up to here one compiled kernel does it all
OVERHEAD = {True: 2e-4, False: 1e-2}  # per evaluation, small or not


class Solved(Protocol):
    """A solved problem with what it came from; a run is one.

    `log` and `posterior` are None where it started from models, `heldout` where no other models
    are known. `seed` is the one of its draws, so that others can be made.
    """

    @property
    def problem(self) -> Problem:
        """What was solved."""

    @property
    def solution(self) -> Solution:
        """By whom, and how."""

    @property
    def heldout(self) -> ModelSet | None:
        """Models that the policy was not chosen on."""

    @property
    def log(self) -> TransitionLog | None:
        """What was seen."""

    @property
    def posterior(self) -> FittedPosterior | None:
        """What was learned from it."""

    @property
    def seed(self) -> int:
        """Of the draws."""


def need_log(solved: Solved, what: str) -> tuple[TransitionLog, FittedPosterior]:
    """The log and the posterior, or an error that says what for."""
    if solved.log is None or solved.posterior is None:
        raise InputError(
            f"{what} needs the log and its posterior, and there are none: the run started from "
            "models, or its files were removed. Solve the log itself."
        )
    return solved.log, solved.posterior


def redraw(solved: Solved, n_models: int, seed: int) -> ModelSet:
    """Fresh draws of the posterior: not those that were solved or tested on."""
    _, posterior = need_log(solved, "Drawing models again")
    entropy = np.random.SeedSequence([solved.seed, seed, 0x5EED])
    return posterior.sample(n_models, np.random.default_rng(entropy))


def time_share(problem: Problem, policy: Policy) -> FloatArray:
    """(n_states,): share of discounted time in each state, (1 − γ)·h averaged over the models."""
    h = problem.models.f @ occupancies(problem, policy)
    return np.asarray((1 - problem.gamma) * h)


def changed(problem: Problem, policy: Policy, other: Policy) -> dict[str, float]:
    """Share of decided states whose most probable action differs: plain, and by visits."""
    apart = (policy.decision != other.decision) & np.asarray(problem.decided)
    visits = problem.models.f @ occupancies(problem, policy)
    visits = np.where(problem.decided, visits, 0.0)
    return {
        "states": float(apart.sum() / max(int(np.sum(problem.decided)), 1)),
        "visits": float(visits[apart].sum() / max(float(visits.sum()), 1e-300)),
    }


def evaluation_seconds(problem: Problem) -> float:
    """About how long one policy takes on all models, told from sizes alone.

    What is computed must be the same on every machine, so that an estimate decides and never a
    clock: about N·nnz steps of an iterative method, or N·S³ of a factorisation, whichever is less.
    """
    S, A, N = problem.n_states, problem.n_actions, problem.n_models
    stored = problem.models.next_states.size / A
    return OVERHEAD[S <= SMALL_STATES] + N * min(SPARSE * stored, DENSE * S**3)
