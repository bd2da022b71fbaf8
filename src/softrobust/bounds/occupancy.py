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
from softrobust.bounds.row_sums import reach
from softrobust.data.memory import refuse_if_too_large

if TYPE_CHECKING:
    from softrobust.problem import Problem
    from softrobust.returns.late import Late

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
    late: Late | None = None,
) -> OccupancyBounds:
    """Bound every occupancy of the problem.

    Parameters
    ----------
    allowed : (n_states, n_actions) bool, optional
        Fewer actions than the problem's.
    late : callable, optional
        Asked now and then; once True, what is not yet bounded stays at 0 and at
        Σp₀/(1 − γ·row sum).
    """
    mask = problem.allowed if allowed is None else allowed
    S, A, N = problem.R.shape
    targets = np.arange(S)
    kept = S if can_bound_occupancies(problem) else 0
    refuse_if_too_large(
        16.0 * S * A * N + 2.0 * N * S * kept,
        "Bounds on every occupancy",
        "Use fewer models, or fewer states and actions.",
    )
    least, rules = np.zeros((S, A, N)), np.zeros((N, S, kept), np.int16)
    tighten(problem, mask, targets, 1, True, rules, least, late)
    greatest = np.where(mask[:, :, None], reach(problem), 0.0)
    rules[:] = 0
    tighten(problem, mask, targets, -1, True, rules, greatest, late)
    return OccupancyBounds(least, greatest)
