"""Writing a log made of visits, so that `softrobust solve` reads exactly what was inspected."""

import csv
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple, final

import numpy as np

from softrobust._core.files import atomic_write
from softrobust.data import TransitionLog, markov_check, read_log, save_log, write_log_csv
from softrobust.data.coding import parse_flag
from softrobust.data.columns import LOG_ROLES, resolve_columns
from softrobust.data.inspection.columns import Column, profile_table
from softrobust.data.inspection.findings import (
    Inspection,
    Section,
    Step,
    behaviour_record,
    behaviour_section,
    coverage_record,
    coverage_section,
    log_findings,
    min_count_flags,
    several,
)
from softrobust.data.source import file_kind
from softrobust.data.table import table_columns
from softrobust.data.visit_report import Ledger
from softrobust.data.visit_rules import join_words
from softrobust.errors import InputError

GAMMA = "0.95"


@final
class Written(NamedTuple):
    """Where a log went, the flags that solving it needs, and what else was written."""

    log: str
    flags: tuple[str, ...]
    files: tuple[str, ...]


def write_log(log: TransitionLog, path: Path, force: bool = False) -> Written:
    """Write a log to .parquet, .npz (both complete) or .csv with its p₀ beside it."""
    suffix = path.suffix.casefold()
    if suffix not in (".csv", ".parquet", ".npz"):
        raise InputError(
            f"A log is written as .csv, .parquet or .npz: got the name '{path.name}'. Choose one "
            "of these endings."
        )
    start = path.with_name(f"{path.stem}_initial.csv")
    for target in (path, start) if suffix == ".csv" else (path,):
        refuse_existing(target, force)
    if suffix != ".csv":
        save_log(log, path)
        return Written(str(path), (), (str(path),))
    write_log_csv(log, path)
    with atomic_write(start, "w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(["state", "probability"])
        for s in np.flatnonzero(log.p0):
            rows.writerow([log.states[int(s)], repr(float(log.p0[s]))])
    return Written(str(path), ("--initial", str(start)), (str(path), str(start)))


def refuse_existing(path: Path, force: bool) -> None:
    """Refuse to write over a file, unless told to."""
    if path.exists() and not force:
        raise InputError(
            f"The file {path} exists already. Choose another name, or give --force to replace it."
        )


def free_name(name: str) -> str:
    """The name, or one with a number, that no file has yet in the folder of the user."""
    path, n = Path(name), 1
    while path.exists():
        n += 1
        path = Path(name).with_name(f"{Path(name).stem}-{n}{Path(name).suffix}")
    return str(path)


def solve_line(path: str, *flags: str, gamma: str | None = GAMMA) -> str:
    """The command that solves a file, into a folder that does not exist yet."""
    words = ["softrobust", "solve", path, *flags]
    words += [] if gamma is None else ["--gamma", gamma]
    return shlex.join([*words, "--out", free_name("run")])


# --------------------------------------------------------------------------------------------------
# A log of transitions: what is in it, what is suspicious, and the command that solves it.


def inspect_log(path: Path, columns: Mapping[str, str] | None = None) -> Inspection:
    """Read a log and say what it holds; one that cannot be read is gone through cell by cell."""
    try:
        log = read_log(path, columns=columns)
    except InputError as error:
        return _unreadable(path, columns, error)
    flags: list[str] = []
    if columns:
        flags = ["--columns", join_words(f"{role}={name}" for role, name in columns.items())]
    flags += min_count_flags(log)
    sections = [Section("The log", tuple(_facts(log)))]
    sections += [coverage_section(log), behaviour_section(log)]
    record: dict[str, Any] = {
        "coverage": coverage_record(log),
        "behaviour": behaviour_record(log),
        "notes": list(log.notes),
        "episodes": None if log.episode is None else int(log.episode.max()) + 1,
    }
    if log.episode is not None:
        markov = markov_check(log)
        sections.append(Section("Is the state enough?", tuple(markov.sentences())))
        record["markov"] = markov.record()
    blocked = ""
    if log.rewards is None:
        blocked = (
            f"{path.name} has no reward column, and a policy needs to know what is good. Add a "
            "column 'reward', or give `softrobust solve` a --reward-table (state,action,reward)."
        )
    return Inspection(
        source=path.name,
        kind="log",
        headline=(
            f"{path.name} is a log of {several(log.n_rows, 'transition')} between "
            f"{several(int(log.visited.sum()), 'state')}, with {several(log.n_actions, 'action')}."
        ),
        sections=sections,
        findings=log_findings(log),
        steps=() if blocked else (Step("Choose a policy", solve_line(str(path), *flags)),),
        blocked=blocked,
        record=record,
    )


def _facts(log: TransitionLog) -> list[str]:
    out = []
    if log.episode is not None:
        sizes = np.bincount(log.episode)
        out.append(
            f"{several(sizes.size, 'episode')} of {sizes.min()} to {sizes.max()} transitions "
            f"(median {np.median(sizes):g})."
        )
    if log.end is not None:
        ends = int((log.s_next == log.end).sum())
        out.append(f"{several(ends, 'transition')} lead to the end of an episode, '(end)'.")
    if log.reward is not None:
        out.append(
            f"Rewards from {log.reward.min():g} to {log.reward.max():g}, mean "
            f"{log.reward.mean():.4g}."
        )
    # The pairs never seen have a section of their own.
    return [*out, *(note for note in log.notes if "were never seen" not in note)]


# -------------------------------------------------------------------- a log that cannot be read
def _unreadable(path: Path, columns: Mapping[str, str] | None, error: InputError) -> Inspection:
    """List every bad cell of a text table; what has no cells to list is the error itself."""
    if file_kind(path) == "npz":
        raise error
    profile = profile_table(path)
    ledger = profile.findings(())
    names = [name.strip() for name in table_columns(path)]
    try:
        position = resolve_columns(names, LOG_ROLES, columns, path.name).position
    except InputError:
        raise error from None
    for role, place in position.items():
        if names[place] in profile.columns:
            _bad_cells(role, profile.columns[names[place]], profile.rows, ledger)
    if not ledger.findings:
        raise error
    return Inspection(
        source=path.name,
        kind="log",
        headline=f"{path.name} is a log of transitions with cells that cannot be used.",
        findings=ledger.findings,
        blocked=str(error),
        record={"columns": {name: column.words for name, column in profile.columns.items()}},
    )


def _bad_cells(role: str, column: Column, rows: Any, ledger: Ledger) -> None:
    missing = np.flatnonzero(column.codes < 0)
    if role == "terminal":
        words = f"{{cell|cells}} of '{column.name}' {{is|are}} neither true nor false"
        odd = [i for i, text in enumerate(column.texts) if parse_flag(text) is None]
        ledger.add("bad_terminal", words, rows, np.flatnonzero(np.isin(column.codes, odd)))
    if role == "reward":
        shown = ", ".join(f"'{column.texts[i]}'" for i in column.not_numbers[:3])
        words = f"{{cell|cells}} of '{column.name}' {{is no number|are no numbers}} ({shown})"
        places = np.flatnonzero(np.isin(column.codes, column.not_numbers))
        ledger.add("bad_reward", words, rows, places)
    words = f"{{cell|cells}} of '{column.name}' {{is|are}} empty"
    ledger.add(f"empty_{role}", words, rows, missing)
