"""What a policy for continuous states is worth: simulated, and against what else could be done.

The rivals are current practice, as a log shows it, and doing the same thing always. All meet the
same models, starts and luck.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, final

import numpy as np

from softrobust.certificate.comparison import Comparison
from softrobust.certificate.simulated import (
    SimulatedCertificate,
    SimulatedFigure,
    certificate_of,
    paired_difference,
)
from softrobust.certificate.simulated_comparison import blurred, compare_simulated
from softrobust.models.continuous_policy import ConstantPolicy
from softrobust.returns.simulation import Simulation, simulate
from softrobust.solvers.continuous_behaviour import ContinuousBehaviour, continuous_behaviour

if TYPE_CHECKING:
    from softrobust.continuous_problem import ContinuousProblem
    from softrobust.data.continuous import ContinuousLog
    from softrobust.models.continuous import ContinuousModels
    from softrobust.models.continuous_policy import ContinuousPolicy

PRACTICE = "current practice"
BLURRED = 0.1  # share of models whose difference is noise, from which on it is said
FAR = 3.0  # standard errors beyond which the log's own returns and practice's are at odds


@final
@dataclass(frozen=True, slots=True)
class Observed:
    """What the complete episodes of the log earned, by the problem's reward and discount."""

    mean: float
    se: float
    n: int


@final
@dataclass(frozen=True, slots=True, eq=False)
class Judged:
    """A policy's certificate and its rivals.

    Attributes
    ----------
    train, fresh : Simulation
        On the problem's models, and on held-out ones (None without those).
    rivals : dict name → Simulation
        Current practice and constant actions, on held-out models where there are any.
    constant : dict action → SimulatedFigure
        Objective of the policy minus that of always taking the action.
    practice : Comparison or None
        Against current practice, where there is a log.
    behaviour : ContinuousBehaviour or None
    observed : Observed or None
        What the log itself earned, where it has complete episodes.
    """

    certificate: SimulatedCertificate
    train: Simulation
    fresh: Simulation | None
    rivals: dict[str, Simulation]
    constant: dict[str, SimulatedFigure]
    practice: Comparison | None
    behaviour: ContinuousBehaviour | None
    observed: Observed | None
    episodes: int
    seed: int

    @property
    def own(self) -> Simulation:
        """On held-out models where there are any, else on the training models."""
        return self.train if self.fresh is None else self.fresh

    def practice_record(self) -> dict[str, Any] | None:
        """The part of `solution.json`."""
        if self.practice is None or self.behaviour is None:
            return None
        seen = self.observed
        return {
            **self.practice.to_dict(),
            "shares": dict(zip(self.behaviour.policy.actions, self.behaviour.shares, strict=True)),
            "degree": self.behaviour.degree,
            "gain": self.behaviour.gain,
            "observed": None if seen is None else {"mean": seen.mean, "se": seen.se, "n": seen.n},
        }

    def practice_sentences(self) -> list[str]:
        """What practice is, and whether the models agree with what the log earned."""
        if self.behaviour is None:
            return []
        lines = [self.behaviour.sentence()]
        blur = blurred(self.own, self.rivals[PRACTICE])
        if blur > BLURRED:
            lines.append(
                f"In {100 * blur:.2g} % of the models the difference to practice lies within the "
                "noise of the simulation: there the probability of beating it counts toss-ups. "
                "More episodes (--test-episodes) tell."
            )
        if self.observed is not None:
            old, seen = self.rivals[PRACTICE], self.observed
            mean = float(old.f @ old.means)
            spread = float(np.sqrt(old.f @ (old.means - mean) ** 2))
            off = abs(seen.mean - mean) / max(float(np.hypot(seen.se, spread)), 1e-300)
            lines.append(
                f"The {seen.n} complete episodes of the log earned {seen.mean:.4g} ± "
                f"{1.96 * seen.se:.2g} on average; practice, simulated, earns {mean:.4g}"
                + (
                    f": {off:.1f} standard errors apart. The models or the picture of practice do "
                    "not fit; do not trust the comparison before you know why."
                    if off > FAR
                    else "."
                )
            )
        return lines


def judge(
    problem: ContinuousProblem,
    policy: ContinuousPolicy,
    heldout: ContinuousModels | None,
    log: ContinuousLog | None,
    episodes: int,
    seed: int,
) -> Judged:
    """Simulate the policy and its rivals with `episodes` episodes per model."""
    train = simulate(problem, policy, None, episodes, seed)
    fresh = None if heldout is None else simulate(problem, policy, heldout, episodes, seed)
    own = train if fresh is None else fresh
    rivals, constant, comparison = {}, {}, None
    behaviour = None if log is None else continuous_behaviour(log)
    if behaviour is not None:
        rivals[PRACTICE] = simulate(problem, behaviour.policy, heldout, episodes, seed)
        comparison = compare_simulated(
            own, rivals[PRACTICE], problem.objective, PRACTICE, fresh is not None
        )
    for a in np.flatnonzero(problem.allowed):
        name = problem.actions[int(a)]
        always = ConstantPolicy(name, problem.variables, problem.actions)
        other = rivals[f"always {name}"] = simulate(problem, always, heldout, episodes, seed)
        constant[name] = paired_difference(own, other, problem.objective)
    return Judged(
        certificate_of(problem, train, fresh), train, fresh, rivals, constant, comparison,
        behaviour, None if log is None else observed_returns(problem, log), episodes, seed,
    )  # fmt: skip


def observed_returns(problem: ContinuousProblem, log: ContinuousLog) -> Observed | None:
    """Discounted returns of the log's episodes of full length; None with fewer than five.

    Rows of an episode are taken to be in order of time.
    """
    if log.episode is None:
        return None
    rewards = np.asarray(problem.reward(log.s, log.a.astype(np.int64), log.s_next))
    found = []
    order = np.argsort(log.episode, kind="stable")
    for part in np.split(order, np.flatnonzero(np.diff(log.episode[order])) + 1):
        rows = part[: problem.horizon]
        ended = log.terminal is not None and bool(log.terminal[rows[-1]])
        if rows.size == problem.horizon or ended:
            found.append(float(rewards[rows] @ problem.gamma ** np.arange(rows.size)))
    if len(found) < 5:
        return None
    x = np.array(found)
    return Observed(float(x.mean()), float(x.std(ddof=1) / np.sqrt(x.size)), x.size)
