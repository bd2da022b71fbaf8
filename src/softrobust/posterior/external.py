"""Draws from elsewhere: Stan, JAGS, PyMC or any sampler, with a function draw → transition rows;
or a file of models, each of them one draw.

    rows(draw) → P^ω of shape (n_states, n_actions, n_states)

The draws come as a mapping name → array (n_draws, …) or (n_chains, n_draws, …), as an ArviZ
`InferenceData` (or anything whose `posterior` maps names to arrays with chains and draws first), or
as the CSV files that Stan writes. The function runs once per sampled draw; its rows are checked.
"""

from __future__ import annotations

import csv
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, final

import numpy as np
from numpy.typing import NDArray

from softrobust._core.arguments import names_arguments
from softrobust._core.arrays import BoolArray, FloatArray, Sealed
from softrobust.data import TransitionLog
from softrobust.data.reward_rules import NOISY
from softrobust.data.table import read_text
from softrobust.errors import InputError
from softrobust.models.files import models_from_arrays, models_to_arrays, read_models
from softrobust.models.model_set import ModelSet
from softrobust.posterior.base import (
    USES,
    Arrays,
    FittedPosterior,
    Frame,
    Posterior,
    Seed,
    choose,
    span,
)
from softrobust.posterior.diagnostics import Diagnostics, import_arviz

Draw = dict[str, Any]
Rows = Callable[[Draw], Any]


@names_arguments
@final
@dataclass(frozen=True, slots=True, eq=False)
class ExternalPosterior(Sealed, Posterior):
    """Draws made by another program.

    Parameters
    ----------
    draws : mapping of name → (n_chains, n_draws, …)
        Use `of_arrays`, `from_arviz` or `from_stan_csv`.
    rows : callable
        One draw, a mapping of name → number or array, to rows (n_states, n_actions, n_states).
    frame : Frame
        States, actions and, if known, rewards, start and discount of the models.
    diverging : (n_chains, n_draws) bool, optional
    """

    name: ClassVar[str] = "external"
    learns: ClassVar[bool] = False
    draws: Mapping[str, FloatArray]
    rows: Rows
    frame: Frame
    diverging: BoolArray | None = None

    def __post_init__(self) -> None:
        if not self.draws:
            raise InputError("There are no draws: give at least one parameter.")
        sizes = {name: np.shape(values)[:2] for name, values in self.draws.items()}
        first = next(iter(sizes.values()))
        for name, size in sizes.items():
            if len(size) < 2 or size != first or 0 in size:
                raise InputError(
                    f"All parameters need the same chains and draws, {first}: '{name}' has "
                    f"{size}. Use ExternalPosterior.of_arrays for arrays (n_draws, …)."
                )
        for name, values in self.draws.items():
            if not np.isfinite(np.asarray(values, np.float64)).all():
                raise InputError(f"Draws must be finite numbers: '{name}' has others.")

    @classmethod
    def of_arrays(cls, draws: Mapping[str, Any], rows: Rows, frame: Frame) -> ExternalPosterior:
        """From arrays (n_draws, …): one chain."""
        return cls({k: np.asarray(v, np.float64)[None] for k, v in draws.items()}, rows, frame)

    @classmethod
    def from_arviz(cls, data: Any, rows: Rows, frame: Frame) -> ExternalPosterior:
        """From an ArviZ `InferenceData`, or a path to its netCDF file."""
        if isinstance(data, (str, Path)):
            data = import_arviz().from_netcdf(str(data))
        group = getattr(data, "posterior", None)
        if group is None:
            raise InputError("The InferenceData has no group 'posterior'.")
        names = list(getattr(group, "data_vars", group))
        draws = {str(name): np.asarray(group[name], np.float64) for name in names}
        stats = getattr(data, "sample_stats", None)
        lost = None if stats is None or "diverging" not in stats else np.asarray(stats["diverging"])
        return cls(draws, rows, frame, lost)

    @classmethod
    def from_stan_csv(
        cls, paths: str | Path | Sequence[str | Path], rows: Rows, frame: Frame
    ) -> ExternalPosterior:
        """From the CSV files of CmdStan, one per chain; `beta.1, beta.2` become one array."""
        files = [paths] if isinstance(paths, (str, Path)) else list(paths)
        chains = [_stan_columns(Path(path)) for path in files]
        names = list(chains[0])
        if any(list(chain) != names for chain in chains):
            raise InputError("The Stan files have different columns: they are not of one model.")
        if len({next(iter(chain.values())).shape[0] for chain in chains}) > 1:
            raise InputError("The Stan files have different numbers of draws. Sample all alike.")
        values = {name: np.stack([chain[name] for chain in chains]) for name in names}
        lost = values.get("divergent__")
        draws = {name: x for name, x in values.items() if not name.endswith("__")}
        return cls(draws, rows, frame, None if lost is None else lost > 0)

    def fit(self, log: TransitionLog | None = None) -> FittedExternal:
        """The draws are there already; a log, if given, is checked against the frame."""
        if log is not None:
            self.frame.transitions(log, "The posterior")
        fitted = FittedExternal(self, log)
        self.one(0)  # a function that fails should fail now
        return fitted

    @property
    def n_draws(self) -> int:
        """Draws of all chains."""
        chains, draws = np.shape(next(iter(self.draws.values())))[:2]
        return int(chains * draws)

    def one(self, i: int) -> FloatArray:
        """(n_states, n_actions, n_states): the rows of draw `i`."""
        draw: Draw = {}
        for name, values in self.draws.items():
            flat = np.asarray(values).reshape(self.n_draws, *np.shape(values)[2:])
            draw[name] = float(flat[i]) if flat.ndim == 1 else flat[i]
        out = np.asarray(self.rows(draw), dtype=np.float64)
        S, A = len(self.frame.states), len(self.frame.actions)
        if out.shape != (S, A, S):
            raise InputError(
                f"The function of rows must return (n_states, n_actions, n_states) = {(S, A, S)}; "
                f"for draw {i} it returned {out.shape}."
            )
        return out


@final
@dataclass(frozen=True, slots=True, eq=False, repr=False)
class FittedExternal(FittedPosterior):
    """The draws, ready to become models."""

    settings: ExternalPosterior
    log: TransitionLog | None = None

    def sample(self, n: int, seed: Seed = 0) -> ModelSet:
        """`n` different draws, turned into rows."""
        s = self.settings
        pick = choose(s.n_draws, n, seed, "Draw more elsewhere.")
        blocks = np.stack([s.one(int(i)) for i in pick], axis=2)
        return s.frame.dense(np.ascontiguousarray(blocks))

    @property
    def pool(self) -> int:
        """All draws."""
        return self.settings.n_draws

    def share(self, i: int, n: int = USES) -> FittedExternal:
        """Block i of n of every chain."""
        s = self.settings
        part = span(np.shape(next(iter(s.draws.values())))[1], i, n)
        lost = None if s.diverging is None else s.diverging[:, part]
        draws = {name: np.asarray(values)[:, part] for name, values in s.draws.items()}
        return replace(self, settings=replace(s, draws=draws, diverging=lost))

    def portable(self) -> FittedDraws:
        """Every draw as a model."""
        every = self.sample(self.settings.n_draws)
        return FittedDraws(DrawsPosterior(self.settings.name), self.log, every)

    def diagnostics(self) -> Diagnostics:
        """R̂ and effective sizes of the draws, through ArviZ."""
        return Diagnostics.of_chains(self.settings.draws, self.settings.diverging)

    def __repr__(self) -> str:
        return f"FittedExternal({self.settings.n_draws} draws of {', '.join(self.settings.draws)})"


@final
@dataclass(frozen=True, slots=True, eq=False)
class DrawsPosterior(Posterior):
    """Models in a file, each of them one draw of a posterior that was sampled elsewhere.

    The log's rewards must be those of the models. Where the log's are noisy, those of the models
    are at best means: a row may then lie as far from them as rewards of one pair lie from one
    another in the log, which those of models drawn from that log always do.

    Parameters
    ----------
    file : str
        A multi-model CSV or `.npz`, as `read_models` reads it. All models count alike.
    """

    name: ClassVar[str] = "draws"
    learns: ClassVar[bool] = False
    file: str = ""

    def fit(self, log: TransitionLog) -> FittedDraws:
        """Read the models; they must know what the log shows."""
        if not isinstance(self.file, str) or not self.file:
            raise InputError(
                f"The posterior '{self.name}' needs its file of models: file=models.npz; it is "
                f"{self.file!r}."
            )
        models = read_models(self.file)
        if np.ptp(models.f) > 1e-12:
            raise InputError(
                f"Draws of a posterior count alike; the models of {self.file} have weights. Draw "
                "models by their weights, or solve the file itself."
            )
        name = Path(self.file).name  # where it lies is no part of the fit
        own, shown = models.rewards, log.shown_rewards()
        noises = (n.facts["range"] for n in (shown.notes if shown else ()) if n.code == NOISY)
        frame = Frame(models.states, models.actions, own)
        frame.transitions(
            log, name, max(noises, default=0.0), "draw the models from this log (softrobust sample)"
        )
        of_log = own is not None and any(n.code in ("rewards_of_log", NOISY) for n in own.notes)
        if own is not None and of_log and not own.known[models.available].all():
            models = replace(models, rewards=None)  # `sample` wrote those of a log; this one's do
        return FittedDraws(DrawsPosterior(name), log, models)

    def restore(self, log: Any, arrays: Mapping[str, NDArray[Any]]) -> FittedDraws:
        """The models that were kept."""
        return FittedDraws(self, log, models_from_arrays(arrays, self.file))


@final
@dataclass(frozen=True, slots=True, eq=False, repr=False)
class FittedDraws(FittedPosterior):
    """The models of a file; no other log changes them."""

    settings: DrawsPosterior
    log: TransitionLog | None
    models: ModelSet

    def sample(self, n: int, seed: Seed = 0) -> ModelSet:
        """`n` different models of the file."""
        few = "Choosing, checking and certifying share none: ask for fewer, or draw more elsewhere."
        found = self.models.select(choose(self.pool, n, seed, few))
        return replace(found, f=np.full(n, 1.0 / n))

    @property
    def pool(self) -> int:
        """All models."""
        return self.models.n_models

    def share(self, i: int, n: int = USES) -> FittedDraws:
        """Block i of n."""
        block = np.arange(self.pool)[span(self.pool, i, n)]
        return replace(self, models=self.models.select(block))

    def diagnostics(self) -> Diagnostics:
        """How many there are; how they were drawn is not known."""
        return Diagnostics(exact=False, n_draws=self.pool)

    def arrays(self) -> Arrays:
        """The models."""
        return models_to_arrays(self.models)

    def __repr__(self) -> str:
        return f"FittedDraws({self.pool} models of {self.settings.file})"


def _stan_columns(path: Path) -> dict[str, FloatArray]:
    """name → (n_draws, …) from one CmdStan file; comment lines start with #."""
    lines = (x for x in read_text(path).splitlines() if x and not x.startswith("#"))
    groups: dict[str, list[int]] = {}
    out = {}
    try:
        head, *rows = csv.reader(lines)
        table = np.array(rows, dtype=np.float64).reshape(len(rows), len(head))
        for j, column in enumerate(head):
            groups.setdefault(column.split(".")[0], []).append(j)
        places = {
            name: [tuple(int(k) for k in head[j].split(".")[1:]) for j in columns]
            for name, columns in groups.items()
        }
    except (ValueError, csv.Error) as error:
        raise InputError(f"{path.name} is not a CSV file of Stan ({error}).") from None
    if not rows:
        raise InputError(f"{path.name} holds no draws.")
    for name, index in places.items():
        shape = tuple(max(k) for k in zip(*index, strict=False))
        whole = min(shape, default=1) > 0 and math.prod(shape) == len(index)
        if not whole or set(index) != {tuple(i + 1 for i in k) for k in np.ndindex(shape)}:
            raise InputError(f"{path.name} lacks entries of '{name}', or has some twice.")
        values = np.empty((table.shape[0], *shape))
        for j, at in zip(groups[name], index, strict=True):
            place: Any = (slice(None), *(k - 1 for k in at))
            values[place] = table[:, j]
        out[name] = values
    return out
