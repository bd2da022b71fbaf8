"""The best bound a time budget affords, for the class of policies asked about.

    all            the clairvoyant bound: no policy, however it learns, beats being told the model
    stationary     the safe dual with m_ω(s) = min_a m_ω(s,a), the least occupancy under any policy
    deterministic  the safe dual with m_ω(s,a)

Each is never above the one before. A bound for fewer policies is not used for more (action-wise
occupancies and fixing are not valid for randomized policies); the reverse is always allowed.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import numpy as np

from softrobust.bounds.advantage import (
    Relaxation,
    can_bound_occupancies,
    relax,
    relaxation_bytes,
)
from softrobust.bounds.bound import Bound, Covers
from softrobust.bounds.clairvoyant import clairvoyant_bound
from softrobust.bounds.reduction import reduce
from softrobust.bounds.safe_dual import FloatArray, dual_bound
from softrobust.data.memory import fits
from softrobust.objective import SoftRobust
from softrobust.returns import optimal_returns
from softrobust.returns.late import OutOfTime

if TYPE_CHECKING:
    from softrobust.problem import Problem


def best_bound(
    problem: Problem, covers: Covers = Covers.STATIONARY, time_limit: float | None = None
) -> Bound:
    """The tightest bound known for the class, within about `time_limit` seconds.

    Where the safe dual would not fit into memory, or its time is over before it has begun, the
    clairvoyant bound stands.

    Parameters
    ----------
    covers : Covers
        Which policies the bound must hold for.
    time_limit : float, optional
        The clock is looked at several times a second; whatever is known when it is over is used.
    """
    began = time.monotonic()

    def left() -> float:
        return np.inf if time_limit is None else time_limit - (time.monotonic() - began)

    def late() -> bool:
        return left() <= 0

    if covers is Covers.ALL or not isinstance(problem.objective, SoftRobust):
        return clairvoyant_bound(problem, late=late)
    reduced = reduce(problem)
    p = reduced.problem
    optima = optimal_returns(p, late=late)
    bound = clairvoyant_bound(p, optima)
    # Without occupancies the safe dual is the clairvoyant bound.
    if late() or not can_bound_occupancies(p) or not fits(relaxation_bytes(p)):
        return bound
    try:
        relaxation = relax(reduced, reduced.allowed, late=late, optima=optima)
    except OutOfTime:
        return bound
    dual = dual_bound(p, relaxation, state_terms(relaxation), left=left)
    if dual.value < bound.value:
        bound = Bound(dual.value, Covers.STATIONARY, "safe dual")
    if covers is Covers.DETERMINISTIC:  # its own bound, unless rounding has put it higher
        dual = dual_bound(p, relaxation, relaxation.terms, xi=dual.xi, left=left)
        if dual.value < bound.value:
            bound = Bound(dual.value, Covers.DETERMINISTIC, "safe dual")
    return bound


def state_terms(relaxation: Relaxation) -> FloatArray:
    """(S, A, N): min_a m_ω(s,a) · adv_ω(s,a), valid for randomized stationary policies.

    Copies of an action and states never reached do not matter here either: mixing copies of an
    action is taking it, and nothing is earned where nobody comes.
    """
    allowed = relaxation.allowed[:, :, None]
    least = np.where(allowed, relaxation.m, np.inf).min(axis=1, keepdims=True)
    return np.where(allowed, least, 0.0) * relaxation.adv
