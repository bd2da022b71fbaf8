"""A table of models seen as models of continuous states: a state is the vector (s,) of its index.

With features that tell all states apart, methods for continuous states must then give what exact
methods for tables give; next states are few, so expectations are sums.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Self, final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from softrobust.data.labels import Labels
from softrobust.errors import InputError
from softrobust.models.continuous_models import Box, ContinuousModels
from softrobust.models.model_set import ModelSet

FloatArray = NDArray[np.float64]


@final
@dataclass(frozen=True, slots=True, eq=False)
class TabularModels(ContinuousModels):
    """The models of a table; every action must be available in every state."""

    table: ModelSet

    def __post_init__(self) -> None:
        lost = np.argwhere(~self.table.available)
        if lost.size:
            s, a = lost[0]
            raise InputError(
                "Every action must be possible in every state: state "
                f"'{self.table.states[int(s)]}', action '{self.table.actions[int(a)]}' has no "
                "transitions. Solve the table with a tabular solver."
            )

    @property
    def f(self) -> FloatArray:
        """(n_models,) weights."""
        return self.table.f

    @property
    def variables(self) -> Labels:
        """The index of the state."""
        return Labels(("state",), noun="variable")

    @property
    def actions(self) -> Labels:
        """Those of the table."""
        return self.table.actions

    @property
    def clip(self) -> Box | None:
        """No box is needed."""
        return None

    @property
    def seen(self) -> Box | None:
        """All states are known."""
        return None

    @property
    def states(self) -> FloatArray:
        """(n_states, 1): all states as vectors."""
        return np.arange(self.table.n_states, dtype=np.float64)[:, None]

    def rows(self, s: ArrayLike, a: ArrayLike) -> FloatArray:
        """(n_models, n_rows, n_states) transition probabilities."""
        index = np.asarray(s, dtype=np.float64)[..., 0].astype(np.int64)
        return np.asarray(self.table.P[:, index, np.asarray(a)])

    def mean(self, s: ArrayLike, a: ArrayLike, omega: ArrayLike | None = None) -> FloatArray:
        """The expected index: of little use, but well defined."""
        return self._of(self.rows(s, a) @ self.states, omega)

    def variance(self, s: ArrayLike, a: ArrayLike, omega: ArrayLike | None = None) -> FloatArray:
        """The variance of the index."""
        rows = self.rows(s, a)
        return self._of(rows @ self.states**2 - (rows @ self.states) ** 2, omega)

    def expect(
        self, s: ArrayLike, a: ArrayLike, g: Callable[[Any, Any, Any], Any]
    ) -> FloatArray | None:
        """Σ_s′ P̂^ω(s′|s,a)·g(s, a, s′)."""
        now, act = np.atleast_2d(np.asarray(s, dtype=np.float64)), np.asarray(a)
        n, S = now.shape[0], self.table.n_states
        to = np.broadcast_to(self.states, (n, S, 1))
        here = np.broadcast_to(now[:, None], (n, S, 1))
        values = np.asarray(g(here, np.broadcast_to(act[:, None], (n, S)), to))
        return np.asarray(np.einsum("wns,ns->wn", self.rows(now, act), values))

    def draw_free(
        self, s: ArrayLike, a: ArrayLike, rng: np.random.Generator, omega: ArrayLike | None = None
    ) -> FloatArray:
        """By inversion: one uniform number per draw."""
        edges = np.cumsum(self._of(self.rows(s, a), omega), axis=-1)
        u = rng.random(edges.shape[:-1])
        below = (u[..., None] * edges[..., -1:] >= edges).sum(axis=-1)
        return np.asarray(below[..., None], dtype=np.float64)

    def mean_model(self) -> TabularModels:
        """The mixture E_f[P̂], exactly."""
        return TabularModels(self.table.mean_model())

    def select(self, which: ArrayLike) -> Self:
        """The chosen models, with weights renormalised among them."""
        return type(self)(self.table.select(which))

    @staticmethod
    def _of(each: FloatArray, omega: ArrayLike | None) -> FloatArray:
        if omega is None:
            return each
        return np.asarray(each[np.asarray(omega), np.arange(each.shape[1])])
