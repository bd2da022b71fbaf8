"""Transitions of visits by vectorised code and by plain loops."""

from __future__ import annotations

import math
from collections import Counter
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from softrobust.data import Trajectories, read_trajectories
from softrobust.errors import InputError
from tests.data.visits import COLUMNS, rows_of

CELLS = st.tuples(
    st.sampled_from("pqr"),
    st.integers(0, 12),
    st.sampled_from(["lo", "hi", None]),
    st.sampled_from(["u", "v", None]),
    st.sampled_from([1.0, 2.0, 4.0, None]),
    st.sampled_from(["", "", "", "dead"]),
)
EVENTS = st.lists(
    st.tuples(st.sampled_from("pqrx"), st.integers(-2, 15), st.sampled_from([8.0, -3.0])),
    max_size=8,
)


def slow_route(
    rows: list[Any], events: list[Any], grid: float | None, fill: str
) -> tuple[list[Any], float]:
    """Transitions of visits by plain loops, with carried measurements and dropped actions."""
    made = []
    for who in sorted({row[0] for row in rows}):
        mine = sorted({row[1]: row for row in rows if row[0] == who}.items())
        ended = next((t for t, row in mine if row[5] and row[3] is None), math.nan)
        decided = next((t for t, row in mine if row[5] and row[3] is not None), math.nan)
        stop = min([t for t in (ended, decided) if not math.isnan(t)], default=math.inf)
        visits = [(t, row) for t, row in mine if t <= stop and not (t == stop == ended)]
        if not visits:
            continue
        points: dict[int, list[Any]] = {}
        place: dict[float, int] = {}
        state = None
        for i, (t, row) in enumerate(visits):
            state = row[2] or state
            at = i if grid is None else math.floor((t - visits[0][0]) / grid + 0.5)
            points[at] = [t, state, row[3]]
            place[t] = at
        at_point = {
            t: points[at][0] for t, at in place.items()
        }  # visits of a point are paid as one
        places = sorted(points)
        if fill == "carry" and grid is not None:
            for low, high in pairwise(places):
                for at in range(low + 1, high):
                    points[at] = [visits[0][0] + at * grid, *points[low][1:]]
        last = max(points)
        end_at = None
        if stop < math.inf:
            end_at = last + 1
            if grid is not None and stop == ended:
                end_at = max(last + 1, math.floor((stop - visits[0][0]) / grid + 0.5))
            if fill == "carry":
                for at in range(last + 1, end_at):
                    points[at] = [visits[0][0] + at * grid, *points[last][1:]]  # type: ignore[operator]
        places = sorted(points)
        for i, at in enumerate(places):
            t, s, a = points[at]
            if i + 1 < len(places):
                follows, until = (places[i + 1], points[places[i + 1]][1]), points[places[i + 1]][0]
            elif end_at is not None:
                follows, until = (end_at, "(end)"), math.inf if stop == decided else stop + 1e-9
            else:
                continue
            if s is None or a is None or follows[1] is None:
                continue
            if grid is not None and follows[0] != at + 1:
                continue
            paid = [
                row[4] or 0.0
                for when, row in mine
                if t <= at_point.get(when, when) < until and when <= stop
            ]
            paid += [e[2] for e in events if e[0] == who and t <= e[1] < until]
            made.append((who, s, a, follows[1], sum(paid)))
    return made, sum(row[4] for row in made)


@settings(max_examples=300, deadline=None)
@given(
    st.lists(CELLS, min_size=1, max_size=25, unique_by=lambda row: (row[0], row[1])),
    EVENTS,
    st.sampled_from([(None, "break"), (2.0, "break"), (2.0, "carry"), (5.0, "carry")]),
)
def test_against_plain_loops(rows: list[Any], events: list[Any], how: tuple[Any, str]) -> None:
    grid, fill = how
    names = ("id", "t", "x", "a", "r", "end")
    data = {name: [row[j] for row in rows] for j, name in enumerate(names)}
    happened = {name: [e[j] for e in events] for j, name in enumerate(("id", "t", "reward"))}
    slow, total = slow_route(rows, events, grid, fill)
    choices: dict[str, Any] = {
        **COLUMNS, "measurements": "x", "reward": "r", "terminal": "end=dead",
        "events": happened if events else None, "grid": grid, "fill": fill,
        "missing_measurement": "carry", "missing_reward": "zero", "after_end": "drop",
    }  # fmt: skip
    if not slow:
        with pytest.raises(
            InputError, match=r"No transition could be made|no visit with an action"
        ):
            read_trajectories(data, **choices)
        return
    made = read_trajectories(data, **choices)
    log = made.log
    assert log.reward is not None
    fast = [(*row[:4], log.reward[i]) for i, row in enumerate(rows_of(made))]
    assert Counter(fast) == Counter(slow)
    balances(made, data, happened)
    assert made.report.rewards["used"].total == pytest.approx(total) if total else True


def balances(made: Trajectories, data: dict[str, Any], events: dict[str, Any]) -> None:
    """Rows, steps and rewards are all accounted for."""
    report = made.report
    left_out = ("rows_incomplete", "duplicates", "same_time", "visits_after_end", "end_rows")
    found = [note for note in report.findings if note.code in left_out]
    gone = sum(note["n_rows"] for note in found if note["source"] == report.source)
    assert report.n_rows == len(data["id"]) == report.n_visits + gone
    candidates = report.n_steps - report.n_censored
    assert candidates == report.n_transitions + sum(report.lost.values())
    paid = [x for x in data["r"] if x is not None] + list(events["reward"])
    assert sum(tally.n for tally in report.rewards.values()) == len(paid)
    assert sum(tally.total for tally in report.rewards.values()) == pytest.approx(sum(paid))
