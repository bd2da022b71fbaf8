"""Writing a log made of visits, so that `softrobust solve` reads exactly what was inspected."""

import csv
import shlex
from pathlib import Path
from typing import NamedTuple, final

import numpy as np

from softrobust.data import TransitionLog, save_log, write_log_csv
from softrobust.data.files import atomic_write
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
