"""Reading a log, and telling a log from a file of models.

log = read_log("log.csv")          # state, action, next_state[, reward, episode, terminal]
"""

from __future__ import annotations

import base64
import csv
import io
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import IO, Any

import numpy as np
import numpy.typing as npt

from softrobust._core.arrays import Rows
from softrobust._core.files import (
    DAMAGED,
    Arrays,
    atomic_write,
    check_format,
    npz_columns,
    npz_format,
    read_npz,
)
from softrobust.data.build import build_log
from softrobust.data.columns import LOG_ROLES
from softrobust.data.continuous import ContinuousLog
from softrobust.data.labels import Labels
from softrobust.data.log import TransitionLog
from softrobust.data.rewards import Rewards, rewards_from_arrays, rewards_to_arrays
from softrobust.data.source import file_kind
from softrobust.data.table import read_table, table_columns
from softrobust.errors import InputError


def read_log(
    source: Any,
    *,
    columns: Mapping[str, str] | None = None,
    states: Labels | Sequence[str | int] | str | Path | None = None,
    actions: Labels | Sequence[str | int] | str | Path | None = None,
    initial: Mapping[str | int, float] | npt.ArrayLike | str | Path | None = None,
    rewards: Rewards | Callable[..., float] | npt.ArrayLike | None = None,
    reward_table: Any = None,
    reward_default: float | None = None,
) -> TransitionLog:
    """Read a log of transitions.

    Parameters
    ----------
    source : path, pandas.DataFrame, pyarrow.Table or mapping of columns
        A file is CSV (.gz, .xz), Parquet or NPZ, by its content. Columns: `state, action,
        next_state`, and optionally `reward, episode, terminal`, under these names or aliases.
    columns : mapping, optional
        Role → column name, e.g. ``{"state": "site"}``, for names that are no alias.
    states, actions : labels, or a path to a file with one label per line, optional
        Order of the labels; may add unvisited ones. A label of the log that is not listed is an
        error.
    initial : array, mapping or path, optional
        p₀. Without it: the episode starts if there is an episode column, else uniform over
        visited states.
    rewards : Rewards, callable or array, optional
        Rewards that replace the reward column.
    reward_table : path or table, optional
        Columns `state, action, reward[, next_state]`; goes before the reward column.
    reward_default : float, optional
        Reward of pairs whose reward is known from nowhere else.

    Returns
    -------
    TransitionLog
        Its `notes` say what was assumed.

    Examples
    --------
    >>> log = read_log({"s": ["a", "a"], "action": [0, 1], "s_next": ["a", "b"], "r": [0.0, 1.0]})
    >>> log.n_rows, log.states.names, log.rewards.kind
    (2, ('a', 'b'), 'pair')
    """
    options: dict[str, Any] = {
        "states": _names(states, "state"),
        "actions": _names(actions, "action"),
        "initial": initial,
        "rewards": rewards,
        "reward_table": reward_table,
        "reward_default": reward_default,
    }
    if isinstance(source, (str, Path)):
        path = Path(source)
        kind = file_kind(path)
        if kind == "npz":
            if npz_format(path) is not None:
                return _refit(load_log(path), options)
            source = npz_columns(path)
        elif kind == "parquet" and (saved := saved_in_parquet(path)) is not None:
            return _refit(saved, options)
        else:
            _refuse_models(path)
    return build_log(read_table(source, LOG_ROLES, columns), **options)


def sniff(path: str | Path) -> str:
    """Return what a file holds, by its content: "log", "models", or the name in its `format` key.

    A table with a column `probability` describes models; any other table is taken for a log.
    """
    path = Path(path)
    if file_kind(path) == "npz":
        return (npz_format(path) or "softrobust-log").removeprefix("softrobust-")
    names = {name.strip().casefold() for name in table_columns(path)}
    return "models" if "probability" in names else "log"


def read_labels(path: str | Path, noun: str = "label") -> Labels:
    """Read labels from a text file, one per line; blank lines are skipped."""
    from softrobust.data.source import text_of

    names = [line.strip() for line in text_of(Path(path)).splitlines()]
    names = [name for name in names if name]
    if not names:
        raise InputError(f"The file {Path(path).name} lists no {noun}s. Put one on each line.")
    return Labels(tuple(names), noun=noun)


def _names(given: Labels | Sequence[str | int] | str | Path | None, noun: str) -> Labels | None:
    if given is None:
        return None
    return read_labels(given, noun) if isinstance(given, (str, Path)) else Labels.of(given, noun)


def _refuse_models(path: Path) -> None:
    if sniff(path) == "models":
        raise InputError(
            f"The file {path.name} has a column 'probability': it describes models, not a log of "
            "transitions. Read it as models; if it is a log, rename that column."
        )


def _refit(log: TransitionLog, options: Mapping[str, Any]) -> TransitionLog:
    """Apply the options to a saved log, which carries its own labels."""
    if options["states"] is not None or options["actions"] is not None:
        raise InputError("A saved log carries its own labels: give no others with it.")
    if options["initial"] is not None:
        log = log.with_initial(options["initial"])
    if options["rewards"] is not None:
        log = log.with_rewards(options["rewards"])
    return log.with_reward_table(options["reward_table"], options["reward_default"])


# --------------------------------------------------------------------------------------------------
# A log on disk, complete: transitions, labels, rewards and p₀, as `.npz` or `.parquet`.
#
# The `.npz` holds codes and labels; the Parquet file holds readable columns, with labels, rewards
# and p₀ in its metadata. Both carry a format name and version, are written atomically,
# and are read without unpickling anything.

FORMAT = "softrobust-log"
FORMAT_VERSION = 1
_META = b"softrobust"


def save_log(log: TransitionLog, path: str | Path) -> None:
    """Write a log to `.npz` or `.parquet`, by the ending of the name; `read_log` reads it back."""
    path = Path(path)
    if path.suffix not in (".npz", ".parquet"):
        raise InputError(f"A log is saved as .npz or .parquet: got the name {path.name}.")
    if not path.parent.is_dir():
        raise InputError(f"There is no folder {path.parent} to write {path.name} to. Create it.")
    with atomic_write(path, "wb") as file:
        if path.suffix == ".npz":
            np.savez_compressed(file, allow_pickle=False, **log_to_arrays(log))
        else:
            _write_parquet(log, file)


def load_log(path: Path) -> TransitionLog:
    """Read a log from the `.npz` that `save_log` wrote."""
    arrays = read_npz(path, FORMAT, FORMAT_VERSION)
    try:
        return log_from_arrays(arrays, path)
    except InputError:
        raise
    except KeyError as error:
        raise InputError(
            f"The saved log {path.name} is incomplete: {error.args[0]} is missing. Save it again."
        ) from None
    except (TypeError, ValueError, IndexError, AttributeError, OverflowError) as error:
        raise InputError(
            f"The saved log {path.name} is damaged: one of its arrays cannot be read "
            f"({str(error)[:160]}). Save it again."
        ) from None


# -------------------------------------------------------------------- .npz
def log_to_arrays(log: TransitionLog) -> dict[str, Any]:
    """The arrays that make up a saved log, by name."""
    arrays: dict[str, Any] = {
        "format": FORMAT,
        "format_version": FORMAT_VERSION,
        "s": log.s,
        "a": log.a,
        "s_next": log.s_next,
        "p0": log.p0,
        "meta": json.dumps(_meta(log)),
    }
    for name in ("reward", "episode"):
        if getattr(log, name) is not None:
            arrays[name] = getattr(log, name)
    return arrays | _reward_arrays(log)


def log_from_arrays(file: Mapping[str, Any], path: Path) -> TransitionLog:
    """The inverse of `log_to_arrays`; `path` is named in messages."""
    meta = json.loads(str(file["meta"]))
    return TransitionLog(
        s=file["s"],
        a=file["a"],
        s_next=file["s_next"],
        states=Labels(tuple(meta["states"]), noun="state"),
        actions=Labels(tuple(meta["actions"]), noun="action"),
        p0=file["p0"],
        p0_source=meta["p0_source"],
        reward=file.get("reward"),
        episode=file.get("episode"),
        rewards=rewards_from_arrays(file),
        rows=Rows(path.name),
        remarks=tuple(meta["remarks"]),
    )


def _meta(log: TransitionLog) -> dict[str, Any]:
    return {
        "format": FORMAT,
        "format_version": FORMAT_VERSION,
        "states": list(log.states),
        "actions": list(log.actions),
        "p0_source": log.p0_source,
        "remarks": list(log.remarks),
    }


def _reward_arrays(log: TransitionLog) -> Arrays:
    if log.rewards is None:
        return {}
    if log.rewards.kind == "model":
        raise InputError("Rewards that differ by model belong to the models, not to a log.")
    return rewards_to_arrays(log.rewards)


# -------------------------------------------------------------------- Parquet
def _write_parquet(log: TransitionLog, file: IO[bytes]) -> None:
    import pyarrow as pa
    from pyarrow import parquet

    def named(codes: npt.NDArray[np.int32], labels: Labels) -> Any:
        return pa.DictionaryArray.from_arrays(codes, pa.array(list(labels), pa.string()))

    columns = {
        "state": named(log.s, log.states),
        "action": named(log.a, log.actions),
        "next_state": named(log.s_next, log.states),
    }
    for name in ("reward", "episode"):
        if getattr(log, name) is not None:
            columns[name] = pa.array(getattr(log, name))
    packed = io.BytesIO()
    np.savez_compressed(packed, allow_pickle=False, p0=log.p0, **_reward_arrays(log))
    meta = {
        _META: json.dumps(_meta(log)).encode(),
        _META + b".arrays": base64.b64encode(packed.getvalue()),
    }
    parquet.write_table(pa.table(columns).replace_schema_metadata(meta), file, compression="zstd")


def saved_in_parquet(path: Path) -> TransitionLog | None:
    """Read a log from the Parquet file that `save_log` wrote; None if another program wrote it."""
    from softrobust.data.build import build_log
    from softrobust.data.table import parquet_file, read_table

    with parquet_file(path) as file:
        found = file.schema_arrow.metadata or {}
    if _META not in found or _META + b".arrays" not in found:
        return None
    try:
        meta = json.loads(found[_META])
        check_format(meta["format"], FORMAT, meta["format_version"], FORMAT_VERSION, path)
        packed = io.BytesIO(base64.b64decode(found[_META + b".arrays"]))
        with np.load(packed, allow_pickle=False) as arrays:
            p0 = arrays["p0"]
            rewards = rewards_from_arrays(arrays)
        states, actions = tuple(meta["states"]), tuple(meta["actions"])
        p0_source, remarks = str(meta["p0_source"]), tuple(meta["remarks"])
    except InputError:
        raise
    except (*DAMAGED, ValueError):
        raise InputError(
            f"The metadata of the saved log {path.name} is damaged. Save the log again."
        ) from None
    columns = read_table(path, LOG_ROLES)
    reward = columns.numbers.pop("reward", None)
    log = build_log(
        columns,
        states=Labels(states, noun="state"),
        actions=Labels(actions, noun="action"),
        initial=p0,
    )
    return replace(log, reward=reward, rewards=rewards, p0_source=p0_source, remarks=remarks)


# --------------------------------------------------------------------------------------------------
# A log as a CSV table that `read_log` reads, and that a person can open.


def write_log_csv(log: TransitionLog | ContinuousLog, path: str | Path) -> None:
    """Write `[episode,] state, action, next_state[, reward]`, atomically.

    Names of states that the log never visits, and an initial distribution that was given, are not
    part of a table: `save_log` keeps those.
    """
    path = Path(path)
    if not path.parent.is_dir():
        raise InputError(f"There is no folder {path.parent} to write {path.name} to. Create it.")
    if isinstance(log, ContinuousLog):
        log.save_csv(path)
        return
    columns: dict[str, list[Any]] = {}
    if log.episode is not None:
        columns["episode"] = log.episode.tolist()
    columns["state"] = [log.states[int(s)] for s in log.s]
    columns["action"] = [log.actions[int(a)] for a in log.a]
    columns["next_state"] = [log.states[int(s)] for s in log.s_next]
    if log.reward is not None:
        columns["reward"] = log.reward.tolist()
    with atomic_write(path, "w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(columns)
        rows.writerows(zip(*columns.values(), strict=True))
