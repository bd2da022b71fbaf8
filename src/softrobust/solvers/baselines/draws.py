"""Posterior draws that ambiguity sets are built from, and quantiles of them in one pass.

A set that holds P* for all pairs together with probability α = 1 − δ takes, pair by pair, the
quantile at 1 − δ/(SA) (a union bound over the SA pairs that may be taken). A sample of N shows that
quantile only if N ≥ SA/δ; with fewer draws it is the sample's extreme and α no longer matters:
"saturated". Draws to build sets from may therefore be many more than the models of the problem.

They need not be in memory together: `PosteriorDraws` makes them in parts, the same ones each time,
and `UpperTail` keeps of every part only what can still be the quantile.
"""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from softrobust._core.arrays import FloatArray, available_memory
from softrobust._core.limits import time_bound
from softrobust._core.notes import Level, Note
from softrobust._core.settings import Count, Natural, check_fields
from softrobust.errors import InputError
from softrobust.models.model_set import ModelSet
from softrobust.objective import EDGE
from softrobust.posterior import FittedPosterior
from softrobust.problem import Problem
from softrobust.solvers.baselines.ball_robust import check_like

SATURATED = "quantile_saturated"
WHAT = "The draws that sets are built from"
PART_BYTES = 2**26  # of one part of the draws
KEPT_BYTES = 2**29  # draws up to this size stay in memory for a second pass
TRIED = 8  # draws that show how long one takes
PASS_SHARE = 0.15  # of the time left, for the first pass over draws
SPAWN = 2  # train and test draws of a run are children 0 and 1 of its seed


class SaturationWarning(UserWarning):
    """Too few draws for the quantile that was asked for: `quantile_saturated` in the stats."""


@final
@dataclass(frozen=True, slots=True, eq=False)
class PosteriorDraws:
    """Draws of a fitted posterior, made when they are needed and in parts.

    Exact posteriors give as many draws as are asked for; a sampler gives those it has kept. They
    are independent of the train and test draws that a run makes with the same seed.
    """

    posterior: FittedPosterior
    seed: Natural = 0
    most: Count = 50_000  # draws, and
    most_numbers: float = 1.5e9  # probabilities of one pass; what that leaves may be saturated

    def __post_init__(self) -> None:
        if not isinstance(self.posterior, FittedPosterior):
            raise InputError(
                "PosteriorDraws needs a fitted posterior over tables, such as "
                f"DirichletPosterior().fit(log); it got {type(self.posterior).__name__}."
            )
        check_fields(self)

    def count(self, wanted: float, model_size: int) -> int:
        """How many of the `wanted` draws there will be, for models of so many probabilities."""
        enough = wanted if math.isinf(wanted) else whole_draws(wanted)
        most = min(enough, self.most, max(self.most_numbers // max(model_size, 1), 1))
        known = self.posterior.pool
        return int(most if known is None else min(most, known))

    def parts(self, n: int, model_size: int) -> Iterator[ModelSet]:
        """`n` draws in parts of at most 64 MiB; a sampler's draws come as one part."""
        part = max(PART_BYTES // (8 * max(model_size, 1)), 1) if self.posterior.pool is None else n
        for i, first in enumerate(range(0, n, part)):
            yield self.draw(min(part, n - first), i)

    def in_time(self, n: int) -> ModelSet:
        """`n` draws as one set, or as many as take a share of the time left."""
        clock = time_bound()
        if clock.limit is None or self.posterior.pool is not None:
            return self.draw(n)
        began, first = time.monotonic(), self.draw(min(n, TRIED))
        each = (time.monotonic() - began) / first.n_models
        n = clock.affords("models", n, each, PASS_SHARE / 2, TRIED)
        return first if n == first.n_models else self.draw(n)

    def draw(self, n: int, i: int = 0) -> ModelSet:
        """`n` draws as one set, part i of those that there are."""
        seed = np.random.SeedSequence(self.seed, spawn_key=(SPAWN, i))
        return self.posterior.sample(n, np.random.default_rng(seed))


Draws = ModelSet | PosteriorDraws


@final
class DrawnSample:
    """The draws of one solve: a pass gives (models, weights) part by part.

    The first pass ends with its share of the time, after one part at least, and later ones have
    the same draws: whoever made an `UpperTail` before it tells it the `total` afterwards.
    `total` is the sum of all weights, `effective` = (Σw)²/Σw² the number of equal draws that they
    are worth.
    """

    _kept: list[tuple[ModelSet, FloatArray]]  # empty until a pass has made them

    def __init__(self, problem: Problem, draws: Draws | None, wanted: float) -> None:
        self.problem, self._kept, self._passed = problem, [], False
        if isinstance(draws, PosteriorDraws):
            size = int(problem.models.next_states.size)
            self.n = draws.count(max(wanted, 1.0), size)
            self.total = self.effective = float(self.n)
            self._parts = partial(draws.parts, self.n, size)
            free = available_memory()
            limit = KEPT_BYTES if free is None else min(KEPT_BYTES, 0.25 * free)
            self._keep = 8.0 * size * self.n <= limit
            return
        models = problem.models if draws is None else draws
        if not isinstance(models, ModelSet):
            raise InputError(
                f"draws is a ModelSet or PosteriorDraws(posterior); it is {type(models).__name__}."
            )
        check_like(problem, models, WHAT)
        self._kept, self.n = [(models, models.f)], models.n_models
        self.total, self.effective = 1.0, 1.0 / float((models.f**2).sum())

    def __iter__(self) -> Iterator[tuple[ModelSet, FloatArray]]:
        if self._kept:
            yield from self._kept
            return
        made, drawn, until = [], 0, time_bound().part(PASS_SHARE)
        for models in self._parts():
            check_like(self.problem, models, WHAT)
            part = models, np.ones(models.n_models)
            made += [part] if self._keep else []
            drawn += models.n_models
            yield part
            if drawn >= self.n or (until.passed and not self._passed):
                break
        if drawn < self.n:
            time_bound().note("models")
            self.n, self.total, self.effective = drawn, float(drawn), float(drawn)
        self._kept, self._passed = made, True

    def saturated(self, tail: float) -> bool:
        """Whether the quantile that leaves `tail` outside is the sample's extreme."""
        return tail * self.effective < 1 - EDGE


def whole_draws(wanted: float) -> int:
    """The next whole number, but for the rounding of SA/δ."""
    return max(math.ceil(wanted * (1 - EDGE)), 1)


def tail_mass(problem: Problem) -> tuple[float, float, int]:
    """(δ/(SA), SA/δ, SA) of the pairs that may be taken in states that can be left."""
    pairs = max(int(problem.allowed[problem.decided].sum()), 1)
    delta = 1.0 - problem.objective.alpha
    return (0.0, math.inf, pairs) if delta <= EDGE else (delta / pairs, pairs / delta, pairs)


def resolution(
    who: str, sample: DrawnSample, tail: float, wanted: float, warn: bool
) -> dict[str, Any]:
    """What the draws can show, for the stats; a warning where the quantile is saturated."""
    saturated = sample.saturated(tail)
    stats: dict[str, Any] = {
        "set_draws": sample.n,
        "set_draws_needed": None if math.isinf(wanted) else whole_draws(wanted),
        "quantile_level": 1.0 - tail,
        SATURATED: saturated,
    }
    if saturated:
        facts = {"who": who, "level": 1 - tail, "needed": stats["set_draws_needed"],
                 "used": sample.n}  # fmt: skip
        stats["notes"] = [Note(SATURATED, Level.CAUTION, facts).to_dict()]
        if warn:
            warnings.warn(
                f"{SATURATED}: {who} needs the quantile at {1 - tail:.6g} and has {sample.n:,} "
                "draws, so it takes their extreme. Give more with draws=PosteriorDraws(posterior), "
                "or a larger ModelSet.",
                SaturationWarning,
                stacklevel=4,
            )
    return stats


@final
class UpperTail:
    """The quantile of many weighted samples, near their upper end, in one pass.

    A share `tail` of the weight `total` may lie above. At a tie of the cumulated weight with it,
    `lower_side` takes the larger of the two values: the lower quantile of −x, as VaR's definition
    inf{z : G(z) ≥ tail} wants it.
    """

    def __init__(self, n_samples: int, tail: float, total: float, lower_side: bool = False) -> None:
        self.tail, self.limit, self.slack = tail, tail * total, EDGE * total
        self.lower_side = lower_side
        self.values = np.empty((n_samples, 0))
        self.weights = np.empty((n_samples, 0))

    def add(self, values: FloatArray, weights: FloatArray) -> None:
        """Values (n_samples, n) of the next n draws, with their weights (n,)."""
        live = weights > 0
        x = np.concatenate([self.values, values[:, live]], axis=1)
        new = np.broadcast_to(weights[live], (x.shape[0], int(live.sum())))
        w = np.concatenate([self.weights, new], axis=1)
        order = np.argsort(-x, axis=1, kind="stable")
        w = np.take_along_axis(w, order, axis=1)
        keep = int(self._place(np.cumsum(w, axis=1)).max(initial=0)) + 1
        self.values = np.take_along_axis(x, order[:, :keep], axis=1)
        self.weights = w[:, :keep]

    def _place(self, cumulated: FloatArray) -> NDArray[np.int64]:
        """Position of the quantile in descending order."""
        if self.lower_side:
            place = (cumulated < self.limit - self.slack).sum(axis=1)
        else:
            place = (cumulated <= self.limit + self.slack).sum(axis=1)
        return np.asarray(np.minimum(place, cumulated.shape[1] - 1), dtype=np.int64)

    def quantile(self, total: float) -> FloatArray:
        """(n_samples,) of draws of a total weight that may be less than was thought."""
        self.limit, self.slack = self.tail * total, EDGE * total
        place = self._place(np.cumsum(self.weights, axis=1))
        return np.asarray(self.values[np.arange(place.size), place])
