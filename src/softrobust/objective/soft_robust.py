"""The soft-robust criterion (eq. 3.1) and the set Ξ of model weights that nature may choose (4.1).

    ρ^S = (1 − λ)·mean + λ·CVaR^α = min over ξ ∈ Ξ of Σ_ω ξ_ω x_ω,
    Ξ = {ξ ∈ Δ^N : (1 − λ)·f ≤ ξ ≤ (1 − λ)·f + λ·f/(1 − α)}.

At α = 1 the upper bound is (1 − λ)·f + λ on models of positive weight.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Self, final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from softrobust.errors import InputError
from softrobust.objective.base import Objective
from softrobust.objective.measures import EDGE, check_share, cvar, mean, tail_weights

FloatArray = NDArray[np.float64]

TABLES = (
    "Use local search or the mixed-integer program (--solver local-search, milp), or another "
    "objective."
)


@final
@dataclass(frozen=True, slots=True)
class SoftRobust(Objective):
    """(1 − lam)·mean + lam·CVaR at confidence alpha.

    Parameters
    ----------
    lam : float in [0, 1]
        How much the bad case counts: 0 is the mean alone, 1 the bad case alone.
    alpha : float in [0, 1]
        Confidence: CVaR averages the worst 1 − alpha of the models.

    Examples
    --------
    >>> SoftRobust.from_tail(lam=0.5, tail=0.1)
    SoftRobust(lam=0.5, alpha=0.9)
    >>> SoftRobust(lam=0.5, alpha=0.5).value([0.0, 1.0, 2.0, 3.0])
    1.0
    """

    lam: float = 0.5
    alpha: float = 0.9
    criterion: ClassVar[str] = "soft-robust"

    def __post_init__(self) -> None:
        object.__setattr__(self, "lam", check_share("lambda", self.lam))
        object.__setattr__(self, "alpha", check_share("alpha", self.alpha))

    @classmethod
    def from_tail(cls, lam: float = 0.5, tail: float = 0.1) -> Self:
        """Give the tail itself: tail = 0.1 is "the worst 10 % of models"."""
        return cls(lam, 1.0 - check_share("tail", tail))

    def value(self, x: ArrayLike, f: ArrayLike | None = None) -> float:
        """(1 − λ)·mean + λ·CVaR^α of returns x with weights f."""
        if self.lam == 0:
            return mean(x, f)
        if self.lam == 1:
            return cvar(x, f, self.alpha)
        return (1 - self.lam) * mean(x, f) + self.lam * cvar(x, f, self.alpha)

    def worst_case(self, x: ArrayLike, f: ArrayLike | None = None) -> FloatArray:
        """The ξ ∈ Ξ of which `value` is the expectation: the models that hurt, and how much."""
        n = np.asarray(x).size
        weights = np.full(n, 1.0 / n) if f is None else np.asarray(f, dtype=np.float64)
        if self.lam == 0:
            return weights.copy()
        return (1 - self.lam) * weights + self.lam * tail_weights(x, weights, self.alpha)

    def xi_bounds(self, f: ArrayLike) -> tuple[FloatArray, FloatArray]:
        """Lower and upper bounds of Ξ, each (n_models,)."""
        weights = np.asarray(f, dtype=np.float64)
        lower = (1 - self.lam) * weights
        return lower, lower + self.lam * self.q_bounds(weights)

    def q_bounds(self, f: ArrayLike) -> FloatArray:
        """u = min(f/(1 − α), 1), and 1 where f > 0 at α = 1: the box of CVaR's own weights q."""
        weights = np.asarray(f, dtype=np.float64)
        if 1.0 - self.alpha <= EDGE:
            return (weights > 0).astype(np.float64)
        return np.minimum(weights / (1.0 - self.alpha), 1.0)


def soft_robust(objective: Objective, who: str, instead: str = TABLES) -> SoftRobust:
    """The objective as soft-robust, or an error: some methods exist for that criterion only."""
    if not isinstance(objective, SoftRobust):
        raise InputError(
            f"{who} is for the soft-robust objective; the problem's criterion is "
            f"'{objective.criterion}'. {instead}"
        )
    return objective
