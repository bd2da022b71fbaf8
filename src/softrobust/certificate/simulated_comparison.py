"""Does the new policy beat the old one, where returns are simulated?

    d_ω = x̄_ω(π) − x̄_ω(π_old)        chance = Σ_ω f_ω·[d_ω > 0]

Both policies meet the same models, starts and luck, so that most of the noise cancels in d. Where
what is left of it is as large as d_ω, the sign of d_ω is a toss-up, and the chance is that much
blurred (mostly towards one half). `blurred` says in how many models.
"""

from __future__ import annotations

import numpy as np

from softrobust.certificate.comparison import SAME, Comparison, share_estimate
from softrobust.certificate.intervals import Estimate, effective_size
from softrobust.certificate.simulated import SimulatedFigure, paired_difference
from softrobust.objective import Objective, SoftRobust
from softrobust.returns.simulation import Simulation


def compare_simulated(
    new: Simulation, old: Simulation, goal: Objective, rival: str, heldout: bool
) -> Comparison:
    """The comparison of two policies that were simulated with one seed on the same models."""
    objective = paired_difference(new, old, goal)
    average = paired_difference(new, old, SoftRobust(lam=0.0, alpha=goal.alpha))
    tail = paired_difference(new, old, SoftRobust(lam=1.0, alpha=goal.alpha))
    f, difference = new.f, new.means - old.means
    size = max(float(np.abs(new.means).max()), float(np.abs(old.means).max()), 1e-300)
    tie = np.abs(difference) <= SAME * size
    chance = float(f @ (~tie & (difference > 0)))
    return Comparison(
        rival=rival,
        chance=share_estimate(chance, effective_size(f)),
        ties=float(f @ tie),
        mean=_estimate(average),
        cvar=_estimate(tail),
        objective=_estimate(objective),
        n_models=int(f.size),
        heldout=heldout,
        goal=goal,
    )


def blurred(new: Simulation, old: Simulation) -> float:
    """The weight of models whose difference lies within two standard errors of the simulation."""
    d = new.returns - old.returns
    error = d.std(axis=1, ddof=1) / np.sqrt(d.shape[1])
    near = (np.abs(d.mean(axis=1)) <= 2 * error) & (error > 0)
    return float(new.f @ near)


def _estimate(figure: SimulatedFigure) -> Estimate:
    return Estimate(figure.value, figure.low, figure.high)
