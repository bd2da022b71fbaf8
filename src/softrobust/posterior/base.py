"""The protocol of posteriors: settings are fitted to a log, the fit draws models."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np

    from softrobust.data import TransitionLog
    from softrobust.models.model_set import ModelSet


class Posterior(ABC):
    """A frozen bag of settings: the prior and how it meets the data."""

    __slots__ = ()

    @abstractmethod
    def fit(self, log: TransitionLog) -> FittedPosterior:
        """P̂ = P* | D."""


class FittedPosterior(ABC):
    """What can be drawn from."""

    __slots__ = ()

    @abstractmethod
    def sample(self, n: int, seed: int | np.random.Generator = 0) -> ModelSet:
        """`n` models drawn from the posterior, with equal weights."""

    @abstractmethod
    def describe(self) -> dict[str, Any]:
        """Settings and data as plain values: with the log, enough to draw the same models again."""
