"""Reading visits and events: rows of a table, sorted by id and time, each change counted.

Cells stay texts here (codes of distinct texts, -1 where a cell is missing); what they mean is
decided later. Rows without id or time, rows in the wrong order and rows that stand twice are
dealt with first, since everything after this speaks of the previous and the next visit of an id.
"""

import difflib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, final

import numpy as np
import numpy.typing as npt

from softrobust._core.arrays import BoolArray, CodeArray, FloatArray, IntArray, Rows
from softrobust.data.columns import MISSING, NUMBER, Columns, listed
from softrobust.data.table import opened
from softrobust.data.visit_report import Ledger
from softrobust.data.visit_rules import Clock, TrajectoryRules, read_times
from softrobust.errors import InputError

_EVENT_ALIASES = {
    "reward": ("reward", "r", "value"),  # not "cost", whose sign is the other one
    "kind": ("kind", "event", "type"),
}


@final
@dataclass(frozen=True, slots=True, eq=False)
class Visits:
    """Visits in the order of id and time.

    Attributes
    ----------
    row : (n,) int64
        Place in the table, counted from 0 (`rows.number` gives the user's count).
    who : (n,) int32
        Positions in `ids`.
    t : (n,) float64
        Times.
    cells : dict of (n,) int32
        Column name → codes; -1 where missing. Action, measurements, reward, terminal.
    names : dict of list of str
        Column name → distinct texts.
    """

    row: IntArray
    who: CodeArray
    t: FloatArray
    cells: dict[str, CodeArray]
    names: dict[str, list[str]]
    ids: list[str]
    clock: Clock
    rows: Rows

    @property
    def n(self) -> int:
        """Number of visits."""
        return int(self.row.size)

    @property
    def first(self) -> BoolArray:
        """Whether a visit is the first of its id, (n,)."""
        return np.concatenate([[True], self.who[1:] != self.who[:-1]])[: self.n]

    def take(self, keep: BoolArray | IntArray) -> "Visits":
        """Some of the visits, in order."""
        cells = {name: codes[keep] for name, codes in self.cells.items()}
        return replace(self, row=self.row[keep], who=self.who[keep], t=self.t[keep], cells=cells)

    def where(self, i: int) -> str:
        """Where visit i stands: row 17 of visits.csv (id 'p3')."""
        return f"{self.rows.where(int(self.row[i]))} (id '{self.ids[int(self.who[i])]}')"


def read_visits(source: Any, rules: TrajectoryRules, ledger: Ledger) -> tuple[Visits, int]:
    """Read the visits of a table, sorted, without duplicates, and the number of its rows.

    `source` is a table, or `Columns` of cells that were read before; `ledger` counts what was done.
    """
    visits = _read(source, lambda found: (rules.id, rules.time, _cell_columns(found, rules)))
    n_rows = visits.n
    visits = _without_missing(visits, rules.missing_rows, ledger)
    visits = _sorted(visits, ledger)
    return _without_duplicates(visits, rules.duplicates, ledger), n_rows


def _cell_columns(found: Sequence[str], rules: TrajectoryRules) -> list[str]:
    """Columns of cells: action, terminal, reward and measurements, as the table spells them."""
    wanted = [rules.action]
    if rules.terminal is not None and rules.terminal_pair[0] in found:
        wanted.append(rules.terminal_pair[0])
    if rules.reward is not None:
        wanted.append(rules.reward)
    taken = {rules.id, rules.time, *wanted}
    measured = rules.measurements or [name for name in found if name and name not in taken]
    for name in (rules.id, rules.time, *wanted, *measured):
        refuse_absent(name, found)
    if not measured:
        raise InputError(
            "A state needs at least one column beside id, time, action and reward: "
            f"{listed(found)} are all there is. Name it with measurements.",
            arguments={"measurements": ""},
        )
    for name in measured:
        if name in taken:
            raise InputError(
                f"The column '{name}' is given two roles: it cannot be a measurement too. Leave it "
                "out of the measurements, or copy it to a column of its own."
            )
    return [*wanted, *measured]


def refuse_absent(name: str, found: Sequence[str]) -> None:
    """Names are taken to the letter here: they become parts of the names of states."""
    if name not in found:
        close = difflib.get_close_matches(name.casefold(), [f.casefold() for f in found], n=1)
        hint = [f for f in found if close and f.casefold() == close[0]]
        raise InputError(
            f"The column '{name}' is not in the table of visits, whose columns are "
            f"{listed(found, 20)}. " + (f"Did you mean '{hint[0]}'?" if hint else "Check the name.")
        )


def _read(
    source: Any,
    choose: Callable[[Sequence[str]], tuple[str, str, Sequence[str]]],
    clock: Clock | None = None,
) -> Visits:
    """Read the columns of id, time and cells that `choose` takes of those there are."""
    if isinstance(source, Columns):
        table = source
        id_column, time_column, columns = choose(list(source.codes))
    else:
        with opened(source) as file:
            id_column, time_column, columns = choose(file.names)
            table = file.cells([id_column, time_column, *columns])
    codes, names = table.codes, table.names
    t, clock = read_times(codes[time_column], names[time_column], table.rows, time_column, clock)
    return Visits(
        row=np.arange(t.size),
        who=codes[id_column],
        t=t,
        cells={name: codes[name] for name in columns},
        names={name: names[name] for name in columns},
        ids=names[id_column],
        clock=clock,
        rows=table.rows,
    )


def _without_missing(visits: Visits, rule: str, ledger: Ledger) -> Visits:
    """Leave out rows without id or time, or refuse them."""
    for what in ("id", "time"):
        missing = visits.who == MISSING if what == "id" else np.isnan(visits.t)
        if not missing.any():
            continue
        n = int(missing.sum())
        if rule == "error":
            i = int(np.argmax(missing))
            raise InputError(
                f"Every row needs an id and a time: {visits.rows.where(int(visits.row[i]))} has "
                f"no {what} ({n} such rows). Fill it in, or leave such rows out with "
                "missing_rows='drop'.",
                arguments={"missing_rows": "drop"},
            )
        ledger.add("rows_incomplete", visits.rows, visits.row[missing], lacks=what)
        visits = visits.take(~missing)
    if not visits.n:
        raise InputError(
            f"A table of visits or events needs at least one row with id and time: "
            f"{visits.rows.source} has none. Check that it is the right file."
        )
    return visits


def _sorted(visits: Visits, ledger: Ledger) -> Visits:
    """Sort by id, then time; count rows that stood before an earlier visit of their id."""
    by_id = np.argsort(visits.who, kind="stable")
    who, t = visits.who[by_id], visits.t[by_id]
    back = np.concatenate([[False], (who[1:] == who[:-1]) & (t[1:] < t[:-1])])
    if back.any():
        ledger.add("unsorted", visits.rows, visits.row[by_id[back]])
    return visits.take(np.lexsort((visits.row, visits.t, visits.who)))


def _without_duplicates(visits: Visits, rule: str, ledger: Ledger) -> Visits:
    """Rows of one id and time: the same twice counts once, others go by the rule."""
    new = visits.first | np.concatenate([[True], visits.t[1:] != visits.t[:-1]])
    if new.all():
        return visits
    keys: list[npt.NDArray[Any]] = [*visits.cells.values(), visits.t, visits.who]
    order = np.lexsort([visits.row, *keys])
    same = np.ones(visits.n, dtype=bool)
    same[0] = False
    for values in keys:
        same[1:] &= values[order[1:]] == values[order[:-1]]
    copies = np.zeros(visits.n, dtype=bool)
    copies[order[same]] = True
    if copies.any():
        ledger.add("duplicates", visits.rows, visits.row[copies])
        visits = visits.take(~copies)
        new = visits.first | np.concatenate([[True], visits.t[1:] != visits.t[:-1]])
    return visits if new.all() else _one_per_time(visits, new, rule, ledger)


def _one_per_time(visits: Visits, new: BoolArray, rule: str, ledger: Ledger) -> Visits:
    """Several different rows of one id and time: one of them, or all in one, by the rule."""
    starts = np.flatnonzero(new)
    sizes = np.diff(np.append(starts, visits.n))
    clash = starts[sizes > 1]
    i = int(clash[0])
    if rule == "error":
        raise InputError(
            f"An id has one visit at a time: {visits.where(i)} and "
            f"{visits.rows.where(int(visits.row[i + 1]))} have the same time and differ "
            f"({clash.size} such times). Correct them, or say which counts with "
            "duplicates='first', 'last', or 'merge' where they complete each other.",
            arguments={"duplicates": ""},
        )
    ledger.add("same_time", visits.rows, visits.row[~new], rule=rule)
    if rule != "merge":
        return visits.take(starts if rule == "first" else starts + sizes - 1)
    cells = {}
    for name, codes in visits.cells.items():
        high = np.maximum.reduceat(codes, starts)
        low = np.minimum.reduceat(np.where(codes == MISSING, np.iinfo(np.int32).max, codes), starts)
        torn = np.flatnonzero((high != MISSING) & (low != high))
        if torn.size:
            i = int(starts[torn[0]])
            texts = [visits.names[name][code] for code in (low[torn[0]], high[torn[0]])]
            raise InputError(
                f"Rows of one id and time can be merged where they complete each other: "
                f"{visits.where(i)} and the next contradict each other in column '{name}' "
                f"('{texts[0]}' and '{texts[1]}'; {torn.size} such times). Correct them, or use "
                "duplicates='first' or 'last'."
            )
        cells[name] = high
    return replace(visits.take(starts), cells=cells)


# -------------------------------------------------------------------- events
@final
@dataclass(frozen=True, slots=True, eq=False)
class Events:
    """Events in the order of the table: who (-1 for an id that has no visit), when, how much."""

    row: IntArray
    who: CodeArray
    t: FloatArray
    reward: FloatArray
    kind: CodeArray | None
    kinds: list[str]
    rows: Rows


def read_events(source: Any, rules: TrajectoryRules, visits: Visits, ledger: Ledger) -> Events:
    """Read a table of events: id, time, reward[, kind]."""
    named: dict[str, str] = {}

    def choose(found: Sequence[str]) -> tuple[str, str, Sequence[str]]:
        named.update(event_columns(found, rules))
        cells = [named[role] for role in ("reward", "kind") if role in named]
        return named["id"], named["time"], cells

    read = _read(source, choose, visits.clock)
    read = _without_missing(read, rules.missing_rows, ledger)
    place = {name: i for i, name in enumerate(visits.ids)}
    known = np.array([place.get(name, MISSING) for name in read.ids] + [MISSING], dtype=np.int32)
    reward = np.zeros(read.n)
    if "reward" in named:
        reward = numbers_of(read, named["reward"], "reward")
        _refuse_empty(read, reward, named["reward"])
    kind = read.cells[named["kind"]] if "kind" in named else None
    kinds = read.names[named["kind"]] if "kind" in named else []
    events = Events(read.row, known[read.who], read.t, reward, kind, kinds, read.rows)
    # Ids without a visit are often a matter of spelling.
    ledger.add("unknown_ids", read.rows, read.row[events.who == MISSING])
    return events


def _refuse_empty(table: Visits, reward: FloatArray, column: str) -> None:
    empty = np.isnan(reward)
    if empty.any():
        raise InputError(
            f"Every event needs a reward: {table.rows.where(int(table.row[np.argmax(empty)]))} has "
            f"none in column '{column}' ({int(empty.sum())} such rows). Write 0 where an event "
            "earns nothing."
        )


def event_columns(found: Sequence[str], rules: TrajectoryRules) -> dict[str, str]:
    """Column of each role in the table of events: as given, as in the visits, or by usual names."""
    lower = {name.casefold(): name for name in reversed(found)}
    out = dict(rules.events_columns or {})
    taken = {name.casefold() for name in out.values()}
    for role, own in (("id", rules.id), ("time", rules.time)):
        for name in (own, role) if role not in out else ():
            if name.strip().casefold() in lower and role not in out:
                out[role] = lower[name.strip().casefold()]
    if "time" not in out:
        dates = [name for name in ("date", "when", "day") if name in lower]
        if len(dates) == 1:
            out["time"] = lower[dates[0]]
    for role, aliases in _EVENT_ALIASES.items():
        fits = [alias for alias in aliases if alias in lower and alias not in taken]
        if role not in out and len(fits) == 1:
            out[role] = lower[fits[0]]
    for role in ("id", "time", "reward"):
        if role not in out and not (role == "reward" and "kind" in out):
            raise InputError(
                f"The table of events needs a column for the {role}: its columns are "
                f"{listed(found)}. Say which it is with events_columns={{'{role}': …}}.",
                arguments={"events_columns": f"{role}=…"},
            )
    return out


def numbers_of(visits: Visits, column: str, what: str) -> FloatArray:
    """The numbers of a column of cells, (n,); NaN where a cell is missing."""
    names = visits.names[column]
    values = np.full(len(names) + 1, np.nan)
    for i, name in enumerate(names):
        value = float(name) if NUMBER.fullmatch(name) else np.nan
        if np.isfinite(value):
            values[i] = value
            continue
        hits = visits.cells[column] == i
        if hits.any():
            where = visits.rows.where(int(visits.row[np.argmax(hits)]))
            raise InputError(
                f"A {what} must be a finite number: {where} has '{name[:60]}' in column "
                f"'{column}'. Correct the cell, or empty it where the value is not known."
            )
    return values[visits.cells[column]]
