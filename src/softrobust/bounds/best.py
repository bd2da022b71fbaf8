"""An upper bound, and the policies it speaks of."""

from __future__ import annotations

import time
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, final

import numpy as np
from numpy.typing import NDArray

from softrobust._core.arrays import FloatArray, fits
from softrobust._core.limits import OutOfTime
from softrobust.bounds.advantage import Relaxation, can_bound_occupancies, relax, relaxation_bytes
from softrobust.bounds.reduction import reduce
from softrobust.bounds.safe_dual import dual_bound
from softrobust.errors import InputError
from softrobust.objective import SoftRobust
from softrobust.returns import ModelOptima, optimal_returns

if TYPE_CHECKING:
    from collections.abc import Callable

    from softrobust._core.limits import Late
    from softrobust.problem import Problem


class Covers(StrEnum):
    """Which policies a bound holds for; each class contains the one before it."""

    DETERMINISTIC = "deterministic"
    STATIONARY = "stationary"
    ALL = "all"

    @property
    def words(self) -> str:
        """As said in a sentence: "no … can earn more"."""
        return {
            "deterministic": "deterministic policy",
            "stationary": "stationary policy (randomized ones included)",
            "all": "policy of any kind (even one that learns as it goes)",
        }[self.value]


@final
@dataclass(frozen=True, slots=True)
class Bound:
    """No policy of the class `covers` has a static soft-robust return above `value`."""

    value: float
    covers: Covers
    method: str


# --------------------------------------------------------------------------------------------------
# The clairvoyant bound: the objective applied to the per-model optimal returns.
#
# For any policy π, also one that depends on the whole history, ρ(π, P̂^ω) ≤ ρ*_ω for each ω. Mean
# and CVaR are monotone, so ρ^S(π) ≤ (1 − λ)·mean(ρ*) + λ·CVaR(ρ*).


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


# --------------------------------------------------------------------------------------------------
# The best bound a time budget affords, for the class of policies asked about.
#
#     all            the clairvoyant bound: no policy, however it learns, beats being told the model
#     stationary     the safe dual with m_ω(s) = min_a m_ω(s,a), the least occupancy under any
#     policy
#     deterministic  the safe dual with m_ω(s,a)
#
# Each is never above the one before. A bound for fewer policies is not used for more (action-wise
# occupancies and fixing are not valid for randomized policies); the reverse is always allowed.


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


# --------------------------------------------------------------------------------------------------
# An upper bound on the optimum under the posterior itself, by replications (Mak, Morton and Wood).
#
# The optimum on N sampled models is optimistic: the policy is chosen on the very models it is
# judged on. With CVaR written as max_b E[b − (b − Z)₊/(1 − α)], the soft-robust objective is a
# maximum of sample means, so its expectation over samples is at least the optimum ρ* under the
# posterior:
#
#     E[v_N] ≥ ρ*,   v_N = max_π ρ^S on N independent draws.
#
# M independent samples give M values v_N, or bounds above them; their mean plus a Student quantile
# times the standard error bounds ρ* with the confidence asked for. The lower side is the held-out
# value of a fixed policy (`certificate`). Both take the posterior at its word.


@final
@dataclass(frozen=True, slots=True)
class ReplicationBound:
    """With probability `confidence` over the samples, no policy of the class beats `value`.

    Attributes
    ----------
    mean, standard_error : float
        Of the bounds of the replications.
    values : tuple of float
        One bound per replication.
    """

    value: float
    mean: float
    standard_error: float
    confidence: float
    covers: Covers
    values: tuple[float, ...]


def replication_bound(
    sample: Callable[[np.random.Generator], Problem],
    replications: int = 10,
    confidence: float = 0.95,
    bound: Callable[[Problem], Bound] | None = None,
    seed: int | np.random.Generator = 0,
) -> ReplicationBound:
    """Bound the posterior optimum from independent samples of models.

    Parameters
    ----------
    sample : callable
        A problem on fresh posterior draws, made with the generator it is given; always of the same
        number of models and objective.
    replications : int
        How many samples, at least 2; ten or more for a usable interval.
    bound : callable, optional
        An upper bound on a problem's optimum; `best_bound` for deterministic policies by default.
        The tighter it is, the tighter the result: `lambda p: solve(p, Exact()).bound`.
    """
    check_replications(replications, 2)
    if not 0 < confidence < 1:
        raise InputError(f"confidence must lie strictly between 0 and 1; it is {confidence!r}.")
    generators = np.random.default_rng(seed).spawn(replications)
    bounds = [_bound_one(sample(generator), bound) for generator in generators]
    values = np.array([b.value for b in bounds])
    limit, mean, error = upper_limit(values, confidence)
    order = list(Covers)  # a result covers what every replication covers
    covers = min((b.covers for b in bounds), key=order.index)
    return ReplicationBound(limit, mean, error, confidence, covers, tuple(values.tolist()))


def upper_limit(values: NDArray[np.float64], confidence: float) -> tuple[float, float, float]:
    """A one-sided limit above the expectation by Student's t; with it the mean and its error."""
    from scipy.special import stdtrit

    n = values.size
    mean, error = float(values.mean()), float(values.std(ddof=1) / np.sqrt(n))
    return mean + float(stdtrit(n - 1, confidence)) * error, mean, error


def check_replications(replications: int, least: int) -> None:
    """Too few replications have no spread to judge by."""
    if replications < least:
        raise InputError(
            f"At least {least} replications are needed; {replications} were asked for."
        )


def _bound_one(problem: Problem, bound: Callable[[Problem], Bound] | None) -> Bound:
    return best_bound(problem, Covers.DETERMINISTIC) if bound is None else bound(problem)
