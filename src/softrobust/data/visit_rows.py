"""Reading visits and events: rows of a table, sorted by id and time, each change counted.

Cells stay texts here (codes of distinct texts, -1 where a cell is missing); what they mean is
decided later. Rows without id or time, rows in the wrong order and rows that stand twice are
dealt with first, since everything after this speaks of the previous and the next visit of an id.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, final

import numpy as np

from softrobust._core import arrays
from softrobust._core.arrays import BoolArray, CodeArray, FloatArray, IntArray, Rows
from softrobust._core.notes import Ledger
from softrobust.data import columns as cols
from softrobust.data.columns import MISSING, Columns, joint_codes, listed, refuse_absent
from softrobust.data.formula import Formula, reward_formula
from softrobust.data.table import opened
from softrobust.data.times import Clock, read_times
from softrobust.data.visit_rules import AS_THEY_STAND, TrajectoryRules
from softrobust.errors import InputError

_EVENT_ALIASES = {
    "time": ("date", "when", "day"),
    "reward": ("reward", "r", "value"),  # not "cost", whose sign is the other one
    "kind": ("kind", "event", "type"),
}


@final
@dataclass(frozen=True, slots=True, eq=False)
class Visits:
    """Visits in the order of id and time.

    row : (n,) int64, place in the table, counted from 0 (`rows.number` gives the user's count);
    who : (n,) int32, positions in `ids`; t : (n,) float64;
    cells : column name → (n,) int32 codes of the distinct texts `names`, -1 where missing
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
        return arrays.starts_of(self.who)

    def take(self, keep: BoolArray | IntArray) -> "Visits":
        """Some of the visits, in order."""
        cells = {name: codes[keep] for name, codes in self.cells.items()}
        return replace(self, row=self.row[keep], who=self.who[keep], t=self.t[keep], cells=cells)

    def last_known(self, missing: BoolArray) -> IntArray:
        """(n,): the last visit of the id up to here that does not miss it; else this one."""
        here = np.arange(self.n)
        start = np.maximum.accumulate(np.where(self.first, here, 0))
        last = np.maximum.accumulate(np.where(missing, -1, here))
        return np.where(last >= start, last, here)

    def where(self, i: int | BoolArray) -> str:
        """Where visit i stands, or the first of a mask: row 17 of visits.csv (id 'p3')."""
        i = arrays.first_of(i)
        return f"{self.rows.where(int(self.row[i]))} (id '{self.ids[int(self.who[i])]}')"

    def numbers(self, column: str, what: str) -> FloatArray:
        """The numbers of a column, (n,); NaN where a cell is missing."""
        codes = self.cells[column]
        values = cols.numbers_in(self.names[column])[codes]
        bad = (codes != MISSING) & ~np.isfinite(values)
        if bad.any():
            where = self.rows.where(int(self.row[bad][0]))
            text = self.names[column][codes[bad][0]][:60]
            raise InputError(
                f"A {what} must be a finite number: {where} has '{text}' in column '{column}'. "
                "Correct the cell, or empty it where the value is not known."
            )
        return values


@contextmanager
def _opened(source: Any) -> Iterator[tuple[list[str], Callable[[list[str]], Columns]]]:
    """The names of a table's columns, and how to read some; `Columns` were read before."""
    if isinstance(source, Columns):
        yield list(source.codes), lambda _: source
    else:
        with opened(source) as table:
            yield table.names, table.cells


def read_visits(
    source: Any, rules: TrajectoryRules, ledger: Ledger
) -> tuple[Visits, int, Sequence[str], Formula | None]:
    """Sorted visits, each once; the number of rows; the measurements; the reward's formula."""
    with _opened(source) as (found, cells):
        columns, measured, formula = _cell_columns(found, rules)
        table = cells(list(dict.fromkeys([*rules.id_columns, *columns])))
    visits = _visits(table, rules.id_columns, rules.time, columns, ledger, dates=rules.dates)
    n_rows = visits.n
    visits = _without_missing(visits, rules.missing_rows, ledger)
    by_id = np.argsort(visits.who, kind="stable")
    who, t = visits.who[by_id], visits.t[by_id]
    back = ~arrays.starts_of(who) & np.append(False, t[1:] < t[:-1])[: who.size]
    ledger.add("unsorted", visits.rows, visits.row[by_id[back]])
    visits = visits.take(np.lexsort((visits.row, visits.t, visits.who)))
    visits = _without_duplicates(visits, rules.duplicates, ledger)
    if rules.action_at == "end":
        acts = np.append(visits.cells[rules.action][1:], MISSING)
        acts[np.append(visits.first[1:], True)] = MISSING
        visits = replace(visits, cells=visits.cells | {rules.action: acts.astype(np.int32)})
        ledger.say("actions_moved", action=rules.action)
    return visits, n_rows, measured, formula


def _cell_columns(
    found: Sequence[str], rules: TrajectoryRules
) -> tuple[list[str], Sequence[str], Formula | None]:
    """The columns that are needed beside the ids; the measurements; the formula of the reward."""
    wanted = [rules.action]
    if rules.terminal is not None and rules.terminal_pair[0] in found:
        wanted.append(rules.terminal_pair[0])
    if rules.end_time is not None:
        wanted.append(rules.end_time)
    formula = None if rules.reward is None else reward_formula(rules.reward, found)
    if rules.reward is not None and formula is None:
        wanted.append(rules.reward)
    in_order = rules.time == AS_THEY_STAND and AS_THEY_STAND not in found
    time = () if in_order else (rules.time,)
    taken = {*rules.id_columns, *time, *wanted}
    measured = rules.measurements or [name for name in found if name and name not in taken]
    for name in (*rules.id_columns, *time, *wanted, *measured):
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
                + (f" As a formula, '1*{name}' can be both." if name == rules.reward else "")
            )
    columns = [*time, *wanted, *measured, *(formula.columns if formula else ())]
    return list(dict.fromkeys(columns)), measured, formula


def _visits(
    table: Columns,
    ids: Sequence[str],
    time: str,
    columns: Sequence[str],
    ledger: Ledger,
    clock: Clock | None = None,
    dates: str | None = None,
) -> Visits:
    """Rows as they stand; without a column of the time the rows of an id are 0, 1, 2, …"""
    ledger.extend(note for note in table.notes if note.code != "columns_not_used")
    who, names = _who(table, ids)
    if time in columns:
        read = read_times(table, time, clock, dates)
        ledger.extend([] if read.note is None else [read.note])
        t, clock = read.values, read.clock
    else:
        t, clock = arrays.ranks(who).astype(np.float64), "numbers"
        ledger.say("no_time", n_ids=len(names))
    cells = {name: table.codes[name] for name in columns if name != time}
    texts = {name: table.names[name] for name in cells}
    return Visits(np.arange(t.size), who, t, cells, texts, names, clock, table.rows)


def _who(table: Columns, ids: Sequence[str]) -> tuple[CodeArray, list[str]]:
    """Codes and names of ids, which may be made of several columns, or all be one."""
    if not ids:
        return np.zeros_like(next(iter(table.codes.values()))), ["all"]
    if len(ids) == 1:
        return table.codes[ids[0]], table.names[ids[0]]
    parts = [table.codes[name] for name in ids]
    codes, first = cols.known_rows_of(parts)
    texts = [[table.names[name][i] for i in table.codes[name][first]] for name in ids]
    return codes, [" / ".join(part) for part in zip(*texts, strict=True)]


def _without_missing(visits: Visits, rule: str, ledger: Ledger) -> Visits:
    """Leave out rows without id or time, or refuse them."""
    for what in ("id", "time"):
        missing = visits.who == MISSING if what == "id" else np.isnan(visits.t)
        if missing.any() and rule == "error":
            where = visits.rows.where(int(visits.row[missing][0]))
            raise InputError(
                f"Every row needs an id and a time: {where} has no {what} "
                f"({int(missing.sum())} such rows). Fill it in, or leave such rows out with "
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


def _without_duplicates(visits: Visits, rule: str, ledger: Ledger) -> Visits:
    """Rows of one id and time: the same twice counts once, others go by the rule."""
    new = arrays.starts_of(visits.who, visits.t)
    if new.all():
        return visits
    moment = np.cumsum(new, dtype=np.int64)
    _, once = np.unique(joint_codes(moment, *visits.cells.values()), return_index=True)
    copies = np.ones(visits.n, dtype=bool)
    copies[once] = False
    ledger.add("duplicates", visits.rows, visits.row[copies])
    visits, new = visits.take(~copies), arrays.starts_of(moment[~copies])
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
class Events(NamedTuple):
    """Events in the order of the table; `who` is -1 for an id that has no visit."""

    who: CodeArray
    t: FloatArray
    reward: FloatArray
    kind: CodeArray | None
    kinds: list[str]


def read_events(source: Any, rules: TrajectoryRules, visits: Visits, ledger: Ledger) -> Events:
    """Read a table of events: id, time, reward[, kind]."""
    with _opened(source) as (found, cells):
        named = event_columns(found, rules)
        ids = rules.id_columns if len(rules.id_columns) > 1 else [named["id"]]
        for name in ids:
            refuse_absent(name, found)
        columns = [named[role] for role in ("time", "reward", "kind") if role in named]
        table = cells(list(dict.fromkeys([*ids, *columns])))
    read = _visits(table, ids, named["time"], columns, ledger, visits.clock, rules.dates)
    read = _without_missing(read, rules.missing_rows, ledger)
    place = {name: i for i, name in enumerate(visits.ids)}
    who = np.array([place.get(name, MISSING) for name in read.ids], dtype=np.int32)[read.who]
    # Ids without a visit are often a matter of spelling.
    ledger.add("unknown_ids", read.rows, read.row[who == MISSING])
    reward = np.zeros(read.n)
    if "reward" in named:
        reward = read.numbers(named["reward"], "reward")
        empty = np.isnan(reward)
        if empty.any():
            where = read.rows.where(int(read.row[empty][0]))
            raise InputError(
                f"Every event needs a reward: {where} has none in column '{named['reward']}' "
                f"({int(empty.sum())} such rows). Write 0 where an event earns nothing."
            )
    kind = named.get("kind", "")
    return Events(who, read.t, reward, read.cells.get(kind), read.names.get(kind, []))


def event_columns(found: Sequence[str], rules: TrajectoryRules) -> dict[str, str]:
    """Column of each role in the table of events: as given, as in the visits, or by usual names."""
    lower = {name.casefold(): name for name in reversed(found)}
    out = dict(rules.events_columns or {})
    taken = {name.casefold() for name in out.values()}
    for role, own in (("id", (*rules.id_columns, "id")[0]), ("time", rules.time)):
        fits = [name for name in (own.strip().casefold(), role) if name in lower]
        if fits:
            out.setdefault(role, lower[fits[0]])
    for role, aliases in _EVENT_ALIASES.items():
        fits = [alias for alias in aliases if alias in lower and alias not in taken]
        if len(fits) == 1:
            out.setdefault(role, lower[fits[0]])
    for role in ("id", "time", "reward"):
        if role not in out and not (role == "reward" and "kind" in out):
            raise InputError(
                f"The table of events needs a column for the {role}: its columns are "
                f"{listed(found)}. Say which it is with events_columns={{'{role}': …}}.",
                arguments={"events_columns": f"{role}=…"},
            )
    return out
