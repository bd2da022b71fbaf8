"""A policy for continuous states against what else could be done, all of it simulated.

The rivals are current practice, as a log shows it, and doing the same thing always. All meet the
same models, starts and luck. With the course of episodes, that is all that a page says.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, final

import numpy as np

from softrobust._core.notes import Level, Note
from softrobust.certificate import (
    PRACTICE,
    Certificate,
    paired,
    paired_difference,
    simulated_certificate,
)
from softrobust.certificate.comparison import blurred
from softrobust.data.continuous import ContinuousLog
from softrobust.models.continuous import ContinuousModels
from softrobust.models.continuous_policy import ConstantPolicy, ContinuousPolicy
from softrobust.problem import ContinuousProblem
from softrobust.returns import Paths, Returns, follow, returns_of
from softrobust.solvers.base import Solution
from softrobust.solvers.continuous.behaviour import ContinuousBehaviour, continuous_behaviour

EPISODES = 30  # per model
BLURRED = 0.1  # share of models whose difference is noise, from which on it is said
FAR = 3.0  # standard errors beyond which the log's own returns and practice's are at odds
FOLLOWED = 10  # episodes per model whose course is shown
FEWEST = 5  # complete episodes of a log whose average is worth saying


@final
@dataclass(frozen=True, slots=True, eq=False)
class VectorReview:
    """A solved problem with continuous states and everything that is known of it."""

    problem: ContinuousProblem
    solution: Solution[ContinuousPolicy]
    certificate: Certificate
    log: ContinuousLog | None
    train: Returns  # of the policy on the problem's models
    fresh: Returns | None  # on held-out models
    # current practice and constant actions, on held-out models where there are any
    rivals: Mapping[str, Returns]
    behaviour: ContinuousBehaviour | None  # current practice, where there is a log
    # how episodes go: under the policy first, then under practice or, without a log, constants
    paths: Mapping[str, Paths] = field(default_factory=dict)

    @property
    def own(self) -> Returns:
        """On held-out models where there are any, else on the training models."""
        return self.train if self.fresh is None else self.fresh


def review_vectors(
    problem: ContinuousProblem,
    solution: Solution[ContinuousPolicy],
    heldout: ContinuousModels | None,
    log: ContinuousLog | None,
    episodes: int = EPISODES,
    seed: int = 0,
) -> VectorReview:
    """Simulate the policy and its rivals with `episodes` episodes per model, and certify it."""
    behaviour = None if log is None else continuous_behaviour(log)
    others: dict[str, Any] = {} if behaviour is None else {PRACTICE: behaviour.policy}
    others |= {f"always {rival.choice}": rival for rival in constants(problem)}
    train = returns_of(problem, solution.policy, None, episodes, seed)
    own, fresh = train, None
    if heldout is not None:
        own = fresh = returns_of(problem, solution.policy, heldout, episodes, seed)
    rivals = {
        name: returns_of(problem, rival, heldout, episodes, seed) for name, rival in others.items()
    }
    goal = problem.objective
    made = simulated_certificate(train, fresh, goal)
    constant = {
        name.removeprefix("always "): paired_difference(own, rival, goal)
        for name, rival in rivals.items()
        if name != PRACTICE
    }
    made = replace(made, constant=constant)
    if behaviour is not None and log is not None:
        old, observed = rivals[PRACTICE], observed_returns(problem, log)
        versus = paired(own, old, goal, PRACTICE, fresh is not None)
        shares = dict(zip(behaviour.policy.actions, behaviour.shares, strict=True))
        about = {"shares": shares, "degree": behaviour.degree, "gain": behaviour.gain}
        versus = replace(versus, about=about | {"observed": observed})
        made = replace(made, practice=versus, notes=_notes(own, old, observed))
    return VectorReview(problem, solution, made, log, train, fresh, rivals, behaviour)


def follow_rivals(
    found: VectorReview, heldout: ContinuousModels | None, seed: int = 0
) -> VectorReview:
    """The same with the course of episodes under the policy and its first rivals."""
    policies: dict[str, Any] = {found.solution.solver: found.solution.policy}
    if found.behaviour is not None:
        policies[PRACTICE] = found.behaviour.policy
    else:
        policies |= {f"always {rival.choice}": rival for rival in constants(found.problem)[:2]}
    paths = {
        name: follow(found.problem, policy, heldout, FOLLOWED, seed)
        for name, policy in policies.items()
    }
    return replace(found, paths=paths)


def constants(problem: ContinuousProblem) -> list[ConstantPolicy]:
    """Every allowed action, taken always."""
    names = [problem.actions[int(a)] for a in np.flatnonzero(problem.allowed)]
    return [ConstantPolicy(name, problem.variables, problem.actions) for name in names]


def _notes(own: Returns, old: Returns, observed: Mapping[str, Any] | None) -> tuple[Note, ...]:
    """Where the comparison is a toss-up, and whether the models agree with what the log earned."""
    assert own.noise is not None  # simulated
    assert old.noise is not None
    notes, blur = [], blurred(own.noise, old.noise)
    if blur > BLURRED:
        notes.append(Note("comparison_blurred", facts={"share": blur}))
    if observed is not None:
        mean = float(old.f @ old.plain)
        spread = float(np.sqrt(old.f @ (old.plain - mean) ** 2))
        off = abs(observed["mean"] - mean)
        off /= max(float(np.hypot(observed["se"], spread)), 1e-300)
        facts = {"mean": observed["mean"], "se": observed["se"], "n_episodes": observed["n"]}
        level = Level.CAUTION if off > FAR else Level.INFO
        facts |= {"simulated": mean, "apart": off if off > FAR else None}
        notes.append(Note("log_earned", level, facts))
    return tuple(notes)


def observed_returns(problem: ContinuousProblem, log: ContinuousLog) -> dict[str, Any] | None:
    """Discounted returns of the log's complete episodes: mean, its standard error, how many.

    None with fewer than five. Rows of an episode are taken to be in order of time.
    """
    if log.episode is None:
        return None
    rewards = np.asarray(problem.reward(log.s, log.a.astype(np.int64), log.s_next))
    if log.terminal is not None:
        rewards = rewards + problem.models.end_reward * log.terminal
    found = []
    order = np.argsort(log.episode, kind="stable")
    for part in np.split(order, np.flatnonzero(np.diff(log.episode[order])) + 1):
        rows = part[: problem.horizon]
        ended = log.terminal is not None and bool(log.terminal[rows[-1]])
        if rows.size == problem.horizon or ended:
            found.append(float(rewards[rows] @ problem.gamma ** np.arange(rows.size)))
    if len(found) < FEWEST:
        return None
    x = np.array(found)
    se = float(x.std(ddof=1) / np.sqrt(x.size))
    return {"mean": float(x.mean()), "se": se, "n": x.size}
