"""An upper bound on the optimum under the posterior itself, by replications (Mak, Morton and Wood).

The optimum on N sampled models is optimistic: the policy is chosen on the very models it is judged
on. With CVaR written as max_b E[b − (b − Z)₊/(1 − α)], the soft-robust objective is a maximum of
sample means, so its expectation over samples is at least the optimum ρ* under the posterior:

    E[v_N] ≥ ρ*,   v_N = max_π ρ^S on N independent draws.

M independent samples give M values v_N, or bounds above them; their mean plus a Student quantile
times the standard error bounds ρ* with the confidence asked for. The lower side is the held-out
value of a fixed policy (`certificate`). Both take the posterior at its word.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, final

import numpy as np
from numpy.typing import NDArray

from softrobust.bounds.best import best_bound
from softrobust.bounds.bound import Bound, Covers
from softrobust.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Callable

    from softrobust.problem import Problem


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
