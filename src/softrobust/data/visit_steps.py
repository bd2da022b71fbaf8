"""Visits become steps: where trajectories end, the regular grid, and what follows each step.

Step k of an id leads to step k + 1 of the same id, or to "(end)" if the id truly ended. The last
visit of an id that did not end is censored: nobody knows what followed, so that it makes no
transition, and in particular none to "(end)", which would teach the models that patients who move
away stop earning rewards.

On a grid of step h a visit at time t belongs to point ⌊(t − t₀)/h + ½⌋ of its id, whose first visit
is at t₀. A point without a visit breaks the chain, or is filled with the state and the action of
the point before, if the user says so.
"""

from dataclasses import dataclass, replace
from typing import NamedTuple, final

import numpy as np

from softrobust._core.arrays import BoolArray, CodeArray, FloatArray, IntArray, starts_of
from softrobust._core.notes import Ledger
from softrobust._core.settings import did_you_mean
from softrobust.data.columns import MISSING, NUMBER, Columns, parse_flag
from softrobust.data.formula import NO_NEXT, Cells, Formula
from softrobust.data.times import Grid, grid_of, length_text, read_times, step_length, time_text
from softrobust.data.visit_rows import Events, Visits
from softrobust.data.visit_rules import TrajectoryRules
from softrobust.errors import InputError

MOST_POINTS_PER_VISIT = 200


@final
class Ends(NamedTuple):
    """True ends by id.

    t : (n_ids,), when the id ended; NaN if it did not, as far as is known;
    decided : (n_ids,) bool, whether the end is that of the last decision itself (the row that marks
    it has an action), and not a later moment
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
    if rules.end_time is not None:
        who, t = _follow_up(visits, rules)
    elif column in visits.cells:
        marked = _marked(visits, column, value)
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
        i = int(np.argmax(late))
        at, end = (time_text(t, visits.clock) for t in (visits.t[i], ends.t[visits.who[i]]))
        raise InputError(
            f"An id has no visit after its end: {visits.where(i)} is at {at}, the end at {end} "
            f"({int(late.sum())} such rows). If '{rules.terminal}' is not an end for good, leave "
            "it out; if the rows are wrong, leave those out with after_end='drop'.",
            arguments={"after_end": "drop"},
        )
    ledger.add("visits_after_end", visits.rows, visits.row[late])
    markers = marked & ~acts & ~late
    ledger.add("end_rows", visits.rows, visits.row[markers])
    return visits.take(~late & ~markers), ends


def _follow_up(visits: Visits, rules: TrajectoryRules) -> tuple[CodeArray, FloatArray]:
    """Ids that ended, and when, from a status and a time that are the same in all rows of an id."""
    assert rules.end_time is not None
    column, value = rules.terminal_pair
    if column not in visits.cells:
        raise InputError(
            f"With end_time, terminal is a column of {visits.rows.source} with the status of each "
            f"id; '{column}' is none. Name it, such as status=died.",
            arguments={"terminal": "status=…"},
        )
    marked = _marked(visits, column, value)
    cells = Columns(visits.rows, visits.cells, visits.names)
    t = read_times(cells, rules.end_time, visits.clock, rules.dates).values
    for name, values in ((column, marked.astype(float)), (rules.end_time, t)):
        known = np.nan_to_num(values, nan=np.inf)  # two that are missing are the same
        torn = ~visits.first[1:] & (known[1:] != known[:-1])
        if torn.any():
            raise InputError(
                f"Status and time of the end are those of the whole id: '{name}' changes between "
                f"{visits.where(torn)} and the next. Where rows have a status of "
                "their own, leave end_time out.",
                arguments={"end_time": ""},
            )
    unknown = marked & np.isnan(t)
    if unknown.any():
        raise InputError(
            f"An end needs its time: {visits.where(unknown)} has none in column "
            f"'{rules.end_time}'. Fill it in."
        )
    first = marked & visits.first
    return visits.who[first], t[first]


def _marked(visits: Visits, column: str, value: str | None) -> BoolArray:
    """Rows that mark an end; an empty cell marks none."""
    codes, names = visits.cells[column], visits.names[column]
    if value is not None:
        return _equal(codes, names, value, column)
    flags = [parse_flag(name) for name in names]
    if None in flags:
        i = flags.index(None)
        row = visits.rows.where(int(visits.row[np.argmax(codes == i)]))
        raise InputError(
            f"The column '{column}' that marks ends must be true or false (or 1, 0, yes, no): "
            f"{row} has '{names[i]}'. Correct it, or name the value that marks an end: "
            f"terminal='{column}={names[i]}'."
        )
    return np.array([*map(bool, flags), False])[codes]


def _equal(codes: CodeArray, names: list[str], value: str, column: str) -> BoolArray:
    """Where a cell has the value; a value that nobody has but a similar one is refused."""
    if value not in names and NUMBER.fullmatch(value):  # 2 and 2.0 are one value
        same = [name for name in names if NUMBER.fullmatch(name) and float(name) == float(value)]
        value = same[0] if same else value
    if value not in names and (near := did_you_mean(value, names)):
        text = f"No cell of column '{column}' is '{value}'."
        raise InputError(f"{text}{near} Names are taken to the letter.")
    return np.asarray(codes == names.index(value)) if value in names else np.zeros(codes.size, bool)


# -------------------------------------------------------------------- steps
NEXT, END, CENSORED = 0, 1, 2
GAP, HOLE = 1, 2
LONG = 1.5  # times the usual step: longer ones are named where they count as one


@final
@dataclass(frozen=True, slots=True, eq=False)
class Steps:
    """Decision points in the order of id and time; arrays have one entry a step, (m,)."""

    visit: IntArray  # whose state and action count
    who: CodeArray
    t: FloatArray  # when it begins; what is earned until the next one begins belongs to it
    end: FloatArray  # for the last step of an id that ended: until when it earns; else NaN
    follows: IntArray  # NEXT, END or CENSORED
    broken: IntArray  # 0, or why no transition can be made of what follows: GAP or HOLE
    carried: BoolArray  # points of the grid that no visit fell on
    of_visit: IntArray  # the step of each visit, (n_visits,)

    @property
    def m(self) -> int:
        """Number of steps."""
        return int(self.visit.size)


def make_steps(visits: Visits, ends: Ends, rules: TrajectoryRules, ledger: Ledger) -> Steps:
    """Steps of the visits, on the grid if there is one."""
    most = rules.max_gap
    limit = np.inf if most is None else step_length(most, visits.clock, "max_gap")
    grid = None if rules.grid is None else grid_of(rules.grid, visits.clock)
    visit = point = np.arange(visits.n)
    origin = visits.t[visits.first][np.cumsum(visits.first) - 1]
    if grid is not None:
        longest = (visits.t - origin).max() / grid.width
        if longest > 1e9:
            raise InputError(
                f"The grid is too fine: with steps of {grid.width:g} one id would have "
                f"{longest:.3g} of them. Give a longer step."
            )
        point = grid.point(visits.t, origin)
        begins = starts_of(visits.who, point)
        chosen = begins if rules.several == "first" else np.append(begins[1:], True)
        ledger.add("same_point", visits.rows, visits.row[~chosen], rule=rules.several)
        visit = np.flatnonzero(chosen)
    first = rules.several == "first"
    of_visit = np.searchsorted(visit, np.arange(visits.n), "right" if first else "left") - first
    who, t, point, origin = visits.who[visit], visits.t[visit], point[visit], origin[visit]
    last = np.append(who[1:] != who[:-1], True)
    gone = ends.t[who]
    ended = last & ~np.isnan(gone)
    gap = np.where(ended, gone, np.append(t[1:], np.nan)) - t
    gap[ended & ends.decided[who]] = 0.0
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
        of_visit=of_visit,
    )
    if grid is None:
        onward = follows == NEXT
        usual = float(np.median(gap[onward])) if onward.any() else 0.0
        long = onward & (broken == 0) & (gap > LONG * usual)
        text = length_text(usual, visits.clock)
        ledger.add("long_steps", visits.rows, visits.row[visit[long]], usual=text)
        return steps
    hops = np.append(point[1:], 0) - point
    hops = np.where(ended, grid.point(gone, origin) - point, hops)
    hops = np.where(ended & ends.decided[who], 1, np.maximum(hops, 1))
    if rules.end_time is not None:
        # An end that is followed up is known, whether or not there were visits before it.
        far = ended & (broken == 0) & (hops > 1)
        ledger.add("late_ends", visits.rows, visits.row[visit[far]])
        hops = np.where(ended, 1, hops)
    holes = (follows != CENSORED) & (broken == 0) & (hops > 1)
    if rules.fill == "break":
        return replace(steps, broken=np.where(holes, HOLE, broken))
    return _filled(steps, np.where(holes, hops - 1, 0), (grid, origin, point), ledger)


def _filled(
    steps: Steps, extra: IntArray, on: tuple[Grid, FloatArray, IntArray], ledger: Ledger
) -> Steps:
    """Fill holes with the state and action before; `on` is grid, origins and points."""
    grid, origin, point = on
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
        t=np.where(nth > 0, grid.time(origin[place], point[place] + nth), steps.t[place]),
        end=np.where(final, steps.end[place], np.nan),
        follows=np.where(final, steps.follows[place], NEXT),
        broken=np.where(final, steps.broken[place], 0),
        carried=nth > 0,
        of_visit=begins[steps.of_visit],
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
class Tally(NamedTuple):
    """How many cells or events, and the sum of their rewards."""

    n: int
    total: float


@final
class Earned(NamedTuple):
    """Rewards of steps: their sums (m,), steps with an empty reward cell (m,), what went where."""

    reward: FloatArray
    missing: BoolArray
    tallies: dict[str, Tally]


def earned(
    every: Visits, events: Events | None, ends: Ends, visits: Visits, steps: Steps,
    usable: BoolArray, rules: TrajectoryRules, formula: Formula | None, ledger: Ledger,
) -> Earned | None:  # fmt: skip
    """The rewards of rows and events by step; None if there are neither.

    `every` are the visits with the rows that only mark an end, `visits` those of the steps;
    `usable`, (m,), are the steps that are transitions as far as state and action go.
    """
    values, places = [], []  # a place below 0 is the reason why a reward belongs to no step
    if rules.reward is not None and formula is None:
        values.append(every.numbers(rules.reward, "reward"))
        late = every.t > ends.t[every.who]
        place = _step_of(every.who, every.t, late, rules.reward_at == "end", steps)
        places.append(_shared_points(place, every, visits, steps, rules, ledger))
    if events is not None:
        values.append(events.reward)
        late = np.zeros(events.t.size, dtype=bool)
        places.append(_step_of(events.who, events.t, late, False, steps))
    if formula is not None:
        values.append(_by_formula(formula, visits, steps, rules))
        places.append(np.where(steps.follows == CENSORED, AFTER_LAST, np.arange(steps.m)))
    if not values:
        return None
    value, step = np.concatenate(values), np.concatenate(places)
    empty = np.isnan(value)
    missing = np.zeros(usable.size, dtype=bool)
    missing[step[empty & (step >= 0)]] = True
    bad = empty & (step >= 0) & usable[np.maximum(step, 0)]
    if rules.missing_reward == "error" and bad.any():
        # Every event has its reward, so that the cell is one of the step or of the one after it.
        if formula is None:
            where = every.rows.where(int(every.row[np.argmax(bad)]))
        else:
            where = visits.where(int(steps.visit[step[bad][0]]))
        raise InputError(
            f"Every step needs its reward: {where} has none "
            f"({int(bad.sum())} such rows). Fill it in, or say what an empty cell means with "
            "missing_reward='zero' or 'drop'.",
            arguments={"missing_reward": ""},
        )
    kept = usable & ~missing if rules.missing_reward == "drop" else usable
    reason = np.where((step >= 0) & ~kept[np.maximum(step, 0)], NO_TRANSITION, step)
    worth = _of_several(np.nan_to_num(value), empty, step, values, rules)
    reward = np.zeros(usable.size)
    np.add.at(reward, step[reason >= 0], worth[reason >= 0])
    tallies = {}
    outside = {name: reason == code for code, name in REASONS.items()}
    for name, mask in {"used": reason >= 0, **outside}.items():
        if n := int((mask & ~empty).sum()):
            tallies[name] = Tally(n, float(worth[mask & ~empty].sum()))
    return Earned(reward, missing, tallies)


def _shared_points(
    place: IntArray, every: Visits, visits: Visits, steps: Steps, rules: TrajectoryRules,
    ledger: Ledger,
) -> IntArray:  # fmt: skip
    """Visits that share a point of the grid share its step; by time some would not."""
    if rules.grid is None:
        return place
    of = steps.of_visit.copy()
    if rules.reward_at == "end":
        of -= 1
        of[starts_of(steps.who)[steps.of_visit]] = BEFORE
    out, known = place.copy(), np.isin(every.row, visits.row, assume_unique=True)
    last = (of >= 0) & (steps.follows[np.maximum(of, 0)] == CENSORED)
    out[known] = np.where(last, AFTER_LAST, of)
    shared = np.bincount(steps.of_visit, minlength=steps.m)[steps.of_visit] > 1
    ledger.add("shared_rewards", visits.rows, visits.row[shared], rule=rules.several_rewards)
    return out


def _of_several(
    worth: FloatArray, empty: BoolArray, step: IntArray, values: list[FloatArray],
    rules: TrajectoryRules,
) -> FloatArray:  # fmt: skip
    """Rewards of rows that share a step: as they are (their sum counts), or their mean or last."""
    if rules.several_rewards == "sum" or rules.reward is None:
        return worth
    n = values[0].size  # those of rows come first, in the order of time
    mine, known = step[:n], (step[:n] >= 0) & ~empty[:n]
    out = worth.copy()
    if rules.several_rewards == "mean":
        times = np.bincount(mine[known], minlength=int(mine.max(initial=0)) + 1)
        out[:n][known] /= times[mine[known]]
        return out
    at = np.flatnonzero(known)
    final = np.append(mine[at][1:] != mine[at][:-1], True)
    out[at[~final]] = 0.0
    return out


def _by_formula(
    formula: Formula, visits: Visits, steps: Steps, rules: TrajectoryRules
) -> FloatArray:
    """The reward of each step by the formula, (m,); what is carried is carried here, too."""
    ends = steps.follows == END

    def look(column: str, later: bool) -> Cells:
        codes = visits.cells[column]
        if rules.missing_measurement == "carry":
            codes = codes[visits.last_known(codes == MISSING)]
        codes = codes[steps.visit]
        if later:
            codes = np.where(ends, NO_NEXT, np.append(codes[1:], MISSING)).astype(np.int32)
        return Cells(codes, visits.names[column])

    def where(i: int) -> str:
        return visits.where(int(steps.visit[min(i, steps.m - 1)]))

    return formula.rewards(steps.m, look, ends, where)


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
