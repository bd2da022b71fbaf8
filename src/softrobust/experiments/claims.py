"""What the paper says of its figures, and whether our numbers say so too.

A verdict follows from an interval by a rule that was fixed before the numbers were looked at:

    more      A exceeds B:            held if the 95 % interval of A − B lies above a margin,
                                      not held if it lies at or below it, else one cannot tell
    within    A and B are comparable: held if the interval lies within ± the margin,
                                      not held if it lies outside, else one cannot tell

The margin of `more` is rounding where the claim is about a direction: two methods that find one
policy differ by 0, and neither exceeds the other. How much a difference is can be read off its
share of what is to be gained. A claim about several comparisons is held if all of them are, not
held if one is not.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, final

from softrobust.experiments.intervals import Interval


class Verdict(StrEnum):
    """What the numbers say of a claim."""

    HELD = "held"
    NOT_HELD = "not held"
    CANNOT_TELL = "cannot tell"


@final
@dataclass(frozen=True, slots=True)
class Measured:
    """One comparison: what was measured, its interval, the margin, and what follows.

    `scale` is what is to be gained, of which the difference is a share; None where there is none.
    """

    what: str
    interval: Interval
    margin: float
    verdict: Verdict
    scale: float | None = None


def more(
    what: str, difference: Interval, margin: float = 0.0, scale: float | None = None
) -> Measured:
    """Whether a difference exceeds the margin.

    Examples
    --------
    >>> str(more("A − B", Interval(2.0, 1.0, 3.0, 20), margin=0.5).verdict)
    'held'
    >>> str(more("A − B", Interval(0.0, 0.0, 0.0, 20), margin=0.5).verdict)
    'not held'
    """
    verdict = Verdict.CANNOT_TELL
    if difference.low > margin:
        verdict = Verdict.HELD
    elif difference.high <= margin:
        verdict = Verdict.NOT_HELD
    return Measured(what, difference, margin, verdict, scale)


def within(what: str, difference: Interval, margin: float, scale: float | None = None) -> Measured:
    """Whether a difference lies within ± the margin."""
    verdict = Verdict.CANNOT_TELL
    if -margin <= difference.low and difference.high <= margin:
        verdict = Verdict.HELD
    elif difference.low > margin or difference.high < -margin:
        verdict = Verdict.NOT_HELD
    return Measured(what, difference, margin, verdict, scale)


def together(parts: Iterable[Measured]) -> Verdict:
    """Held if all are held, not held if one is not, else one cannot tell."""
    verdicts = [part.verdict for part in parts]
    if any(v is Verdict.NOT_HELD for v in verdicts):
        return Verdict.NOT_HELD
    if verdicts and all(v is Verdict.HELD for v in verdicts):
        return Verdict.HELD
    return Verdict.CANNOT_TELL


@final
@dataclass(frozen=True, slots=True)
class Claim:
    """A claim in our words, where it stands, on which models, by which rule, and the outcome.

    Attributes
    ----------
    models : str
        "training", "held-out", "true": the models on which returns were measured.
    """

    text: str
    where: str
    models: str
    rule: str
    measured: tuple[Measured, ...]

    @property
    def verdict(self) -> Verdict:
        """What follows from all comparisons together."""
        return together(self.measured)

    def as_dict(self) -> dict[str, Any]:
        """For results.json."""
        return {
            "claim": self.text,
            "where": self.where,
            "models": self.models,
            "rule": self.rule,
            "verdict": str(self.verdict),
            "measured": [
                {
                    "what": m.what,
                    **m.interval.as_dict(),
                    "margin": m.margin,
                    "scale": m.scale,
                    "verdict": str(m.verdict),
                }
                for m in self.measured
            ],
        }

    @classmethod
    def from_dict(cls, d: Mapping[str, Any]) -> Claim:
        """The inverse of `as_dict`; verdicts are read, not decided again."""
        measured = tuple(
            Measured(
                m["what"], Interval.from_dict(m), m["margin"], Verdict(m["verdict"]), m["scale"]
            )
            for m in d["measured"]
        )
        return cls(d["claim"], d["where"], d["models"], d["rule"], tuple(measured))
