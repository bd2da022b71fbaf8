"""What was done with a table of visits, counted: nothing is changed that does not stand here.

The counts balance, and tests hold them to it: rows = visits + rows left out; steps that could be
transitions = transitions + those not made, by reason; the reward of all rows and events = the
reward of the transitions + what fell outside of them, by reason.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple, final

import numpy as np

from softrobust._core.arrays import FloatArray, IntArray, Rows
from softrobust.data.visit_rules import Clock, length_text

KEPT_ROWS = 20
SHOWN_ROWS = 4
_EITHER = re.compile(r"\{([^|{}]*)\|([^|{}]*)\}")


@final
class Finding(NamedTuple):
    """Something worth a look: what, how often, and where.

    Attributes
    ----------
    key : str
        A short name, for programs.
    n : int
        How many rows (or visits, events, pairs) it concerns.
    words : str
        What it is and what was done, to be read after the number.
    rows : tuple of int
        Numbers of the first rows, as an editor counts them.
    source : str
        The table that has these rows.
    """

    key: str
    n: int
    words: str
    rows: tuple[int, ...] = ()
    source: str = ""

    @property
    def sentence(self) -> str:
        """The finding as one sentence."""
        return f"{self.n} {agreed(self.n, self.words)}{self.place}."

    @property
    def place(self) -> str:
        """The first rows in brackets, or nothing."""
        if not self.rows:
            return ""
        shown = ", ".join(map(str, self.rows[:SHOWN_ROWS]))
        more = self.n - len(self.rows[:SHOWN_ROWS])
        rest = f" and {more} more" if more > 0 else ""
        return f" (row{'s' if self.n > 1 else ''} {shown}{rest} of {self.source})"


def agreed(n: int, words: str) -> str:
    """Choose the form of "{row is|rows are}" that goes with n."""
    return _EITHER.sub(lambda found: found[1 if n == 1 else 2], words)


@final
class Ledger:
    """Findings in the order in which they are made, while a table is read."""

    def __init__(self) -> None:
        self.findings: list[Finding] = []
        self.n_rows = 0

    def add(self, key: str, words: str, rows: Rows, places: IntArray, n: int | None = None) -> None:
        """Note that `places` (rows counted from 0) are concerned; `n` if more than these are."""
        count = int(places.size) if n is None else n
        if count:
            first = np.sort(places)[:KEPT_ROWS].tolist()
            numbers = tuple(rows.number(i) for i in first)
            self.findings.append(Finding(key, count, words, numbers, rows.source))

    def count(self, key: str, n: int, words: str) -> None:
        """Note a number that has no rows; 0 is worth a note too where the user expects more."""
        self.findings.append(Finding(key, n, words))


@final
@dataclass(frozen=True, slots=True, eq=False)
class Gaps:
    """Times between one visit of an id and the next.

    Attributes
    ----------
    edges : (n_bars + 1,) float64
        Borders of the histogram; the last may be infinite.
    counts : (n_bars,) int64
    quantiles : (5,) float64
        Smallest, first quartile, median, third quartile, largest.
    """

    edges: FloatArray
    counts: IntArray
    quantiles: FloatArray
    clock: Clock

    @property
    def regular(self) -> bool:
        """Whether the middle half of the gaps lies within 2 % of their median."""
        _, low, middle, high, _ = self.quantiles
        return bool(high - low <= 0.02 * middle)

    @property
    def step(self) -> str:
        """A step that suits these gaps, as a flag: their median, rounded."""
        middle = float(self.quantiles[2])
        if middle >= 1:
            middle = float(round(middle)) if middle < 100 else float(f"{middle:.2g}")
        return length_text(middle, self.clock)

    def text(self, length: float) -> str:
        """A gap for a person."""
        if self.clock == "numbers":
            return f"{length:.4g}"
        return f"{length:.3g} days" if length != 1 else "1 day"

    def bars(self) -> Iterator[tuple[str, int]]:
        """(interval, count) of the histogram."""
        for low, high, n in zip(self.edges[:-1], self.edges[1:], self.counts, strict=True):
            name = f"{low:g} and more" if np.isinf(high) else f"{low:g} to {high:g}"
            yield name, int(n)


def gaps_of(gap: FloatArray, clock: Clock) -> Gaps | None:
    """The histogram of gaps: at most about a dozen bars of a round width, the tail in the last."""
    if not gap.size:
        return None
    quantiles = np.quantile(gap, [0, 0.25, 0.5, 0.75, 1])
    top = float(np.quantile(gap, 0.98))
    span = max(top - float(quantiles[0]), 1e-12 * max(abs(top), 1.0))
    width = _round_up(span / 8)
    low = np.floor(float(quantiles[0]) / width) * width
    edges = low + width * np.arange(int(np.ceil((top - low) / width)) + 1 + 1)
    edges = edges[: 2 + int(np.sum(edges[1:] <= top))]
    if quantiles[-1] >= edges[-1]:
        edges = np.append(edges, np.inf)
    counts = np.histogram(gap, edges)[0] if np.isfinite(edges[-1]) else _open_histogram(gap, edges)
    return Gaps(edges, np.asarray(counts, dtype=np.int64), quantiles, clock)


def _open_histogram(gap: FloatArray, edges: FloatArray) -> IntArray:
    place = np.searchsorted(edges, gap, side="right") - 1
    return np.bincount(place, minlength=edges.size - 1)


def _round_up(width: float) -> float:
    power = 10.0 ** np.floor(np.log10(width))
    return float(next(f * power for f in (1, 2, 5, 10) if f * power >= width * (1 - 1e-12)))


@final
class Tally(NamedTuple):
    """How many cells or events, and the sum of their rewards."""

    n: int
    total: float


@final
@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class TrajectoryReport:
    """What a table of visits held and what was done with it.

    Attributes
    ----------
    n_rows, n_ids, n_visits : int
        Rows of the table, ids, visits that were kept.
    n_steps : int
        Decision points: the visits, or the points of the grid.
    n_transitions, n_terminal : int
        Transitions of the log, and how many of them lead to "(end)".
    n_censored, n_ended : int
        Ids whose last visit is only the last one known, and ids that truly ended.
    lost : mapping
        Steps that could have been transitions and are none, by reason.
    rewards : mapping of Tally
        Rewards "used", and those that fell outside of all transitions, by reason.
    findings : tuple of Finding
        Everything else that was found or changed.
    gaps : Gaps or None
        Times between visits; None if no id has two.
    states : mapping
        Column → how its cells became parts of states.
    """

    source: str
    n_rows: int
    n_ids: int
    n_visits: int
    n_steps: int
    n_transitions: int
    n_terminal: int
    n_censored: int
    n_ended: int
    clock: Clock
    span: tuple[str, str]
    gaps: Gaps | None
    lost: Mapping[str, int] = field(default_factory=dict)
    rewards: Mapping[str, Tally] = field(default_factory=dict)
    findings: tuple[Finding, ...] = ()
    states: Mapping[str, str] = field(default_factory=dict)

    def sentences(self) -> Iterator[str]:
        """What was done, one thing at a time."""
        yield (
            f"{self.n_rows} rows of {self.source}: {self.n_visits} visits of {self.n_ids} ids, "
            f"from {self.span[0]} to {self.span[1]}, gave {self.n_transitions} transitions."
        )
        for finding in self.findings:
            yield finding.sentence
        for reason, n in self.lost.items():
            yield f"{n} {agreed(n, '{step is no transition|steps are no transitions}')}: {reason}."
        yield self.ends
        for reason, tally in self.rewards.items():
            if reason != "used" and tally.n:
                words = agreed(tally.n, "{reward|rewards}")
                yield f"{tally.n} {words} (sum {tally.total:.6g}) {reason}: not used."

    @property
    def ends(self) -> str:
        """How trajectories ended, in words."""
        censored = agreed(
            self.n_censored,
            "{id is|ids are} followed up to the last visit, which ends nothing and makes no "
            "transition",
        )
        ended = agreed(self.n_ended, "{id|ids} truly ended")
        return f"{self.n_ended} {ended}; {self.n_censored} {censored}."

    def record(self) -> dict[str, Any]:
        """Everything as plain values for JSON."""
        names = ("source", "n_rows", "n_ids", "n_visits", "n_steps", "n_transitions", "n_terminal",
                 "n_censored", "n_ended", "clock", "span")  # fmt: skip
        out: dict[str, Any] = {name: getattr(self, name) for name in names}
        out["states"] = dict(self.states)
        out["lost"] = dict(self.lost)
        out["rewards"] = {reason: tally._asdict() for reason, tally in self.rewards.items()}
        out["findings"] = [f._asdict() | {"sentence": f.sentence} for f in self.findings]
        if self.gaps is not None:
            low, q1, middle, q3, high = self.gaps.quantiles.tolist()
            out["gaps"] = {
                "min": low, "quartile_1": q1, "median": middle, "quartile_3": q3, "max": high,
                "histogram": [{"gap": name, "n": n} for name, n in self.gaps.bars()],
            }  # fmt: skip
        return out
