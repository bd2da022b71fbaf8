"""Columns of a table: which plays which role, and how its cells become an array.

Tables come with many headers; each role knows the usual names, and `columns={"state": "site"}`
names the rest. Names are compared without case and surrounding spaces.

A column arrives in pieces (batches of a stream), so that ten million rows never exist as text. A
piece is an Arrow or a numpy array; names become codes of a vocabulary, other cells numbers, flags
or groups. Text is decided at the end of the stream, never guessed from its beginning. A cell that
breaks a rule raises `CellError`, which knows its place in the piece; the reader knows the row.
"""

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, final

import numpy as np
import numpy.typing as npt

from softrobust._core.arrays import BoolArray, CodeArray, FloatArray, IntArray, Rows, starts_of
from softrobust._core.notes import Note
from softrobust._core.settings import did_you_mean
from softrobust.data.labels import Labels, label_text
from softrobust.errors import InputError

CellKind = Literal["label", "number", "flag", "group"]
Named = Mapping[str, str] | None  # role → column name, where that is no alias
MISSING = -1
LARGEST = 1e100  # numbers whose squares can still be added up
# Spellings of "no value" in exports; a state or action may still be called "none".
MISSING_TEXTS = frozenset({"", ".", "na", "nan", "n/a", "#n/a", "<na>", "null"})
NUMBER = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")
_FLAGS = dict.fromkeys(("true", "t", "yes", "y"), True) | dict.fromkeys(
    ("false", "f", "no", "n"), False
)


@final
class Role(NamedTuple):
    """What a column can be, the lower-case names under which it is found, and how cells are read.

    A cell is a name, a finite number, true or false, or an anonymous group; label columns that
    share names, such as state and next state, share a vocabulary.
    """

    name: str
    aliases: tuple[str, ...]
    kind: CellKind
    vocabulary: str = ""
    required: bool = True


STATE = Role("state", ("state", "s", "idstatefrom", "obs", "observation"), "label", "state")
ACTION = Role("action", ("action", "a", "idaction"), "label", "action")
NEXT_STATE = Role(
    "next_state", ("next_state", "s_next", "sp", "idstateto", "next_obs"), "label", "state"
)
REWARD = Role("reward", ("reward", "r"), "number", required=False)
EPISODE = Role("episode", ("episode", "episode_id", "idepisode"), "group", required=False)
TERMINAL = Role("terminal", ("terminal", "done", "terminated"), "flag", required=False)

LOG_ROLES = (STATE, ACTION, NEXT_STATE, REWARD, EPISODE, TERMINAL)


def resolve_columns(
    found: Sequence[str],
    roles: Sequence[Role],
    columns: Named = None,
    source: str = "the table",
) -> dict[str, int]:
    """Positions of the roles' columns; `columns` (role → column name) goes before the aliases."""
    position = _given_columns(found, roles, columns or {}, source)
    free = dict(enumerate(map(_plain, found)))
    for taken in position.values():
        del free[taken]
    for role in roles:
        if role.name in position:
            continue
        fits = [i for i, name in free.items() if name in role.aliases]
        if len(fits) > 1:
            names = " and ".join(f"'{found[i].strip()}'" for i in fits)
            same = len({found[i].strip() for i in fits}) == 1  # no name tells them apart
            say = "Rename one of them" if same else f"Say which with columns={{'{role.name}': …}}"
            raise InputError(
                f"One column must be the {role.name}: in {source} both {names} could be. {say}.",
                arguments={} if same else {"columns": f"{role.name}=…"},
            )
        if fits:
            position[role.name] = fits[0]
        elif role.required:
            raise _missing_column(role, found, source)
    return position


def resolvable(found: Sequence[str], roles: Sequence[Role], columns: Named = None) -> bool:
    """Whether all required roles have a column."""
    try:
        resolve_columns(found, roles, columns)
    except InputError:
        return False
    return True


def _plain(name: str) -> str:
    return name.strip().casefold()


def _given_columns(
    found: Sequence[str], roles: Sequence[Role], columns: Mapping[str, str], source: str
) -> dict[str, int]:
    """Positions of the columns that the user named."""
    position: dict[str, int] = {}
    known, used = {role.name for role in roles}, set()  # of thousands, in wide tables
    exact, alike = defaultdict[str, list[int]](list), defaultdict[str, list[int]](list)
    for i, other in enumerate(found):
        exact[other.strip()].append(i)
        alike[_plain(other)].append(i)
    for role, name in columns.items():
        if role not in known:
            raise InputError(
                f"Unknown role '{role}' in columns=. Roles are "
                f"{_one_of([r.name for r in roles if r.aliases])}."
            )
        fits = exact[name.strip()] or alike[_plain(name)]
        if not fits:
            text = f"The column '{name}' given for the {role} is not in {source}, whose columns are"
            raise InputError(f"{text} {listed(found)}.{did_you_mean(name, found)}")
        if len(fits) > 1:
            raise InputError(
                f"The column '{name}' given for the {role} stands {len(fits)} times in {source}. "
                "Rename all but one of them."
            )
        if fits[0] in used:
            raise InputError(
                f"The column '{name}' of {source} is given two roles in columns=. "
                "Name another column for one of them."
            )
        used.add(fits[0])
        position[role] = fits[0]
    return position


def _missing_column(role: Role, found: Sequence[str], source: str) -> InputError:
    text = (
        f"A column for the {role.name} is missing in {source}: its columns are {listed(found)}, "
        f"and none is called {_one_of(role.aliases)}. Rename it, or say which it is with "
        f"columns={{'{role.name}': …}}."
    )
    arguments = {"columns": f"{role.name}=…"}
    if role is NEXT_STATE or role is STATE:
        if any(f"next_{name}" in found for name in found):
            text += " Columns x and next_x are measurements: a continuous log has such states."
            arguments["continuous"] = ""
        else:
            text += " A table of visits, with one row per id and time, is for read_trajectories."
            arguments["read_trajectories"] = ""
    return InputError(text, arguments=arguments)


def refuse_absent(name: str, found: Sequence[str]) -> None:
    """Names are taken to the letter here: they become parts of the names of states."""
    if name not in found:
        raise InputError(
            f"The column '{name}' is not in the table, whose columns are {listed(found, 20)}."
            + did_you_mean(name, found, " Check the name.")
        )


def _one_of(names: Sequence[str]) -> str:
    return " or ".join(filter(None, (", ".join(names[:-1]), names[-1])))


def listed(names: Sequence[str], most: int = 12) -> str:
    """Names in quotes, the first of them if there are many."""
    short = (name if len(name) <= 60 else f"{name[:60]}…" for name in map(str.strip, names[:most]))
    text = ", ".join(f"'{name}'" for name in short)
    return text if len(names) <= most else f"{text} and {len(names) - most} more"


# -- what comes out: the columns of a table as arrays ------------------------------------------


@final
@dataclass(slots=True)
class Columns:
    """The columns of a table as arrays (n_rows,), by role."""

    rows: Rows
    # codes, names: label columns, as positions in their distinct names, -1 where the cell is
    # missing; columns of one vocabulary share one list of names
    codes: dict[str, CodeArray] = field(default_factory=dict)
    names: dict[str, list[str]] = field(default_factory=dict)
    numbers: dict[str, FloatArray] = field(default_factory=dict)
    flags: dict[str, BoolArray] = field(default_factory=dict)
    # equal where rows belong together: the integers of the table, or codes of its names
    groups: dict[str, npt.NDArray[np.integer[Any]]] = field(default_factory=dict)
    headers: dict[str, str] = field(default_factory=dict)  # the column name of each role
    # what the user should know about how the table was read
    notes: list[Note] = field(default_factory=list)

    def refuse_empty(self, what: str = "A log") -> None:
        """Raise if there is no row."""
        if not any(codes.size for codes in self.codes.values()):
            raise InputError(
                f"{what} needs at least one transition: {self.rows.source} has none. Check that it "
                "is the right file."
            )

    def require(self, role: str, unless: BoolArray | None = None) -> None:
        """Raise if a cell of a label column is missing, except in the rows `unless`."""
        missing = self.codes[role] == MISSING
        if unless is not None:
            missing &= ~unless
        if missing.any():
            raise InputError(
                f"Every row needs {_with_article(role)}: {self.rows.where(missing)} has none in "
                f"column '{self.headers.get(role, role)}' (an empty cell, NA or NaN). Fill in the "
                "cell or remove the row."
            )

    def positions(
        self, role: str, labels: Labels, what: str, unless: BoolArray | None = None
    ) -> CodeArray:
        """A label column as indices of `labels`; -1 may be in the rows `unless`."""
        self.require(role, unless)
        codes, names = self.codes[role], self.names[role]
        out = np.array([*map(labels.find, names), MISSING], dtype=np.int32)[codes]
        unknown = (out == MISSING) & (codes != MISSING)
        if unknown.any():
            i = int(np.argmax(unknown))
            raise InputError(
                f"{what} must be for a known {labels.noun}: {self.rows.where(i)} has "
                f"'{names[codes[i]]}'. {labels.suggest(names[codes[i]])}"
            )
        return out

    def refuse_twice(self, keys: npt.NDArray[Any], what: str) -> None:
        """Raise if two rows have the same key, which is made of all label columns."""
        order = np.argsort(keys, kind="stable")
        again = np.flatnonzero(keys[order][1:] == keys[order][:-1])
        if again.size:
            i, j = int(order[again[0]]), int(order[again[0] + 1])
            cells = {role: self.names[role][codes[i]] for role, codes in self.codes.items()}
            given = ", ".join(f"{role.replace('_', ' ')} '{name}'" for role, name in cells.items())
            raise InputError(
                f"{what} is given once: rows {self.rows.number(i)} and {self.rows.number(j)} of "
                f"{self.rows.source} both give {given}. Remove one."
            )


def _with_article(role: str) -> str:
    words = role.replace("_", " ")
    return f"an {words}" if words[0] in "aeio" else f"a {words}"


def number_groups(keys: npt.NDArray[Any]) -> CodeArray:
    """Number groups from 0 by first appearance."""
    if (keys[1:] >= keys[:-1]).all():
        return (np.cumsum(starts_of(keys)) - 1).astype(np.int32)
    _, first, inverse = np.unique(keys, return_index=True, return_inverse=True)
    rank = np.empty(first.size, dtype=np.int32)
    rank[np.argsort(first)] = np.arange(first.size, dtype=np.int32)
    return rank[inverse]


def joint_codes(*columns: npt.NDArray[np.integer[Any]]) -> IntArray:
    """Number the distinct rows of columns of codes ≥ -1, in the order of the columns' values."""
    key: IntArray = np.zeros(columns[0].size, dtype=np.int64)
    for codes in columns:
        # Compacted after every column, so that many columns cannot overflow the key.
        every = key * (int(codes.max(initial=0)) + 2) + codes + 1
        key = np.asarray(np.unique(every, return_inverse=True)[1], dtype=np.int64)
    return key


def known_rows_of(parts: Sequence[npt.NDArray[np.integer[Any]]]) -> tuple[CodeArray, IntArray]:
    """Number the distinct rows of columns that miss no cell; -1 for others, and where each is."""
    _, first, place = np.unique(joint_codes(*parts), return_index=True, return_inverse=True)
    known = np.all([codes[first] != MISSING for codes in parts], axis=0)
    rank = np.where(known, np.cumsum(known) - 1, MISSING).astype(np.int32)
    return rank[place], first[known]


_COMMA = re.compile(r"[+-]?(?:[0-9]*|[0-9]{1,3}(?:\.[0-9]{3})+),[0-9]+(?:[eE][+-]?[0-9]+)?")
_GROUPED = re.compile(r"[+-]?[1-9][0-9]{0,2}(?:,[0-9]{3})+")
_WHOLE = re.compile(r"[+-]?[0-9]+")


def with_points(texts: Sequence[str], comma: bool) -> list[str] | None:
    """Numbers with decimal commas as such with points; None if the texts are no such numbers.

    Where commas separate columns (`comma` is False), 1,234 is more likely a thousand than a little
    over one; a column of nothing but such cells is left alone.
    """
    with_comma = [text for text in texts if "," in text]
    if not with_comma or not all(map(_COMMA.fullmatch, with_comma)):
        return None
    if not all(_WHOLE.fullmatch(text) for text in texts if "," not in text):
        return None
    if not comma and all(map(_GROUPED.fullmatch, with_comma)):
        return None
    return [with_point(text) if "," in text else text for text in texts]


def with_point(text: str) -> str:
    """A number with a decimal comma, and perhaps points between thousands, with a point."""
    return text.replace(".", "").replace(",", ".")


def numbers_in(texts: Sequence[str]) -> FloatArray:
    """The numbers that texts are, NaN for other texts, and one more NaN for the code -1."""
    values = [float(text) if NUMBER.fullmatch(text) else np.nan for text in texts]
    return np.array([*values, np.nan])


# -- from pieces to an array -------------------------------------------------------------------


@final
class CellError(Exception):
    """A cell that breaks a rule: its place in the piece, its text, and the rule."""

    def __init__(self, place: int, text: object, rule: str, advice: str) -> None:
        super().__init__(rule)
        self.place, self.advice = place, advice
        shown = str(text) if len(str(text)) <= 80 else f"{str(text)[:79]}…"
        self.found = "is empty" if text in ("", None) else f"has '{shown}'"

    def message(self, column: str, where: str) -> str:
        """Return the sentence for the user."""
        return f"{self}: {where} {self.found} in column '{column}'. {self.advice}"


@final
class Vocabulary(dict[str, int]):
    """Cells → codes of distinct names, in order of appearance; spaces around a name are no part."""

    def __init__(self) -> None:
        super().__init__()
        self.names: list[str] = []
        self.stripped = False

    def __missing__(self, cell: str) -> int:
        name = cell.strip()
        code = MISSING if name.casefold() in MISSING_TEXTS else self.get(name, len(self.names))
        if code == len(self.names):
            self.names.append(name)
            self[name] = code
        if name != cell:
            self.stripped = self.stripped or code != MISSING
            self[cell] = code
        return code

    def encode(self, cells: Iterable[str | None]) -> CodeArray:
        """Return the codes of cells."""
        return np.array([MISSING if cell is None else self[cell] for cell in cells], np.int32)


@final
class CellReader:
    """Takes the pieces of one column, and gives one array at the end.

    The array grows in place: a list of pieces, joined at the end, would hold every column twice,
    and small pieces leave a heap that no large array can use again; resizing moves memory pages.
    """

    def __init__(self, role: Role, vocabulary: Vocabulary | None, comma: bool = False) -> None:
        self._what, self._kind, self._vocabulary = role.name, role.kind, vocabulary
        self._comma = comma  # whether a comma in a number can only be that of decimals
        self._point_seen, self.comma_seen = False, ""
        dtype = {"label": np.int32, "number": np.float64, "flag": np.bool_, "group": np.int64}
        self._array: npt.NDArray[Any] = np.empty(1024, dtype=dtype[role.kind])
        self._size = 0

    def add(self, piece: Any) -> None:
        """Take the next piece; raise `CellError` at the first bad cell."""
        values = getattr(self, f"_{self._kind}s")(piece)  # _labels, _numbers, _flags, _groups
        end = self._size + values.size
        if end > self._array.size:
            self._array.resize(max(end, self._array.size * 5 // 4), refcheck=False)
        self._array[self._size : end] = values
        self._size = end

    def finish(self) -> npt.NDArray[Any]:
        """Return the array, cut to its size."""
        if self._point_seen and self.comma_seen:
            raise InputError(
                f"Numbers have a decimal point or a decimal comma: the column of the {self._what} "
                f"has both (such as '{self.comma_seen}'). Write all of them one way."
            )
        self._array.resize(self._size, refcheck=False)
        return self._array

    def _numbers(self, piece: Any) -> FloatArray:
        """Finite numbers; text such as " 1.5" or "+2" too, and 1,5 where that can be no other."""
        values = _cast(piece, "float64")
        if values is not None:
            self._point_seen = self._point_seen or (self._comma and bool((values % 1).any()))
        else:
            cells = piece.tolist()
            if self._comma:
                commas = [c for c in cells if isinstance(c, str) and _COMMA.fullmatch(c.strip())]
                self.comma_seen = self.comma_seen or (commas[0].strip() if commas else "")
                points = (c for c in cells if isinstance(c, str) and "." in c and "," not in c)
                self._point_seen = self._point_seen or next(points, None) is not None
                seen = set(commas)
                cells = [with_point(c) if c in seen else c for c in cells]
            values = np.empty(len(cells))
            for i, cell in enumerate(cells):
                text = cell.strip() if isinstance(cell, str) else cell
                try:
                    number = not isinstance(text, str) or NUMBER.fullmatch(text)
                    values[i] = float(text if number else "no number")
                except (TypeError, ValueError):
                    raise _not_a_number(i, text, self._what) from None
        bad = ~(np.abs(values) <= LARGEST)
        if bad.any():
            raise _not_a_number(int(np.argmax(bad)), values[np.argmax(bad)], self._what)
        return values

    def _labels(self, piece: Any) -> CodeArray:
        """Names as codes of the vocabulary; a category that no row has is no name of the table."""
        assert self._vocabulary is not None
        indices, texts = texts_of(piece, self._what)
        used = np.flatnonzero(np.bincount(indices + 1, minlength=len(texts) + 1)[1:])
        codes = np.full(len(texts) + 1, MISSING, dtype=np.int32)  # the last serves nulls
        codes[used] = self._vocabulary.encode([texts[i] for i in used.tolist()])
        return codes[indices]

    def _groups(self, piece: Any) -> npt.NDArray[Any]:
        """Integers as they are (names would not fit), until a piece holds other text."""
        if self._vocabulary is None:
            if (whole := _cast(piece, "int64")) is not None:
                return whole
            self._vocabulary = Vocabulary()
            distinct, place = np.unique(self._array[: self._size], return_inverse=True)
            codes = self._vocabulary.encode(map(str, distinct.tolist()))
            self._array[: self._size] = codes[place]
        codes = self._labels(piece)
        rule = f"Every row needs {_with_article(self._what)}"
        _refuse(codes == MISSING, *texts_of(piece, self._what), rule, "Fill in the cell.")
        return codes

    def _flags(self, piece: Any) -> BoolArray:
        """True and false, in words or as 1 and 0."""
        indices, texts = texts_of(piece, self._what)
        flags = [None if text is None else parse_flag(text) for text in texts]
        unknown = np.array([*(flag is None for flag in flags), True])[indices]
        rule = f"A {self._what} flag must be true or false (or 1, 0, yes, no)"
        _refuse(unknown, indices, texts, rule, "Fill it in.")
        return np.array([*map(bool, flags), False])[indices]


def texts_of(piece: Any, what: str) -> tuple[CodeArray, list[str | None]]:
    """Return a piece as indices into texts; an index of -1, or None, where a cell is missing."""
    if isinstance(piece, np.ndarray):
        if piece.dtype.kind == "O":
            cells = piece.tolist()
            place = {cell: i for i, cell in enumerate(dict.fromkeys(cells))}
            return np.array([place[c] for c in cells], np.int32), [_text(c, what) for c in place]
        distinct, inverse = np.unique(piece, return_inverse=True)
        return inverse.astype(np.int32), [_text(cell, what) for cell in distinct.tolist()]
    import pyarrow as pa
    import pyarrow.compute as pc

    kind = piece.type
    try:
        if not pa.types.is_dictionary(kind):
            piece = piece.dictionary_encode()
        distinct = piece.dictionary
        if not (pa.types.is_string(distinct.type) or pa.types.is_large_string(distinct.type)):
            distinct = pc.cast(distinct, pa.string())
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        raise InputError(
            f"The column of the {what} must hold names or numbers: its type is {kind}. Turn it "
            "into text."
        ) from None
    return np.asarray(piece.indices.fill_null(MISSING)).astype(np.int32), distinct.to_pylist()


def _text(cell: object, what: str) -> str | None:
    """Return a cell of a numpy array as text, None where it is missing."""
    if cell is None or (isinstance(cell, float) and np.isnan(cell)):
        return None
    return str(cell) if isinstance(cell, (bool, float)) else label_text(cell, what)


def _refuse(
    bad: BoolArray, indices: CodeArray, texts: Sequence[str | None], rule: str, advice: str
) -> None:
    """Raise at the first bad cell, if there is one."""
    if bad.any():
        i = int(np.argmax(bad))
        raise CellError(i, None if indices[i] == MISSING else texts[indices[i]], rule, advice)


def _cast(piece: Any, dtype: Literal["float64", "int64"]) -> npt.NDArray[Any] | None:
    """The piece as numbers, None if a cell is missing or no such number to the letter."""
    if isinstance(piece, np.ndarray):
        fits = piece.dtype.kind in ("iu" if dtype == "int64" else "iufb")
        return piece.astype(dtype) if fits else None
    import pyarrow as pa
    import pyarrow.compute as pc

    if piece.null_count:
        return None
    if pa.types.is_dictionary(piece.type):
        piece = piece.dictionary_decode()
    try:
        return np.asarray(pc.cast(piece, dtype))
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return None


def _not_a_number(place: int, text: object, what: str) -> CellError:
    advice = "Fill in a number or remove the row."
    if isinstance(text, float) and np.isfinite(text):
        rule = f"A {what} must be at most {LARGEST:g} in size"
        return CellError(place, text, rule, "Count in larger units, or remove the row.")
    if isinstance(text, str) and text.replace(",", "").lstrip("+-").isdigit() and "," in text:
        advice = "Write numbers with a decimal point and without separators."
    return CellError(place, text, f"A {what} must be a finite number", advice)


def parse_flag(text: str) -> bool | None:
    """Return a flag written as true/false, yes/no or 1/0, or None if it is none of them."""
    plain = text.strip().casefold()
    if NUMBER.fullmatch(plain) and float(plain) in (0.0, 1.0):
        return float(plain) == 1.0
    return _FLAGS.get(plain)
