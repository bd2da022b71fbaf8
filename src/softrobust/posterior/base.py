"""The protocol of posteriors: settings are fitted to a log, the fit draws models (section 2).

    P̂ = P* | D,      P̂^1 … P̂^N ~ P̂

A posterior is one small class: `fit(log)` returns an object whose `sample(n, seed)` gives models.
Diagnostics, description and saving have defaults that suit exact, independent draws. What the
posterior of a domain knows before any data is its `Frame`.

A saved fit is one `.npz` without code or pickles: settings as JSON with their arrays beside it, the
log, and what else the class needs. Exact posteriors are fitted again when read (`load_posterior`);
samplers keep their draws and the state of their chains.
"""

from __future__ import annotations

import json
import warnings
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, fields, is_dataclass
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, Self, final

import numpy as np
from numpy.typing import NDArray

from softrobust._core.arguments import names_arguments
from softrobust._core.arrays import SMALL, FloatArray, IntArray, Sealed, refuse_if_too_large, seal
from softrobust._core.files import write_npz
from softrobust._core.limits import generator
from softrobust._core.settings import whole
from softrobust.data import TransitionLog
from softrobust.data.continuous import ContinuousLog
from softrobust.data.labels import Labels
from softrobust.data.readers import log_to_arrays
from softrobust.data.rewards import Rewards, rewards_to_arrays
from softrobust.errors import InputError
from softrobust.models.gaussian import GaussianModels
from softrobust.models.model_set import ModelSet
from softrobust.posterior.diagnostics import Diagnostics, PosteriorWarning

POSTERIOR_FORMAT = "softrobust-posterior"
FORMAT_VERSION = 1
Seed = int | np.random.Generator
CHOOSING, CHECKING, FRESH = range(3)  # what draws are for: no draw serves two of these
USES = 3
OWN_FRAME = "give the posterior a frame with your own rewards"
REWARD_TOLERANCE = 1e-6  # of 1 + |r|: logs round their rewards
Arrays = dict[str, NDArray[Any]]


class Posterior(ABC):
    """A frozen bag of settings: the prior and how it meets the data."""

    __slots__ = ()
    name: ClassVar[str] = ""
    learns: ClassVar[bool] = True  # from any log; draws from elsewhere know one

    @abstractmethod
    def fit(self, log: Any) -> Fitted:
        """P̂ = P* | D."""

    def restore(self, log: Any, arrays: Mapping[str, NDArray[Any]]) -> Fitted:
        """The fit that was saved: exact posteriors are fitted again, samplers read their draws."""
        return self.fit(log)


class Fitted(Sealed, ABC):
    """What every fitted posterior can do, tabular or continuous."""

    __slots__ = ()

    @abstractmethod
    def sample(self, n: int, seed: Seed = 0) -> ModelSet | GaussianModels:
        """`n` models drawn from the posterior, with equal weights."""

    def again(self, log: Any) -> Any:
        """The posterior of another log, by the same settings."""
        settings = getattr(self, "settings", None)
        if not isinstance(settings, Posterior):
            raise InputError(
                f"{type(self).__name__} cannot learn from other rows: it has no `settings`."
            )
        if not settings.learns:
            raise InputError(
                f"The posterior '{settings.name}' was sampled elsewhere, from the log as it was, "
                "and cannot learn from other rows. Take a posterior that is fitted here."
            )
        return fit_quietly(settings, log)

    @property
    def pool(self) -> int | None:
        """How many different draws there are; None where there is no end to them."""
        return None

    def share(self, i: int, n: int = USES) -> Self:
        """Part i of n that have no draw in common; itself where there is no end to draws."""
        return self

    def diagnostics(self) -> Diagnostics:
        """Whether the draws can be trusted; exact and independent draws need no test."""
        return Diagnostics.of_exact()

    def describe(self) -> dict[str, Any]:
        """Settings and data as plain values: with the log, enough to draw the same models again."""
        settings, log = getattr(self, "settings", None), getattr(self, "log", None)
        out: dict[str, Any] = {"posterior": getattr(settings, "name", "") or type(self).__name__}
        if is_dataclass(settings):
            out |= {field.name: _plain(getattr(settings, field.name)) for field in fields(settings)}
        digest = getattr(log, "data_hash", None)
        return out if digest is None else out | {"data_hash": digest}

    def arrays(self) -> Arrays:
        """What `Posterior.restore` needs beyond settings and log: draws of a sampler."""
        return {}

    def portable(self) -> Fitted:
        """The same draws without code of the user's, as a file can hold them."""
        return self

    @names_arguments
    def save(self, path: str | Path) -> None:
        """Write settings, data and draws as `.npz`, atomically; `load_posterior` reads it."""
        write_npz(path, POSTERIOR_FORMAT, FORMAT_VERSION, self.to_arrays())

    def to_arrays(self) -> Arrays:
        """Settings, data and draws as the arrays of a file."""
        settings, log = getattr(self, "settings", None), getattr(self, "log", None)
        if not isinstance(settings, Posterior) or not settings.name or not is_dataclass(settings):
            raise InputError(
                f"{type(self).__name__} cannot be saved: it needs `settings`, a dataclass "
                "Posterior with a `name`, and the `log` it was fitted to."
            )
        arrays: Arrays = {}
        record = {
            "name": settings.name,
            "settings": {
                field.name: _encode(getattr(settings, field.name), arrays, f"setting:{field.name}")
                for field in fields(settings)
            },
            "log": {type(None): "none", ContinuousLog: "continuous"}.get(type(log), "table"),
        }
        if isinstance(log, ContinuousLog):
            arrays |= {f"log:{k}": v for k, v in log.to_arrays().items()}
        elif log is not None:
            arrays |= {f"log:{k}": np.asarray(v) for k, v in log_to_arrays(log).items()}
        arrays |= {f"own:{k}": v for k, v in self.arrays().items()}
        return arrays | {"record": np.array(json.dumps(record))}


def fit_quietly(settings: Posterior, log: Any) -> Any:
    """A fit whose problems the caller looks up among its diagnostics."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PosteriorWarning)
        return settings.fit(log)


class FittedPosterior(Fitted):
    """A fitted posterior over tables: its draws are a `ModelSet`."""

    __slots__ = ()

    @abstractmethod
    def sample(self, n: int, seed: Seed = 0) -> ModelSet:
        """`n` models drawn from the posterior, with equal weights."""


@final
class Transitions(NamedTuple):
    """Columns of a log in the indices of a frame, each (n_rows,) int64."""

    s: IntArray
    a: IntArray
    s_next: IntArray


@final
@dataclass(frozen=True, slots=True, eq=False)
class Frame(Sealed):
    """States, actions, and what is known of rewards, start and discount.

    Models carry all of it, so that they are a problem on their own. The log is checked against it.
    """

    states: Labels
    actions: Labels
    rewards: Rewards | None = None
    p0: FloatArray | None = None
    gamma: float | None = None

    def transitions(
        self, log: TransitionLog, domain: str, noise: float = 0.0, remedy: str = OWN_FRAME
    ) -> Transitions:
        """The rows of the log, re-indexed; an unknown label or a foreign reward is an error.

        `noise` is how far a row's reward may lie from the frame's: 0 where these are known
        exactly, as those of a domain are. `remedy` ends the error's sentence.
        """
        found = {}
        for column, noun in (("s", "states"), ("s_next", "states"), ("a", "actions")):
            codes, names, known = getattr(log, column), getattr(log, noun), getattr(self, noun)
            place = np.array([known.lookup.get(name, -1) for name in names], dtype=np.int64)
            found[column] = place[codes]
            lost = np.flatnonzero(found[column] < 0)
            if lost.size:
                i, name = int(lost[0]), names[int(codes[lost[0]])]
                raise InputError(
                    f"{domain} knows the {known.noun}s {known.shortened(range(len(known)), 3)}: "
                    f"{log.rows.where(i)} has '{name}'. Correct the row, map the labels, or use "
                    "another posterior."
                )
        if log.reward is not None and self.rewards is not None and self.rewards.kind != "model":
            own, told = self.rewards.at(**found)
            off = np.abs(own - log.reward) > noise + REWARD_TOLERANCE * (1 + abs(own))
            if (off & told).any():
                i = int(np.argmax(off & told))
                raise InputError(
                    f"The rewards of the log must be those of {domain}: {log.rows.where(i)} has "
                    f"{log.reward[i]:g}, the domain pays {own[i]:g} ({int((off & told).sum())} "
                    f"such rows). Drop the reward column, or {remedy}."
                )
        return Transitions(**found)

    def dense(self, blocks: FloatArray) -> ModelSet:
        """Models from rows laid out (n_states, n_actions, n_models, n_states)."""
        S, A = len(self.states), len(self.actions)
        every = np.tile(np.arange(S, dtype=np.int32), S * A)
        return self.models(np.arange(S * A + 1) * S, every, blocks, blocks.shape[2])

    def models(
        self, indptr: IntArray, next_states: NDArray[np.int32], prob: FloatArray, n: int
    ) -> ModelSet:
        """`n` equally weighted models in the storage of `ModelSet`, with all that is known.

        The array `prob` was made for them: they keep it, and it can be written no more.
        """
        held = {field.name: getattr(self, field.name) for field in fields(self)}
        return ModelSet(indptr, next_states, seal(prob), np.full(n, 1.0 / n), **held)


def check_count(n: int, n_entries: int = 0) -> int:
    """The number of models asked for: a whole number ≥ 1, whose rows fit into memory."""
    n = whole("The number of models", n, 1, 10**12, "Ask for as many as fit into memory.")
    if (size := 8.0 * n_entries * n) > SMALL:
        refuse_if_too_large(size, f"{n} models", "Draw fewer, or narrow the support.")
    return n


def span(n_draws: int, i: int, n: int) -> slice:
    """Block i of n of the draws; all of them where there are too few to be shared out."""
    if n_draws < n:
        return slice(0, n_draws)
    return slice(i * n_draws // n, (i + 1) * n_draws // n)


MORE_DRAWS = "Raise the number of draws (Nuts(draws=…)), or continue the chains with extend(draws)."


def choose(n_draws: int, n: int, seed: Seed, remedy: str = MORE_DRAWS) -> IntArray:
    """`n` different draws out of `n_draws`, in random order."""
    if check_count(n) > n_draws:
        raise InputError(f"{n} models were asked for, and {n_draws} draws were kept. {remedy}")
    return np.asarray(generator(seed).permutation(n_draws)[:n], dtype=np.int64)


def _plain(value: Any) -> Any:
    """A setting as JSON can hold it; arrays and functions by what they are."""
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if is_dataclass(value) and not isinstance(value, type):
        if type(value).__name__ in ("Frame", "GaussianFrame", "Labels", "Rewards"):
            return type(value).__name__
        return {field.name: _plain(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, (tuple, list)):
        return [_plain(item) for item in value]
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    return f"array {value.shape}" if isinstance(value, np.ndarray) else type(value).__name__


def _encode(value: Any, arrays: Arrays, key: str) -> Any:
    """A setting as JSON; arrays go beside it under `key`."""
    if isinstance(value, np.generic):
        value = value.item()  # a number of NumPy's is written, and read, as a plain one
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, Labels):
        return {"labels": list(value), "noun": value.noun}
    if isinstance(value, Rewards):
        arrays |= {f"{key}:{name}": layer for name, layer in rewards_to_arrays(value).items()}
        return {"rewards": key}
    if isinstance(value, (tuple, list)):
        return {"tuple": [_encode(x, arrays, f"{key}:{i}") for i, x in enumerate(value)]}
    if isinstance(value, Mapping):
        return {"mapping": {str(k): _encode(x, arrays, f"{key}:{k}") for k, x in value.items()}}
    if is_dataclass(value):
        own = {f.name: _encode(getattr(value, f.name), arrays, f"{key}:{f.name}")
               for f in fields(value)}  # fmt: skip
        return {"part": type(value).__name__, "fields": own}
    if callable(value):
        return {"function": getattr(value, "__name__", "function")}
    arrays[key] = np.asarray(value)
    return {"array": key}
