"""Random worlds for tests and timings: Dirichlet rows, Garnet, and a ring.

- dirichlet: every row ~ Dirichlet(concentration, …) over all states.
- garnet (Archibald et al. 1995): every pair has `branching` next states, chosen at random, with
  probabilities cut from [0, 1] by uniform points.
- ring: every pair moves one state back, stays, or one forward, with Dirichlet(1, 1, 1) chances.

Rewards r(s, a) are standard normal. `model_seed` makes the world; the seed of `collect` the log.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any, ClassVar, Literal, final

import numpy as np

from softrobust._core.arrays import BoolArray, FloatArray, IntArray, refuse_if_too_large
from softrobust._core.settings import Count, Discount, Natural, Positive, check_fields, whole
from softrobust.data import Labels, Rewards, TransitionLog
from softrobust.domains.base import Seed, Steps, TabularDomain
from softrobust.models.model_set import ModelSet
from softrobust.posterior import DirichletPosterior, Frame

Kind = Literal["dirichlet", "garnet", "ring"]


@final
@dataclass(frozen=True, slots=True)
class RandomMDP(TabularDomain):
    """A random world; make it with `random_mdp`."""

    name: ClassVar[str] = "random"
    summary: ClassVar[str] = "A random world: Dirichlet rows, Garnet, or a ring."
    kind: Kind = "dirichlet"
    n_states: int = 20
    n_actions: Count = 3
    branching: int = 4
    concentration: Positive = 1.0
    gamma: Discount = 0.95
    steps: Steps = 200
    model_seed: Natural = 0

    def __post_init__(self) -> None:
        check_fields(self)
        least = 3 if self.kind == "ring" else 1
        needs = f"A {self.kind} world needs at least {least} states."
        S = whole("n_states", self.n_states, least, hint=needs)
        # Only a garnet world reads it: the default need not fit the other kinds.
        most = S if self.kind == "garnet" else None
        width = whole("branching", self.branching, 1, most, "It counts next states of a pair.")
        width = {"garnet": width, "ring": 3}.get(self.kind, S)
        size, fewer = 24.0 * S * self.n_actions * width, "Set fewer states, actions or branches."
        refuse_if_too_large(size, f"A world of {S} states", fewer)

    def frame(self) -> Frame:
        """Standard normal r(s, a), uniform start."""
        rng = np.random.default_rng([self.model_seed, 1])
        S, A = self.n_states, self.n_actions
        states, actions = Labels.range(S, "state"), Labels.range(A, "action")
        rewards = Rewards.of_pairs(rng.standard_normal((S, A)))
        return Frame(states, actions, rewards, np.full(S, 1.0 / S), self.gamma)

    def true_model(self) -> ModelSet:
        """One model, stored on its own next states."""
        columns, prob = _rows_of(self)
        pairs, width = columns.shape
        indptr, listed = np.arange(pairs + 1, dtype=np.int64) * width, columns.reshape(-1)
        return self.frame().models(indptr, listed.astype(np.int32), prob.reshape(-1), 1)

    def step(self, s: IntArray, a: IntArray, rng: np.random.Generator) -> IntArray:
        """Invert the distribution function of the row."""
        columns, prob = _rows_of(self)
        k = s * self.n_actions + a
        below = np.cumsum(prob[k], axis=1)
        j = (rng.random(s.size)[:, None] * below[:, -1:] >= below).sum(axis=1)
        return np.asarray(columns[k, np.minimum(j, columns.shape[1] - 1)])

    def collect(self, seed: Seed = 0) -> TransitionLog:
        """A uniformly random agent, from a random state."""
        rng = np.random.default_rng(seed)
        uniform = np.full((self.n_states, self.n_actions), 1.0 / self.n_actions)
        return self.roll_out(uniform, int(rng.integers(self.n_states)), self.steps, rng)

    def posterior(self) -> DirichletPosterior:
        """Uniform Dirichlets: over the three neighbours of a ring, else over all states."""
        support: str | BoolArray = "all"
        if self.kind == "ring":
            mask = np.zeros((self.n_states, self.n_states), dtype=bool)
            np.put_along_axis(mask, _around(np.arange(self.n_states), self.n_states), True, axis=1)
            support = mask
        return DirichletPosterior(per_cell=1.0, support=support, min_count=0)


@lru_cache(maxsize=8)
def _rows_of(world: RandomMDP) -> tuple[IntArray, FloatArray]:
    """Ascending next states and probabilities, both (n_pairs, width); a simulation asks often."""
    rng = np.random.default_rng([world.model_seed, 0])
    S, pairs = world.n_states, world.n_states * world.n_actions
    if world.kind == "dirichlet":
        rows = rng.dirichlet(np.full(S, world.concentration), size=pairs)
        return np.tile(np.arange(S), (pairs, 1)), rows
    if world.kind == "ring":
        lists = _around(np.arange(pairs) // world.n_actions, S)
        return lists, rng.dirichlet(np.ones(3), size=pairs)
    lists = np.stack([rng.choice(S, world.branching, replace=False) for _ in range(pairs)])
    cuts = np.sort(rng.random((pairs, world.branching - 1)), axis=1)
    return np.sort(lists, axis=1), np.diff(cuts, axis=1, prepend=0.0, append=1.0)


def _around(s: IntArray, n_states: int) -> IntArray:
    """(n, 3) ascending neighbours on the ring, s itself among them."""
    return np.sort((s[:, None] + np.arange(-1, 2)) % n_states, axis=1)


def random_mdp(
    kind: Kind = "dirichlet", n_states: int = 20, n_actions: int = 3, seed: int = 0, **settings: Any
) -> RandomMDP:
    """A random world; see the top of this module for the kinds.

    Further settings are branching, concentration, gamma and steps of the log.

    Examples
    --------
    >>> random_mdp("garnet", 30, 4, branching=3, seed=1).true_model()
    ModelSet(1 models, 30 states, 4 actions, 360 shared next-state entries)
    """
    return RandomMDP(kind, n_states, n_actions, model_seed=seed, **settings)
