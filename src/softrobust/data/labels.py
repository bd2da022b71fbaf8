"""Names of states and actions.

The paper numbers states and actions from 0; people name them. `Labels` is the ordered list of
those names, and the position of a name is the index used in every array. Integers stand in the
order 0, 1, …, max (a number that never occurs is an unvisited state); other names stand in natural
order, in which "n=2" comes before "n=10".
"""

import difflib
import operator
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import gcd
from typing import Any, NamedTuple, SupportsIndex, final

from softrobust._core.arguments import names_arguments
from softrobust._core.arrays import Sealed
from softrobust._core.files import FORMULA
from softrobust._core.notes import Note
from softrobust._core.settings import whole
from softrobust.errors import InputError

# At most 18 digits: a longer run of digits is a code, not a number, and does not fit in 64 bits.
_INTEGER = re.compile(r"0|-?[1-9][0-9]{0,17}")
_WHOLE_FLOAT = re.compile(r"(0|-?[1-9][0-9]{0,17})(?:\.0*)?")
_DIGITS = re.compile(r"([0-9]+)")
DASHES = str.maketrans(dict.fromkeys("–—−", "-"))
UNKNOWN = -1
# Suggestions compare strings one by one; beyond this many candidates they would take seconds.
_MOST_COMPARED = 20_000


@final
@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Labels:
    """Ordered, distinct names; a name's position is its index, `noun` what messages call one.

    With `integers` the names were numbers when they came in, and `value` gives them back so.

    Examples
    --------
    >>> fields = Labels(("dry", "wet"), noun="state")
    >>> fields.index("wet"), fields[0], len(fields)
    (1, 'dry', 2)
    """

    names: tuple[str, ...]
    noun: str = "label"
    integers: bool = False
    _lookup: dict[str, int] = field(default_factory=dict, init=False, repr=False)
    _typed: dict[str, int] = field(default_factory=dict, init=False, repr=False)

    def __post_init__(self) -> None:
        names = tuple(self.names)
        for i, name in enumerate(names):
            if not name or not isinstance(name, str):
                raise InputError(
                    f"The name of every {self.noun} must be a non-empty string: number {i} is "
                    f"{name!r}."
                )
        try:
            "".join(names).encode()
        except UnicodeEncodeError as error:
            raise InputError(
                f"A name of a {self.noun} has half a character ({error.object[error.start]!a}), "
                "which no file can hold. Read the names again, with the right encoding."
            ) from None
        if len(set(names)) < len(names):
            twice = Counter(names).most_common(1)[0][0]
            raise InputError(
                f"The names of {self.noun}s must be distinct: '{twice}' stands there twice. "
                "Remove or rename one of them."
            )
        if self.integers and not all(map(_INTEGER.fullmatch, names)):
            raise InputError(f"Not every {self.noun} is an integer: {', '.join(names[:5])}.")
        object.__setattr__(self, "names", names)

    @classmethod
    @names_arguments
    def range(cls, n: int, noun: str = "label") -> "Labels":
        """Return the names "0", "1", …, "n-1"."""
        names = range(whole("n", n, 0, 2**31 - 1))  # codes have 32 bits
        return cls(tuple(map(str, names)), noun=noun)

    @classmethod
    @names_arguments
    def of(cls, names: "Labels | Iterable[str | int]", noun: str = "label") -> "Labels":
        """Return `names` as labels; integers become their decimal text."""
        if isinstance(names, Labels):
            return names
        if isinstance(names, str):
            raise InputError(f"The {noun}s must be a list of names, not the single text '{names}'.")
        return cls(tuple(label_text(name, noun) for name in names), noun=noun)

    @property
    def lookup(self) -> dict[str, int]:
        """The index of every name; made on first use, for 10⁶ names take a while."""
        if not self._lookup and self.names:
            self._lookup.update(zip(self.names, range(len(self.names)), strict=True))
        return self._lookup

    def index(self, label: str | SupportsIndex) -> int:
        """Return the index of a name; an integer is its decimal text, never a position."""
        name = label_text(label, self.noun)
        position = self.find(name)
        if position == UNKNOWN:
            raise InputError(f"Unknown {self.noun} '{name}'. {self.suggest(name)}")
        return position

    def find(self, name: str) -> int:
        """The index of a name as it is, or as a keyboard types it; −1 where none or several fit.

        >>> Labels(("<4", "4–6", "≥6")).find(">= 6"), Labels(("<4", "4–6", "≥6")).find("4-6")
        (2, 1)
        """
        position = self.lookup.get(name)
        if position is not None:
            return position
        if not self._typed:
            for i, known in enumerate(self.names):
                key = as_typed(known)
                self._typed[key] = UNKNOWN if key in self._typed else i
        return self._typed.get(as_typed(name), UNKNOWN)

    def value(self, position: SupportsIndex) -> str | int:
        """The name, as a number where it came in as one."""
        return int(self.names[position]) if self.integers else self.names[position]

    def suggest(self, name: str) -> str:
        """Return a sentence that helps after an unknown name: close matches, or what there is."""
        pool: Sequence[str] = self.names
        if len(pool) > _MOST_COMPARED:
            near = [known for known in pool if known.startswith(name[:3])]
            pool = (near or [known for known in pool if known[:1] == name[:1]])[:_MOST_COMPARED]
        close = difflib.get_close_matches(name, pool, n=3, cutoff=0.6)
        if close:
            return "Did you mean " + " or ".join(f"'{match}'" for match in close) + "?"
        return f"The {len(self)} known {self.noun}s are {self.shortened(range(len(self)))}."

    def shortened(self, positions: Iterable[SupportsIndex], most: int = 5) -> str:
        """Return the names at `positions` as text, the first `most` of them and how many more."""
        chosen = [operator.index(i) for i in positions]
        text = ", ".join(f"'{self.names[i]}'" for i in chosen[:most])
        return text if len(chosen) <= most else f"{text} and {len(chosen) - most} more"

    def __contains__(self, label: object) -> bool:
        return isinstance(label, str) and label in self.lookup

    def __len__(self) -> int:
        return len(self.names)

    def __getitem__(self, position: SupportsIndex) -> str:
        return self.names[position]

    def __iter__(self) -> Iterator[str]:
        return iter(self.names)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Labels) and self.names == other.names

    def __hash__(self) -> int:
        return hash(self.names)

    def __repr__(self) -> str:
        return f"Labels({self.shortened(range(len(self)))})"


class OfStates(Sealed):
    """Sizes of what is on labelled states and actions."""

    __slots__ = ()
    states: Any
    actions: Any

    @property
    def n_states(self) -> int:
        """S, unvisited states and "(end)" included."""
        return len(self.states)

    @property
    def n_actions(self) -> int:
        """A."""
        return len(self.actions)

    @property
    def shape(self) -> tuple[int, int]:
        """(n_states, n_actions)."""
        return len(self.states), len(self.actions)


class Ordered(NamedTuple):
    """Names put in order: the labels, where each given name went, and what was assumed."""

    labels: Labels
    positions: list[int]
    notes: tuple[Note, ...] = ()


def label_text(label: object, noun: str = "label") -> str:
    """Return a label as text: a string as it is, an integer in decimals."""
    if isinstance(label, str):
        return label
    if not isinstance(label, bool):
        try:
            return str(operator.index(label))  # type: ignore[arg-type]
        except TypeError:
            pass
    raise InputError(f"The name of every {noun} must be a string or an integer, not {label!r}.")


def as_typed(name: str) -> str:
    """A name in the signs of a keyboard, without spaces, and without a spreadsheet's apostrophe.

    >>> as_typed("4 – 6") == as_typed("4-6"), as_typed(">=4") == as_typed("≥ 4")
    (True, True)
    """
    plain = name[1:] if name[:1] == "'" and name[1:2] in FORMULA else name
    return "".join(plain.translate(DASHES).replace(">=", "≥").replace("<=", "≤").split())


def natural_key(name: str) -> tuple[list[tuple[int, int, str]], str]:
    """Return a sort key in which runs of digits compare as numbers.

    >>> sorted(["n=10", "n=2", "a"], key=natural_key)
    ['a', 'n=2', 'n=10']
    """
    # Digits compare by length without leading zeros, then as text: right for any length.
    parts = []
    for i, part in enumerate(_DIGITS.split(name)):
        digits = part.lstrip("0")
        if part:
            parts.append((0, len(digits), digits) if i % 2 else (1, 0, part.casefold()))
    return parts, name


def order_names(names: Sequence[str], noun: str, fill: bool) -> Ordered:
    """Put the names of a log in order; `fill` adds integers (states) that never occur.

    Not where they are no plain numbers of states: negative, in steps (0, 20, 40), or far apart.
    """
    whole = [_WHOLE_FLOAT.fullmatch(name) for name in names]
    if not all(whole):
        labels = Labels(tuple(sorted(names, key=natural_key)), noun=noun)
        return Ordered(labels, [labels.lookup[name] for name in names])
    numbers = [int(match[1]) for match in whole if match is not None]
    notes = []
    if decimals := [name for name in names if not _INTEGER.fullmatch(name)]:
        facts: dict[str, object] = {"noun": noun, "example": decimals[0]}
        notes.append(Note("names_as_integers", facts=facts))
    distinct = sorted(set(numbers))
    if fill and distinct:
        low, top, kept = distinct[0], distinct[-1], len(distinct)
        steps = kept > 2 and gcd(*distinct) > 1
        if low < 0 or steps or top + 1 > 4 * kept + 10:
            facts = {"noun": noun, "smallest": low, "largest": top, "kept": kept}
            notes.append(Note("integers_not_filled", facts=facts))
        elif top + 1 > kept:
            facts = {"noun": noun, "largest": top, "added": top + 1 - kept}
            notes.append(Note("integers_filled", facts=facts))
            distinct = list(range(top + 1))
    place = {number: i for i, number in enumerate(distinct)}
    labels = Labels(tuple(map(str, distinct)), noun=noun)
    return Ordered(labels, [place[number] for number in numbers], tuple(notes))


# --------------------------------------------------------------------------------------------------
# States made of several columns, by name: "bp=high|hba1c=7–8", and back to columns.
#
# A state of one column has that column's value for a name. With several, each part is column=value;
# a backslash stands before a bar, a backslash, or an equals sign in the name of a column, so that
# two different states never share a name and every name splits again.

BAR = "|"
_PARTS = re.compile(r"(?:[^\\|]|\\.)+")
_NAME = re.compile(r"((?:[^\\=]|\\.)+)=(.*)", re.DOTALL)
_ESCAPED = re.compile(r"\\(.)", re.DOTALL)


def state_name(columns: Sequence[str], values: Sequence[str]) -> str:
    """The name of a state, from one value per column.

    >>> state_name(["bp", "hba1c"], ["high", "7–8"])
    'bp=high|hba1c=7–8'
    >>> state_name(["bp"], ["high"])
    'high'
    """
    if len(columns) == 1:
        return values[0]
    return BAR.join(
        f"{_shielded(column, '=')}={_shielded(value)}"
        for column, value in zip(columns, values, strict=True)
    )


def split_state(name: str) -> dict[str, str] | None:
    """The columns and values of a state name of several columns; None if it is not one.

    >>> split_state("bp=high|hba1c=7–8")
    {'bp': 'high', 'hba1c': '7–8'}
    """
    out: dict[str, str] = {}
    parts = _PARTS.findall(name)
    if BAR.join(parts) != name:
        return None
    for part in parts:
        found = _NAME.fullmatch(part)
        column = _ESCAPED.sub(r"\1", found[1]) if found else ""
        if found is None or column in out:
            return None
        out[column] = _ESCAPED.sub(r"\1", found[2])
    return out if len(out) > 1 else None


def state_columns(names: Iterable[str]) -> Mapping[str, tuple[str, ...]] | None:
    """Column → its value in each state; None unless all names have the same columns."""
    split = [split_state(name) for name in names]
    if not split or split[0] is None:
        return None
    columns = list(split[0])
    if any(one is None or list(one) != columns for one in split):
        return None
    return {column: tuple(one[column] for one in split if one is not None) for column in columns}


def _shielded(text: str, more: str = "") -> str:
    for sign in ("\\", BAR, *more):
        text = text.replace(sign, "\\" + sign)
    return text
