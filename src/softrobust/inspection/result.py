"""What an inspection found: sections to read, findings to look at, and what to run next."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, final

from softrobust.data.trajectories_report import Finding


@final
class Grid(NamedTuple):
    """A table for the screen; `counts` are shaded by how often something was seen."""

    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    counts: bool = False


@final
class Section(NamedTuple):
    """A heading, sentences below it, and perhaps a table or a histogram."""

    title: str
    sentences: tuple[str, ...] = ()
    grid: Grid | None = None
    bars: tuple[tuple[str, int], ...] = ()


@final
class Step(NamedTuple):
    """A command to run next, and what it does."""

    why: str
    line: str


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Inspection:
    """All that is said of a file.

    Attributes
    ----------
    source : str
        The file's name.
    kind : str
        "log", "visits", "models", "problem", "run", …
    headline : str
        What it is, in one sentence.
    sections : sequence of Section
    findings : sequence of Finding
        What is suspicious.
    steps : sequence of Step
        Commands to run next; each works as it stands.
    blocked : str
        Why the file cannot be solved as it is, and what to do; empty if it can.
    record : dict
        The same as plain values.
    """

    source: str
    kind: str
    headline: str
    sections: Sequence[Section] = ()
    findings: Sequence[Finding] = ()
    steps: Sequence[Step] = ()
    blocked: str = ""
    record: dict[str, Any] = field(default_factory=dict)

    def as_record(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return {
            "source": self.source,
            "kind": self.kind,
            "headline": self.headline,
            **self.record,
            "findings": [f._asdict() | {"sentence": f.sentence} for f in self.findings],
            "blocked": self.blocked or None,
            "next": [step._asdict() for step in self.steps],
        }


def percent(part: float, whole: float) -> str:
    """A share for a person: "40 %", and never "0 %" or "100 %" of what is not."""
    share = 100 * part / whole if whole else 0.0
    if 0 < share < 1:
        return "under 1 %"
    if 99 < share < 100:
        return "over 99 %"
    return f"{share:.0f} %"


def several(n: int, one: str, many: str = "") -> str:
    """A number with its noun: 1 state, 3 states."""
    return f"{n} {one if n == 1 else many or one + 's'}"
