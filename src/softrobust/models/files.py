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

from softrobust._core.arrays import FloatArray, IntArray, seal
from softrobust._core.files import atomic_write, read_npz, write_npz
from softrobust._core.notes import Note
from softrobust.data.columns import ACTION, NEXT_STATE, REWARD, STATE, Columns, Role
from softrobust.data.initial import initial_distribution
from softrobust.data.labels import Labels, order_names
from softrobust.data.rewards import Rewards, rewards_from_arrays, rewards_to_arrays
from softrobust.data.table import Table, opened, read_table
from softrobust.errors import InputError
from softrobust.models.interop import row_rewards
from softrobust.models.model_set import ModelSet

MODELS_FORMAT = "softrobust-models"
FORMAT_VERSION = 1


def save_models(path: str | Path, models: ModelSet) -> None:
    """Write a set of models with all that came with it, atomically."""
    write_npz(path, MODELS_FORMAT, FORMAT_VERSION, models_to_arrays(models))


def load_models(path: str | Path) -> ModelSet:
    """Read what `save_models` wrote."""
    return models_from_arrays(read_npz(path, MODELS_FORMAT, FORMAT_VERSION), path)


def models_to_arrays(models: ModelSet) -> dict[str, NDArray[Any]]:
    """The arrays that make up a `ModelSet`, by name."""
    out: dict[str, NDArray[Any]] = {
        "indptr": models.indptr,
        "next_states": models.next_states,
        "prob": models.prob,
        "f": models.f,
        "states": np.array(list(models.states), dtype=np.str_),
        "actions": np.array(list(models.actions), dtype=np.str_),
        "sinks": np.asarray(models.sinks),
    }
    if models.p0 is not None:
        out["p0"] = models.p0
    if models.gamma is not None:
        out["gamma"] = np.array(models.gamma)
    if models.rewards is not None:
        out |= rewards_to_arrays(models.rewards)
    return out


def models_from_arrays(arrays: Mapping[str, NDArray[Any]], path: str | Path) -> ModelSet:
    """The inverse of `models_to_arrays`; everything is validated again."""
    try:
        return ModelSet(
            indptr=arrays["indptr"],
            next_states=arrays["next_states"],
            prob=seal(arrays["prob"]),  # ours alone: it was read here
            f=arrays["f"],
            states=Labels(tuple(str(x) for x in arrays["states"]), noun="state"),
            actions=Labels(tuple(str(x) for x in arrays["actions"]), noun="action"),
            sinks=arrays["sinks"],
            p0=arrays.get("p0"),
            gamma=float(arrays["gamma"]) if "gamma" in arrays else None,
            rewards=rewards_from_arrays(arrays),
        )
    except InputError:
        raise
    except (KeyError, TypeError, IndexError, ValueError) as error:
        raise InputError(
            f"The file {Path(path).name} lacks or garbles an array of the models ({error}). "
            "Write it again."
        ) from None


MODEL = Role("model", ("idoutcome", "model", "omega"), "label", "model", required=False)
PROBABILITY = Role("probability", ("probability",), "number")
ROLES = (STATE, ACTION, NEXT_STATE, MODEL, PROBABILITY, REWARD)
WEIGHT_ROLES = (MODEL._replace(required=True), Role("weight", ("weight", "f"), "number"))
PARAMETER_ROLES = (
    Role("parameter", ("parameter",), "label", "parameter"),
    Role("value", ("value",), "number"),
)


class _Entries(NamedTuple):
    """Rows of the file in order (pair, next state, model), duplicates summed."""

    pair: IntArray
    s_next: IntArray
    omega: IntArray
    probability: FloatArray
    reward: FloatArray | None


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
    file = Path(path)
    try:
        with opened(file) as table:
            if table.kind == "npz":
                models, names = load_models(file), None
            else:
                models, names = _read_rows(table, normalise)
    except InputError as error:
        if file.name in str(error):
            raise
        raise InputError(f"{file.name}: {error}", arguments=error.arguments) from None
    f = models.f if weights is None else _weights(weights, models.n_models, names)
    p0, notes = models.p0, list(models.notes)
    beside = file.parent / "initial.csv"
    if initial is None and p0 is None and beside.is_file():
        initial = beside
        notes.append(Note("p0_from_beside", facts={"file": beside.name}))
    if initial is not None:
        p0 = initial_distribution(initial, models.states)[0]
    if gamma is None and models.gamma is None:
        gamma = _discount(file.parent / "parameters.csv", notes)
    gamma = models.gamma if gamma is None else gamma
    return replace(models, f=f, p0=p0, gamma=gamma, notes=tuple(notes), normalise=False)


def _read_rows(source: Table, normalise: bool) -> tuple[ModelSet, Labels]:
    table = source.read(ROLES)
    table.refuse_empty("A file of models")
    for role in ("state", "action", "next_state"):
        table.require(role)
    states = order_names(table.names["state"], "state", True)
    actions = order_names(table.names["action"], "action", False)
    if "model" in table.codes:
        table.require("model")
        outcomes = order_names(table.names["model"], "model", False)
        omega = np.asarray(outcomes.positions, dtype=np.int64)[table.codes["model"]]
        names = outcomes.labels
    else:
        omega, names = np.zeros(table.codes["state"].size, dtype=np.int64), Labels.range(1)
    to_state = np.asarray(states.positions, dtype=np.int64)
    S, A, N = len(states.labels), len(actions.labels), len(names)
    s = to_state[table.codes["state"]]
    a = np.asarray(actions.positions, dtype=np.int64)[table.codes["action"]]
    _check_column(table, s, a, states.labels, actions.labels)
    notes = [*table.notes, *states.notes, *actions.notes]
    entries = _entries(
        table, s * A + a, to_state[table.codes["next_state"]], omega, (S, A, N), notes,
        states.labels, actions.labels,
    )  # fmt: skip
    _check_complete(entries, (S, A, N), states.labels, actions.labels, names)
    return _assemble(entries, states.labels, actions.labels, N, notes, normalise), names


def _check_column(
    table: Columns, s: IntArray, a: IntArray, states: Labels, actions: Labels
) -> None:
    p = table.numbers["probability"]
    bad = np.flatnonzero(~((p >= 0) & (p <= 1 + 1e-6)))
    if bad.size:
        i = int(bad[0])
        raise InputError(
            f"A probability must lie in [0, 1]: {table.rows.where(i)} (state '{states[s[i]]}', "
            f"action '{actions[a[i]]}') has {p[i]:g}. Check the column."
        )


def _entries(
    table: Columns,
    pair: IntArray,
    s_next: IntArray,
    omega: IntArray,
    shape: tuple[int, int, int],
    notes: list[Note],
    states: Labels,
    actions: Labels,
) -> _Entries:
    """Sort the rows; rows of one (s, a, s′, ω) are summed if their rewards agree."""
    S, A, N = shape
    key = (pair * S + s_next) * N + omega
    order = np.argsort(key, kind="stable")
    key = key[order]
    first = np.concatenate([[True], key[1:] != key[:-1]])
    starts = np.flatnonzero(first)
    probability = np.add.reduceat(table.numbers["probability"][order], starts)
    reward = table.numbers.get("reward")
    if reward is not None:
        sorted_reward = reward[order]
        own = sorted_reward[starts][np.cumsum(first) - 1]
        off = np.abs(sorted_reward - own) > 1e-9 * np.maximum(np.abs(own), np.abs(sorted_reward))
        if off.any():
            i = int(np.flatnonzero(off)[0])
            there = int(starts[np.cumsum(first)[i] - 1])
            s, a = divmod(int(pair[order[i]]), A)
            raise InputError(
                f"A transition has one reward: {table.rows.where(int(order[there]))} and "
                f"{table.rows.where(int(order[i]))} are the same (state '{states[s]}', action "
                f"'{actions[a]}', next state '{states[int(s_next[order[i]])]}', one model) with "
                f"rewards {own[i]:g} and {sorted_reward[i]:g}. Make them one row."
            )
        reward = sorted_reward[starts]
    summed = key.size - starts.size
    if summed:
        notes.append(Note("duplicate_rows_summed", facts={"n_rows": int(summed)}))
    kept = key[starts]
    triple, model = kept // N, kept % N
    return _Entries(triple // S, triple % S, model, probability, reward)


def _check_complete(
    e: _Entries, shape: tuple[int, int, int], states: Labels, actions: Labels, names: Labels
) -> None:
    """A pair must be in all models or in none."""
    S, A, N = shape
    present = np.zeros((S * A, N), dtype=bool)
    present[e.pair, e.omega] = True
    torn = np.flatnonzero(present.any(axis=1) & ~present.all(axis=1))
    if torn.size:
        k = int(torn[0])
        s, a = divmod(k, A)
        absent = int(np.flatnonzero(~present[k])[0])
        raise InputError(
            f"A pair must have transitions in every model or in none: state '{states[s]}', action "
            f"'{actions[a]}' is in {int(present[k].sum())} of {N} models and missing in model "
            f"{names[absent]} ({torn.size} such pairs). Add its rows or drop the pair."
        )


def _assemble(
    e: _Entries, states: Labels, actions: Labels, N: int, notes: list[Note], normalise: bool
) -> ModelSet:
    S, A = len(states), len(actions)
    triple = e.pair * S + e.s_next
    first = np.concatenate([[True], triple[1:] != triple[:-1]])
    column = np.cumsum(first) - 1  # of each entry, among the shared next states
    pair = e.pair[first]
    widths = np.bincount(pair, minlength=S * A)
    indptr = np.concatenate([[0], np.cumsum(widths)])
    at = indptr[e.pair] * N + e.omega * widths[e.pair] + column - indptr[e.pair]
    prob = np.zeros(pair.size * N)
    prob[at] = e.probability
    return ModelSet(
        indptr=indptr,
        next_states=e.s_next[first].astype(np.int32),
        prob=seal(prob),
        f=np.full(N, 1.0 / N),
        states=states,
        actions=actions,
        rewards=None if e.reward is None else _rewards(e, first, at, prob.size, S, A),
        notes=tuple(notes),
        normalise=normalise,
    )


def _rewards(
    e: _Entries, first: NDArray[np.bool_], at: IntArray, size: int, S: int, A: int
) -> Rewards:
    """r(s, a, s′) where the models agree on it, else r(s, a, s′, ω)."""
    assert e.reward is not None
    if np.array_equal(e.reward, e.reward[first][np.cumsum(first) - 1]):
        s, a = np.divmod(e.pair[first], A)
        return Rewards.of_triples(s, a, e.s_next[first], e.reward[first], S, A, default=0.0)
    flat = np.zeros(size)
    flat[at] = e.reward
    return Rewards.of_models(flat, S, A)


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


def _discount(path: Path, notes: list[Note]) -> float | None:
    if not path.is_file():
        return None
    table = read_table(path, PARAMETER_ROLES)
    names = table.names["parameter"]
    for code, value in zip(table.codes["parameter"], table.numbers["value"], strict=True):
        if names[code].casefold() == "discount":
            facts = {"gamma": float(value), "file": path.name}
            notes.append(Note("gamma_from_beside", facts=facts))
            return float(value)
    return None


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
        for s in range(models.n_states):
            for a in range(models.n_actions):
                _write_pair(rows, models, table, s, a)
        file.flush()
        file.detach()  # the context managers close what they opened


def _packed(raw: IO[bytes], suffix: str) -> AbstractContextManager[Any]:
    """The raw file, compressed by its ending."""
    if suffix == ".gz":
        return gzip.GzipFile(fileobj=raw, mode="wb", mtime=0)
    return lzma.LZMAFile(raw, "wb") if suffix == ".xz" else nullcontext(raw)


def _write_pair(rows: Any, models: ModelSet, table: Rewards | None, s: int, a: int) -> None:
    columns, block = models.block(s, a)
    for omega in range(models.n_models):
        reward = None if table is None else row_rewards(models, table, s, a, omega)
        for j in np.flatnonzero(block[omega]):
            row = [models.states[s], models.actions[a], models.states[columns[j]], omega]
            row.append(repr(float(block[omega, j])))
            rows.writerow(row if reward is None else [*row, repr(float(reward[j]))])
