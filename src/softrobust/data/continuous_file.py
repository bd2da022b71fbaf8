"""Logs of vectors on disk: a CSV table with columns x…, action, next_x…, and what else is known."""

from __future__ import annotations

import csv
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import final

import numpy as np

from softrobust.data.arrays import BoolArray, CodeArray, FloatArray
from softrobust.data.continuous import NEXT, ContinuousLog
from softrobust.data.labels import Labels
from softrobust.data.rows import Rows
from softrobust.errors import InputError

ROLES = ("action", "episode", "reward", "terminal")
TRUE, FALSE = ("true", "yes"), ("false", "no")
MISSING = ("", "nan")  # "none" may be an action
WHOLE = re.compile(r"-?(0|[1-9]\d{0,7})")


def read_continuous_log(
    path: str | Path,
    actions: Labels | Sequence[str | int] | None = None,
    columns: Mapping[str, str] | None = None,
) -> ContinuousLog:
    """Read a CSV file with columns x…, action, next_x…[, episode, reward, terminal].

    Parameters
    ----------
    actions : names of the actions, optional
        Any other is an error; without them every name that occurs is an action.
    columns : mapping role → column, optional
        For files that call action, episode, reward or terminal something else.
    """
    path = Path(path)
    head, rows, where = _cells(path)
    role = _roles(path.name, head, columns)
    variables = [name.removeprefix(NEXT) for name in head if name.startswith(NEXT) and name != NEXT]
    lacking = [name for name in (*variables, role["action"]) if name not in head]
    if not variables or lacking:
        raise InputError(
            f"{path.name} must have columns x, next_x for every variable and 'action': "
            + (f"'{lacking[0]}' is missing." if variables else "no column starts with 'next_'.")
        )
    cells = _Cells({name: [row[j] for row in rows] for j, name in enumerate(head)}, where)
    return ContinuousLog.from_arrays(
        np.column_stack([cells.numbers(name) for name in variables]),
        cells.words(role["action"]),
        np.column_stack([cells.numbers(NEXT + name) for name in variables]),
        cells.numbers(role["reward"]) if role["reward"] in head else None,
        cells.codes(role["episode"]) if role["episode"] in head else None,
        cells.truths(role["terminal"]) if role["terminal"] in head else None,
        variables=variables,
        action_names=actions,
        source=where,
    )


def _cells(path: Path) -> tuple[list[str], list[list[str]], Rows]:
    """The header, the rows that are not empty, and where they stand."""
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            table = [[cell.strip() for cell in row] for row in csv.reader(file)]
    except FileNotFoundError:
        raise InputError(f"There is no file {path}. Check the name and the folder.") from None
    except (UnicodeDecodeError, csv.Error) as error:
        raise InputError(f"{path.name} is not a CSV file in UTF-8 ({error}).") from None
    head = table[0] if table else []
    twice = [name for i, name in enumerate(head) if name in head[:i]]
    if twice:
        raise InputError(f"{path.name} has two columns '{twice[0]}'. Rename one.")
    rows = [row for row in table[1:] if row]
    where = Rows(path.name, 2, tuple(i for i, row in enumerate(table[1:], 2) if not row))
    if head and not rows:
        raise InputError(f"A log needs at least one transition: {path.name} has none.")
    for i, row in enumerate(rows):
        if len(row) != len(head):
            raise InputError(
                f"Row {where.number(i)} of {path.name} has {len(row)} cells; the header has "
                f"{len(head)}."
            )
    return head, rows, where


def _roles(file: str, head: Sequence[str], columns: Mapping[str, str] | None) -> dict[str, str]:
    """Which column plays which role."""
    out = {role: role for role in ROLES}
    for role, name in (columns or {}).items():
        if role not in ROLES:
            raise InputError(
                f"columns names the roles {', '.join(ROLES)}; '{role}' is none of them. Variables "
                "are the columns x that have a next_x."
            )
        if name not in head:
            raise InputError(f"{file} has no column '{name}' (it has {', '.join(head)}).")
        out[role] = name
    return out


@final
@dataclass(frozen=True, slots=True)
class _Cells:
    """The columns of a file as text, and how to read them."""

    columns: Mapping[str, list[str]]
    where: Rows

    def numbers(self, name: str) -> FloatArray:
        """(n,) finite or not; text is an error."""
        for i, cell in enumerate(self.columns[name]):
            try:
                float(cell)
            except ValueError:
                raise InputError(
                    f"Column '{name}' must hold numbers: {self.where.where(i)} has '{cell}'."
                ) from None
        return np.array(self.columns[name], dtype=np.float64)

    def words(self, name: str) -> list[str]:
        """Labels; a missing one is an error."""
        for i, cell in enumerate(self.columns[name]):
            if cell.lower() in MISSING:
                raise InputError(
                    f"Column '{name}' must say what was done: {self.where.where(i)} has '{cell}'. "
                    "Remove or complete the row."
                )
        return self.columns[name]

    def codes(self, name: str) -> CodeArray:
        """Numbers of names, in the order in which they first occur; whole numbers stay."""
        names = self.words(name)
        if all(WHOLE.fullmatch(cell) for cell in names):
            return np.array(names, dtype=np.int32)
        known: dict[str, int] = {}
        return np.array([known.setdefault(cell, len(known)) for cell in names], dtype=np.int32)

    def truths(self, name: str) -> BoolArray:
        """0 and 1, true and false, yes and no."""
        out = []
        for i, cell in enumerate(self.columns[name]):
            if cell.lower() in (*TRUE, *FALSE):
                out.append(cell.lower() in TRUE)
                continue
            try:
                value = float(cell)
            except ValueError:
                value = np.nan
            if value not in (0.0, 1.0):
                raise InputError(
                    f"Column '{name}' must hold 0 or 1 (true, false): {self.where.where(i)} has "
                    f"'{cell}'."
                )
            out.append(value == 1.0)
        return np.array(out, dtype=np.bool_)
