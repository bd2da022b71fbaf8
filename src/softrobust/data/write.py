"""A log as a CSV table that `read_log` reads, and that a person can open."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

from softrobust.data.continuous import ContinuousLog
from softrobust.data.files import atomic_write
from softrobust.data.log import TransitionLog
from softrobust.errors import InputError


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
