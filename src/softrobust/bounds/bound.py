"""An upper bound, and the policies it speaks of."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import final


class Covers(StrEnum):
    """Which policies a bound holds for; each class contains the one before it."""

    DETERMINISTIC = "deterministic"
    STATIONARY = "stationary"
    ALL = "all"

    @property
    def words(self) -> str:
        """As said in a sentence: "no … can earn more"."""
        return {
            "deterministic": "deterministic policy",
            "stationary": "stationary policy (randomized ones included)",
            "all": "policy of any kind (even one that learns as it goes)",
        }[self.value]


@final
@dataclass(frozen=True, slots=True)
class Bound:
    """No policy of the class `covers` has a static soft-robust return above `value`."""

    value: float
    covers: Covers
    method: str
