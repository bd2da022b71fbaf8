"""Small tables of visits, and how tests look at what became of them."""

from __future__ import annotations

import csv
import io
from typing import Any

from softrobust._core.notes import Note
from softrobust.data import Trajectories, read_trajectories

COLUMNS: dict[str, Any] = {"id": "id", "time": "t", "action": "a"}
REWARDED = "id,t,x,a,r\np,0,lo,u,1\np,1,hi,v,2\np,2,lo,u,4\n"
SMALL = """
id,t,x,a
p,0,lo,u
p,1,hi,v
p,2,lo,u
q,0,hi,u
q,5,hi,
"""


def table(text: str) -> dict[str, list[str | None]]:
    """Columns of a small CSV text; an empty cell is missing."""
    rows = list(csv.DictReader(io.StringIO(text.strip().replace(" ", ""))))
    return {name: [row[name] or None for row in rows] for name in rows[0]}


def read(text: str, **more: Any) -> Trajectories:
    return read_trajectories(table(text), **(COLUMNS | more))


def rows_of(made: Trajectories) -> list[tuple[str, ...]]:
    """Transitions as text: id, state, action, next state[, reward]."""
    log = made.log
    out: list[tuple[str, ...]] = []
    for i in range(log.n_rows):
        row = (
            made.ids[int(made.who[i])],
            log.states[int(log.s[i])],
            log.actions[int(log.a[i])],
            log.states[int(log.s_next[i])],
        )
        out.append(row if log.reward is None else (*row, f"{log.reward[i]:g}"))
    return out


def finding(made: Trajectories, code: str) -> Note:
    return next(note for note in made.report.findings if note.code == code)
