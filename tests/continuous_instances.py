"""Small problems with continuous states that tests share."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Self, final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from softrobust.data import Labels
from softrobust.models import ModelSet
from softrobust.models.continuous import Box, ContinuousModels, Rng, Which
from softrobust.models.gaussian import GaussianFrame, GaussianModels, Scaling
from softrobust.objective import SoftRobust
from softrobust.problem import ContinuousProblem

FloatArray = NDArray[np.float64]


def linear_models(
    n: int = 8, noise: float = 0.05, clip: Any = None, seen: Any = None, seed: int = 0
) -> GaussianModels:
    """x′ = r·x + b·a + noise in two dimensions, with r and b uncertain: stable everywhere."""
    frame = GaussianFrame(
        Labels(("x", "y"), noun="variable"),
        Labels(("off", "on"), noun="action"),
        np.array([0.0, 1.0]),
        np.array([0.0, 0.0]),
        np.array([1.0, -1.0]),
        np.array([[1.0, 0.5], [0.2, 1.0]]),
        0.8,
        10,
    )
    rng = np.random.default_rng(seed)
    F = len(frame.feature_names)
    W = np.zeros((n, F, 2))
    W[:, 1, 0] = 0.7 + 0.1 * rng.standard_normal(n)
    W[:, 2, 1] = 0.6 + 0.1 * rng.standard_normal(n)
    W[:, 3, 0] = 0.3 + 0.2 * rng.standard_normal(n)
    W[:, 3, 1] = 0.2 + 0.1 * rng.standard_normal(n)
    W[:, 5, 0] = 0.05 * rng.standard_normal(n)  # x·y
    scaling = Scaling(np.zeros(F), np.ones(F), np.zeros(2), np.ones(2), np.ones(1))
    return GaussianModels(
        W, np.full((n, 1, 2), noise**2), np.full(n, 1 / n), scaling, frame, clip, seen
    )


def linear_problem(lam: float = 0.5, alpha: float = 0.75, **models: Any) -> ContinuousProblem:
    return ContinuousProblem(linear_models(**models), objective=SoftRobust(lam, alpha))


class OneHot:
    """Scikit-learn's protocol: every state index has a feature of its own."""

    def __init__(self, n: int) -> None:
        self.n = n

    def fit(self, s: FloatArray) -> OneHot:
        return self

    def transform(self, s: FloatArray) -> FloatArray:
        return np.asarray(np.eye(self.n)[np.asarray(s)[:, 0].astype(int)])


@final
@dataclass(frozen=True, slots=True, eq=False)
class TableAsContinuous(ContinuousModels):
    """A table of models seen as models of continuous states: a state is the vector of its index.

    With features that tell all states apart, methods for continuous states must then give what
    exact methods for tables give; next states are few, so expectations are sums.
    """

    table: ModelSet
    f: FloatArray = field(init=False)
    variables: Labels = field(init=False)
    actions: Labels = field(init=False)
    clip: Box | None = field(init=False, default=None)
    seen: Box | None = field(init=False, default=None)

    def __post_init__(self) -> None:
        object.__setattr__(self, "f", self.table.f)
        object.__setattr__(self, "variables", Labels(("state",), noun="variable"))
        object.__setattr__(self, "actions", self.table.actions)

    @property
    def states(self) -> FloatArray:
        """(n_states, 1): all states as vectors."""
        return np.arange(self.table.n_states, dtype=np.float64)[:, None]

    def rows(self, s: ArrayLike, a: ArrayLike, omega: Which = None) -> FloatArray:
        """(n_models, n_rows, n_states) transition probabilities; (n_rows, n_states) by `omega`."""
        index = np.asarray(s, dtype=np.float64)[..., 0].astype(np.int64)
        models = slice(None) if omega is None else np.asarray(omega)
        return np.asarray(self.table.P[models, index, np.asarray(a)])

    def mean(self, s: ArrayLike, a: ArrayLike, omega: Which = None) -> FloatArray:
        """The expected index: of little use, but well defined."""
        return np.asarray(self.rows(s, a, omega) @ self.states)

    def variance(self, s: ArrayLike, a: ArrayLike, omega: Which = None) -> FloatArray:
        """The variance of the index."""
        rows = self.rows(s, a, omega)
        return np.asarray(rows @ self.states**2 - (rows @ self.states) ** 2)

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

    def draw_free(self, s: ArrayLike, a: ArrayLike, rng: Rng, omega: Which = None) -> FloatArray:
        """By inversion: one uniform number per draw."""
        edges = np.cumsum(self.rows(s, a, omega), axis=-1)
        u = rng.random(edges.shape[:-1])
        below = (u[..., None] * edges[..., -1:] >= edges).sum(axis=-1)
        return np.asarray(below[..., None], dtype=np.float64)

    def mean_model(self) -> TableAsContinuous:
        """The mixture E_f[P̂], exactly."""
        return TableAsContinuous(self.table.mean_model())

    def select(self, which: ArrayLike) -> Self:
        """The chosen models, with weights renormalised among them."""
        return type(self)(self.table.select(which))
