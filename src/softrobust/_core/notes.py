"""What a stage found and a person should know, as facts: sentences are written in `report` alone.

A fact whose name begins with `n_` is a `Count`: a number of rows, episodes, observations or people
that a reader may not be allowed to know where it is small; `rows` are places in a user's file.
Hiding small counts is a rule on these types, never a pattern over prose.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType
from typing import Any, final

SMALL = 5  # counts from 1 to 4 are hidden where counts are suppressed


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


@final
@dataclass(frozen=True, slots=True)
class Note:
    """One finding: a code that `report` has words for, its level, and the facts of the sentence."""

    code: str
    level: Level = Level.INFO
    facts: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        typed = {k: Count(v) if _counted(k, v) else v for k, v in self.facts.items()}
        object.__setattr__(self, "facts", MappingProxyType(typed))

    def __getitem__(self, name: str) -> Any:
        return self.facts[name]

    def to_dict(self) -> dict[str, Any]:
        """Plain values, ready for JSON."""
        return {"code": self.code, "level": str(self.level), "facts": dict(self.facts)}

    @classmethod
    def from_dict(cls, record: Mapping[str, Any]) -> Note:
        """The inverse of `to_dict`."""
        return cls(str(record["code"]), Level(record["level"]), dict(record["facts"]))

    def without_small_counts(self) -> Note:
        """The same note with small counts as None and without row numbers."""
        hidden = {
            k: None if k == "rows" or (isinstance(v, Count) and v.small) else v
            for k, v in self.facts.items()
        }
        return Note(self.code, self.level, hidden)


def _counted(name: str, value: Any) -> bool:
    return name.startswith("n_") and isinstance(value, int) and not isinstance(value, bool)
