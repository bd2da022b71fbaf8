"""A log on disk, complete: transitions, labels, rewards and p₀, as `.npz` or `.parquet`.

The `.npz` holds codes and labels; the Parquet file holds readable columns, with labels, rewards
and p₀ in its metadata. Both carry a format name and version, are written atomically,
and are read without unpickling anything.
"""

import base64
import io
import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import IO, Any

import numpy as np
import numpy.typing as npt

from softrobust.data.columns import LOG_ROLES
from softrobust.data.files import atomic_write
from softrobust.data.labels import Labels
from softrobust.data.log import TransitionLog
from softrobust.data.npz import (
    DAMAGED,
    Arrays,
    check_format,
    read_npz,
    rewards_from_arrays,
    rewards_to_arrays,
)
from softrobust.data.rows import Rows
from softrobust.errors import InputError

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
