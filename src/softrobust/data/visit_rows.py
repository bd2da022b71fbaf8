"""Reading visits and events: rows of a table, sorted by id and time, each change counted.

Cells stay texts here (codes of distinct texts, -1 where a cell is missing); what they mean is
decided later. Rows without id or time, rows in the wrong order and rows that stand twice are
settled first, since everything after this speaks of the previous and the next visit of an id.
"""

import difflib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, final

import numpy as np
import numpy.typing as npt

from softrobust._core.arrays import BoolArray, CodeArray, FloatArray, IntArray, Rows
from softrobust.data.coding import MISSING
from softrobust.data.columns import Role
from softrobust.data.table import read_table, table_columns
from softrobust.data.visit_report import Ledger
from softrobust.data.visit_rules import NUMBER, Clock, TrajectoryRules, read_times
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


def read_visits(source: Any, rules: TrajectoryRules, ledger: Ledger) -> Visits:
    """Read the visits of a table, sorted, without duplicates; `ledger` counts what was done."""
    visits = _read(source, rules.id, rules.time, cell_columns(source, rules), None)
    ledger.n_rows = visits.n
    visits = _without_missing(visits, rules.missing_rows, ledger)
    visits = _sorted(visits, ledger)
    return _without_duplicates(visits, rules.duplicates, ledger)


def cell_columns(source: Any, rules: TrajectoryRules) -> list[str]:
    """Columns of cells: action, measurements, reward and terminal, as the table spells them."""
    found = [name.strip() for name in table_columns(source)]
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
            f"{found} are all there is. Name it with measurements (--measurements)."
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
        listed = ", ".join(f"'{f}'" for f in found[:20]) + (" …" if found[20:] else "")
        raise InputError(
            f"The column '{name}' is not in the table of visits, whose columns are {listed}. "
            + (f"Did you mean '{hint[0]}'?" if hint else "Check the name.")
        )


def _read(
    source: Any, id_column: str, time_column: str, columns: Sequence[str], clock: Clock | None
) -> Visits:
    """Read id, time and some columns of cells."""
    roles = [Role("id", ("id",), "label", "id"), Role("time", ("time",), "label", "time")]
    roles += [Role(f"column {name}", (name,), "label", f"column {name}") for name in columns]
    named = {"id": id_column, "time": time_column} | {f"column {name}": name for name in columns}
    table = read_table(source, roles, named)
    times = read_times(table.codes["time"], table.names["time"], table.rows, time_column, clock)
    return Visits(
        row=np.arange(times.values.size),
        who=table.codes["id"],
        t=times.values,
        cells={name: table.codes[f"column {name}"] for name in columns},
        names={name: table.names[f"column {name}"] for name in columns},
        ids=table.names["id"],
        clock=times.clock,
        rows=table.rows,
    )


def _without_missing(visits: Visits, rule: str, ledger: Ledger, prefix: str = "") -> Visits:
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
                "missing_rows='drop' (--missing-rows drop)."
            )
        words = f"{{row has|rows have}} no {what} and {{is|are}} left out"
        ledger.add(f"{prefix}no_{what}", words, visits.rows, visits.row[missing])
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
        words = "{visit stands|visits stand} below a later one of the same id: sorted by time"
        ledger.add("unsorted", words, visits.rows, visits.row[by_id[back]])
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
        words = "{row repeats|rows repeat} another in every column used and {counts|count} once"
        ledger.add("duplicates", words, visits.rows, visits.row[copies])
        visits = visits.take(~copies)
        new = visits.first | np.concatenate([[True], visits.t[1:] != visits.t[:-1]])
    return visits if new.all() else _settled(visits, new, rule, ledger)


def _settled(visits: Visits, new: BoolArray, rule: str, ledger: Ledger) -> Visits:
    """Several different rows of one id and time."""
    starts = np.flatnonzero(new)
    sizes = np.diff(np.append(starts, visits.n))
    clash = starts[sizes > 1]
    i = int(clash[0])
    if rule == "error":
        raise InputError(
            f"An id has one visit at a time: {visits.where(i)} and "
            f"{visits.rows.where(int(visits.row[i + 1]))} have the same time and differ "
            f"({clash.size} such times). Correct them, or say which counts with "
            "duplicates='first', 'last', or 'merge' where they complete each other (--duplicates)."
        )
    words = "{row shares|rows share} id and time with another"
    done = "merged with it" if rule == "merge" else f"the {rule} of them counts"
    ledger.add("same_time", f"{words}: {done}", visits.rows, visits.row[~new])
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


def read_events(rules: TrajectoryRules, visits: Visits, ledger: Ledger) -> Events:
    """Read the table of events: id, time, reward[, kind]."""
    named = event_columns(rules)
    columns = [named[role] for role in ("reward", "kind") if role in named]
    table = _read(rules.events, named["id"], named["time"], columns, visits.clock)
    table = _without_missing(table, rules.missing_rows, ledger, "event_")
    place = {name: i for i, name in enumerate(visits.ids)}
    known = np.array([place.get(name, MISSING) for name in table.ids] + [MISSING], dtype=np.int32)
    reward = np.zeros(table.n)
    if "reward" in named:
        reward = numbers_of(table, named["reward"], "reward")
        _refuse_empty(table, reward, named["reward"])
    kind = table.cells[named["kind"]] if "kind" in named else None
    kinds = table.names[named["kind"]] if "kind" in named else []
    return Events(table.row, known[table.who], table.t, reward, kind, kinds, table.rows)


def _refuse_empty(table: Visits, reward: FloatArray, column: str) -> None:
    empty = np.isnan(reward)
    if empty.any():
        raise InputError(
            f"Every event needs a reward: {table.rows.where(int(table.row[np.argmax(empty)]))} has "
            f"none in column '{column}' ({int(empty.sum())} such rows). Write 0 where an event "
            "earns nothing."
        )


def event_columns(rules: TrajectoryRules) -> dict[str, str]:
    """Column of each role in the table of events: as given, as in the visits, or by usual names."""
    found = [name.strip() for name in table_columns(rules.events)]
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
    for role in ("id", "time"):
        if role not in out:
            raise InputError(
                f"The table of events needs a column for the {role}: its columns are {found}. Say "
                f"which it is with events_columns={{'{role}': …}} (--events-columns {role}=…)."
            )
    if "reward" not in out and "kind" not in out:
        raise InputError(
            f"The table of events needs a column of rewards: its columns are {found}. Say which it "
            "is with events_columns={'reward': …} (--events-columns reward=…)."
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
