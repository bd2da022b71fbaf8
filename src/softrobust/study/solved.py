"""What the questions of this stage are asked of, and what several of them need."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, Protocol, TypeVar

import numpy as np

from softrobust._core.arrays import BoolArray, FloatArray
from softrobust._core.files import rebuilding
from softrobust._core.limits import time_bound
from softrobust._core.schema import read_json
from softrobust.data import Rewards, TransitionLog
from softrobust.errors import InputError
from softrobust.models import ModelSet, Policy, TimedPolicy
from softrobust.posterior import Belief, FittedDirichlet, FittedPosterior
from softrobust.posterior.base import FRESH
from softrobust.posterior.learned import FittedLearned, LearnedPosterior
from softrobust.posterior.reward_draws import drawn_rewards
from softrobust.posterior.sampling import Draws, with_taken
from softrobust.problem import Problem
from softrobust.returns import occupancies, total_time
from softrobust.solvers.base import Solution
from softrobust.study.off_policy import pair_means

T = TypeVar("T")
SPARSE, DENSE = 6e-7, 4e-10  # seconds per stored entry, and per S³
STEP = 1e-9  # and per stored entry of one step
STEPS, VISITS_SHARE = 5, 0.2  # evaluations that a rule for each step takes to follow; of time left
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
    def heldout(self) -> ModelSet | Draws | None:
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
            "models, or log.parquet or posterior.json were removed. Solve the log itself again."
        )
    return solved.log, solved.posterior


def need_stationary(policy: Policy | TimedPolicy, what: str) -> None:
    """A policy that is the same at all steps, or an error that says what for."""
    if isinstance(policy, TimedPolicy):
        raise InputError(
            f"{what} is for a policy that is the same at all steps, and this one has a rule for "
            f"each of {policy.horizon}. Solve for a stationary one.",
            arguments=("stationary",),
        )


def read_kept(path: Path, make: Callable[[Any], T], remedy: str) -> T | None:
    """What an earlier question left in a file of JSON; None where it was not asked."""
    if not path.exists():
        return None
    try:
        with rebuilding("record", path):
            return make(read_json(path))
    except InputError as error:
        raise InputError(f"{error} {remedy}") from None


def redraw(solved: Solved, n_models: int, seed: int) -> ModelSet:
    """Fresh draws of the posterior: not those that were solved or tested on.

    Fewer where a sampler has kept fewer.
    """
    _, posterior = need_log(solved, "Drawing models again")
    entropy = np.random.SeedSequence([solved.seed, seed, 0x5EED])
    fresh = posterior.share(FRESH)
    n_models = n_models if fresh.pool is None else min(n_models, fresh.pool)
    return fresh.sample(n_models, np.random.default_rng(entropy))


def rows_of(log: TransitionLog, rows: BoolArray) -> TransitionLog:
    """A log of some rows with the labels of all; rewards are those given, or those of its rows."""
    part = log.part(rows)
    return replace(part, rewards=None) if drawn_rewards(log) else replace(part, reward=None)


def judging_problem(part: TransitionLog, like: Problem, n: int, seed: list[int]) -> Problem:
    """The learned posterior of a part of a log; every pair has a model, so any can be judged."""
    settings, rng = LearnedPosterior(min_count=0), np.random.default_rng(seed)
    models = Belief.of(part, like.gamma, n, rng, settings=settings).models()
    return Problem(models, p0=like.p0, objective=like.objective.anew(), horizon=like.horizon)


def learned_again(
    part: TransitionLog, posterior: FittedPosterior, old: Problem, n: int, seed: list[int]
) -> Problem:
    """The problem, learned from a part of its log.

    Rewards are those that the part shows: means of all would tell of the rest. A pair that it lacks
    cannot be chosen; its mean over all serves DR as a baseline, which needs no truth.
    """
    if isinstance(posterior, FittedLearned):
        return judging_problem(part, old, n, seed)
    if isinstance(posterior, FittedDirichlet):
        fitted: FittedPosterior = replace(posterior.settings, min_count=0).fit(part)
    else:
        fitted = posterior.again(part)
    models = with_taken(fitted.sample(n, np.random.default_rng(seed)), part.pair_counts)
    if models.rewards is not None:  # those of its domain, whatever was seen
        own = replace(old, models=models, rewards=models.rewards)
        return replace(own, objective=old.objective.anew())
    allowed = old.allowed & models.available & (np.asarray(part.pair_counts) > 0)
    allowed |= ~allowed.any(axis=1, keepdims=True) & models.available
    rewards = old.rewards
    if part.reward is not None and rewards.kind == "pair":
        rewards = Rewards.of_pairs(pair_means(part, rewards.pairs))
    goal = old.objective.anew()
    return Problem(models, rewards, old.p0, old.gamma, goal, allowed, old.horizon)


def followed(problem: Problem, policy: Policy | TimedPolicy) -> Problem:
    """Where visits are counted: in the mean model, if every step of all takes too long."""
    seconds = STEPS * evaluation_seconds(problem)
    if isinstance(policy, Policy) or time_bound().affords("visits", 1, seconds, VISITS_SHARE, 0):
        return problem
    return problem.mean_problem()


def time_share(problem: Problem, policy: Policy) -> FloatArray:
    """(n_states,): share of discounted time in each state, h/Σ_t γ^t averaged over the models."""
    problem = followed(problem, policy)
    h = problem.models.f @ occupancies(problem, policy)
    return np.asarray(h / total_time(problem))


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
    clock: about N·nnz steps of an iterative method, or N·S³ of a factorisation, whichever is less;
    with a horizon, N·nnz of every step.
    """
    S, A, N = problem.n_states, problem.n_actions, problem.n_models
    stored = problem.models.next_states.size / A
    if problem.horizon is not None:
        return OVERHEAD[S <= SMALL_STATES] + N * problem.horizon * STEP * stored
    return OVERHEAD[S <= SMALL_STATES] + N * min(SPARSE * stored, DENSE * S**3)
