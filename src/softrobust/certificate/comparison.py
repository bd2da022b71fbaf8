"""Does the new policy beat the old one? Both meet the same models, in pairs.

    d_ω = ρ(π, P̂^ω) − ρ(π_old, P̂^ω)        chance = Σ_ω f_ω·[d_ω > 0]

The chance is the posterior probability that the new policy earns more: it takes the prior and the
log at their word. Pairing removes what both policies share, so that differences have narrower
intervals than the two figures would suggest. The difference of the two CVaRs averages the paired
difference of their scores b − (b − z)₊/(1 − α) (see `intervals`); it compares each policy's own
worst models, which need not be the same ones.

Where returns are simulated, both policies meet the same starts and luck too, so that most of the
noise cancels in d. Where what is left of it is as large as d_ω, the sign of d_ω is a toss-up, and
the chance is that much blurred (mostly towards one half). `blurred` says in how many models.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, final

import numpy as np
from scipy.special import ndtri

from softrobust._core.arguments import names_arguments
from softrobust._core.arrays import FloatArray
from softrobust.certificate import intervals
from softrobust.certificate.intervals import Estimate
from softrobust.errors import InputError
from softrobust.objective import Objective, Percentile, SoftRobust, cvar, value_at_risk
from softrobust.problem import ContinuousProblem, Problem
from softrobust.returns import Returns, Simulation, returns_of
from softrobust.solvers.baselines.behaviour import unmasked

SAME = 1e-9  # of the size of the returns: differences below this are ties
PRACTICE = "current practice"
DIFFERENCES = ("chance", "mean", "cvar", "objective")
PLAIN = ("rival", "ties", "n_models", "heldout")


@final
@dataclass(frozen=True, slots=True)
class Comparison:
    """The new policy against a rival, on the same models: differences are new minus old."""

    rival: str  # "current practice", "the nominal policy"
    chance: Estimate  # probability over the models that the new policy earns more
    ties: float  # that both earn the same
    mean: Estimate
    cvar: Estimate
    objective: Estimate  # without an interval for criteria that are not averages
    n_models: int
    heldout: bool  # whether the policy was not chosen on these models
    goal: Objective
    about: Mapping[str, Any] = field(default_factory=dict)  # of the rival, ready for JSON

    def to_dict(self) -> dict[str, Any]:
        """Plain values, ready for JSON."""
        figures = {name: getattr(self, name).interval for name in DIFFERENCES}
        return {name: getattr(self, name) for name in PLAIN} | figures | dict(self.about)

    @classmethod
    def from_dict(cls, record: Mapping[str, Any], goal: Objective) -> Comparison:
        """The inverse of `to_dict`."""
        made: dict[str, Any] = {name: Estimate(**record[name]) for name in DIFFERENCES}
        made |= {name: record[name] for name in PLAIN}
        return cls(**made, goal=goal, about={k: v for k, v in record.items() if k not in made})


@names_arguments
def compare_policies(
    problem: Problem | ContinuousProblem,
    policy: Any,
    rival: Any,
    heldout: Any = None,
    name: str = PRACTICE,
    episodes: int = 100,
    seed: int = 0,
) -> Comparison:
    """Compare two policies on held-out models, or on the problem's own where there are none.

    `episodes` per model and `seed` are for continuous states, where returns are simulated.
    """
    where = unmasked(problem) if isinstance(problem, Problem) else problem
    new, old = (returns_of(where, p, heldout, episodes, seed) for p in (policy, rival))
    return paired(new, old, problem.objective, name, heldout is not None)


def paired(
    new: Returns | Simulation, old: Returns | Simulation, goal: Objective, rival: str, heldout: bool
) -> Comparison:
    """The comparison from the returns of both policies on the same models, with the same luck."""
    new, old = Returns.of(new), Returns.of(old)
    f, difference = new.f, new.x - old.x
    size = max(new.size, old.size, 1e-300)
    tie = np.abs(difference) <= SAME * size
    chance = float(f @ (~tie & (difference > 0)))
    goals = (SoftRobust(lam=0.0, alpha=goal.alpha), SoftRobust(lam=1.0, alpha=goal.alpha), goal)
    found = (paired_difference(new, old, by) for by in goals)
    average_, tail, objective = (Estimate(e.value, e.low, e.high) for e in found)
    if rival == PRACTICE:
        # Who asks whether to change asks for the bad case of the change, not of two policies. Noise
        # of simulations only lowers it, and has no interval here.
        bad = cvar(difference, f, goal.alpha)
        score = intervals.tail_score(
            difference, value_at_risk(difference, f, goal.alpha), f, goal.alpha
        )
        tail = intervals.average(bad, score, f) if new.noise is None else Estimate(bad)
    return Comparison(
        rival=rival,
        chance=share_estimate(chance, intervals.effective_size(f)),
        ties=float(f @ tie),
        mean=average_,
        cvar=tail,
        objective=objective,
        n_models=int(f.size),
        heldout=heldout,
        goal=goal,
    )


def paired_difference(
    new: Returns | Simulation, old: Returns | Simulation, objective: Objective
) -> Estimate:
    """Objective of one policy minus that of another, on the same models and with the same luck.

    What both share cancels in the difference, so its interval is narrower than those of the two.
    Intervals are for the posterior; for the percentile criterion, whose figure is no average, there
    is none.
    """
    new, old = Returns.of(new), Returns.of(old)
    if new.noise is not None and old.noise is not None:
        return _simulated(new.noise, old.noise, objective)
    f = new.f
    gain = objective.value(new.x, f) - objective.value(old.x, f)
    return intervals.average(gain, _gain_score(new.x, old.x, f, objective), f)


def _gain_score(
    new: FloatArray, old: FloatArray, f: FloatArray, objective: Objective
) -> FloatArray | None:
    """Scores whose mean is the gain by the objective; None where it is no average."""
    lam, alpha = objective.lam, objective.alpha
    if isinstance(objective, Percentile):
        return None
    if lam == 0:
        return new - old
    scores = [intervals.tail_score(z, value_at_risk(z, f, alpha), f, alpha) for z in (new, old)]
    if scores[0] is None or scores[1] is None:
        return None
    return (1 - lam) * (new - old) + lam * (scores[0] - scores[1])


def _simulated(new: Simulation, old: Simulation, objective: Objective) -> Estimate:
    if new.returns.shape != old.returns.shape or not np.array_equal(new.f, old.f):
        raise InputError(
            f"Two policies are compared on the same models and episodes; the shapes are "
            f"{new.returns.shape} and {old.returns.shape}."
        )
    f, E = new.f, new.returns.shape[1]
    both, N = np.concatenate([new.returns, old.returns]), f.size

    def difference(z: FloatArray) -> float:
        return objective.value(z[:N], f) - objective.value(z[N:], f)

    def gain(z: FloatArray) -> FloatArray | None:
        scores = [intervals.goal_score(part, f, objective) for part in (z[:N], z[N:])]
        return None if scores[0] is None or scores[1] is None else scores[0] - scores[1]

    value = float(intervals.debias(both, difference))
    bias = difference(np.asarray(both.mean(axis=1))) - value
    xi = [objective.worst_case(x.means, f)[:, None] for x in (new, old)]
    per = xi[0] * new.returns - xi[1] * old.returns
    noise = float(np.sqrt(per.var(axis=1, ddof=1).sum() / E))
    found = intervals.with_models(value, bias, noise, intervals.debiased_score(both, gain), f)
    parts = [intervals.noise_of(x.returns, f) for x in (new, old)]
    if max(part.share for part in parts) <= intervals.NOTICE:
        return found

    def value_of(z: FloatArray) -> float:
        return objective.value(z, f)

    figures = [
        [value_of(intervals.shrunk(x.returns, f, c)) for c in (part.mid, part.low, part.high)]
        for x, part in zip((new, old), parts, strict=True)
    ]
    best = [
        values[0] if part.much else float(intervals.debias(x.returns, value_of))
        for x, part, values in zip((new, old), parts, figures, strict=True)
    ]
    others = [a - b for a in figures[0] for b in figures[1]]
    return intervals.widened(found, [best[0] - best[1], *others], much=True)


def blurred(new: Simulation, old: Simulation) -> float:
    """The weight of models whose difference lies within two standard errors of the simulation."""
    d = new.returns - old.returns
    error = d.std(axis=1, ddof=1) / np.sqrt(d.shape[1])
    near = (np.abs(d.mean(axis=1)) <= 2 * error) & (error > 0)
    return float(new.f @ near)


def share_estimate(p: float, n: float) -> Estimate:
    """A probability with Wilson's interval, which stays inside [0, 1] and never has width 0."""
    z = float(ndtri((1 + intervals.LEVEL) / 2))
    centre = (p + z * z / (2 * n)) / (1 + z * z / n)
    half = z / (1 + z * z / n) * float(np.sqrt(p * (1 - p) / n + z * z / (4 * n * n)))
    return Estimate(p, max(0.0, centre - half), min(1.0, centre + half))
