"""Visits become steps: where trajectories end, the regular grid, and what follows each step.

Step k of an id leads to step k + 1 of the same id, or to "(end)" if the id truly ended. The last
visit of an id that did not end is censored: nobody knows what followed, so that it makes no
transition, and in particular none to "(end)", which would teach the models that patients who move
away stop earning rewards.

On a grid of step h a visit at time t belongs to point ⌊(t − t₀)/h + ½⌋ of its id, whose first visit
is at t₀. A point without a visit breaks the chain, or is filled with the state and the action of
the point before, if the user says so.
"""

import difflib
from dataclasses import dataclass, replace
from typing import NamedTuple, final

import numpy as np

from softrobust._core.arrays import BoolArray, CodeArray, FloatArray, IntArray
from softrobust.data.columns import MISSING, parse_flag
from softrobust.data.visit_report import Ledger, Tally
from softrobust.data.visit_rows import Events, Visits, numbers_of
from softrobust.data.visit_rules import TrajectoryRules, step_length, time_text
from softrobust.errors import InputError

MOST_POINTS_PER_VISIT = 200


@final
@dataclass(frozen=True, slots=True, eq=False)
class Ends:
    """True ends by id.

    Attributes
    ----------
    t : (n_ids,) float64
        When the id ended; NaN if it did not, as far as is known.
    decided : (n_ids,) bool
        Whether the end is that of the last decision itself (the row that marks it has an action),
        and not a later moment.
    """

    t: FloatArray
    decided: BoolArray


def split_ends(
    visits: Visits, events: Events | None, rules: TrajectoryRules, ledger: Ledger
) -> tuple[Visits, Ends]:
    """Find the true ends; rows that mark an end and have no action are no visits."""
    n_ids = len(visits.ids)
    ends = Ends(np.full(n_ids, np.nan), np.zeros(n_ids, dtype=bool))
    if rules.terminal is None:
        return visits, ends
    column, value = rules.terminal_pair
    marked = np.zeros(visits.n, dtype=bool)
    if column in visits.cells:
        marked = _marked(visits.cells[column], visits.names[column], column, value, visits)
        who, t = visits.who[marked], visits.t[marked]
    elif events is not None and events.kind is not None and value is not None:
        hits = _equal(events.kind, events.kinds, value, column) & (events.who != MISSING)
        who, t = events.who[hits], events.t[hits]
    else:
        raise InputError(
            f"The column '{column}' that marks ends is neither in {visits.rows.source} nor the "
            "kind of an event. Name a column of true and false, column=value, or kind=value of "
            "the table of events."
        )
    if not who.size:
        ledger.say("no_ends", terminal=rules.terminal)
    np.fmin.at(ends.t, who, t)
    acts = visits.cells[rules.action] != MISSING
    ends.decided[visits.who[marked & acts & (visits.t == ends.t[visits.who])]] = True
    late = visits.t > ends.t[visits.who]
    if late.any() and rules.after_end == "error":
        raise _late_visit(visits, late, ends, rules)
    ledger.add("visits_after_end", visits.rows, visits.row[late])
    markers = marked & ~acts & ~late
    ledger.add("end_rows", visits.rows, visits.row[markers])
    return visits.take(~late & ~markers), ends


def _late_visit(visits: Visits, late: BoolArray, ends: Ends, rules: TrajectoryRules) -> InputError:
    i = int(np.argmax(late))
    at, end = (time_text(t, visits.clock) for t in (visits.t[i], ends.t[visits.who[i]]))
    return InputError(
        f"An id has no visit after its end: {visits.where(i)} is at {at}, the end at {end} "
        f"({int(late.sum())} such rows). If '{rules.terminal}' is not an end for good, leave it "
        "out; if the rows are wrong, leave those out with after_end='drop'.",
        arguments={"after_end": "drop"},
    )


def _marked(
    codes: CodeArray, names: list[str], column: str, value: str | None, visits: Visits
) -> BoolArray:
    """Rows that mark an end; an empty cell marks none."""
    if value is not None:
        return _equal(codes, names, value, column)
    flags = [parse_flag(name) for name in names]
    for i, flag in enumerate(flags):
        if flag is None:
            row = visits.rows.where(int(visits.row[np.argmax(codes == i)]))
            raise InputError(
                f"The column '{column}' that marks ends must be true or false (or 1, 0, yes, no): "
                f"{row} has '{names[i]}'. Correct it, or name the value that marks an end: "
                f"terminal='{column}={names[i]}'."
            )
    return np.array([*map(bool, flags), False])[codes]


def _equal(codes: CodeArray, names: list[str], value: str, column: str) -> BoolArray:
    """Where a cell has the value; a value that nobody has but a similar one is refused."""
    if value in names:
        return np.asarray(codes == names.index(value))
    close = difflib.get_close_matches(value.casefold(), [n.casefold() for n in names], n=1)
    if close:
        near = next(name for name in names if name.casefold() == close[0])
        raise InputError(
            f"No cell of column '{column}' is '{value}'. Did you mean '{near}'? Names are taken to "
            "the letter."
        )
    return np.zeros(codes.shape, dtype=bool)


# -------------------------------------------------------------------- steps
NEXT, END, CENSORED = 0, 1, 2


@final
@dataclass(frozen=True, slots=True, eq=False)
class Steps:
    """Decision points in the order of id and time.

    Attributes
    ----------
    visit : (m,) int64
        The visit whose state and action count.
    who : (m,) int32
    t : (m,) float64
        When the step begins; what is earned until the next one begins belongs to it.
    end : (m,) float64
        For the last step of an id that ended: until when it earns; NaN elsewhere.
    follows : (m,) int8
        NEXT, END or CENSORED.
    broken : (m,) int8
        0, or why no transition can be made of what follows: GAP or HOLE.
    carried : (m,) bool
        Points of the grid that no visit fell on.
    """

    visit: IntArray
    who: CodeArray
    t: FloatArray
    end: FloatArray
    follows: IntArray
    broken: IntArray
    carried: BoolArray

    @property
    def m(self) -> int:
        """Number of steps."""
        return int(self.visit.size)


GAP, HOLE = 1, 2


def make_steps(visits: Visits, ends: Ends, rules: TrajectoryRules, ledger: Ledger) -> Steps:
    """Steps of the visits, on the grid if there is one."""
    limit = np.inf
    if rules.max_gap is not None:
        limit = step_length(rules.max_gap, visits.clock, "max_gap")
    width = None if rules.grid is None else step_length(rules.grid, visits.clock, "grid")
    visit = np.arange(visits.n)
    point = visit.copy()
    if width is not None:
        point = _points(visits, width)
        visit = _one_per_point(visits, point, rules.several, ledger)
    who, t, point = visits.who[visit], visits.t[visit], point[visit]
    last = np.append(who[1:] != who[:-1], True)
    gone = ends.t[who]
    ended = last & ~np.isnan(gone)
    gap = np.where(ended, gone, np.append(t[1:], np.nan)) - t
    gap[ended & ends.decided[who]] = 0.0
    hops = np.append(point[1:], 0) - point
    if width is not None:
        origin = visits.t[visits.first][np.cumsum(visits.first) - 1][visit]
        hops = np.where(ended, _nearest((gone - origin) / width) - point, hops)
        hops = np.where(ended & ends.decided[who], 1, np.maximum(hops, 1))
    follows = np.where(ended, END, np.where(last, CENSORED, NEXT))
    broken = np.where((follows != CENSORED) & (gap > limit), GAP, 0)
    steps = Steps(
        visit=visit,
        who=who,
        t=t,
        end=np.where(ended, np.where(ends.decided[who], np.inf, gone), np.nan),
        follows=follows,
        broken=broken,
        carried=np.zeros(who.size, dtype=bool),
    )
    if width is None:
        return steps
    holes = (follows != CENSORED) & (broken == 0) & (hops > 1)
    if rules.fill == "break":
        return replace(steps, broken=np.where(holes, HOLE, broken))
    return _filled(steps, np.where(holes, hops - 1, 0), origin + width * point, width, ledger)


def _nearest(x: FloatArray) -> IntArray:
    """⌊x + ½⌋, 0 where x is NaN."""
    return np.floor(np.nan_to_num(x) + 0.5).astype(np.int64)


def _points(visits: Visits, width: float) -> IntArray:
    """The point of the grid that each visit belongs to, counted from the first of its id."""
    origin = visits.t[visits.first][np.cumsum(visits.first) - 1]
    far = float(((visits.t - origin) / width).max(initial=0.0))
    if far > 1e9:
        raise InputError(
            f"The grid is too fine: with steps of {width:g} one id would have {far:.3g} of them. "
            "Give a longer step."
        )
    return _nearest((visits.t - origin) / width)


def _one_per_point(visits: Visits, point: IntArray, rule: str, ledger: Ledger) -> IntArray:
    """The visit that counts at each point: the last, or the first."""
    change = (visits.who[1:] != visits.who[:-1]) | (point[1:] != point[:-1])
    chosen = np.concatenate([[True], change] if rule == "first" else [change, [True]])
    ledger.add("same_point", visits.rows, visits.row[~chosen], rule=rule)
    return np.flatnonzero(chosen)


def _filled(
    steps: Steps, extra: IntArray, nominal: FloatArray, width: float, ledger: Ledger
) -> Steps:
    """Fill holes of the grid with the state and the action of the point before.

    A filled point begins at its nominal time, which lies between the visits on either side.
    """
    total = int(extra.sum())
    if not total:
        return steps
    if total > MOST_POINTS_PER_VISIT * steps.m:
        raise InputError(
            f"The grid is too fine: {steps.m} visits would be filled up with {total} points. Give "
            "a longer step, or break chains at holes (fill='break')."
        )
    ledger.say("carried_points", n_rows=total)
    place = np.repeat(np.arange(steps.m), extra + 1)
    begins = np.cumsum(extra + 1) - extra - 1
    nth = np.arange(place.size) - begins[place]
    final = nth == extra[place]
    return Steps(
        visit=steps.visit[place],
        who=steps.who[place],
        t=np.where(nth > 0, nominal[place] + width * nth, steps.t[place]),
        end=np.where(final, steps.end[place], np.nan),
        follows=np.where(final, steps.follows[place], NEXT),
        broken=np.where(final, steps.broken[place], 0),
        carried=nth > 0,
    )


# --------------------------------------------------------------------------------------------------
# Rewards of steps: what is earned from the beginning of a step until the next one begins.
#
# An event at time τ of an id belongs to the step with t ≤ τ < t_next; the last step of an id that
# truly ended earns until the end, that moment included. A reward that stands in a row of the visits
# is an event at the time of the visit: with `reward_at="start"` it belongs to the step that begins
# there, with "end" to the step that ends there. What falls outside of every transition is counted.

UNKNOWN, BEFORE, AFTER_LAST, AFTER_END, NO_TRANSITION = -1, -2, -3, -4, -5
REASONS = {
    UNKNOWN: "unknown_id",
    BEFORE: "before_first",
    AFTER_LAST: "after_last",
    AFTER_END: "after_end",
    NO_TRANSITION: "no_transition",
}


@final
@dataclass(frozen=True, slots=True, eq=False)
class Earned:
    """Rewards of steps.

    Attributes
    ----------
    reward : (m,) float64
        Sum of what belongs to each step.
    missing : (m,) bool
        Steps with a reward cell that is empty.
    tallies : dict of Tally
        Rewards used and not used, by reason.
    """

    reward: FloatArray
    missing: BoolArray
    tallies: dict[str, Tally]


@final
class Payments(NamedTuple):
    """Single rewards: how much (NaN where a cell is empty), in which row, and of which step.

    Below 0 a step is the reason why there is none.
    """

    value: FloatArray
    row: IntArray
    step: IntArray


def earned(
    visits: Visits, events: Events | None, ends: Ends, steps: Steps, usable: BoolArray,
    rules: TrajectoryRules,
) -> Earned | None:  # fmt: skip
    """The rewards of rows and events by step; None if there are neither.

    Parameters
    ----------
    usable : (m,) bool
        Steps that are transitions as far as state and action go.
    """
    payments = []
    if rules.reward is not None:
        value = numbers_of(visits, rules.reward, "reward")
        late = visits.t > ends.t[visits.who]
        step = _step_of(visits.who, visits.t, late, rules.reward_at == "end", steps)
        payments.append(Payments(value, visits.row, step))
    if events is not None:
        late = np.zeros(events.t.size, dtype=bool)
        step = _step_of(events.who, events.t, late, False, steps)
        payments.append(Payments(events.reward, events.row, step))
    return _collect(payments, usable, rules.missing_reward, visits) if payments else None


def _step_of(
    who: CodeArray, t: FloatArray, late: BoolArray, at_end: bool, steps: Steps
) -> IntArray:
    """The step of every payment, or why it has none; `late` ones stand in rows after the end."""
    m = steps.m
    # At equal times a step begins before what it earns, and after what the step before it earns.
    side = np.concatenate([np.full(m, 1 if at_end else -1), np.zeros(t.size)])
    everybody = np.concatenate([steps.who, who])
    order = np.lexsort((side, np.concatenate([steps.t, t]), everybody))
    latest = np.maximum.accumulate(np.where(order < m, np.arange(order.size), -1))
    step = np.empty(order.size, dtype=np.int64)
    step[order] = np.where(latest >= 0, order[np.maximum(latest, 0)], -1)
    step = step[m:]
    mine = (step >= 0) & (steps.who[np.maximum(step, 0)] == who)
    out = np.where(mine, step, BEFORE)
    late = mine & (late | (t > steps.end[np.maximum(out, 0)]))  # > is False where the end is NaN
    out[late] = AFTER_END
    last = mine & ~late & (steps.follows[np.maximum(out, 0)] == CENSORED)
    out[last] = AFTER_LAST
    seen = np.zeros(int(everybody.max(initial=-1)) + 2, dtype=bool)
    seen[steps.who] = True
    out[~seen[who]] = UNKNOWN
    return out


def _collect(payments: list[Payments], usable: BoolArray, rule: str, visits: Visits) -> Earned:
    """Sum the payments of every step; `rule` says what a missing reward cell means."""
    reward = np.zeros(usable.size)
    missing = np.zeros(usable.size, dtype=bool)
    for one in payments:
        empty = np.isnan(one.value) & (one.step >= 0)
        missing[one.step[empty]] = True
        bad = empty & usable[np.maximum(one.step, 0)]
        if rule == "error" and bad.any():
            row = int(one.row[np.argmax(bad)])
            raise InputError(
                f"Every step needs its reward: {visits.rows.where(row)} has none "
                f"({int(bad.sum())} such rows). Fill it in, or say what an empty cell means with "
                "missing_reward='zero' or 'drop'.",
                arguments={"missing_reward": ""},
            )
    kept = usable & ~missing if rule == "drop" else usable
    tallies: dict[str, Tally] = {}
    for one in payments:
        worth = np.nan_to_num(one.value)
        given = ~np.isnan(one.value)
        step = np.where(one.step >= 0, one.step, 0)
        reason = np.where((one.step >= 0) & ~kept[step], NO_TRANSITION, one.step)
        used = reason >= 0
        np.add.at(reward, step[used], worth[used])
        _tally(tallies, "used", given & used, worth)
        for code, name in REASONS.items():
            _tally(tallies, name, given & (reason == code), worth)
    return Earned(reward, missing, tallies)


def _tally(tallies: dict[str, Tally], reason: str, mask: BoolArray, worth: FloatArray) -> None:
    n, total = int(mask.sum()), float(worth[mask].sum())
    if n:
        before = tallies.get(reason, Tally(0, 0.0))
        tallies[reason] = Tally(before.n + n, before.total + total)
