"""The simpler form of RSVF that its authors' evaluator uses: a quantile mixed with the mean.

    v(s) = max_a λ·VaR^{1−δ/(SA)}[P̂^ω_{s,a}ᵀ(r + γv)] + (1 − λ)·mean,     δ = 1 − α

At λ = 1 the promise p₀ᵀv is a lower bound of the true return with posterior probability at least α
if the quantile is the posterior's; that takes N ≥ SA/δ draws (`draws`). The mean is that of the
problem's models, so that λ = 0 is nominal.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar, final

import numpy as np
from numpy.typing import NDArray

from softrobust.errors import InputError
from softrobust.models.model_set import ModelSet
from softrobust.solvers.base import Deadline, Solution, finish
from softrobust.solvers.draws import (
    KEPT_BYTES,
    Draws,
    Sample,
    resolution,
    tail_mass,
)
from softrobust.solvers.fixed_point import IntArray, Iterated, as_policy, nominal_policy
from softrobust.solvers.nominal import Nominal
from softrobust.solvers.pair_rows import model_keys
from softrobust.solvers.var_bellman import QuantileUpdate

if TYPE_CHECKING:
    from softrobust.problem import Problem

FloatArray = NDArray[np.float64]


@final
@dataclass(frozen=True, slots=True, eq=False)
class RSVFSimple(Iterated):
    """λ·VaR at 1 − δ/(SA) plus (1 − λ)·mean, step by step.

    Parameters
    ----------
    draws : ModelSet or PosteriorDraws, optional
        What VaR is taken of; the problem's own models by default. The draws stay in memory for all
        sweeps: of `PosteriorDraws` at most 512 MiB are used, and the stats say if that is too few.
    tol, time_limit, max_rounds
        As in `Iterated`.
    """

    draws: Draws | None = None
    name: ClassVar[str] = "rsvf-simple"

    def solve(self, problem: Problem) -> Solution:
        """Find the fixed point."""
        deadline = Deadline(self.time_limit)
        lam = problem.objective.lam
        if lam == 0:
            nominal = Nominal().solve(problem)
            return finish(
                problem, solver=self.name, policy=nominal.policy, v=nominal.v,
                status=nominal.status, stats=nominal.stats,
            )  # fmt: skip
        tail, wanted, _ = tail_mass(problem)
        models = self._models(problem, wanted)
        sample = Sample(problem, models, wanted)  # checks them
        stats = resolution("RSVF", sample, tail, wanted, warn=True)
        nominal_part = None
        if lam < 1:  # the slope of the update mixes rows of both
            mean, models = on_common_lists(problem.models.mean_model(), models)
            nominal_part = replace(problem.mean_problem(), models=mean)
        update = QuantileUpdate(problem.with_models(models), tail, lam, nominal_part)
        found = self.search(update, *nominal_policy(problem), deadline)
        return finish(
            problem,
            solver=self.name,
            policy=as_policy(problem, found.decision),
            v=found.v,
            status=found.status,
            stats={"seconds": deadline.elapsed} | self.statistics(problem, update, found) | stats,
        )

    def _models(self, problem: Problem, wanted: float) -> ModelSet:
        """The draws, no more than may stay in memory."""
        if self.draws is None or isinstance(self.draws, ModelSet):
            return problem.models if self.draws is None else self.draws
        size = max(problem.models.next_states.size, 1)
        most = max(KEPT_BYTES // (8 * size), 1)
        return self.draws.together(min(self.draws.count(wanted, size), most))


def on_common_lists(first: ModelSet, second: ModelSet) -> tuple[ModelSet, ModelSet]:
    """Both sets on the union of their lists of next states; pairs that one lacks are dropped."""
    a, b = model_keys(first), model_keys(second)
    if np.array_equal(a, b):
        return first, second
    _refuse_own_rewards(second)
    both = (first.available & second.available).reshape(-1)
    keys = np.union1d(a, b)
    keys = keys[both[keys // first.n_states]]
    indptr, next_states = _lists(first, keys)
    return tuple(  # type: ignore[return-value]
        replace(m, indptr=indptr, next_states=next_states, prob=_spread(m, keys), normalise=False)
        for m in (first, second)
    )


def _refuse_own_rewards(models: ModelSet) -> None:
    if models.rewards is not None and models.rewards.kind == "model":
        raise InputError(
            "Draws with rewards of their own must be one ModelSet that lists the next states of "
            "the problem's models: rewards cannot be laid out anew. Give rewards r(s,a,s′) with "
            "the problem instead."
        )


def _lists(models: ModelSet, keys: IntArray) -> tuple[IntArray, NDArray[np.int32]]:
    S, pairs = models.n_states, models.indptr.size - 1
    counts = np.bincount(keys // S, minlength=pairs)
    return np.concatenate([[0], np.cumsum(counts)]), (keys % S).astype(np.int32)


def _spread(models: ModelSet, keys: IntArray) -> FloatArray:
    """`prob` on the lists of the given keys, which hold all of the models' own in their pairs."""
    own, N = model_keys(models), models.n_models
    if np.array_equal(own, keys):
        return models.prob
    indptr, _ = _lists(models, keys)
    place = np.searchsorted(keys, own)
    out = np.zeros(keys.size * N)
    for k in np.flatnonzero(np.diff(indptr)):
        lo, hi = models.indptr[k], models.indptr[k + 1]
        first, width = indptr[k], indptr[k + 1] - indptr[k]
        block = out[first * N : (first + width) * N].reshape(N, width)
        block[:, place[lo:hi] - first] = models.prob[lo * N : hi * N].reshape(N, hi - lo)
    return out
