"""The percentile criterion (eq. 2.1), which the paper argues against: the return a share α reach.

    max y  such that  P[ρ(π, P̂) ≥ y] ≥ α,

the upper (1 − α)-quantile of the returns. It looks at one model only: how bad the worst 1 − α are,
and how good the rest, does not count.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from softrobust.objective.base import Objective
from softrobust.objective.measures import check_share, var_upper


@final
@dataclass(frozen=True, slots=True)
class Percentile(Objective):
    """The return that is reached with probability at least alpha over the models.

    Examples
    --------
    >>> Percentile(alpha=0.7).value(range(1, 101))
    31.0
    """

    alpha: float = 0.9
    criterion: ClassVar[str] = "percentile"

    def __post_init__(self) -> None:
        object.__setattr__(self, "alpha", check_share("alpha", self.alpha))

    @property
    def lam(self) -> float:
        """1: nothing but the tail's edge counts."""
        return 1.0

    def value(self, x: ArrayLike, f: ArrayLike | None = None) -> float:
        """sup{y : P[x ≥ y] ≥ α}."""
        return var_upper(x, f, self.alpha)

    def worst_case(self, x: ArrayLike, f: ArrayLike | None = None) -> NDArray[np.float64]:
        """All weight on a model at the quantile."""
        returns = np.asarray(x, dtype=np.float64)
        weights = np.full(returns.size, 1.0) if f is None else np.asarray(f, dtype=np.float64)
        at = np.flatnonzero((returns == self.value(x, f)) & (weights > 0))[0]
        out = np.zeros(returns.size)
        out[at] = 1.0
        return out

    def values(self, X: NDArray[np.float64], f: NDArray[np.float64]) -> NDArray[np.float64]:
        """`value` of every row of X (n, n_models), all with weights f."""
        live = np.flatnonzero(f > 0)
        order = np.argsort(X[:, live], axis=1, kind="stable")
        cumulative = np.cumsum(f[live][order], axis=1)
        edge = (1.0 - self.alpha) * cumulative[:, -1:]
        at = np.minimum((cumulative <= edge + 1e-12).sum(axis=1), live.size - 1)
        rows = np.arange(X.shape[0])
        return np.asarray(X[:, live][rows, order[rows, at]])
