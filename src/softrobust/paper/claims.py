"""What the paper says of its figures, and whether our numbers say so too.

Every log is one draw of an experiment: differences between methods are taken log by log, so that
what the methods share cancels, and the 95 % interval is Student's over the logs. Shares have exact
binomial ones. A tail average over pairs has no such form; its interval is a bootstrap.

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

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, final

import numpy as np
from numpy.typing import ArrayLike

from softrobust._core.arrays import FloatArray
from softrobust.errors import InputError

LEVEL = 0.95
RESAMPLES = 2000


@final
@dataclass(frozen=True, slots=True)
class Interval:
    """A figure with its 95 % interval, from `n` independent values."""

    value: float
    low: float
    high: float
    n: int

    def as_dict(self) -> dict[str, float | int | None]:
        """For JSON, where an unknown limit is null."""
        low, high = (x if np.isfinite(x) else None for x in (self.low, self.high))
        return {"value": self.value, "low": low, "high": high, "n": self.n}

    @classmethod
    def from_dict(cls, d: dict[str, Any]) -> Interval:
        """The inverse of `as_dict`."""
        low = -np.inf if d["low"] is None else float(d["low"])
        high = np.inf if d["high"] is None else float(d["high"])
        return cls(float(d["value"]), low, high, int(d["n"]))


def _values(x: ArrayLike) -> FloatArray:
    out = np.asarray(x, dtype=np.float64).reshape(-1)
    if out.size == 0 or not np.isfinite(out).all():
        raise InputError(f"An interval needs finite values, at least one; it got {out.size}.")
    return out


def mean_interval(x: ArrayLike) -> Interval:
    """The average of independent values with Student's interval; one value leaves it open.

    Examples
    --------
    >>> i = mean_interval([1.0, 2.0, 3.0])
    >>> i.value, round(i.low, 3), round(i.high, 3)
    (2.0, -0.484, 4.484)
    """
    from scipy.stats import t as student

    values = _values(x)
    n, centre = values.size, float(values.mean())
    if n == 1:
        return Interval(centre, -np.inf, np.inf, 1)
    half = float(student.ppf((1 + LEVEL) / 2, n - 1) * values.std(ddof=1) / np.sqrt(n))
    return Interval(centre, centre - half, centre + half, n)


def share_interval(hits: int, n: int, level: float = LEVEL) -> Interval:
    """A share with the exact (Clopper–Pearson) interval.

    Examples
    --------
    >>> i = share_interval(19, 20)
    >>> round(i.low, 3), round(i.high, 3)
    (0.751, 0.999)
    """
    from scipy.stats import beta

    tail = (1 - level) / 2
    low = float(beta.ppf(tail, hits, n - hits + 1)) if hits > 0 else 0.0
    high = float(beta.ppf(1 - tail, hits + 1, n - hits)) if hits < n else 1.0
    return Interval(hits / n, low, high, n)


def bootstrap_interval(
    x: ArrayLike, statistic: Callable[[FloatArray], float], seed: int = 0
) -> Interval:
    """A statistic of independent rows x (n, …) with a percentile bootstrap over the rows."""
    rows = np.asarray(x, dtype=np.float64)
    n = rows.shape[0]
    if n < 2:
        return Interval(float(statistic(rows)), -np.inf, np.inf, n)
    rng = np.random.default_rng([seed, n])
    again = [statistic(rows[rng.integers(0, n, n)]) for _ in range(RESAMPLES)]
    low, high = np.quantile(again, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    return Interval(float(statistic(rows)), float(low), float(high), n)


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
        measured = [
            {"what": m.what, **m.interval.as_dict(), "margin": m.margin, "scale": m.scale,
             "verdict": str(m.verdict)}
            for m in self.measured
        ]  # fmt: skip
        return {
            "claim": self.text,
            "where": self.where,
            "models": self.models,
            "rule": self.rule,
            "verdict": str(self.verdict),
            "measured": measured,
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
        return cls(d["claim"], d["where"], d["models"], d["rule"], measured)
