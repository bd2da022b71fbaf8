"""What a check says: fine, caution, or that it cannot tell."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, final


class Verdict(StrEnum):
    """How a check ended."""

    FINE = "fine"
    CAUTION = "caution"
    CANNOT_TELL = "cannot tell"


@final
@dataclass(frozen=True, slots=True)
class Check:
    """One check.

    Attributes
    ----------
    name : str
        What was asked, in a few words.
    verdict : Verdict
    sentence : str
        The finding in plain words, with its figures and what it does not cover.
    figures : mapping
        The same figures as plain values, ready for JSON.
    """

    name: str
    verdict: Verdict
    sentence: str
    figures: Mapping[str, Any] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """Plain values, ready for JSON."""
        return {
            "name": self.name,
            "verdict": str(self.verdict),
            "sentence": self.sentence,
            "figures": dict(self.figures),
        }


def cannot_tell(name: str, why: str) -> Check:
    """A check that could not be made."""
    return Check(name, Verdict.CANNOT_TELL, f"Cannot tell: {why}")
