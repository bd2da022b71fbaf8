"""Files of models: our own `.npz` (plain arrays, no pickles), and tables of several models.

A table has one row per (s, a, s′, ω), as published for multi-model MDPs. Columns in any order:
`idstatefrom, idaction, idstateto, idoutcome, probability[, reward]`; without `idoutcome` the file
is one model. Beside it, `initial.csv` (idstate, probability) and `parameters.csv` (parameter,
value; a row `discount`) are used when present.
"""

from __future__ import annotations

import csv
import gzip
import io
import lzma
from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import IO, Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from softrobust._core.arguments import names_arguments
from softrobust._core.arrays import FloatArray, IntArray, Rows, seal
from softrobust._core.files import atomic_write, read_npz, rebuilding, write_npz
from softrobust._core.notes import Note
from softrobust._core.settings import instance
from softrobust.data.columns import ACTION, NEXT_STATE, REWARD, STATE, Role
from softrobust.data.labels import Labels, order_names
from softrobust.data.log import initial_distribution
from softrobust.data.rewards import Rewards, rewards_from_arrays, rewards_to_arrays
from softrobust.data.table import Table, opened, read_table
from softrobust.errors import InputError
from softrobust.models.interop import row_rewards
from softrobust.models.model_set import ModelSet

MODELS_FORMAT = "softrobust-models"
FORMAT_VERSION = 1


@names_arguments
def save_models(path: str | Path, models: ModelSet) -> None:
    """Write a set of models with all that came with it, atomically."""
    instance("models", models, ModelSet, hint="Call save_models(path, models).")
    write_npz(path, MODELS_FORMAT, FORMAT_VERSION, models_to_arrays(models))


def load_models(path: str | Path) -> ModelSet:
    """Read what `save_models` wrote."""
    return models_from_arrays(read_npz(path, MODELS_FORMAT, FORMAT_VERSION), path)


def models_to_arrays(models: ModelSet) -> dict[str, NDArray[Any]]:
    """The arrays that make up a `ModelSet`, by name."""
    names = ("indptr", "next_states", "prob", "f", "states", "actions", "sinks", "p0", "gamma")
    held = {name: getattr(models, name) for name in names}
    out = {
        name: np.asarray(list(value) if isinstance(value, Labels) else value)
        for name, value in held.items()
        if value is not None
    }
    return out if models.rewards is None else out | rewards_to_arrays(models.rewards)


def models_from_arrays(arrays: Mapping[str, NDArray[Any]], path: str | Path) -> ModelSet:
    """The inverse of `models_to_arrays`; everything is validated again."""
    with rebuilding("models", path):
        prob = seal(arrays["prob"])  # ours alone: it was read here
        stored = (arrays["indptr"], arrays["next_states"], prob, arrays["f"])
        states = Labels(tuple(map(str, arrays["states"])), noun="state")
        actions = Labels(tuple(map(str, arrays["actions"])), noun="action")
        rewards, p0, sinks = rewards_from_arrays(arrays), arrays.get("p0"), arrays["sinks"]
        gamma = float(arrays["gamma"]) if "gamma" in arrays else None
        return ModelSet(*stored, states, actions, rewards, p0, gamma, sinks)


MODEL = Role("model", ("idoutcome", "model", "omega"), "label", "model", required=False)
PROBABILITY = Role("probability", ("probability",), "number")
ROLES = (STATE, ACTION, NEXT_STATE, MODEL, PROBABILITY, REWARD)
WEIGHT_ROLES = (MODEL._replace(required=True), Role("weight", ("weight", "f"), "number"))
PARAMETER_ROLES = (
    Role("parameter", ("parameter",), "label", "parameter"),
    Role("value", ("value",), "number"),
)


class _Entries(NamedTuple):
    """Rows of a file of models: names, and for every row its indices, probability and reward."""

    states: Labels
    actions: Labels
    names: Labels  # of the models
    pair: IntArray
    s_next: IntArray
    omega: IntArray
    probability: FloatArray
    reward: FloatArray | None

    def place(self, i: int) -> str:
        """The pair of row i, for messages."""
        s, a = divmod(int(self.pair[i]), len(self.actions))
        return f"state '{self.states[s]}', action '{self.actions[a]}'"


@names_arguments
def read_models(
    path: str | Path,
    *,
    weights: str | Path | ArrayLike | None = None,
    initial: Any = None,
    gamma: float | None = None,
    normalise: bool = False,
) -> ModelSet:
    """Read models from a multi-model CSV (.gz, .xz, Parquet) or a `.npz` of `save_models`.

    Parameters
    ----------
    weights : path or array, optional
        A table `idoutcome, weight`, or one weight per model; equal weights by default.
    initial : path, array or mapping, optional
        p₀; by default `initial.csv` beside the file, if it is there.
    gamma : float, optional
        By default the row `discount` of `parameters.csv` beside the file, if it is there.
    normalise : bool
        Accept row sums off by up to 1e-6 and divide by them.
    """
    instance("path", path, str, Path, hint="Give the name of a file.")
    file = Path(path)
    try:
        with opened(file) as source:
            ours = source.kind == "npz"
            models, outcomes = (load_models(file), None) if ours else _read_rows(source, normalise)
    except InputError as error:
        if file.name in str(error):
            raise
        raise InputError(f"{file.name}: {error}", arguments=error.arguments) from None
    f = models.f if weights is None else _weights(weights, models.n_models, outcomes)
    p0, notes = models.p0, list(models.notes)
    beside = file.parent / "initial.csv"
    if initial is None and p0 is None and beside.is_file():
        initial = beside
        notes.append(Note("p0_from_beside", facts={"file": beside.name}))
    if initial is not None:
        p0 = initial_distribution(initial, models.states)[0]
    gamma = models.gamma if gamma is None else gamma
    beside = file.parent / "parameters.csv"
    if gamma is None and beside.is_file():
        table = read_table(beside, PARAMETER_ROLES)
        names = [table.names["parameter"][code].casefold() for code in table.codes["parameter"]]
        if "discount" in names:
            gamma = float(table.numbers["value"][names.index("discount")])
            facts = {"gamma": gamma, "file": beside.name}
            notes.append(Note("gamma_from_beside", facts=facts))
    return replace(models, f=f, p0=p0, gamma=gamma, notes=tuple(notes), normalise=False)


def _read_rows(source: Table, normalise: bool) -> tuple[ModelSet, Labels]:
    """The models of a table, and their names."""
    table = source.read(ROLES)
    table.refuse_empty("A file of models")
    notes, n_rows = list(table.notes), table.codes["state"].size
    labels, index = {"model": Labels.range(1)}, {"model": np.zeros(n_rows, dtype=np.int64)}
    for role, codes in table.codes.items():
        table.require(role)
        noun = "state" if role == "next_state" else role
        ordered = order_names(table.names[role], noun, fill=noun == "state")
        labels[role] = ordered.labels
        index[role] = np.asarray(ordered.positions, dtype=np.int64)[codes]
        notes += ordered.notes if role in ("state", "action") else ()
    e = _Entries(
        labels["state"], labels["action"], labels["model"],
        index["state"] * len(labels["action"]) + index["action"], index["next_state"],
        index["model"], table.numbers["probability"], table.numbers.get("reward"),
    )  # fmt: skip
    bad = np.flatnonzero(~((e.probability >= 0) & (e.probability <= 1 + 1e-6)))
    if bad.size:
        i = int(bad[0])
        raise InputError(
            f"A probability must lie in [0, 1]: {table.rows.where(i)} ({e.place(i)}) has "
            f"{e.probability[i]:g}. Check the column."
        )
    return _assemble(_merged(e, table.rows, notes), notes, normalise), e.names


def _merged(e: _Entries, rows: Rows, notes: list[Note]) -> _Entries:
    """In order of (pair, next state, model); rows of one are summed if their rewards agree."""
    key = (e.pair * len(e.states) + e.s_next) * len(e.names) + e.omega
    order = np.argsort(key, kind="stable")
    first = np.concatenate([[True], np.diff(key[order]) > 0])
    starts, entry = np.flatnonzero(first), np.cumsum(first) - 1
    kept = order[starts]
    if e.reward is not None:
        reward, own = e.reward[order], e.reward[kept][entry]
        off = np.abs(reward - own) > 1e-9 * np.maximum(np.abs(own), np.abs(reward))
        if off.any():
            at = int(np.argmax(off))
            i, there = int(order[at]), int(kept[entry[at]])
            raise InputError(
                f"A transition has one reward: {rows.where(there)} and {rows.where(i)} are the "
                f"same ({e.place(i)}, next state '{e.states[int(e.s_next[i])]}', one model) with "
                f"rewards {own[at]:g} and {reward[at]:g}. Make them one row."
            )
    if order.size > starts.size:
        facts = {"n_rows": order.size - starts.size}
        notes.append(Note("duplicate_rows_summed", facts=facts))
    return e._replace(
        pair=e.pair[kept],
        s_next=e.s_next[kept],
        omega=e.omega[kept],
        probability=np.add.reduceat(e.probability[order], starts),
        reward=None if e.reward is None else e.reward[kept],
    )


def _assemble(e: _Entries, notes: list[Note], normalise: bool) -> ModelSet:
    """The models of merged entries; a pair must be in all models or in none."""
    S, A, N = len(e.states), len(e.actions), len(e.names)
    present = np.zeros((S * A, N), dtype=bool)
    present[e.pair, e.omega] = True
    torn = np.flatnonzero(present.any(axis=1) & ~present.all(axis=1))
    if torn.size:
        k = int(torn[0])
        raise InputError(
            "A pair must have transitions in every model or in none: "
            f"{e.place(int(np.argmax(e.pair == k)))} is in {int(present[k].sum())} of {N} models "
            f"and missing in model {e.names[int(np.argmin(present[k]))]} ({torn.size} such pairs). "
            "Add its rows or drop the pair."
        )
    triple = e.pair * S + e.s_next
    first = np.concatenate([[True], triple[1:] != triple[:-1]])
    column = np.cumsum(first) - 1  # of each entry, among the shared next states
    pair, to = e.pair[first], e.s_next[first]
    widths = np.bincount(pair, minlength=S * A)
    indptr = np.concatenate([[0], np.cumsum(widths)])
    at = indptr[e.pair] * N + e.omega * widths[e.pair] + column - indptr[e.pair]
    prob = np.zeros(pair.size * N)
    prob[at] = e.probability
    rewards = None
    if e.reward is not None and np.array_equal(e.reward, e.reward[first][column]):
        s, a = np.divmod(pair, A)  # the models agree on r(s, a, s′)
        rewards = Rewards.of_triples(s, a, to, e.reward[first], S, A, default=0.0)
    elif e.reward is not None:
        flat = np.zeros(prob.size)
        flat[at] = e.reward
        rewards = Rewards.of_models(flat, S, A)
    stored, told = (indptr, to.astype(np.int32), seal(prob), np.full(N, 1.0 / N)), tuple(notes)
    return ModelSet(*stored, e.states, e.actions, rewards, notes=told, normalise=normalise)


def _weights(given: str | Path | ArrayLike, n_models: int, names: Labels | None) -> FloatArray:
    if not isinstance(given, (str, Path)):
        f = np.asarray(given, dtype=np.float64)
        if f.shape != (n_models,):
            raise InputError(f"{n_models} models need as many weights; got shape {f.shape}.")
        return f
    table = read_table(given, WEIGHT_ROLES)
    labels = Labels.range(n_models, "model") if names is None else names
    omega = table.positions("model", labels, "A weight")
    table.refuse_twice(omega, "A weight")
    f = np.full(n_models, np.nan)
    f[omega] = table.numbers["weight"]
    missing = np.flatnonzero(np.isnan(f))
    if missing.size:
        raise InputError(
            f"Every model needs a weight: model '{labels[missing[0]]}' has none in "
            f"{Path(given).name} ({missing.size} such models). A weight of 0 leaves a model out."
        )
    return f


@names_arguments
def write_models_csv(path: str | Path, models: ModelSet, rewards: Rewards | None = None) -> None:
    """Write a multi-model CSV (plain, .gz or .xz by its ending), atomically; zeros are left out.

    Weights are not part of this format: write them beside it as `idoutcome,weight`.
    """
    table = models.rewards if rewards is None else rewards
    header = ["idstatefrom", "idaction", "idstateto", "idoutcome", "probability"]
    with atomic_write(path, "wb") as raw, _packed(raw, Path(path).suffix) as packed:
        file = io.TextIOWrapper(packed, encoding="utf-8", newline="")
        rows = csv.writer(file, lineterminator="\n")
        rows.writerow(header if table is None else [*header, "reward"])
        for s, a, omega in np.ndindex(models.n_states, models.n_actions, models.n_models):
            columns, block = models.block(s, a)
            reward = None if table is None else row_rewards(models, table, s, a, omega)
            for j in np.flatnonzero(block[omega]):
                row = [models.states[s], models.actions[a], models.states[columns[j]], omega]
                row.append(repr(float(block[omega, j])))
                rows.writerow(row if reward is None else [*row, repr(float(reward[j]))])
        file.flush()
        file.detach()  # the context managers close what they opened


def _packed(raw: IO[bytes], suffix: str) -> AbstractContextManager[Any]:
    """The raw file, compressed by its ending."""
    if suffix == ".gz":
        return gzip.GzipFile(fileobj=raw, mode="wb", mtime=0)
    return lzma.LZMAFile(raw, "wb") if suffix == ".xz" else nullcontext(raw)
