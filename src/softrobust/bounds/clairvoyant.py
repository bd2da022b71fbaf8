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


def clairvoyant_bound(problem: Problem, optima: ModelOptima | None = None) -> Bound:
    """What could be earned by someone told the true model before starting: a bound on everyone."""
    best = optimal_returns(problem) if optima is None else optima
    value = problem.objective.value(best.upper, problem.models.f)
    rounding = 8 * problem.n_models * np.finfo(float).eps * float(np.abs(best.upper).max())
    return Bound(float(value + rounding), Covers.ALL, "clairvoyant")
