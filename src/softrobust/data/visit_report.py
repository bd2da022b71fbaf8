"""What was done with a table of visits, counted: nothing is changed that does not stand here.

The counts balance, and tests hold them to it: rows = visits + rows left out; steps that could be
transitions = transitions + those not made, by reason; the reward of all rows and events = the
reward of the transitions + what fell outside of them, by reason.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple, final

import numpy as np

from softrobust._core.arrays import FloatArray, IntArray, Rows
from softrobust._core.notes import Level, Note
from softrobust.data.visit_rules import Clock, length_text

KEPT_ROWS = 20


@final
class Ledger:
    """What is worth a look, in the order in which it is found while a table is read."""

    def __init__(self) -> None:
        self.notes: list[Note] = []

    def add(
        self, code: str, rows: Rows, places: IntArray, n: int | None = None, **facts: Any
    ) -> None:
        """Note that `places` (rows counted from 0) are concerned; `n` if more than these are."""
        count = int(places.size) if n is None else n
        if count:
            first = [rows.number(i) for i in np.sort(places)[:KEPT_ROWS].tolist()]
            where = {"n_rows": count, "rows": first, "source": rows.source}
            self.notes.append(Note(code, Level.CAUTION, facts | where))

    def say(self, code: str, **facts: Any) -> None:
        """Note something that has no rows."""
        self.notes.append(Note(code, Level.CAUTION, facts))


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
        """A step of a grid that suits these gaps: their median, rounded."""
        middle = float(self.quantiles[2])
        if middle >= 1:
            middle = float(round(middle)) if middle < 100 else float(f"{middle:.2g}")
        return length_text(middle, self.clock)

    def to_dict(self) -> dict[str, Any]:
        """Plain values, ready for JSON; the last bar may have no upper end."""
        names = ("min", "quartile_1", "median", "quartile_3", "max")
        ends = [edge if np.isfinite(edge) else None for edge in self.edges.tolist()]
        bars = zip(ends[:-1], ends[1:], self.counts.tolist(), strict=True)
        return {
            **dict(zip(names, self.quantiles.tolist(), strict=True)),
            "histogram": [{"from": low, "to": high, "n": n} for low, high, n in bars],
        }


def gaps_of(gap: FloatArray, clock: Clock) -> Gaps | None:
    """The histogram of gaps: at most about a dozen bars of a round width, the tail in the last."""
    if not gap.size:
        return None
    quantiles = np.quantile(gap, [0, 0.25, 0.5, 0.75, 1])
    top = float(np.quantile(gap, 0.98))
    span = max(top - float(quantiles[0]), 1e-12 * max(abs(top), 1.0))
    power = 10.0 ** np.floor(np.log10(span / 8))
    width = next(f * power for f in (1, 2, 5, 10) if f * power >= span / 8 * (1 - 1e-12))
    low = np.floor(float(quantiles[0]) / width) * width
    edges = low + width * np.arange(int(np.ceil((top - low) / width)) + 1 + 1)
    edges = edges[: 2 + int(np.sum(edges[1:] <= top))]
    if quantiles[-1] >= edges[-1]:
        edges = np.append(edges, np.inf)
    place = np.searchsorted(edges, gap, side="right") - 1
    return Gaps(edges, np.bincount(place, minlength=edges.size - 1), quantiles, clock)


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
        Steps that could have been transitions and are none, by reason: "gap" (the next visit is
        too late), "hole" (of the grid), "state" (unknown before or after), "action", "reward".
    rewards : mapping of Tally
        Rewards "used", and those that fell outside of all transitions, by reason: "unknown_id",
        "before_first" visit, "after_last" visit of an id that did not end, "after_end", and
        "no_transition".
    findings : tuple of Note
        Everything else that was found or changed.
    gaps : Gaps or None
        Times between visits; None if no id has two.
    states : mapping
        Column → the values that are parts of states.
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
    findings: tuple[Note, ...] = ()
    states: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    @property
    def notes(self) -> tuple[Note, ...]:
        """What was done, one thing at a time."""
        names = ("source", "n_rows", "n_visits", "n_ids", "n_transitions")
        read = {name: getattr(self, name) for name in names}
        notes = [Note("visits_read", facts=read | {"low": self.span[0], "high": self.span[1]})]
        notes += self.findings
        for reason, n in self.lost.items():
            notes.append(Note("steps_lost", facts={"reason": reason, "n_rows": n}))
        ends = {"n_ended": self.n_ended, "n_censored": self.n_censored}
        notes.append(Note("ends", facts=ends))
        for reason, tally in self.rewards.items():
            if reason != "used" and tally.n:
                facts = {"reason": reason, "n_rows": tally.n, "total": tally.total}
                notes.append(Note("rewards_unused", facts=facts))
        return tuple(notes)

    def to_dict(self) -> dict[str, Any]:
        """Plain values, ready for JSON."""
        names = ("source", "n_rows", "n_ids", "n_visits", "n_steps", "n_transitions", "n_terminal",
                 "n_censored", "n_ended", "clock", "span")  # fmt: skip
        return {name: getattr(self, name) for name in names} | {
            "states": {column: list(values) for column, values in self.states.items()},
            "lost": dict(self.lost),
            "rewards": {reason: tally._asdict() for reason, tally in self.rewards.items()},
            "gaps": None if self.gaps is None else self.gaps.to_dict(),
        }
