"""The clairvoyant bound: the objective applied to the per-model optimal returns.

For any policy π, also one that depends on the whole history, ρ(π, P̂^ω) ≤ ρ*_ω for each ω. Mean and
CVaR are monotone, so ρ^S(π) ≤ (1 − λ)·mean(ρ*) + λ·CVaR(ρ*).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from softrobust.bounds.bound import Bound, Covers
from softrobust.returns import ModelOptima, optimal_returns

if TYPE_CHECKING:
    from softrobust.problem import Problem
    from softrobust.returns.late import Late


def clairvoyant_bound(
    problem: Problem, optima: ModelOptima | None = None, late: Late | None = None
) -> Bound:
    """What could be earned by someone told the true model before starting: a bound on everyone.

    Parameters
    ----------
    optima : ModelOptima, optional
        The models' optima, where they are known already.
    late : callable, optional
        Asked between chunks of models; once True, the others are bounded crudely.
    """
    best = optimal_returns(problem, late=late) if optima is None else optima
    value = problem.objective.value(best.upper, problem.models.f)
    rounding = 8 * problem.n_models * np.finfo(float).eps * float(np.abs(best.upper).max())
    return Bound(float(value + rounding), Covers.ALL, "clairvoyant")
