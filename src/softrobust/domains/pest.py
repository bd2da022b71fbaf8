"""Pest control (section 6): a population that grows, and five levels of treatment.

The world is logistic; the posterior's models are exponential (see `posterior/population.py`).
The batch is one episode of 300 steps from n = 10 under the optimal policy of the true model.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from typing import Annotated, ClassVar, final

import numpy as np
from numpy.typing import NDArray

from softrobust._core.arrays import IntArray
from softrobust._core.settings import check_fields, whole
from softrobust.data import TransitionLog
from softrobust.domains.base import Seed, Steps, TabularDomain, optimal_policy
from softrobust.models.model_set import ModelSet
from softrobust.objective import SoftRobust
from softrobust.posterior import Frame, Nuts, PopulationPosterior
from softrobust.posterior.population import (
    GROWTH_SD,
    IMMIGRANTS,
    IMMIGRANTS_SD,
    K,
    pest_frame,
    pest_rows,
    true_growth,
)

HINT = f"It is a population: choose one of the states 0…{K}."
Population = Annotated[int, partial(whole, least=0, most=K, hint=HINT)]


@final
@dataclass(frozen=True, slots=True)
class PestControl(TabularDomain):
    """A population of 0 … 50; r(n, a) = 1000 − n² − c_a."""

    name: ClassVar[str] = "pest-control"
    summary: ClassVar[str] = "Treat a growing pest population: 51 states, 5 actions, γ = 0.9."
    env_id: ClassVar[str | None] = "softrobust/PestControl-v0"
    env_steps: ClassVar[int] = 300
    paper_goal: ClassVar[SoftRobust] = SoftRobust(0.5, 0.7)
    start: Population = 9  # where episodes start (p0); the paper's own data has 9
    # batch_start, steps: first population and length of the logged episode
    batch_start: Population = 10
    steps: Steps = 300
    # let the world itself grow exponentially instead (with the true growth rates)
    exponential: bool = False
    nuts: Nuts = field(default_factory=Nuts)  # settings of the posterior's sampler

    def __post_init__(self) -> None:
        check_fields(self)

    def frame(self) -> Frame:
        """r(n, a) = 1000 − n² − c_a, all mass on `start`."""
        return pest_frame(self.start)

    def true_model(self) -> ModelSet:
        """Exact rows from the normal distribution function."""
        return self.frame().dense(pest_rows(true_growth()[None], logistic=not self.exponential))

    def step(self, s: IntArray, a: IntArray, rng: np.random.Generator) -> IntArray:
        """Growth, then immigration, each rounded half away from zero."""
        g = true_growth()[a, s] + np.array(GROWTH_SD)[a] * rng.standard_normal(s.shape)
        grown = np.maximum(g, 0.0)
        m = grown * s if self.exponential else s + (grown - 1.0) * s * (K - s) / K
        m = np.clip(np.floor(m + 0.5), 0, K)  # m ≥ 0, so half away from zero is half up
        e = np.maximum(IMMIGRANTS + IMMIGRANTS_SD * rng.standard_normal(s.shape), 0.0)
        out: NDArray[np.float64] = np.clip(np.floor(m + e + 0.5), 0, K)
        return out.astype(np.int64)

    def collect(self, seed: Seed = 0) -> TransitionLog:
        """One episode under the optimal policy of the true model."""
        return self.roll_out(optimal_policy(self.true_model()), self.batch_start, self.steps, seed)

    def posterior(self) -> PopulationPosterior:
        """Growth rates by NUTS."""
        return PopulationPosterior(self.start, self.nuts)
