"""Inventory: the posterior of demand, Gamma–Poisson, and its exact transition rows (app. F.4).

Stock s, order a, o = min(a, capacity − s) arrives first, then demand d ~ Poisson(μ):

    s′ = max(s + o − d, −max_backlog)
    r = price·(s + o − s′) − unit·o − fixed·[o > 0] − hold·max(s′, 0) − late·max(−s′, 0)

    μ ~ Gamma(shape 4, scale 6),   μ | d₁ … d_n ~ Gamma(4 + Σd, scale 6/(6n + 1))

Demand is read off the log as d = s + o − s′. Where the stock ran out (s′ at its lowest) only
d ≥ s + o + max_backlog is known: such a row enters as P[D ≥ …], which leaves the conjugate family,
and the posterior becomes a density on a line, drawn from a grid. Models truncate the demand to
0 … max_demand and renormalise.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Annotated, Any, ClassVar, Literal, NamedTuple, final

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammainc, gammaln, logsumexp, xlogy

from softrobust._core.arguments import names_arguments
from softrobust._core.arrays import FloatArray, IntArray, refuse_if_too_large
from softrobust._core.limits import generator
from softrobust._core.notes import Level, Note
from softrobust._core.settings import Count, Discount, Natural, Number, check_fields, real
from softrobust.data import TransitionLog
from softrobust.data.columns import NUMBER
from softrobust.data.labels import Labels
from softrobust.data.rewards import Rewards
from softrobust.errors import InputError
from softrobust.models.model_set import ModelSet
from softrobust.posterior.base import Arrays, FittedPosterior, Frame, Posterior, Seed, check_count
from softrobust.posterior.diagnostics import Diagnostics
from softrobust.posterior.sampling import GridDensity

Censored = Literal["likelihood", "exclude", "refuse"]
PRIOR = "The Gamma prior needs a positive shape and scale."
OfGamma = Annotated[float, partial(real, above=0, hint=PRIOR)]


@final
@dataclass(frozen=True, slots=True)
class Shop:
    """What is known of the inventory problem: sizes and prices.

    `max_backlog` > 0 lets stock fall below 0 (demand waits, at `late` per unit and step).
    """

    capacity: Count = 50
    max_order: Count = 40
    max_demand: Count = 50
    max_backlog: Natural = 0
    price: Number = 4.99
    unit: Number = 2.49
    fixed: Number = 3.99
    hold: Number = 0.1
    late: Number = 0.15
    gamma: Discount = 0.99

    def __post_init__(self) -> None:
        check_fields(self)
        S = self.capacity + self.max_backlog + 1
        refuse_if_too_large(
            16.0 * S * S * (self.max_order + 1), "This inventory",
            "Set a smaller capacity, max_backlog or max_order.",
        )  # fmt: skip

    @property
    def stocks(self) -> IntArray:
        """(n_states,): the stock of every state, from −max_backlog to capacity."""
        return np.arange(-self.max_backlog, self.capacity + 1)

    def orders(self) -> IntArray:
        """(n_states, n_actions): what arrives, o = min(a, capacity − s)."""
        return np.minimum(np.arange(self.max_order + 1), self.capacity - self.stocks[:, None])

    def frame(self) -> Frame:
        """Labels are the stock and the order; p0 is uniform."""
        S = self.stocks.size
        return Frame(
            Labels(tuple(map(str, self.stocks.tolist())), noun="state"),
            Labels.range(self.max_order + 1, "action"),
            Rewards.of_transitions(self.rewards()),
            np.full(S, 1.0 / S),
            self.gamma,
        )

    def rewards(self) -> FloatArray:
        """(n_states, n_actions, n_states): r(s, a, s′); 0 where s′ cannot be reached."""
        s, o, s_next = self.stocks[:, None, None], self.orders()[:, :, None], self.stocks
        # With backlog a unit is paid when it is promised: sold = s + o − s′ in either case.
        sold = s + o - s_next
        pay = self.price * sold - self.unit * o - self.fixed * (o > 0)
        pay = pay - self.hold * np.maximum(s_next, 0) - self.late * np.maximum(-s_next, 0)
        return np.where(sold >= 0, pay, 0.0)


def demand_law(mu: FloatArray, max_demand: int) -> FloatArray:
    """(n_models, max_demand + 1): Poisson probabilities, truncated and renormalised."""
    d = np.arange(max_demand + 1)
    log_pmf = xlogy(d, mu[:, None]) - gammaln(d + 1.0)
    pmf = np.exp(log_pmf - log_pmf.max(axis=1, keepdims=True))
    return np.asarray(pmf / pmf.sum(axis=1, keepdims=True))


def demand_models(mu: FloatArray, shop: Shop) -> ModelSet:
    """One model per mean demand; a pair lists the stocks that it can lead to."""
    law = demand_law(np.asarray(mu, dtype=np.float64), shop.max_demand)
    N, D = law.shape
    up_to = (shop.stocks[:, None] + shop.orders()).reshape(-1) + shop.max_backlog  # index of s + o
    widths = np.minimum(up_to, D - 1) + 1
    indptr = np.concatenate([[0], np.cumsum(widths)])
    first = up_to - widths + 1
    offset = np.repeat(first - indptr[:-1], widths)
    next_states = (np.arange(indptr[-1]) + offset).astype(np.int32)
    tail = np.cumsum(law[:, ::-1], axis=1)[:, ::-1]
    prob = np.empty(int(indptr[-1]) * N)
    for y in np.unique(up_to):
        w = int(min(y, D - 1)) + 1
        rows = law[:, :w][:, ::-1].copy()
        if w == y + 1:
            rows[:, 0] = tail[:, y]  # all larger demands end at the lowest stock
        for k in np.flatnonzero(up_to == y):
            prob[indptr[k] * N : indptr[k + 1] * N] = rows.reshape(-1)
    return shop.frame().models(indptr, next_states, prob, N)


@final
class Demands(NamedTuple):
    """What a log says: exact demands, and lower bounds where the stock ran out."""

    exact: IntArray
    at_least: IntArray


@final
@dataclass(frozen=True, slots=True)
class DemandPosterior(Posterior):
    """Mean demand, Gamma–Poisson.

    Parameters
    ----------
    shape, scale : float
        Of the Gamma prior.
    censored : "likelihood", "exclude" or "refuse"
        Rows in which the stock ran out: as P[D ≥ …] (default), left out (which underestimates
        demand, and is said in the notes of the models), or an error.
    truncated : bool
        Whether the logged demand itself is Poisson truncated to 0 … max_demand: a grid posterior.
    shop : Shop
    """

    name: ClassVar[str] = "demand"
    shape: OfGamma = 4.0
    scale: OfGamma = 6.0
    censored: Censored = "likelihood"
    truncated: bool = False
    shop: Shop = field(default_factory=Shop)

    def __post_init__(self) -> None:
        check_fields(self)

    @names_arguments
    def fit(self, log: TransitionLog) -> FittedDemand:
        """Read the demands off the log and condition on them."""
        for labels in (log.states, log.actions):
            fractions = [n for n in labels if NUMBER.fullmatch(n) and not float(n).is_integer()]
            if fractions:
                raise InputError(
                    f"Stock and orders, and so demand, are counted in whole units: the "
                    f"{labels.noun} '{fractions[0]}' is not. Round the log, or count in smaller "
                    "units."
                )
        # d = s + o − s′, or the lower bound s + o + max_backlog where s′ is at its lowest.
        shop = self.shop
        t = shop.frame().transitions(log, "The inventory")
        d = shop.stocks[t.s] + shop.orders()[t.s, t.a] - shop.stocks[t.s_next]
        if (d < 0).any():
            i = int(np.argmax(d < 0))
            raise InputError(
                f"Stock cannot exceed what was there: {log.rows.where(i)} goes from "
                f"'{log.states[int(log.s[i])]}' with order '{log.actions[int(log.a[i])]}' to "
                f"'{log.states[int(log.s_next[i])]}'. Correct the row."
            )
        empty = t.s_next == 0
        return self.fit_demands(Demands(d[~empty], d[empty]), log)

    def fit_demands(self, demands: Demands, log: TransitionLog | None = None) -> FittedDemand:
        """Condition on demands (and lower bounds), without a log."""
        exact = _units(demands.exact, "Demand")
        bounds = _units(demands.at_least, "A lower bound of demand")
        most = max(int(exact.max(initial=0)), int(bounds.max(initial=0)))
        if self.truncated and most > self.shop.max_demand:
            raise InputError(
                f"Demand {most} exceeds max_demand = {self.shop.max_demand}, which "
                "truncated=True calls impossible. Raise max_demand."
            )
        if bounds.size and self.censored == "refuse":
            raise InputError(
                f"The stock ran out in {bounds.size} rows, so their demand is only known to be at "
                "least what was there. Use censored='likelihood' (or 'exclude')."
            )
        kept = bounds[bounds > 0] if self.censored == "likelihood" else bounds[:0]
        shape, rate = self.shape + float(exact.sum()), 1 / self.scale + exact.size
        grid = None
        if kept.size or self.truncated:
            levels, times = np.unique(kept, return_counts=True)
            grid = GridDensity.of(
                lambda x: self._log_density(x, shape, rate, exact.size, levels, times),
                -12.0, np.log(50.0 * max(self.shop.max_demand, shape / rate)),
            )  # fmt: skip
        return FittedDemand(self, log, Demands(exact, bounds), shape, rate, grid)

    def restore(self, log: Any, arrays: Mapping[str, NDArray[Any]]) -> FittedDemand:
        """The same fit: from the log, or from the demands where there was none."""
        if log is not None:
            return self.fit(log)
        return self.fit_demands(Demands(arrays["exact"], arrays["at_least"]))

    def _log_density(
        self, x: FloatArray, shape: float, rate: float, n: int, levels: IntArray, times: IntArray
    ) -> FloatArray:
        """log p(log μ | D): Gamma part, P[D ≥ c] of every censored row, truncation if asked."""
        mu = np.exp(x)
        if not self.truncated:
            out = shape * x - rate * mu
            with np.errstate(divide="ignore"):
                for c, k in zip(levels, times, strict=True):
                    out = out + k * np.log(gammainc(float(c), mu))  # P[Poisson(μ) ≥ c]
            return np.asarray(out)
        # Truncated: e^−μ cancels, and log Σ_{d=c}^{top} μ^d/d! stays finite for any μ.
        d = np.arange(self.shop.max_demand + 1)
        terms = d * x[:, None] - gammaln(d + 1.0)
        out = shape * x - (rate - n) * mu - (n + times.sum()) * logsumexp(terms, axis=1)
        for c, k in zip(levels, times, strict=True):
            out = out + k * logsumexp(terms[:, c:], axis=1)
        return np.asarray(out)


@final
@dataclass(frozen=True, slots=True, eq=False, repr=False)
class FittedDemand(FittedPosterior):
    """Gamma(shape, rate) for the mean demand, or a grid where rows are censored or truncated."""

    settings: DemandPosterior
    log: TransitionLog | None
    demands: Demands
    shape: float
    rate: float
    grid: GridDensity | None

    def means(self, n: int, seed: Seed = 0) -> FloatArray:
        """`n` draws of the mean demand μ."""
        rng = generator(seed)
        if self.grid is None:
            return rng.gamma(self.shape, 1.0 / self.rate, size=check_count(n))
        return np.exp(self.grid.sample(rng, check_count(n)))

    def sample(self, n: int, seed: Seed = 0) -> ModelSet:
        """`n` exact, independent draws."""
        models = demand_models(self.means(n, seed), self.settings.shop)
        return replace(models, notes=self.notes)

    @property
    def notes(self) -> tuple[Note, ...]:
        """What became of rows in which the stock ran out."""
        rows = self.demands.at_least.size
        if rows == 0:
            return ()
        if self.settings.censored == "exclude":
            return (Note("censored_rows_left_out", Level.CAUTION, {"n_rows": rows}),)
        return (Note("censored_rows_are_limits", facts={"n_rows": rows}),)

    def diagnostics(self) -> Diagnostics:
        """Draws are exact; checks of the mean and the variance of the uncensored demands."""
        seen = self.demands.exact
        if seen.size < 2:
            return Diagnostics.of_exact()
        rng = np.random.default_rng(0)
        new = rng.poisson(self.means(1000, 1)[:, None], size=(1000, seen.size))
        out = {"variance of demand": float(np.mean(new.var(axis=1) > seen.var()))}
        if not self.demands.at_least.size:
            out["mean of demand"] = float(np.mean(new.mean(axis=1) > seen.mean()))
        return Diagnostics.of_exact(out)

    def describe(self) -> dict[str, Any]:
        """Settings, data, and how many rows were censored."""
        return FittedPosterior.describe(self) | {"censored_rows": int(self.demands.at_least.size)}

    def arrays(self) -> Arrays:
        """The demands, where no log can give them again."""
        return {} if self.log is not None else self.demands._asdict()

    def __repr__(self) -> str:
        n, censored = self.demands.exact.size, self.demands.at_least.size
        return f"FittedDemand({n} demands, {censored} censored rows)"


def _units(values: Any, what: str) -> IntArray:
    """(n,) whole numbers ≥ 0; fractions, NaN and negative values are errors, with their place."""
    try:
        given = np.atleast_1d(np.asarray(values, dtype=np.float64))
    except (TypeError, ValueError):
        raise InputError(f"{what} is a number of units; some value is none. Correct it.") from None
    if given.ndim != 1:
        raise InputError(f"{what} comes as a list of numbers; its shape is {given.shape}.")
    wrong = np.flatnonzero(~((given >= 0) & (given == np.round(given)) & np.isfinite(given)))
    if wrong.size:
        i = int(wrong[0])
        raise InputError(
            f"{what} is counted in whole units and cannot be negative: value {i + 1} of "
            f"{given.size} is {given[i]:g}. Correct it, round it, or count in smaller units."
        )
    return given.astype(np.int64)
