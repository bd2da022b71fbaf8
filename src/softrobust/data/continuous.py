"""Logs whose states are vectors of numbers: (s, a, s′) with s ∈ ℝ^d and labelled actions.

On disk a table with one column per variable, the same names with the prefix `next_`, and
`action`, and optionally `episode`, `reward` and `terminal` (`continuous_file`). Rows of an episode
are in order of time.
"""

from __future__ import annotations

import csv
import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, final

import numpy as np
import numpy.typing as npt

from softrobust._core.arrays import BoolArray, CodeArray, FloatArray, Rows, frozen
from softrobust._core.files import atomic_write
from softrobust.data.labels import Labels, order_names
from softrobust.errors import InputError

NEXT = "next_"
LARGEST = 1e50  # products of squares must stay numbers


@final
@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class ContinuousLog:
    """Observed transitions between vectors.

    Attributes
    ----------
    s, s_next : (n_rows, n_variables) float64
    a : (n_rows,) int32
        Indices into `actions`.
    variables, actions : Labels
    reward : (n_rows,) float64 or None
    episode : (n_rows,) int32 or None
    terminal : (n_rows,) bool or None
        Whether the transition ended its episode for good (a cut-off one did not).
    """

    s: FloatArray
    a: CodeArray
    s_next: FloatArray
    variables: Labels
    actions: Labels
    reward: FloatArray | None = None
    episode: CodeArray | None = None
    terminal: BoolArray | None = None
    rows: Rows = Rows("the log")  # noqa: RUF009 (frozen)

    def __post_init__(self) -> None:
        for name, dtype in (("s", np.float64), ("s_next", np.float64), ("reward", np.float64)):
            if getattr(self, name) is not None:
                object.__setattr__(self, name, frozen(getattr(self, name), dtype))
        for name in ("a", "episode"):
            if getattr(self, name) is not None:
                object.__setattr__(self, name, frozen(getattr(self, name), np.int32))
        if self.terminal is not None:
            object.__setattr__(self, "terminal", frozen(self.terminal, np.bool_))
        n, d = self.a.size, len(self.variables)
        if n == 0:
            raise InputError(f"A log needs at least one transition: {self.rows.source} has none.")
        for name in ("s", "s_next"):
            values = getattr(self, name)
            if values.shape != (n, d):
                raise InputError(
                    f"'{name}' must have one row per transition and one column per variable, "
                    f"shape {(n, d)}: it has {values.shape}."
                )
            bad = np.argwhere(~np.isfinite(values) | (np.abs(values) > LARGEST))
            if bad.size:
                i, j = bad[0]
                rule, cure = "finite numbers", "Remove or complete the row"
                if np.isfinite(values[i, j]):
                    rule, cure = f"at most {LARGEST:g} in size", "Choose another unit"
                raise InputError(
                    f"Observations must be {rule}: {self.rows.where(int(i))}, "
                    f"'{NEXT if name == 's_next' else ''}{self.variables[int(j)]}' is "
                    f"{values[i, j]}. {cure}."
                )
        if self.a.min() < 0 or self.a.max() >= len(self.actions):
            raise InputError(f"Action indices must lie in 0…{len(self.actions) - 1}.")
        for name in ("reward", "episode", "terminal"):
            column = getattr(self, name)
            if column is not None and column.shape != (n,):
                raise InputError(f"'{name}' must have {n} entries; its shape is {column.shape}.")

    @classmethod
    def from_arrays(
        cls,
        s: npt.ArrayLike,
        actions: Sequence[Any] | npt.NDArray[Any],
        s_next: npt.ArrayLike,
        reward: npt.ArrayLike | None = None,
        episode: npt.ArrayLike | None = None,
        terminal: npt.ArrayLike | None = None,
        *,
        variables: Sequence[str] | None = None,
        action_names: Labels | Sequence[str | int] | None = None,
        source: str | Rows = "the arrays",
    ) -> ContinuousLog:
        """Make a log; actions are labels or integers."""
        states = np.atleast_2d(np.asarray(s, dtype=np.float64))
        names = [str(a) for a in np.asarray(actions).tolist()]
        if action_names is None:
            labels = order_names(sorted(set(names)), "action", fill=False).labels
        else:
            labels = Labels.of(action_names, "action")
        given = variables or [f"x{j}" for j in range(states.shape[1])]
        return cls(
            s=states,
            a=np.array([labels.index(name) for name in names], dtype=np.int32),
            s_next=np.atleast_2d(np.asarray(s_next, dtype=np.float64)),
            variables=Labels.of(given, "variable"),
            actions=labels,
            reward=None if reward is None else np.asarray(reward, np.float64),
            episode=None if episode is None else np.asarray(episode, np.int32),
            terminal=None if terminal is None else np.asarray(terminal, np.bool_),
            rows=source if isinstance(source, Rows) else Rows(source),
        )

    def __len__(self) -> int:
        return int(self.a.size)

    def __repr__(self) -> str:
        return f"ContinuousLog({len(self)} transitions of {', '.join(self.variables)})"

    @property
    def starts(self) -> FloatArray | None:
        """(n_episodes, n_variables) first states of episodes; None where these are not known."""
        if self.episode is None:
            return None
        _, first = np.unique(self.episode, return_index=True)
        return np.array(self.s[np.sort(first)])

    @property
    def longest(self) -> int | None:
        """Rows of the longest episode; None where these are not known."""
        if self.episode is None:
            return None
        return int(np.unique(self.episode, return_counts=True)[1].max())

    @property
    def data_hash(self) -> str:
        """SHA-256 of all columns and names."""
        digest = hashlib.sha256(b"softrobust-continuous-log-1")
        for column in (self.s, self.a, self.s_next, self.reward, self.episode, self.terminal):
            digest.update(b"-" if column is None else column.data)
        for labels in (self.variables, self.actions):
            digest.update("\x00".join(labels).encode() + b"\x01")
        return digest.hexdigest()

    def to_arrays(self) -> dict[str, npt.NDArray[Any]]:
        """All columns and names as plain arrays."""
        out: dict[str, npt.NDArray[Any]] = {
            "s": self.s,
            "a": self.a,
            "s_next": self.s_next,
            "variables": np.array(list(self.variables)),
            "actions": np.array(list(self.actions)),
        }
        more = {"reward": self.reward, "episode": self.episode, "terminal": self.terminal}
        return out | {name: column for name, column in more.items() if column is not None}

    @classmethod
    def restored(cls, arrays: Mapping[str, npt.NDArray[Any]], source: str) -> ContinuousLog:
        """The inverse of `to_arrays`."""
        return cls(
            s=arrays["s"],
            a=arrays["a"],
            s_next=arrays["s_next"],
            variables=Labels(tuple(map(str, arrays["variables"])), noun="variable"),
            actions=Labels(tuple(map(str, arrays["actions"])), noun="action"),
            reward=arrays.get("reward"),
            episode=arrays.get("episode"),
            terminal=arrays.get("terminal"),
            rows=Rows(source),
        )

    def save_csv(self, path: str | Path) -> None:
        """Write the table, atomically; numbers keep all their digits."""
        columns: dict[str, list[Any]] = {}
        if self.episode is not None:
            columns["episode"] = self.episode.tolist()
        for j, name in enumerate(self.variables):
            columns[name] = self.s[:, j].tolist()
        columns["action"] = [self.actions[int(a)] for a in self.a]
        for j, name in enumerate(self.variables):
            columns[NEXT + name] = self.s_next[:, j].tolist()
        if self.reward is not None:
            columns["reward"] = self.reward.tolist()
        if self.terminal is not None:
            columns["terminal"] = self.terminal.astype(int).tolist()
        with atomic_write(path, "w", newline="") as file:
            rows = csv.writer(file)
            rows.writerow(columns)
            rows.writerows(zip(*columns.values(), strict=True))


# --------------------------------------------------------------------------------------------------
# Logs of vectors on disk: a CSV table with columns x…, action, next_x…, and what else is known.

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
