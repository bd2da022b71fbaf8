"""What a stage found and a person should know, as facts: sentences are written in `report` alone.

A fact whose name begins with `n_` is a `Count`: a number of rows, episodes, observations or people
that a reader may not be allowed to know where it is small. Those named in `TOTALS` add up what is
in a log: from a total and the counts that are shown, a small one would follow. `rows` are places in
a user's file, `text` is what somebody else wrote, with whatever counts it may hold. Hiding small
counts is a rule on these types, at any depth of the facts, never a pattern over prose.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType
from typing import Any, final

import numpy as np
import numpy.typing as npt

from softrobust._core.arrays import Rows
from softrobust.errors import InputError

SMALL = 5  # counts below this are hidden where counts are suppressed
TOTALS = frozenset({"n_rows", "n_episodes", "n_transitions", "n_starts", "n_visits", "n_ids"})
UNTYPED = frozenset({"rows", "text"})
RECORDED = "recorded"  # the code of a sentence that an older version wrote down
KEPT_ROWS = 20  # numbers of rows that a note lists


class Level(StrEnum):
    """How much a note matters: to know, to be careful about, or to stop for."""

    INFO = "info"
    CAUTION = "caution"
    ALARM = "alarm"


class Count(int):
    """A number of observations, hidden where it is small and counts are suppressed."""

    @property
    def small(self) -> bool:
        """Whether it may give somebody away."""
        return self < SMALL


class Total(Count):
    """A number of observations that is hidden whatever its size."""

    @property
    def small(self) -> bool:
        """Always: what is left of it after other counts may be small."""
        return True


@final
@dataclass(frozen=True, slots=True)
class Note:
    """One finding: a code that `report` has words for, its level, and the facts of the sentence."""

    code: str
    level: Level = Level.INFO
    facts: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        object.__setattr__(self, "facts", MappingProxyType(_typed("", self.facts)))

    def __reduce__(self) -> tuple[Any, ...]:
        return Note, (self.code, self.level, dict(self.facts))

    def __getitem__(self, name: str) -> Any:
        if name not in self.facts:
            raise InputError(
                f"The note '{self.code[:60]}' lacks its {name}. Make the file again it came from."
            )
        return self.facts[name]

    def to_dict(self) -> dict[str, Any]:
        """Plain values, ready for JSON."""
        return {"code": self.code, "level": str(self.level), "facts": dict(self.facts)}

    @classmethod
    def from_dict(cls, record: Mapping[str, Any]) -> Note:
        """The inverse of `to_dict`."""
        return cls(str(record["code"]), Level(record["level"]), dict(record["facts"]))

    def without_small_counts(self) -> Note:
        """The same note with small counts, row numbers and others' words as None."""
        return Note(self.code, self.level, _hidden("", self.facts))


@final
class Ledger(list[Note]):
    """What is worth a look, in the order in which it is found while a table is read."""

    def add(
        self, code: str, rows: Rows, places: npt.NDArray[np.integer[Any]], **facts: Any
    ) -> None:
        """Note that `places` (rows counted from 0) are concerned; nothing where there are none."""
        if places.size:
            first = [rows.number(i) for i in np.sort(places)[:KEPT_ROWS].tolist()]
            where = {"n_rows": int(places.size), "rows": first, "source": rows.source}
            self.append(Note(code, Level.CAUTION, facts | where))

    def say(self, code: str, **facts: Any) -> None:
        """Note something that has no rows."""
        self.append(Note(code, Level.CAUTION, facts))


def read_notes(records: Iterable[Note | Mapping[str, Any] | str]) -> tuple[Note, ...]:
    """Notes of a file; sentences of an older version stay what they are."""
    plain = (Note(RECORDED, facts={"text": x}) if isinstance(x, str) else x for x in records)
    return tuple(x if isinstance(x, Note) else Note.from_dict(x) for x in plain)


def _typed(name: str, value: Any) -> Any:
    """Counts as such, by their names."""
    if isinstance(value, Mapping):
        return {k: _typed(k, v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [_typed(name, v) for v in value]
    if name.startswith("n_") and isinstance(value, int) and not isinstance(value, bool):
        return (Total if name in TOTALS else Count)(value)
    return value


def _hidden(name: str, value: Any) -> Any:
    if isinstance(value, Mapping):
        return {k: _hidden(k, v) for k, v in value.items()}
    if name in UNTYPED or (isinstance(value, Count) and value.small):
        return None
    return [_hidden(name, v) for v in value] if isinstance(value, list) else value
