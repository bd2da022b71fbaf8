"""What the paper says of its figures, and whether our numbers say so too; tables of them.

Every log is one draw of an experiment: differences between methods are taken log by log, so that
what the methods share cancels, and the 95 % interval is Student's over the logs. Shares have exact
binomial ones. A tail average over pairs has no such form; its interval is a bootstrap.

A verdict follows from an interval by a rule:

    more      A exceeds B:            held if the 95 % interval of A − B lies above a margin,
                                      not held if it lies at or below it, else one cannot tell
    within    A and B are comparable: held if the interval lies within ± the margin,
                                      not held if it lies outside, else one cannot tell

A claim of k comparisons is held if each of them is: all must be shown, so the chance of saying so
wrongly is no larger than that of one of them (an intersection–union test), and nothing is to be
corrected. It is not held if one comparison is not: any of k may fail by chance, so that one must
fail by its interval at 1 − 0.05/k instead of 95 % (Bonferroni). Which rules were fixed before the
numbers were seen, and which were not, is on the page of results.

The margin of `more` is rounding where the claim is about a direction: two methods that find one
policy differ by 0, and neither exceeds the other. The page says it with the rule. How much a
difference is can be read off its share of what is to be gained.
"""

from __future__ import annotations

import csv
import io
import tomllib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cache, partial
from pathlib import Path
from typing import Any, NamedTuple, final

import numpy as np
from numpy.typing import ArrayLike

from softrobust._core.arrays import FloatArray
from softrobust.errors import InputError

LEVEL = 0.95
RESAMPLES = 2000


@cache
def texts() -> dict[str, dict[str, Any]]:
    """What results say, by experiment (words.toml)."""
    return tomllib.loads(Path(__file__).with_name("words.toml").read_text(encoding="utf-8"))


def told(of: str, key: str, **facts: Any) -> str:
    """A text of an experiment, with facts in it."""
    return _filled(texts()[of][key], facts)


def _filled(text: str, facts: Mapping[str, Any]) -> str:
    return " ".join(text.split()).format(**facts)


@final
@dataclass(frozen=True, slots=True)
class Interval:
    """A figure with its 95 % interval, from `n` independent values."""

    value: float
    low: float
    high: float
    n: int
    # The same figure with an interval of another level; None where it cannot be had.
    again: Callable[[float], Interval] | None = field(default=None, compare=False, repr=False)

    def as_dict(self) -> dict[str, float | int | None]:
        """For JSON, where an unknown limit is null."""
        low, high = (x if np.isfinite(x) else None for x in (self.low, self.high))
        return {"value": self.value, "low": low, "high": high, "n": self.n}

    def less(self, x: float) -> Interval:
        """Of the figure less a number."""
        again = self.again
        moved = None if again is None else lambda level: again(level).less(x)
        return Interval(self.value - x, self.low - x, self.high - x, self.n, moved)

    @classmethod
    def from_dict(cls, d: Mapping[str, Any]) -> Interval:
        """The inverse of `as_dict`."""
        low = -np.inf if d["low"] is None else float(d["low"])
        high = np.inf if d["high"] is None else float(d["high"])
        return cls(float(d["value"]), low, high, int(d["n"]))


def mean_interval(x: ArrayLike, level: float = LEVEL) -> Interval:
    """The average of independent values with Student's interval; one value leaves it open.

    Examples
    --------
    >>> i = mean_interval([1.0, 2.0, 3.0])
    >>> i.value, round(i.low, 3), round(i.high, 3)
    (2.0, -0.484, 4.484)
    """
    from scipy.stats import t as student

    values = np.asarray(x, dtype=np.float64).reshape(-1)
    n = values.size
    if n == 0 or not np.isfinite(values).all():
        raise InputError(f"An interval needs finite values, at least one; it got {n}.")
    centre = float(values.mean())
    if n == 1:
        return Interval(centre, -np.inf, np.inf, 1)
    half = float(student.ppf((1 + level) / 2, n - 1) * values.std(ddof=1) / np.sqrt(n))
    return Interval(centre, centre - half, centre + half, n, partial(mean_interval, values))


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
    return Interval(hits / n, low, high, n, partial(share_interval, hits, n))


def bootstrap_interval(
    x: ArrayLike, statistic: Callable[[FloatArray], float], level: float = LEVEL
) -> Interval:
    """A statistic of independent rows x (n, …) with a percentile bootstrap over the rows."""
    rows = np.asarray(x, dtype=np.float64)
    n = rows.shape[0]
    if n < 2:
        return Interval(float(statistic(rows)), -np.inf, np.inf, n)
    rng = np.random.default_rng([0, n])
    values = [statistic(rows[rng.integers(0, n, n)]) for _ in range(RESAMPLES)]
    low, high = np.quantile(values, [(1 - level) / 2, (1 + level) / 2])
    again = partial(bootstrap_interval, rows, statistic)
    return Interval(float(statistic(rows)), float(low), float(high), n, again)


class Verdict(StrEnum):
    """What the numbers say of a claim."""

    HELD = "held"
    NOT_HELD = "not held"
    CANNOT_TELL = "cannot tell"


def _exceeds(i: Interval, margin: float) -> Verdict:
    if i.low > margin:
        return Verdict.HELD
    return Verdict.NOT_HELD if i.high <= margin else Verdict.CANNOT_TELL


def _lies_within(i: Interval, margin: float) -> Verdict:
    if -margin <= i.low and i.high <= margin:
        return Verdict.HELD
    return Verdict.NOT_HELD if i.low > margin or i.high < -margin else Verdict.CANNOT_TELL


class Measured(NamedTuple):
    """One comparison: what was measured, its interval, the margin, and what follows.

    `scale` is what is to be gained, of which the difference is a share; None where there is none.
    `rule` judges an interval of another level, for claims of several comparisons.
    """

    what: str
    interval: Interval
    margin: float
    verdict: Verdict
    scale: float | None = None
    rule: Callable[[Interval, float], Verdict] | None = None

    def among(self, k: int) -> Measured:
        """As one of k comparisons, any of which may fail by chance."""
        again = self.interval.again
        if self.verdict is not Verdict.NOT_HELD or k < 2 or self.rule is None or again is None:
            return self
        if self.rule(again(1 - (1 - LEVEL) / k), self.margin) is Verdict.NOT_HELD:
            return self
        return self._replace(verdict=Verdict.CANNOT_TELL)


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
    return Measured(what, difference, margin, _exceeds(difference, margin), scale, _exceeds)


def within(what: str, difference: Interval, margin: float, scale: float | None = None) -> Measured:
    """Whether a difference lies within ± the margin."""
    verdict = _lies_within(difference, margin)
    return Measured(what, difference, margin, verdict, scale, _lies_within)


@final
@dataclass(frozen=True, slots=True)
class Claim:
    """A claim in our words, where it stands, on which models, by which rule, and the outcome."""

    text: str
    where: str
    models: str
    rule: str
    measured: tuple[Measured, ...]

    def __post_init__(self) -> None:
        judged = tuple(part.among(len(self.measured)) for part in self.measured)
        object.__setattr__(self, "measured", judged)

    @property
    def verdict(self) -> Verdict:
        """Held if all comparisons are, not held if one is not, else one cannot tell."""
        found = {part.verdict for part in self.measured}
        if Verdict.NOT_HELD in found:
            return Verdict.NOT_HELD
        return Verdict.HELD if found == {Verdict.HELD} else Verdict.CANNOT_TELL

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


def claimed(of: str, key: str, models: str, *measured: Measured, **facts: Any) -> Claim:
    """A claim of an experiment; `where` and `rule` may be said once for all of them."""
    found = texts()["rules"] | {"rule": "more"} | texts()[of] | texts()[of][key]
    rule = found.get(found["rule"], found["rule"])
    text, where, rule = (_filled(x, facts) for x in (found["text"], found["where"], rule))
    return Claim(text, where, models, rule, measured)


# -------------------------------------------------------------------- tables
def tabled(
    of: str, key: str, rows: Iterable[Any], columns: Sequence[str] = (), **facts: Any
) -> dict[str, Any]:
    """A table of an experiment; `columns` where its words do not have them."""
    found = texts()[of][key]
    title, note = (_filled(found[part], facts) for part in ("title", "note"))
    return table(title, note, columns or found["columns"], rows)


def table(title: str, note: str, columns: Sequence[str], rows: Iterable[Any]) -> dict[str, Any]:
    """A table as results.json holds it: a cell is text, a number, an interval, or None."""
    cells = [[c.as_dict() if isinstance(c, Interval) else c for c in row] for row in rows]
    return {"title": title, "note": note, "columns": list(columns), "rows": cells}


def markdown(table: Mapping[str, Any]) -> str:
    """Numbers to four figures, intervals in brackets."""
    columns, rows = table["columns"], table["rows"]
    left = [any(isinstance(row[j], str) for row in rows) for j in range(len(columns))]
    lines = [
        f"**{table['title']}**",
        *(["", table["note"]] if table["note"] else []),
        "",
        "| " + " | ".join(columns) + " |",
        "|" + "|".join(" :--- " if x else " ---: " for x in left) + "|",
        *("| " + " | ".join(_shown(cell) for cell in row) + " |" for row in rows),
    ]
    return "\n".join(lines) + "\n"


def csv_text(table: Mapping[str, Any]) -> str:
    """All figures; an interval takes three columns."""
    columns, rows = table["columns"], table["rows"]
    wide = [any(isinstance(row[j], dict) for row in rows) for j in range(len(columns))]
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    names = ([c, f"{c} low", f"{c} high"] if w else [c] for c, w in zip(columns, wide, strict=True))
    writer.writerow([x for name in names for x in name])
    for row in rows:
        spread: list[Any] = []
        for cell, w in zip(row, wide, strict=True):
            if isinstance(cell, dict):
                i = Interval.from_dict(cell)
                spread += [i.value, i.low, i.high]
            else:
                spread += [cell, None, None] if w else [cell]
        writer.writerow(spread)
    return out.getvalue()


def figure_of(x: float) -> str:
    """Four figures, thousands set apart, no exponent in the ordinary range.

    Examples
    --------
    >>> figure_of(2344.474), figure_of(-0.01234), figure_of(0.0)
    ('2 344', '-0.01234', '0')
    """
    if 1000 <= abs(x) < 1e7:
        return f"{x:,.0f}".replace(",", " ")
    return f"{x:.4g}" if x else "0"


def interval_of(i: Interval) -> str:
    """The value with its limits, as in `12.3 [11.9, 12.7]`."""
    if i.n < 2:
        return f"{figure_of(i.value)} (one value)"
    return f"{figure_of(i.value)} [{figure_of(i.low)}, {figure_of(i.high)}]"


def _shown(cell: Any) -> str:
    if cell is None:
        return "–"
    if isinstance(cell, dict):
        return interval_of(Interval.from_dict(cell))
    return figure_of(cell) if isinstance(cell, float) else str(cell).replace("|", "\\|")
