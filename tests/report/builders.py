"""Small problems with solutions, for tests of the report."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from softrobust.data import Labels, TransitionLog
from softrobust.models.model_set import ModelSet
from softrobust.models.policy import Policy
from softrobust.objective import SoftRobust
from softrobust.posterior import DirichletPosterior, FittedDirichlet
from softrobust.problem import Problem
from softrobust.report import Report, make_report
from softrobust.solvers.base import Solution, Status, finish
from softrobust.study.review import review

REVIEWED = {"certificate", "frontier", "data", "diagnostics", "checks", "seconds"}
HOSTILE = "<script>alert(1)</script>"
HANDLER = "<img src=x onerror=\"document.title='ran'\">"


def make_page(
    problem: Problem,
    solutions: Solution | Sequence[Solution],
    heldout: ModelSet | None = None,
    log: TransitionLog | None = None,
    posterior: FittedDirichlet | None = None,
    **more: Any,
) -> Report:
    """The page in one step: the problem is reviewed, then written down."""
    own = {name: more.pop(name) for name in REVIEWED & set(more)}
    return make_report(review(problem, solutions, heldout, log, posterior, **own), **more)


def first_actions(problem: Problem, solver: str = "first") -> Solution:
    """The policy that takes the first allowed action everywhere."""
    m = problem.models
    policy = Policy.from_decision(
        np.argmax(problem.allowed, axis=1), m.states, m.actions, problem.decided
    )
    return finish(problem, solver=solver, policy=policy, status=Status.OPTIMAL)


def uniform(problem: Problem, solver: str = "uniform") -> Solution:
    """The policy that mixes all allowed actions."""
    policy = problem.uniform_policy()
    return finish(problem, solver=solver, policy=policy, status=Status.TIME_LIMIT)


def stock_log(n_rows: int = 300, seed: int = 0) -> TransitionLog:
    """A shelf of 0 … 6 items that is refilled or not."""
    rng = np.random.default_rng(seed)
    rows, stock = [], 3
    for _ in range(n_rows):
        refill = int(rng.integers(2))
        full = min(6, stock + 3 * refill)
        left = max(0, full - int(rng.poisson(1.3)))
        rows.append((f"n={stock}", ("wait", "refill")[refill], f"n={left}", full - left - refill))
        stock = left
    s, a, s_next, reward = zip(*rows, strict=True)
    return TransitionLog.from_arrays(s, a, s_next, reward)


def hostile_log() -> TransitionLog:
    """Labels that would run if they were not escaped, a state never left, and episodes that end."""
    return TransitionLog.from_arrays(
        [HOSTILE, "b", "b", HOSTILE, HANDLER],
        [HANDLER, "stay", HANDLER, "stay", "stay"],
        ["b", HOSTILE, "lost", HANDLER, "b"],
        [1.0, 2.0, 0.0, 1.0, 1.0],
        terminals=[False, False, False, False, True],
    )


def from_log(
    log: TransitionLog, objective: SoftRobust | None = None, n_models: int = 40
) -> tuple[Problem, ModelSet, FittedDirichlet]:
    """A problem, held-out models and the posterior of a log."""
    posterior = DirichletPosterior().fit(log)
    train, test = posterior.sample(3 * n_models, seed=0).split(n_models)
    chosen = objective or SoftRobust(0.5, 0.9)
    problem = Problem(train, rewards=log.rewards, p0=log.p0, gamma=0.9, objective=chosen)
    return problem, test, posterior


def ring(n_states: int, n_actions: int = 2, n_models: int = 3) -> Problem:
    """Sparse: action a moves a + 1 steps round a ring, or stays; models differ in how often."""
    S, A, N = n_states, n_actions, n_models
    s, a = np.divmod(np.arange(S * A), A)
    ahead = (s + a + 1) % S
    both = np.sort(np.stack([s, ahead], axis=1), axis=1)
    go = np.linspace(0.3, 0.9, N)
    chance = np.where(both[:, None, :] == ahead[:, None, None], go[:, None], 1 - go[:, None])
    models = ModelSet(
        indptr=2 * np.arange(S * A + 1),
        next_states=both.reshape(-1),
        prob=chance.reshape(-1),
        f=np.full(N, 1 / N),
        states=Labels.range(S, "state"),
        actions=Labels.range(A, "action"),
    )
    return Problem(models, rewards=np.sin(np.arange(S * A)).reshape(S, A), gamma=0.9)
