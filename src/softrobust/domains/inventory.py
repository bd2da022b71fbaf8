"""Inventory (appendix F.4): order stock before an unknown demand; excess demand is lost, or waits.

Rows, rewards and the posterior of the demand are in `posterior/demand.py`. The batch is 50
transitions under "order the maximum", from an empty shop.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar, final

import numpy as np
from scipy.special import pdtr

from softrobust._core.arrays import IntArray
from softrobust._core.settings import Positive, check_fields
from softrobust.data import TransitionLog
from softrobust.domains.base import Seed, Steps, TabularDomain
from softrobust.errors import InputError
from softrobust.models.model_set import ModelSet
from softrobust.objective import SoftRobust
from softrobust.posterior import DemandPosterior, Frame, Shop
from softrobust.posterior.demand import demand_models

LEAST_INSIDE = 1e-3  # chance of a demand within max_demand, below which rejection takes too long


@final
@dataclass(frozen=True, slots=True)
class Inventory(TabularDomain):
    """Stock 0 … 50, orders 0 … 40, Poisson demand of mean 10."""

    name: ClassVar[str] = "inventory"
    summary: ClassVar[str] = "Order stock under unknown demand: 51 states, 41 actions, γ = 0.99."
    env_id: ClassVar[str | None] = "softrobust/Inventory-v0"
    env_steps: ClassVar[int] = 50
    paper_goal: ClassVar[SoftRobust] = SoftRobust(0.5, 0.8)
    mean_demand: Positive = 10.0
    # sizes and prices; `Shop(max_backlog=10)` lets demand wait
    shop: Shop = field(default_factory=Shop)
    steps: Steps = 50  # length of the logged episode
    # whether the world's demand, too, is truncated to 0 … max_demand (it is in its models)
    truncated: bool = True

    def __post_init__(self) -> None:
        check_fields(self)
        top = self.shop.max_demand  # demand beyond it is simulated by rejection
        if self.truncated and float(pdtr(top, self.mean_demand)) < LEAST_INSIDE:
            raise InputError(
                f"mean_demand must leave demand a chance to lie in 0…{top} (max_demand), to which "
                f"it is truncated; it is {self.mean_demand:g}. Raise max_demand, or set "
                "truncated=False."
            )

    def frame(self) -> Frame:
        """Rewards r(s, a, s′), uniform start."""
        return self.shop.frame()

    def true_model(self) -> ModelSet:
        """Exact rows of the truncated Poisson demand."""
        return demand_models(np.array([self.mean_demand]), self.shop)

    def step(self, s: IntArray, a: IntArray, rng: np.random.Generator) -> IntArray:
        """The order arrives, demand is drawn, stock falls to −max_backlog at most."""
        shop = self.shop
        d = rng.poisson(self.mean_demand, size=s.shape)
        while self.truncated and (d > shop.max_demand).any():
            again = d > shop.max_demand
            d[again] = rng.poisson(self.mean_demand, size=int(again.sum()))
        there = shop.stocks[s] + np.minimum(a, shop.capacity - shop.stocks[s])
        return np.asarray(np.maximum(there - d, -shop.max_backlog) + shop.max_backlog)

    def collect(self, seed: Seed = 0) -> TransitionLog:
        """Order the maximum, from stock 0."""
        order = np.zeros((self.shop.stocks.size, self.shop.max_order + 1))
        order[:, -1] = 1.0
        return self.roll_out(order, self.shop.max_backlog, self.steps, seed)

    def posterior(self) -> DemandPosterior:
        """Gamma–Poisson; rows in which the stock ran out count as lower bounds."""
        return DemandPosterior(shop=self.shop)
