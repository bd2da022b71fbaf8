"""Reading a log, telling a log from a file of models, and a log on disk.

log = read_log("log.csv")          # state, action, next_state[, reward, episode, terminal]

A saved log is complete: transitions, labels, rewards and p₀. The `.npz` holds codes and labels; the
Parquet file holds readable columns, with labels, rewards and p₀ in its metadata. Both carry a
format name and version, are written atomically, and are read without unpickling anything.
"""

import base64
import io
import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import IO, Any

import numpy as np

from softrobust._core import files
from softrobust._core.arguments import names_arguments
from softrobust._core.arrays import Rows
from softrobust._core.notes import RECORDED, Note, read_notes
from softrobust._core.schema import parse
from softrobust._core.settings import instance
from softrobust.data import columns as cols
from softrobust.data.columns import LOG_ROLES, Columns, Named
from softrobust.data.continuous import ContinuousLog
from softrobust.data.formula import ENDS, Cells, Formula, action_costs, reward_formula
from softrobust.data.labels import Labels
from softrobust.data.log import GIVEN, GivenRewards, Start, TransitionLog, build_log
from softrobust.data.rewards import rewards_from_arrays, rewards_to_arrays
from softrobust.data.table import Table, dated, opened, read_text
from softrobust.errors import InputError

FORMAT = "softrobust-log"
FORMAT_VERSION = 2  # 1 had sentences where notes are now
_META = b"softrobust"
_ARRAYS = b"softrobust.arrays"


@names_arguments
def read_log(
    source: Any,
    *,
    columns: Mapping[str, str] | None = None,
    states: Labels | Sequence[str | int] | str | Path | None = None,
    actions: Labels | Sequence[str | int] | str | Path | None = None,
    initial: Start | None = None,
    rewards: GivenRewards | None = None,
    reward_table: Any = None,
    reward_default: float | None = None,
    reward: str | None = None,
    cost: Mapping[str, float] | None = None,
) -> TransitionLog:
    """Read a log of transitions; its `notes` say what was assumed.

    Parameters
    ----------
    source : path, TableFile, pandas.DataFrame, pyarrow.Table, other frame or mapping of columns
        A file is CSV (.gz, .xz), Excel, Parquet or NPZ, by its content. Columns: `state, action,
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
    reward : str, optional
        In place of the reward column: another column, a mapping of categories or a linear formula
        (see `formula`), in which next(x) is the column next_x.
    cost : mapping, optional
        Action → what taking it costs; every action must be named.

    Examples
    --------
    >>> log = read_log({"s": ["a", "a"], "action": [0, 1], "s_next": ["a", "b"], "r": [0.0, 1.0]})
    >>> log.n_rows, log.states.names, log.rewards.kind
    (2, ('a', 'b'), 'pair')
    """
    names = _names(states, "state"), _names(actions, "action")
    with opened(source) as table:
        log = _saved(table)
        if log is None:
            log = build_log(_log_table(table, columns, reward), *names, initial)
            log = replace(log, remarks=(*log.remarks, *dated(table, log.remarks, log.n_rows)))
            if table.kind == "frame" and "action" in table.integers(LOG_ROLES, columns):
                log = replace(log, actions=replace(log.actions, integers=True))
        elif reward is not None:
            raise InputError(
                "A saved log carries its own rewards, and no other columns. Leave the reward out.",
                arguments={"reward": ""},
            )
        elif names != (None, None):
            raise InputError("A saved log carries its own labels: give no others with it.")
        elif initial is not None:
            log = log.with_initial(initial)
    if cost is not None:
        paid = np.zeros(log.n_rows) if log.reward is None else log.reward
        log = replace(log, reward=paid - action_costs(cost, list(log.actions))[log.a])
        facts = {"formula": reward if log.reward is None else reward or "the column",
                 "costs": ", ".join(f"{name}: {c:g}" for name, c in cost.items())}  # fmt: skip
        remarks = [note for note in log.remarks if note.code != "rewards_formula"]
        remarks.append(Note("rewards_formula", facts=facts))
        log = replace(log, rewards=log.shown_rewards(), remarks=tuple(remarks))
    if rewards is not None:
        log = log.with_rewards(rewards)
    return log.with_reward_table(reward_table, reward_default)


def _log_table(table: Table, columns: Named, reward: str | None = None) -> Columns:
    """The columns of a log that some other program wrote."""
    if table.kind == "npz" and table.path is not None:  # not ours: its columns are a table
        with files.open_npz(table.path) as file:
            arrays = {name: column for name, column in file.items() if column.ndim == 1}
        with opened(arrays) as frame:
            return _log_table(frame, columns, reward)
    if table.path is not None and kind_of(table) == "models":
        raise InputError(
            f"The file {table.source} has a column 'probability': it describes models, not a log "
            "of transitions. Read it as models; if it is a log, rename that column."
        )
    if reward is None:
        return table.read(LOG_ROLES, columns)
    formula = reward_formula(reward, table.names)
    if formula is None:
        return table.read(LOG_ROLES, {**(columns or {}), "reward": reward})
    return _with_formula(table, columns, formula)


def _with_formula(table: Table, columns: Named, formula: Formula) -> Columns:
    """The columns of a log, with rewards by a formula of other columns of the same rows."""
    roles = [role for role in LOG_ROLES if role is not cols.REWARD]
    place = cols.resolve_columns(table.names, roles, columns, table.source)
    own = {table.names[at]: role for role, at in place.items()}
    needed = [f"next_{t.column}" if t.later else t.column for t in formula.terms if t.column]
    extra = [name for name in dict.fromkeys(needed) if name not in own and name != ENDS]
    for name in extra:
        cols.refuse_absent(name, table.names)
    # Together, so that rows stay in line.
    kinds = [*roles, *(cols.Role(f"cell {name}", (), "label", f"cell {name}") for name in extra)]
    read = table.read(kinds, {**(columns or {}), **{f"cell {name}": name for name in extra}})
    n = read.codes["state"].size

    def look(column: str, later: bool) -> Cells:
        name = f"next_{column}" if later else column
        role = own.get(name, f"cell {name}")
        texts = read.names[role]
        return Cells(read.codes[role], cols.with_points(texts, False) or texts)

    ends = read.flags.get("terminal", np.zeros(n, dtype=bool))
    value = formula.rewards(n, look, ends, read.rows.where)
    if np.isnan(value).any():
        raise InputError(
            f"Every row needs its reward: {read.rows.where(np.isnan(value))} lacks "
            f"a cell of '{formula.text}' ({int(np.isnan(value).sum())} such rows). Fill it in or "
            "remove the row."
        )
    for name in extra:
        del read.codes[f"cell {name}"], read.names[f"cell {name}"]
    read.numbers["reward"] = value
    read.notes.append(Note("rewards_formula", facts={"formula": formula.text, "costs": ""}))
    return read


def kind_of(table: Table) -> str:
    """What an open table holds, by its content: "log", "models", or the name in its `format` key.

    A table with the columns `probability` and a state describes models; any other is taken for a
    log.
    """
    if table.kind == "npz" and table.path is not None:
        return (files.npz_format(table.path) or FORMAT).removeprefix("softrobust-")
    names = set(map(str.casefold, table.names))
    models = "probability" in names and names & {*cols.STATE.aliases, "idstate"}
    return "models" if models else "log"


def read_labels(path: str | Path, noun: str = "label") -> Labels:
    """Read labels from a text file, one per line; blank lines are skipped."""
    names = list(filter(None, map(str.strip, read_text(Path(path)).splitlines())))
    if not names:
        raise InputError(f"The file {Path(path).name} lists no {noun}s. Put one on each line.")
    return Labels(tuple(names), noun=noun)


def _names(given: Labels | Sequence[str | int] | str | Path | None, noun: str) -> Labels | None:
    if given is None:
        return None
    return read_labels(given, noun) if isinstance(given, (str, Path)) else Labels.of(given, noun)


# -------------------------------------------------------------------- saved logs
@names_arguments
def save_log(log: TransitionLog, path: str | Path) -> None:
    """Write a log to `.npz` or `.parquet`, by the ending of the name; `read_log` reads it back."""
    instance("log", log, TransitionLog, hint="Read one by read_log(…).")
    path = Path(path)
    if path.suffix not in (".npz", ".parquet"):
        raise InputError(f"A log is saved as .npz or .parquet: got the name {path.name}.")
    _refuse_no_folder(path)
    with files.atomic_write(path, "wb") as file:
        if path.suffix == ".npz":
            np.savez_compressed(file, allow_pickle=False, **log_to_arrays(log))
        else:
            _write_parquet(log, file)


def _refuse_no_folder(path: Path) -> None:
    if not path.parent.is_dir():
        raise InputError(f"There is no folder {path.parent} to write {path.name} to. Create it.")


def _saved(table: Table) -> TransitionLog | None:
    """The log that `save_log` wrote; None if another program wrote the file."""
    if (path := table.path) is None:
        return None
    with files.rebuilding("log", path):
        if table.kind == "npz" and files.npz_format(path) is not None:
            return log_from_arrays(files.read_npz(path, FORMAT, FORMAT_VERSION), path)
        if table.kind == "parquet" and {_META, _ARRAYS} <= table.metadata.keys():
            return log_from_arrays(_parquet_arrays(table), path)
    return None


def log_to_arrays(log: TransitionLog) -> dict[str, Any]:
    """The arrays that make up a saved log, by name."""
    columns = {name: getattr(log, name) for name in ("s", "a", "s_next", "reward", "episode")}
    head = {"format": FORMAT, "format_version": FORMAT_VERSION, "meta": json.dumps(_meta(log))}
    return head | {k: v for k, v in columns.items() if v is not None} | _more_arrays(log)


def log_from_arrays(file: Mapping[str, Any], path: Path) -> TransitionLog:
    """The inverse of `log_to_arrays`; `path` is named in messages."""
    meta = parse(str(file["meta"]))
    (source,) = read_notes([meta["p0_source"]])
    if source.code == RECORDED:  # version 1: "given by the user", "given in start.csv", …
        words = str(source["text"])
        name = words.removeprefix("given in ")
        source = Note("p0_recorded", facts=source.facts)
        if words.startswith("given"):
            source = Note(GIVEN, facts={"source": None if name == words else name})
    return TransitionLog(
        s=file["s"],
        a=file["a"],
        s_next=file["s_next"],
        states=Labels(tuple(meta["states"]), noun="state"),
        actions=Labels(tuple(meta["actions"]), noun="action"),
        p0=file["p0"],
        p0_source=source,
        reward=file.get("reward"),
        episode=file.get("episode"),
        rewards=rewards_from_arrays(file),
        rows=Rows(path.name),
        remarks=read_notes(meta["remarks"]),
    )


def _meta(log: TransitionLog) -> dict[str, Any]:
    return {
        "format": FORMAT,
        "format_version": FORMAT_VERSION,
        "states": list(log.states),
        "actions": list(log.actions),
        "p0_source": log.p0_source.to_dict(),
        "remarks": [note.to_dict() for note in log.remarks],
    }


def _more_arrays(log: TransitionLog) -> files.Arrays:
    """What a log has beside its columns and names: p₀ and rewards."""
    if log.rewards is not None and log.rewards.kind == "model":
        raise InputError("Rewards that differ by model belong to the models, not to a log.")
    return {"p0": log.p0} | ({} if log.rewards is None else rewards_to_arrays(log.rewards))


def _write_parquet(log: TransitionLog, file: IO[bytes]) -> None:
    import pyarrow as pa
    from pyarrow import parquet

    coded = {"state": (log.s, log.states), "action": (log.a, log.actions)}
    coded["next_state"] = (log.s_next, log.states)
    columns = {
        name: pa.DictionaryArray.from_arrays(codes, pa.array(list(labels), pa.string()))
        for name, (codes, labels) in coded.items()
    }
    for name in ("reward", "episode"):
        if getattr(log, name) is not None:
            columns[name] = pa.array(getattr(log, name))
    packed = io.BytesIO()
    np.savez_compressed(packed, allow_pickle=False, **_more_arrays(log))
    meta = {_META: json.dumps(_meta(log)), _ARRAYS: base64.b64encode(packed.getvalue())}
    parquet.write_table(pa.table(columns).replace_schema_metadata(meta), file, compression="zstd")


def _parquet_arrays(table: Table) -> dict[str, Any]:
    """The arrays of a log in a Parquet file, as those of an `.npz`."""
    meta = json.loads(table.metadata[_META])
    files.check_format(meta["format"], FORMAT, meta["format_version"], FORMAT_VERSION, table.source)
    packed = io.BytesIO(base64.b64decode(table.metadata[_ARRAYS]))
    with np.load(packed, allow_pickle=False) as file:
        arrays: dict[str, Any] = dict(file)
    columns = table.read(LOG_ROLES)
    for name, role in (("s", "state"), ("a", "action"), ("s_next", "next_state")):
        noun = role.removeprefix("next_")
        labels = Labels(tuple(meta[f"{noun}s"]), noun=noun)
        arrays[name] = columns.positions(role, labels, "A transition")
    if columns.groups:
        arrays["episode"] = cols.number_groups(columns.groups["episode"])
    return arrays | columns.numbers | {"meta": table.metadata[_META].decode()}


# -------------------------------------------------------------------- CSV
@names_arguments
def write_log_csv(log: TransitionLog | ContinuousLog, path: str | Path) -> None:
    """Write `[episode,] state, action, next_state[, reward]`, atomically; `read_log` reads it.

    Names of states that the log never visits, and an initial distribution that was given, are not
    part of a table: `save_log` keeps those.
    """
    path = Path(path)
    _refuse_no_folder(path)
    if isinstance(log, ContinuousLog):
        log.save_csv(path)
        return
    columns: dict[str, Any] = {
        "episode": log.episode,
        "state": [log.states[s] for s in log.s],
        "action": [log.actions[a] for a in log.a],
        "next_state": [log.states[s] for s in log.s_next],
        "reward": log.reward,
    }
    files.write_csv(path, {name: x for name, x in columns.items() if x is not None})
