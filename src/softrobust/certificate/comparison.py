"""Does the new policy beat the old one? Both are evaluated on the same models, in pairs.

    d_ω = ρ(π, P̂^ω) − ρ(π_old, P̂^ω)        chance = Σ_ω f_ω·[d_ω > 0]

The chance is the posterior probability that the new policy earns more: it takes the prior and the
log at their word. Pairing removes what both policies share, so that differences have narrower
intervals than the two figures would suggest. The difference of the two CVaRs averages the paired
difference of their scores b − (b − z)₊/(1 − α) (see `intervals`); it compares each policy's own
worst models, which need not be the same ones.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, final

import numpy as np

from softrobust._core.arrays import FloatArray
from softrobust.certificate.intervals import LEVEL, Estimate, average, effective_size, tail_score
from softrobust.objective import Objective, cvar, mean, var
from softrobust.returns import policy_return
from softrobust.solvers.baselines.behaviour import unmasked

if TYPE_CHECKING:
    from softrobust.models.model_set import ModelSet
    from softrobust.models.policy import Policy
    from softrobust.problem import Problem

SAME = 1e-9  # of the size of the returns: differences below this are ties


@final
@dataclass(frozen=True, slots=True)
class Comparison:
    """The new policy against a rival, on the same models.

    Attributes
    ----------
    rival : str
        In words: "current practice", "the nominal policy".
    chance : Estimate
        Probability over the models that the new policy earns more.
    ties : float
        Probability that both earn the same.
    mean, cvar, objective : Estimate
        New minus old; `objective` without an interval for criteria that are not averages.
    heldout : bool
        Whether the models are ones that the policy was not chosen on.
    """

    rival: str
    chance: Estimate
    ties: float
    mean: Estimate
    cvar: Estimate
    objective: Estimate
    n_models: int
    heldout: bool
    goal: Objective

    def sentence(self) -> str:
        """The first thing to know."""
        if self.ties > 1 - 1e-12:
            return f"This policy does exactly what {self.rival} does, as far as returns go."
        where = "held-out posterior models" if self.heldout else "sampled models"
        tie = "" if self.ties < 5e-4 else f" (and equals it with {percent(self.ties)})"
        return (
            f"This policy beats {self.rival} with a probability of {percent(self.chance.value)} "
            f"over {self.n_models} {where}{tie}: {_gain(self.mean)} on average, "
            f"{_gain(self.cvar)} in {self.goal.words}. This takes the log and the prior at their "
            "word."
        )

    def to_dict(self) -> dict[str, Any]:
        """Plain values, ready for JSON."""

        def figure(e: Estimate) -> dict[str, float | None]:
            return {"value": e.value, "low": e.low, "high": e.high}

        return {
            "rival": self.rival,
            "chance": figure(self.chance),
            "ties": self.ties,
            "mean": figure(self.mean),
            "cvar": figure(self.cvar),
            "objective": figure(self.objective),
            "n_models": self.n_models,
            "heldout": self.heldout,
        }


def compare_policies(
    problem: Problem,
    policy: Policy,
    rival: Policy,
    heldout: ModelSet | None = None,
    name: str = "current practice",
) -> Comparison:
    """Compare two policies on held-out models, or on the problem's own where there are none."""
    where = unmasked(problem if heldout is None else problem.with_models(heldout))
    new, old = policy_return(where, policy), policy_return(where, rival)
    return paired(new, old, where.models.f, problem.objective, name, heldout is not None)


def paired(
    new: FloatArray, old: FloatArray, f: FloatArray, goal: Objective, rival: str, heldout: bool
) -> Comparison:
    """The comparison from the returns of both policies on the same models."""
    size = max(float(np.abs(new).max()), float(np.abs(old).max()), 1e-300)
    difference = new - old
    tie = np.abs(difference) <= SAME * size
    chance = float(f @ (~tie & (difference > 0)))
    alpha, lam = goal.alpha, goal.lam
    scores = [tail_score(z, var(z, f, alpha), f, alpha) for z in (new, old)]
    tail = None if scores[0] is None or scores[1] is None else scores[0] - scores[1]
    blend = difference if lam == 0 else None
    if lam > 0 and tail is not None:
        blend = (1 - lam) * difference + lam * tail
    gain = goal.value(new, f) - goal.value(old, f)
    is_average = goal.criterion == "soft-robust"
    return Comparison(
        rival=rival,
        chance=share_estimate(chance, effective_size(f)),
        ties=float(f @ tie),
        mean=average(mean(new, f) - mean(old, f), difference, f),
        cvar=average(cvar(new, f, alpha) - cvar(old, f, alpha), tail, f),
        objective=average(gain, blend if is_average else None, f),
        n_models=int(f.size),
        heldout=heldout,
        goal=goal,
    )


def share_estimate(p: float, n: float) -> Estimate:
    """A probability with Wilson's interval, which stays inside [0, 1] and never has width 0."""
    from scipy.stats import norm

    z = float(norm.ppf((1 + LEVEL) / 2))
    centre = (p + z * z / (2 * n)) / (1 + z * z / n)
    half = z / (1 + z * z / n) * float(np.sqrt(p * (1 - p) / n + z * z / (4 * n * n)))
    return Estimate(p, max(0.0, centre - half), min(1.0, centre + half))


def percent(p: float) -> str:
    """A probability in words: never "100 %" for what is merely likely."""
    if p >= 1:
        return "100 %"
    if p > 0.999:
        return "more than 99.9 %"
    if 0 < p < 0.001:
        return "less than 0.1 %"
    return f"{100 * p:.3g} %"


def _gain(e: Estimate) -> str:
    word = "more" if e.value >= 0 else "less"
    text = f"{abs(e.value):.4g} {word}"
    if e.low is None or e.high is None:
        return text
    ends = sorted((e.low, e.high)) if e.value >= 0 else sorted((-e.high, -e.low))
    return f"{text} [{ends[0]:.4g}, {ends[1]:.4g}]"
