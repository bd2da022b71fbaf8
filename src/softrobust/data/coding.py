"""Cells become numbers: names to codes, texts to numbers, flags and groups.

A column arrives in pieces (batches of a stream), so that ten million rows never exist as text. Each
kind of column has a collector that takes pieces and gives one array at the end. A cell that breaks
a rule raises `CellError`, which knows its place in the piece; the reader knows the row of the file.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, final

import numpy as np
import numpy.typing as npt

from softrobust._core.arrays import BoolArray, CodeArray, FloatArray, Rows
from softrobust.data.labels import label_text
from softrobust.errors import InputError

MISSING = -1
# Spellings of "no value" in exports; a state or action may still be called "none".
MISSING_TEXTS = frozenset({"", "na", "nan", "n/a", "<na>", "null"})
_FLAGS = dict.fromkeys(("true", "t", "1", "1.0", "yes", "y"), True) | dict.fromkeys(
    ("false", "f", "0", "0.0", "no", "n"), False
)


@final
class CellError(Exception):
    """A cell that breaks a rule: its place in the piece, its text, and the rule."""

    def __init__(self, place: int, text: object, rule: str, advice: str) -> None:
        super().__init__(rule)
        self.place = place
        self.text = text
        self.rule = rule
        self.advice = advice

    def message(self, column: str, where: str) -> str:
        """Return the sentence for the user."""
        text = str(self.text)
        shown = text if len(text) <= 80 else f"{text[:79]}…"
        found = "is empty" if self.text in ("", None) else f"has '{shown}'"
        return f"{self.rule}: {where} {found} in column '{column}'. {self.advice}"


@final
@dataclass(slots=True)
class Columns:
    """The columns of a table as arrays, by role.

    Attributes
    ----------
    codes : dict of (n_rows,) int32
        Label columns, as positions in `names[vocabulary]`; -1 where the cell is missing.
    names : dict of list of str
        The distinct names of each vocabulary, in order of appearance.
    numbers, flags, groups : dict of arrays
        The other columns: float64, bool, and int32 numbered from 0 by first appearance.
    headers : dict of str
        The column name of each role.
    rows : Rows
        Row numbers for messages.
    notes : list of str
        What the user should know about how the table was read.
    """

    rows: Rows
    codes: dict[str, CodeArray] = field(default_factory=dict)
    names: dict[str, list[str]] = field(default_factory=dict)
    numbers: dict[str, FloatArray] = field(default_factory=dict)
    flags: dict[str, BoolArray] = field(default_factory=dict)
    groups: dict[str, CodeArray] = field(default_factory=dict)
    headers: dict[str, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    def require(self, role: str, unless: BoolArray | None = None) -> None:
        """Raise if a cell of a label column is missing, except in the rows `unless`."""
        missing = self.codes[role] == MISSING
        if unless is not None:
            missing &= ~unless
        if missing.any():
            i = int(np.argmax(missing))
            raise InputError(
                f"Every row needs {_with_article(role)}: {self.rows.where(i)} has none in "
                f"column '{self.headers.get(role, role)}' (an empty cell, NA or NaN). Fill in the "
                "cell or remove the row."
            )


def _with_article(role: str) -> str:
    words = role.replace("_", " ")
    return f"an {words}" if words[0] in "aeio" else f"a {words}"


@final
class Vocabulary:
    """Distinct names in order of appearance; cells map to their positions."""

    def __init__(self) -> None:
        self.names: list[str] = []
        self.stripped = False
        self._code: dict[str, int] = {}

    def encode(self, cells: Iterable[str | None]) -> CodeArray:
        """Return the codes of cells; surrounding spaces are no part of a name."""
        known, out = self._code, []
        for cell in cells:
            code = MISSING if cell is None else known.get(cell)
            out.append(self._add(cell) if code is None and cell is not None else code)
        return np.array(out, dtype=np.int32)

    def _add(self, cell: str) -> int:
        name = cell.strip()
        if name.casefold() in MISSING_TEXTS:
            code = MISSING
        else:
            code = self._code.setdefault(name, len(self.names))
            if code == len(self.names):
                self.names.append(name)
        if name != cell:
            self.stripped = self.stripped or code != MISSING
            self._code[cell] = code
        return code


def parse_flag(text: str) -> bool | None:
    """Return a flag written as true/false, yes/no or 1/0, or None if it is none of them."""
    return _FLAGS.get(text.strip().casefold())


def check_finite(values: FloatArray, column: str) -> None:
    """Raise `CellError` at the first number that is not finite."""
    bad = ~np.isfinite(values)
    if bad.any():
        i = int(np.argmax(bad))
        raise not_a_number(i, values[i], column)


def not_a_number(place: int, text: object, what: str) -> CellError:
    """Return the error for a cell that should hold a finite number."""
    advice = "Fill in a number or remove the row."
    if isinstance(text, str) and text.replace(",", "").lstrip("+-").isdigit() and "," in text:
        advice = "Write numbers with a decimal point and without separators."
    return CellError(place, text, f"A {what} must be a finite number", advice)


def not_a_flag(place: int, text: object, what: str) -> CellError:
    """Return the error for a cell that should be true or false."""
    return CellError(
        place, text, f"A {what} flag must be true or false (or 1, 0, yes, no)", "Fill it in."
    )


def number_groups(keys: npt.NDArray[Any]) -> CodeArray:
    """Number groups from 0 by first appearance."""
    if keys.size and (keys[1:] >= keys[:-1]).all():
        steps = keys[1:] != keys[:-1]
        return np.concatenate(([0], np.cumsum(steps))).astype(np.int32)
    _, first, inverse = np.unique(keys, return_index=True, return_inverse=True)
    rank = np.empty(first.size, dtype=np.int32)
    rank[np.argsort(first)] = np.arange(first.size, dtype=np.int32)
    return rank[inverse]


# -------------------------------------------------------------------- columns given as arrays
def columns_of_arrays(
    states: Any,
    actions: Any,
    next_states: Any,
    rewards: Any,
    episodes: Any,
    terminals: Any,
    source: str,
) -> Columns:
    """Return the columns of a log given as sequences or arrays; needs numpy only."""
    columns = Columns(Rows(source))
    shared, own = Vocabulary(), Vocabulary()
    for role, cells, vocabulary in (
        ("state", states, shared),
        ("action", actions, own),
        ("next_state", next_states, shared),
    ):
        columns.codes[role] = encode_array(cells, vocabulary, role)
        columns.headers[role] = role
    columns.names = {"state": shared.names, "action": own.names}
    try:
        if rewards is not None:
            columns.numbers["reward"] = _number_array(rewards)
        if terminals is not None:
            columns.flags["terminal"] = _flag_array(terminals)
    except CellError as bad:
        role = "terminal" if "reward" in columns.numbers or rewards is None else "reward"
        raise InputError(bad.message(role, columns.rows.where(bad.place))) from None
    if episodes is not None:
        codes = encode_array(episodes, Vocabulary(), "episode")
        columns.codes["episode"] = codes
        columns.require("episode")
        columns.groups["episode"] = number_groups(columns.codes.pop("episode"))
    lengths = {
        name: len(column)
        for part in (columns.codes, columns.numbers, columns.flags, columns.groups)
        for name, column in part.items()
    }
    if len(set(lengths.values())) > 1:
        text = ", ".join(f"{name} {n}" for name, n in lengths.items())
        raise InputError(f"The columns of a log must be equally long. Rows given: {text}.")
    return columns


def encode_array(cells: Any, vocabulary: Vocabulary, what: str) -> CodeArray:
    """Return the codes of labels given as a sequence or array of strings or integers."""
    array = np.asarray(cells)
    if array.ndim != 1:
        raise InputError(f"A column of a log must be one-dimensional: {what} has {array.shape}.")
    if array.dtype.kind == "O":
        return vocabulary.encode([_cell_text(cell, what) for cell in array.tolist()])
    distinct, first, inverse = np.unique(array, return_index=True, return_inverse=True)
    texts: Sequence[str | None] = [_cell_text(cell, what) for cell in distinct.tolist()]
    order = np.argsort(first)
    codes = np.empty(order.size, dtype=np.int32)
    codes[order] = vocabulary.encode([texts[i] for i in order])
    return codes[inverse]


def _cell_text(cell: object, what: str) -> str | None:
    """Return a label of an array as text, None where it is missing."""
    if cell is None or (isinstance(cell, float) and np.isnan(cell)):
        return None
    if isinstance(cell, (bool, float)):
        return str(cell)
    return label_text(cell, what.replace("_", " "))


def _number_array(cells: Any) -> FloatArray:
    try:
        values = np.asarray(cells, dtype=np.float64)
    except (TypeError, ValueError):
        for i, cell in enumerate(cells):
            try:
                float(cell)
            except (TypeError, ValueError):
                raise not_a_number(i, cell, "reward") from None
        raise
    check_finite(values, "reward")
    return values


def _flag_array(cells: Any) -> BoolArray:
    array = np.asarray(cells)
    if array.dtype == np.bool_:
        return array
    distinct, inverse = np.unique(array.astype(str), return_inverse=True)
    parsed = [parse_flag(str(text)) for text in distinct]
    for i, flag in enumerate(parsed):
        if flag is None:
            raise not_a_flag(int(np.argmax(inverse == i)), str(distinct[i]), "terminal")
    return np.array(parsed, dtype=bool)[inverse]
