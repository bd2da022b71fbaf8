"""Least and greatest discounted occupancies per state, action and model (the u of section 4.1).

    m_ω(s,a) ≤ h^ω_π(s) ≤ M_ω(s,a)     for every deterministic allowed π with π(s) = a,
    min_a m_ω(s,a) ≤ h^ω_π(s) ≤ max_a M_ω(s,a)     for every allowed π, randomized ones included,

by discounted first-passage values (see `kernels.passage`), true in floating point.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, final

import numpy as np
from numpy.typing import NDArray

from softrobust.bounds.advantage import can_bound_occupancies, tighten

if TYPE_CHECKING:
    from collections.abc import Callable

    from softrobust.problem import Problem

FloatArray = NDArray[np.float64]
BoolArray = NDArray[np.bool_]


@final
@dataclass(frozen=True, slots=True, eq=False)
class OccupancyBounds:
    """`least` and `greatest`, each (n_states, n_actions, n_models); 0 where not allowed."""

    least: FloatArray
    greatest: FloatArray


def occupancy_bounds(
    problem: Problem,
    allowed: BoolArray | None = None,
    late: Callable[[], bool] | None = None,
) -> OccupancyBounds:
    """Bound every occupancy of the problem.

    Parameters
    ----------
    allowed : (n_states, n_actions) bool, optional
        Fewer actions than the problem's.
    late : callable, optional
        Asked now and then; once True, what is not yet bounded stays at 0 and 1/(1 − γ·row sum).
    """
    mask = problem.allowed if allowed is None else allowed
    S, A, N = problem.R.shape
    targets = np.arange(S)
    kept = S if can_bound_occupancies(problem) else 0
    least, rules = np.zeros((S, A, N)), np.zeros((N, S, kept), np.int16)
    tighten(problem, mask, targets, 1, True, rules, least, late)
    # 1e-8 is the most by which a row may miss 1 (see `models.checks`).
    ceiling = 1.0 / (1.0 - problem.gamma * (1 + 1e-8)) if problem.gamma < 1 - 1e-7 else np.inf
    greatest = np.where(mask[:, :, None], ceiling, 0.0) + np.zeros((S, A, N))
    rules[:] = 0
    tighten(problem, mask, targets, -1, True, rules, greatest, late)
    return OccupancyBounds(least, greatest)
