"""Models of continuous states: N ways s′ may follow from (s, a), and what all of them can do.

Every set of models can draw next states; some also know E[s′] and Var[s′] in closed form. A box may
bound what is drawn (polynomial models explode outside their data): a value beyond it is moved to
its edge, and `draw` says which rows that happened to, so that nobody clips in silence.

Sets of models: `GaussianModels`, `CallableModels` (any function, such as an ensemble of networks),
`TabularModels`, and `MixtureModel`, the average of any of them.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, NamedTuple, Self, final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from softrobust.data.labels import Labels
from softrobust.errors import InputError
from softrobust.models.checks import freeze

FloatArray = NDArray[np.float64]
BoolArray = NDArray[np.bool_]
Seed = int | np.random.Generator
Box = tuple[FloatArray, FloatArray]


@final
class Draw(NamedTuple):
    """Next states, and which of them were moved to the edge of the box.

    s_next : (n_models, n_rows, n_variables), or (n_rows, n_variables) with one model per row
    clipped : the same without the last axis
    """

    s_next: FloatArray
    clipped: BoolArray


class ContinuousModels(ABC):
    """N models on common variables and actions, with weights f.

    Attributes
    ----------
    f : (n_models,)
    variables, actions : Labels
    clip : (low, high), each (n_variables,), or None
        The box that next states are kept in.
    seen : (low, high), each (n_variables,), or None
        The range of the data that the models were fitted to; beyond it they extrapolate.
    """

    __slots__ = ()

    @property
    @abstractmethod
    def f(self) -> FloatArray:
        """(n_models,) weights that sum to 1."""

    @property
    @abstractmethod
    def variables(self) -> Labels:
        """Names of the entries of a state."""

    @property
    @abstractmethod
    def actions(self) -> Labels:
        """Names of the actions."""

    @property
    @abstractmethod
    def clip(self) -> Box | None:
        """The box that next states are kept in."""

    @property
    @abstractmethod
    def seen(self) -> Box | None:
        """The range of the data."""

    @property
    def n_models(self) -> int:
        """N."""
        return int(self.f.size)

    @property
    def n_variables(self) -> int:
        """Entries of a state."""
        return len(self.variables)

    @property
    def n_actions(self) -> int:
        """A."""
        return len(self.actions)

    def __len__(self) -> int:
        return self.n_models

    @abstractmethod
    def mean(self, s: ArrayLike, a: ArrayLike, omega: ArrayLike | None = None) -> FloatArray | None:
        """E[s′] before any clipping; None where only draws are known."""

    @abstractmethod
    def variance(
        self, s: ArrayLike, a: ArrayLike, omega: ArrayLike | None = None
    ) -> FloatArray | None:
        """Var[s′] before any clipping; None where only draws are known."""

    def expect(
        self, s: ArrayLike, a: ArrayLike, g: Callable[[Any, Any, Any], Any]
    ) -> FloatArray | None:
        """(n_models, n_rows) E[g(s, a, s′)] for any g, where a sum gives it exactly; else None."""
        return None

    @abstractmethod
    def draw_free(
        self, s: ArrayLike, a: ArrayLike, rng: np.random.Generator, omega: ArrayLike | None = None
    ) -> FloatArray:
        """Next states without the box, shaped as those of `sample_next`."""

    @abstractmethod
    def mean_model(self) -> ContinuousModels:
        """One model that stands for the average of all (what "average" means is the class's)."""

    @abstractmethod
    def select(self, which: ArrayLike) -> Self:
        """The chosen models, with weights renormalised among them."""

    def draw_many(self, s: ArrayLike, a: ArrayLike, rng: np.random.Generator, k: int) -> FloatArray:
        """(n_models, k, n_rows, n_variables): k next states of every row under every model."""
        states, acts = np.atleast_2d(np.asarray(s, dtype=np.float64)), np.asarray(a).reshape(-1)
        rows = self.draw(np.tile(states, (k, 1)), np.tile(acts, k), rng).s_next
        return rows.reshape(self.n_models, k, *states.shape)

    def draw(
        self, s: ArrayLike, a: ArrayLike, rng: np.random.Generator, omega: ArrayLike | None = None
    ) -> Draw:
        """Next states inside the box, and the rows that were moved there."""
        s_next = self.draw_free(s, a, rng, omega)
        if self.clip is None:
            return Draw(s_next, np.zeros(s_next.shape[:-1], dtype=bool))
        low, high = self.clip
        beyond = np.asarray(((s_next < low) | (s_next > high)).any(axis=-1))
        return Draw(np.asarray(np.clip(s_next, low, high)), beyond)

    def sample_next(
        self, s: ArrayLike, a: ArrayLike, seed: Seed = 0, omega: ArrayLike | None = None
    ) -> FloatArray:
        """Next states for all rows under all models, or under model `omega[i]` for row i.

        Parameters
        ----------
        s : (n_rows, n_variables)
        a : (n_rows,) int
        omega : (n_rows,) int, optional

        Returns
        -------
        (n_models, n_rows, n_variables), or (n_rows, n_variables) with `omega`
        """
        return self.draw(s, a, np.random.default_rng(seed), omega).s_next

    def split(self, n: int) -> tuple[Self, Self]:
        """The first `n` models (to train on) and the rest (held out)."""
        if not 0 < n < self.n_models:
            raise InputError(f"split(n) needs 0 < n < {self.n_models}; it got {n}.")
        index = np.arange(self.n_models)
        return self.select(index[:n]), self.select(index[n:])

    def _chosen(self, which: ArrayLike) -> tuple[NDArray[np.int64], FloatArray]:
        """Indices of a selection and its weights."""
        index = np.arange(self.n_models)[np.asarray(which)]
        f = self.f[index]
        if index.size == 0 or f.sum() <= 0:
            raise InputError("A selection needs at least one model of positive weight.")
        return index, np.asarray(f / f.sum())


def check_box(name: str, box: Any, variables: Labels) -> Box | None:
    """(low, high) with one finite number each per variable and low < high; None stays None."""
    if box is None:
        return None
    try:
        low, high = (freeze(np.array(side, dtype=np.float64), np.float64) for side in box)
    except (TypeError, ValueError):
        raise InputError(
            f"{name} must be a pair (low, high) of {len(variables)} numbers each; it is {box!r}."
        ) from None
    for side in (low, high):
        if side.shape != (len(variables),):
            raise InputError(
                f"{name} needs one low and one high number for each of the {len(variables)} "
                f"variables; a side has shape {side.shape}."
            )
    bad = np.flatnonzero(~(np.isfinite(low) & np.isfinite(high) & (low < high)))
    if bad.size:
        j = int(bad[0])
        raise InputError(
            f"{name} needs finite numbers with low < high: '{variables[j]}' has {low[j]:g} and "
            f"{high[j]:g}."
        )
    return low, high
