"""Columns of a table as a person sees them: what each holds, what is missing, what is odd."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, final

import numpy as np

from softrobust.data.arrays import CodeArray, FloatArray
from softrobust.data.coding import MISSING, parse_flag
from softrobust.data.columns import Role
from softrobust.data.rows import Rows
from softrobust.data.table import read_table, table_columns
from softrobust.data.trajectories_report import Ledger
from softrobust.data.trajectories_times import NUMBER, read_times, time_text
from softrobust.errors import InputError
from softrobust.inspection.suspicious import alike, odd_numbers

Holds = Literal["nothing", "numbers", "dates", "categories", "text", "numbers and text"]
FEW_VALUES = 30


@final
@dataclass(frozen=True, slots=True, eq=False)
class Column:
    """One column.

    Attributes
    ----------
    codes : (n,) int32
        Positions in `texts`; -1 where a cell is missing.
    texts : tuple of str
        Distinct texts, in order of appearance.
    holds : str
        What the texts are.
    words : str
        The same for a person, with range or examples.
    """

    name: str
    codes: CodeArray
    texts: tuple[str, ...]
    holds: Holds
    words: str

    @property
    def n_missing(self) -> int:
        """Cells that are missing."""
        return int((self.codes == MISSING).sum())

    @property
    def flags(self) -> bool:
        """Whether every cell is true or false (1 and 0, yes and no)."""
        return bool(self.texts) and all(parse_flag(text) is not None for text in self.texts)

    @property
    def numbers(self) -> FloatArray:
        """The numbers, NaN where a cell is missing or no number, (n,)."""
        values = [float(text) if NUMBER.fullmatch(text) else np.nan for text in self.texts]
        return np.array([*values, np.nan])[self.codes]

    @property
    def not_numbers(self) -> CodeArray:
        """Codes of texts that are no numbers."""
        return np.array(
            [i for i, text in enumerate(self.texts) if not NUMBER.fullmatch(text)], dtype=np.int32
        )


@final
@dataclass(frozen=True, slots=True, eq=False)
class Profile:
    """All columns of a table."""

    columns: dict[str, Column]
    rows: Rows
    n_rows: int
    twice: tuple[str, ...] = ()

    def findings(self, names: Sequence[str]) -> Ledger:
        """What is odd in the named columns."""
        ledger = Ledger()
        for name in names:
            column = self.columns[name]
            if column.holds == "numbers and text":
                places = np.flatnonzero(np.isin(column.codes, column.not_numbers))
                shown = ", ".join(f"'{column.texts[i]}'" for i in column.not_numbers[:3])
                words = f"{{cell|cells}} of '{name}' {{is no number|are no numbers}} ({shown})"
                ledger.add(f"no_number_{name}", words, self.rows, places)
            if column.holds.startswith("numbers"):
                for odd, places in odd_numbers(column.numbers):
                    words = f"{{value|values}} of '{name}' {odd}"
                    ledger.add(f"odd_{name}", words, self.rows, places)
            if column.holds == "categories":
                for twins in alike(column.texts):
                    listed = " and ".join(f"'{twin}'" for twin in twins)
                    words = f"values of '{name}' differ only in case or signs: {listed}"
                    rare = min(
                        twins, key=lambda t: int((column.codes == column.texts.index(t)).sum())
                    )
                    places = np.flatnonzero(column.codes == column.texts.index(rare))
                    ledger.add(f"alike_{name}", words, self.rows, places, n=len(twins))
        for name in self.twice:
            ledger.count("column_twice", 2, f"or more columns are called '{name}'")
        return ledger


def profile_table(path: Path) -> Profile:
    """Read every column of a table as text, and say what it holds."""
    found = [name.strip() for name in table_columns(path)]
    twice = tuple(dict.fromkeys(name for name in found if name and found.count(name) > 1))
    names = [name for name in found if name and name not in twice]
    if not names:
        raise InputError(
            f"The first row of {path.name} must name the columns: it names none. Add a header."
        )
    roles = [Role(f"column {i}", (name,), "label", f"column {i}") for i, name in enumerate(names)]
    table = read_table(path, roles, {f"column {i}": name for i, name in enumerate(names)})
    columns = {}
    for i, name in enumerate(names):
        texts = tuple(table.names[f"column {i}"])
        columns[name] = _column(name, table.codes[f"column {i}"], texts, table.rows)
    n_rows = next(iter(columns.values())).codes.size
    return Profile(columns, table.rows, n_rows, twice)


def _column(name: str, codes: CodeArray, texts: tuple[str, ...], rows: Rows) -> Column:
    numeric = np.array([bool(NUMBER.fullmatch(text)) for text in texts] + [False])
    filled = int((codes != MISSING).sum())
    holds: Holds
    if not texts:
        holds, words = "nothing", "nothing: every cell is empty"
    elif numeric[:-1].all():
        values = sorted({float(text) for text in texts})
        holds, words = "numbers", _range(values)
    elif (dates := _dates(codes, texts, rows, name)) is not None:
        holds, words = "dates", dates
    elif int(numeric[codes].sum()) >= 0.8 * filled and numeric.sum() > 5:
        holds = "numbers and text"
        values = sorted({float(text) for text in texts if NUMBER.fullmatch(text)})
        words = f"{_range(values)}, and text"
    elif len(texts) <= FEW_VALUES or len(texts) <= 0.02 * filled:
        holds, words = "categories", f"{len(texts)} values: {_examples(texts)}"
    else:
        holds, words = "text", f"{len(texts)} different texts: {_examples(texts)}"
    return Column(name, codes, texts, holds, words)


def _range(values: Sequence[float]) -> str:
    if len(values) == 1:
        return f"the number {values[0]:g} throughout"
    return f"numbers {values[0]:g} to {values[-1]:g}, {len(values)} different"


def _examples(texts: Sequence[str], most: int = 4) -> str:
    shown = ", ".join(text if len(text) <= 24 else f"{text[:23]}…" for text in texts[:most])
    return shown + (" …" if len(texts) > most else "")


def _dates(codes: CodeArray, texts: tuple[str, ...], rows: Rows, name: str) -> str | None:
    try:
        times = read_times(codes, list(texts), rows, name, "dates").values
    except InputError:
        return None
    low, high = (time_text(float(f(times)), "dates") for f in (np.nanmin, np.nanmax))
    return f"dates {low} to {high}"
