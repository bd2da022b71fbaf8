"""Columns of a table as a person sees them: what each holds, and what is odd."""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal, final

import numpy as np

from softrobust._core.arrays import CodeArray, FloatArray, IntArray, Rows
from softrobust._core.notes import Ledger
from softrobust.data.columns import MISSING, Columns, numbers_in, parse_flag
from softrobust.data.table import Table
from softrobust.data.times import COMPACT, guess_form, read_times, time_text
from softrobust.errors import InputError

Holds = Literal["nothing", "numbers", "dates", "categories", "text", "numbers and text"]
FEW_VALUES = 30
_PLAIN = re.compile(r"[\W_]+")
# Numbers that people write where a value is missing.
_CODES = (-1.0, -9.0, -99.0, -999.0, -9999.0, 99.0, 999.0, 9999.0, 99999.0)


@final
@dataclass(frozen=True, slots=True, eq=False)
class Column:
    """One column: codes (n,) of its distinct texts, -1 where a cell is missing, and what these are.

    `low` and `high` are those of numbers or dates; `distinct` counts different numbers, or texts.
    """

    name: str
    codes: CodeArray
    texts: tuple[str, ...]
    holds: Holds
    low: float | str | None = None
    high: float | str | None = None
    distinct: int = 0

    @property
    def flags(self) -> bool:
        """Whether every cell is true or false (1 and 0, yes and no)."""
        return bool(self.texts) and all(parse_flag(text) is not None for text in self.texts)

    @property
    def numbers(self) -> FloatArray:
        """The numbers, NaN where a cell is missing or no number, (n,)."""
        return numbers_in(self.texts)[self.codes]

    def to_dict(self) -> dict[str, Any]:
        """What it holds, as plain values ready for JSON."""
        facts = {name: getattr(self, name) for name in ("holds", "low", "high", "distinct")}
        missing = int((self.codes == MISSING).sum())
        return facts | {"examples": list(self.texts[:4]), "missing": missing}


@final
@dataclass(frozen=True, slots=True, eq=False)
class Profile:
    """All columns of a table; `twice` are names that stand there twice."""

    cells: Columns
    columns: dict[str, Column]
    twice: tuple[str, ...] = ()

    @property
    def rows(self) -> Rows:
        """Row numbers for messages."""
        return self.cells.rows

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return next(iter(self.columns.values())).codes.size

    def findings(self, names: Sequence[str]) -> Ledger:
        """What is odd in the named columns."""
        ledger = Ledger()
        for name in names:
            column = self.columns[name]
            if column.holds == "numbers and text":
                no_numbers(column, self.rows, ledger)
            if column.holds.startswith("numbers"):
                for code, places, facts in odd_numbers(column.numbers):
                    ledger.add(code, self.rows, places, column=name, **facts)
            if column.holds == "categories":
                for twins in alike(column.texts):
                    rows = [np.flatnonzero(column.codes == column.texts.index(t)) for t in twins]
                    rare = min(rows, key=len)
                    ledger.add("alike_values", self.rows, rare, column=name, names=list(twins))
        for name in self.twice:
            ledger.say("column_twice", column=name)
        return ledger


def no_numbers(column: Column, rows: Rows, ledger: Ledger) -> None:
    """Note the cells of a column that are no numbers."""
    others = np.flatnonzero(np.isnan(numbers_in(column.texts)[:-1]))
    places = np.flatnonzero(np.isin(column.codes, others))
    texts = [column.texts[i] for i in others[:3]]
    ledger.add("no_numbers", rows, places, column=column.name, examples=texts)


def odd_numbers(values: FloatArray) -> Iterator[tuple[str, IntArray, dict[str, Any]]]:
    """Numbers far from the others, and codes for "missing" among them: code, places, facts."""
    known = values[np.isfinite(values)]
    if known.size < 10:
        return
    middle = float(np.median(known))
    low, high = np.quantile(known, [0.05, 0.95]).tolist()
    reach = 5 * max(high - low, 1e-9 * max(1.0, abs(middle)))
    far = np.isfinite(values) & (np.abs(values - middle) > reach)
    if not far.any() or far.sum() > 0.02 * known.size:
        return
    codes = far & np.isin(values, _CODES)
    for code, odd in (("codes_for_missing", codes), ("far_numbers", far & ~codes)):
        if odd.any():
            examples = np.unique(values[odd])[:3].tolist()
            yield code, np.flatnonzero(odd), {"examples": examples, "low": low, "high": high}


def alike(names: Iterable[str]) -> Iterator[Sequence[str]]:
    """Names that are the same but for case, spaces and punctuation; signs beside digits count."""
    groups: dict[str, list[str]] = {}
    for name in names:
        plain = _PLAIN.sub("", name).casefold()
        if plain and not any(sign.isdigit() for sign in plain):
            groups.setdefault(plain, []).append(name)
    yield from (group for group in groups.values() if len(group) > 1)


def profile_table(table: Table) -> Profile:
    """Read every column of a table as text, and say what it holds."""
    found = table.names
    twice = tuple(dict.fromkeys(name for name in found if name and found.count(name) > 1))
    names = [name for name in found if name and name not in twice]
    if not names:
        raise InputError(
            f"The first row of {table.source} must name the columns: it names none. Add a header."
        )
    cells = table.cells(names)
    return Profile(cells, {name: _column(name, cells) for name in names}, twice)


def _column(name: str, cells: Columns) -> Column:
    codes, texts = cells.codes[name], tuple(cells.names[name])
    if not texts:
        return Column(name, codes, texts, "nothing")
    values = numbers_in(texts)
    numeric = ~np.isnan(values)
    plain = bool(numeric[:-1].all())
    filled = int((codes != MISSING).sum())
    compact = plain and all(map(COMPACT.fullmatch, texts))  # 20240331
    if (compact or not plain) and (dates := _dates(name, cells)) is not None:
        return Column(name, codes, texts, "dates", *dates, len(texts))
    if plain or (int(numeric[codes].sum()) >= 0.8 * filled and numeric.sum() > 5):
        holds: Holds = "numbers" if plain else "numbers and text"
        distinct = np.unique(values[numeric]).tolist()
        return Column(name, codes, texts, holds, distinct[0], distinct[-1], len(distinct))
    few = len(texts) <= FEW_VALUES or len(texts) <= 0.02 * filled
    return Column(name, codes, texts, "categories" if few else "text", distinct=len(texts))


def _dates(name: str, cells: Columns) -> tuple[str, str] | None:
    codes, texts = cells.codes[name], cells.names[name]
    try:
        form, _ = guess_form(codes, texts)
        times, clock, _ = read_times(cells, name, form=form)
    except InputError:
        return None
    return time_text(np.nanmin(times), clock), time_text(np.nanmax(times), clock)
