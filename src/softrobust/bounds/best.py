"""The best bound a time budget affords, for the class of policies asked about.

    all            the clairvoyant bound: no policy, however it learns, beats being told the model
    stationary     the safe dual with m_ω(s) = min_a m_ω(s,a), the least occupancy under any policy
    deterministic  the safe dual with m_ω(s,a)

Each is never above the one before. A bound for fewer policies is not used for more (action-wise
occupancies and fixing are not valid for randomized policies); the reverse is always allowed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from softrobust.bounds.advantage import Relaxation, can_bound_occupancies, relax
from softrobust.bounds.bound import Bound, Covers
from softrobust.bounds.clairvoyant import clairvoyant_bound
from softrobust.bounds.reduction import reduce
from softrobust.bounds.safe_dual import FloatArray, dual_bound
from softrobust.objective import SoftRobust

if TYPE_CHECKING:
    from softrobust.problem import Problem


def best_bound(
    problem: Problem, covers: Covers = Covers.STATIONARY, time_limit: float | None = None
) -> Bound:
    """The tightest bound known for the class, within about `time_limit` seconds.

    Parameters
    ----------
    covers : Covers
        Which policies the bound must hold for.
    time_limit : float, optional
        Occupancy bounds stop being tightened when it is over; what there is by then is used.
    """
    import time

    began = time.monotonic()
    bound = clairvoyant_bound(problem)
    if covers is Covers.ALL or not isinstance(problem.objective, SoftRobust):
        return bound

    def late() -> bool:
        return time_limit is not None and time.monotonic() - began > time_limit

    reduced = reduce(problem)
    if late() or not can_bound_occupancies(reduced.problem):
        return bound  # without occupancies the safe dual is the clairvoyant bound
    relaxation = relax(reduced, reduced.allowed, late=late)
    terms = state_terms(relaxation) if covers is Covers.STATIONARY else relaxation.terms
    dual = dual_bound(reduced.problem, relaxation, terms)
    if dual.value < bound.value:
        bound = Bound(dual.value, covers, "safe dual")
    return bound


def state_terms(relaxation: Relaxation) -> FloatArray:
    """(S, A, N): min_a m_ω(s,a) · adv_ω(s,a), valid for randomized stationary policies.

    Copies of an action and states never reached do not matter here either: mixing copies of an
    action is taking it, and nothing is earned where nobody comes.
    """
    allowed = relaxation.allowed[:, :, None]
    least = np.where(allowed, relaxation.m, np.inf).min(axis=1, keepdims=True)
    return np.where(allowed, least, 0.0) * relaxation.adv
