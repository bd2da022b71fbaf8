"""Rewards of steps: what is earned from the beginning of a step until the next one begins.

An event at time τ of an id belongs to the step with t ≤ τ < t_next; the last step of an id that
truly ended earns until the end, that moment included. A reward that stands in a row of the visits
is an event at the time of the visit: with `reward_at="start"` it belongs to the step that begins
there, with "end" to the step that ends there. What falls outside of every transition is counted.
"""

from dataclasses import dataclass
from typing import final

import numpy as np

from softrobust.data.arrays import BoolArray, CodeArray, FloatArray, IntArray
from softrobust.data.coding import MISSING
from softrobust.data.trajectories_columns import Events, Visits, numbers_of
from softrobust.data.trajectories_report import Ledger, Tally
from softrobust.data.trajectories_steps import CENSORED, Ends, Steps
from softrobust.errors import InputError

UNKNOWN, BEFORE, AFTER_LAST, AFTER_END, NO_TRANSITION = -1, -2, -3, -4, -5
WORDS = {
    UNKNOWN: "of ids that have no visit",
    BEFORE: "before the first visit of the id",
    AFTER_LAST: "at or after the last visit of an id that did not end",
    AFTER_END: "after the end of the id",
    NO_TRANSITION: "in steps that are no transitions",
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
@dataclass(slots=True, eq=False)
class Payments:
    """Single rewards: whose, when, how much; `late` ones stand in rows after the end."""

    who: CodeArray
    t: FloatArray
    value: FloatArray
    row: IntArray
    at_end: bool
    step: IntArray
    late: BoolArray


def row_payments(visits: Visits, ends: Ends, column: str, reward_at: str) -> Payments:
    """The rewards in the rows of the visits, as payments."""
    value = numbers_of(visits, column, "reward")
    nowhere = np.full(visits.n, UNKNOWN)
    late = visits.t > ends.t[visits.who]
    return Payments(visits.who, visits.t, value, visits.row, reward_at == "end", nowhere, late)


def event_payments(events: Events) -> Payments:
    """The rewards of events, as payments."""
    n = events.row.size
    never = np.zeros(n, dtype=bool)
    nowhere = np.full(n, UNKNOWN)
    return Payments(events.who, events.t, events.reward, events.row, False, nowhere, never)


def assign(payments: Payments, steps: Steps) -> None:
    """Find the step of every payment, or why it has none."""
    n, m = payments.t.size, steps.m
    who = np.concatenate([steps.who, payments.who])
    t = np.concatenate([steps.t, payments.t])
    # At equal times a step begins before what it earns, and after what the step before it earns.
    begins_first = 1 if payments.at_end else -1
    side = np.concatenate([np.full(m, begins_first), np.zeros(n)])
    order = np.lexsort((side, t, who))
    latest = np.maximum.accumulate(np.where(order < m, np.arange(order.size), -1))
    found = np.where(latest >= 0, order[np.maximum(latest, 0)], -1)
    step = np.empty(n + m, dtype=np.int64)
    step[order] = found
    step = step[m:]
    mine = (step >= 0) & (steps.who[np.maximum(step, 0)] == payments.who)
    out = np.where(mine, step, BEFORE)
    end = steps.end[np.maximum(out, 0)]
    late = mine & (payments.late | (payments.t > end))  # > is False where the end is NaN
    out[late] = AFTER_END
    last = mine & ~late & (steps.follows[np.maximum(out, 0)] == CENSORED)
    out[last] = AFTER_LAST
    seen = np.zeros(int(who.max(initial=-1)) + 2, dtype=bool)
    seen[steps.who] = True
    out[~seen[payments.who]] = UNKNOWN
    payments.step = out


def collect(payments: list[Payments], usable: BoolArray, rule: str, visits: Visits) -> Earned:
    """Sum the payments of every step.

    Parameters
    ----------
    usable : (m,) bool
        Steps that are transitions as far as state and action go.
    rule : "error", "zero" or "drop"
        What a missing reward cell means.
    """
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
                "missing_reward='zero' or 'drop' (--missing-reward)."
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
        for code, words in WORDS.items():
            _tally(tallies, words, given & (reason == code), worth)
    return Earned(reward, missing, tallies)


def _tally(tallies: dict[str, Tally], words: str, mask: BoolArray, worth: FloatArray) -> None:
    n, total = int(mask.sum()), float(worth[mask].sum())
    if n:
        before = tallies.get(words, Tally(0, 0.0))
        tallies[words] = Tally(before.n + n, before.total + total)


def note_unknown(events: Events, ledger: Ledger) -> None:
    """Point at events of unknown ids, which are often a matter of spelling."""
    words = "{event belongs to an id|events belong to ids} without a visit"
    ledger.add("unknown_ids", words, events.rows, events.row[events.who == MISSING])
