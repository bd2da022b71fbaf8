"""The protocol of posteriors: settings are fitted to a log, the fit draws models (section 2).

    P̂ = P* | D,      P̂^1 … P̂^N ~ P̂

A posterior is one small class: `fit(log)` returns an object whose `sample(n, seed)` gives models.
Diagnostics, description and saving have defaults that suit exact, independent draws.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import fields, is_dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from softrobust._core.arrays import refuse_if_too_large
from softrobust._core.settings import whole
from softrobust.errors import InputError
from softrobust.posterior.diagnostics import Diagnostics

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from numpy.typing import NDArray

    from softrobust.models.gaussian import GaussianModels
    from softrobust.models.model_set import ModelSet


class Posterior(ABC):
    """A frozen bag of settings: the prior and how it meets the data."""

    __slots__ = ()
    name: ClassVar[str] = ""

    @abstractmethod
    def fit(self, log: Any) -> Fitted:
        """P̂ = P* | D."""

    def restore(self, log: Any, arrays: Mapping[str, NDArray[Any]]) -> Fitted:
        """The fit that was saved: exact posteriors are fitted again, samplers read their draws."""
        return self.fit(log)


class Fitted(ABC):
    """What every fitted posterior can do, tabular or continuous."""

    __slots__ = ()

    @abstractmethod
    def sample(self, n: int, seed: int | np.random.Generator = 0) -> ModelSet | GaussianModels:
        """`n` models drawn from the posterior, with equal weights."""

    def diagnostics(self) -> Diagnostics:
        """Whether the draws can be trusted; exact and independent draws need no test."""
        return Diagnostics.of_exact()

    def describe(self) -> dict[str, Any]:
        """Settings and data as plain values: with the log, enough to draw the same models again."""
        settings, log = getattr(self, "settings", None), getattr(self, "log", None)
        out: dict[str, Any] = {"posterior": getattr(settings, "name", "") or type(self).__name__}
        if is_dataclass(settings):
            values = {field.name: getattr(settings, field.name) for field in fields(settings)}
            out |= {name: plain(value) for name, value in values.items()}
        digest = getattr(log, "data_hash", None)
        return out if digest is None else out | {"data_hash": digest}

    def arrays(self) -> dict[str, NDArray[Any]]:
        """What `Posterior.restore` needs beyond settings and log: draws of a sampler."""
        return {}

    def save(self, path: str | Path) -> None:
        """Write settings, data and draws as `.npz`; `load_posterior` reads it."""
        from softrobust.posterior.saved import save_posterior

        save_posterior(path, self)


class FittedPosterior(Fitted):
    """A fitted posterior over tables: its draws are a `ModelSet`."""

    __slots__ = ()

    @abstractmethod
    def sample(self, n: int, seed: int | np.random.Generator = 0) -> ModelSet:
        """`n` models drawn from the posterior, with equal weights."""


def plain(value: Any) -> Any:
    """A setting as JSON can hold it; arrays and functions by what they are."""
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if is_dataclass(value) and not isinstance(value, type):
        if type(value).__name__ in ("Frame", "GaussianFrame", "Labels", "Rewards"):
            return type(value).__name__
        return {field.name: plain(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, (tuple, list)):
        return [plain(item) for item in value]
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    return f"array {value.shape}" if isinstance(value, np.ndarray) else type(value).__name__


def check_count(n: int, n_entries: int = 0) -> int:
    """The number of models asked for: a whole number ≥ 1, whose rows fit into memory."""
    n = whole("The number of models", n, hint="Ask for one or more.")
    refuse_if_too_large(
        8.0 * n_entries * n, f"{n} models", "Draw fewer (--models), or narrow the support."
    )
    return n


def choose(n_draws: int, n: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """`n` different draws out of `n_draws`, in random order."""
    if n > n_draws:
        raise InputError(
            f"{n} models were asked for, and the sampler kept {n_draws} draws. Raise the number of "
            "draws (Nuts(draws=…)), or continue the chains with fitted.extend(draws)."
        )
    return np.asarray(rng.permutation(n_draws)[:n], dtype=np.int64)
