"""What an objective is: a monotone figure of the returns over models, and who decides it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from softrobust.objective.measures import cvar, mean, var


class Objective(ABC):
    """A criterion over the returns x_ω of a policy with weights f_ω.

    `value` never falls when a return rises: that is what makes the clairvoyant bound a bound.
    """

    __slots__ = ()
    criterion: ClassVar[str]

    @property
    @abstractmethod
    def lam(self) -> float:
        """How much the bad case counts."""

    @property
    @abstractmethod
    def alpha(self) -> float:
        """Confidence: the bad case is the worst 1 − alpha of models."""

    @abstractmethod
    def value(self, x: ArrayLike, f: ArrayLike | None = None) -> float:
        """The figure to maximise."""

    @abstractmethod
    def worst_case(self, x: ArrayLike, f: ArrayLike | None = None) -> NDArray[np.float64]:
        """Weights ξ over models with value = Σ ξ_ω x_ω: the models that decide, and how much."""

    @property
    def tail(self) -> float:
        """1 − α, rounded to hide the subtraction (1 − 0.9 reads 0.1)."""
        return round(1.0 - self.alpha, 12)

    @property
    def words(self) -> str:
        """The tail as people say it."""
        if self.tail == 0:
            return "the worst single model"
        return "all models" if self.tail == 1 else f"the worst {100 * self.tail:g} % of models"

    def summary(self, x: ArrayLike, f: ArrayLike | None = None) -> dict[str, float]:
        """objective, mean, var and cvar of returns x."""
        return {
            "objective": self.value(x, f),
            "mean": mean(x, f),
            "var": var(x, f, self.alpha),
            "cvar": cvar(x, f, self.alpha),
        }
