"""Does the new policy beat the old one, where returns are simulated?

    d_ω = x̄_ω(π) − x̄_ω(π_old)        chance = Σ_ω f_ω·[d_ω > 0]

Both policies meet the same models, starts and luck, so that most of the noise cancels in d. What is
left of it blurs d_ω around 0 and so pulls the chance towards one half: it is never overstated by
having simulated too little.
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


def _estimate(figure: SimulatedFigure) -> Estimate:
    return Estimate(figure.value, figure.low, figure.high)
