"""Riverswim (appendix F.4): swim up a river against the current, in the two forms that are in use.

`paper`, γ = 0.95: action 0 moves left; action 1 moves right 0.2, stays 0.3, left 0.5. +100 for
every transition that ends in the last state, +5 for every one that ends one state closer to it.
`craam`, γ = 0.9: action 0 moves left and pays 5; action 1 moves left 0.2, stays 0.3, right 0.5, and
pays 100 when it stays in the last state. A move past an end stays there in both.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Annotated, ClassVar, Literal, final

import numpy as np

from softrobust._core.arrays import IntArray, refuse_if_too_large
from softrobust._core.settings import check_fields, whole
from softrobust.data import Labels, Rewards, TransitionLog
from softrobust.domains.base import Seed, Steps, TabularDomain
from softrobust.models.model_set import ModelSet
from softrobust.posterior import DirichletPosterior, Frame, Posterior, TiedPosterior
from softrobust.posterior.tied import LEFT_STAY_RIGHT, move_blocks

DRIFT = (1.0, 0.0, 0.0)
SWIM = {"paper": (0.5, 0.3, 0.2), "craam": (0.2, 0.3, 0.5)}
DISCOUNT = {"paper": 0.95, "craam": 0.9}


@final
@dataclass(frozen=True, slots=True)
class RiverSwim(TabularDomain):
    """A chain of states with a current."""

    name: ClassVar[str] = "riverswim"
    summary: ClassVar[str] = "Swim against a current: 20 states, 2 actions, two variants."
    env_id: ClassVar[str | None] = "softrobust/RiverSwim-v0"
    env_steps: ClassVar[int] = 100
    variant: Literal["paper", "craam"] = "paper"
    # one Dirichlet(1, 1, 1) over moves shared by all states, or a uniform one over all states for
    # each pair
    prior: Literal["tied", "independent"] = "tied"
    n_states: Annotated[int, partial(whole, least=3, hint="A river needs at least 3 states.")] = 20
    steps: Steps = 15

    def __post_init__(self) -> None:
        check_fields(self)
        S = self.n_states
        refuse_if_too_large(32.0 * S * S, f"A river of {S} states", "Set a smaller n_states.")

    def frame(self) -> Frame:
        """Uniform start; rewards of the variant."""
        S = self.n_states
        r = np.zeros((S, 2, S))
        if self.variant == "craam":
            r[:, 0, :] = 5.0
            r[S - 1, 1, S - 1] = 100.0
        else:
            r[:, :, S - 1] += 100.0
            r[np.arange(S - 1), :, np.arange(1, S)] += 5.0
        states, actions = Labels.range(S, "state"), Labels.range(2, "action")
        start, gamma = np.full(S, 1.0 / S), DISCOUNT[self.variant]
        return Frame(states, actions, Rewards.of_transitions(r), start, gamma)

    def true_model(self) -> ModelSet:
        """Both actions as laws over (left, stay, right)."""
        q = np.array([[DRIFT, SWIM[self.variant]]])
        return self.frame().dense(move_blocks(q, LEFT_STAY_RIGHT, self.n_states))

    def step(self, s: IntArray, a: IntArray, rng: np.random.Generator) -> IntArray:
        """One move; past an end it stays."""
        left, stay, _ = SWIM[self.variant]
        u = rng.random(s.shape)
        swim = np.where(u < left, -1, np.where(u < left + stay, 0, 1))
        move = np.where(a == 0, -1, swim)
        return np.asarray(np.clip(s + move, 0, self.n_states - 1))

    def collect(self, seed: Seed = 0) -> TransitionLog:
        """A uniformly random swimmer, from the first state."""
        return self.roll_out(np.full((self.n_states, 2), 0.5), 0, self.steps, seed)

    def posterior(self) -> Posterior:
        """Moves of action 1 shared by all states (action 0 is known), or rows on their own."""
        if self.prior == "tied":
            return TiedPosterior(known={"0": DRIFT}, frame=self.frame())
        return DirichletPosterior(per_cell=1.0, support="all", min_count=0)
