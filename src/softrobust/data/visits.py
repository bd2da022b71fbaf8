"""From visits to transitions: (s_t, a_t, r_t, s_{t+1}) by shifting within each id (paper, §2).

Real logs are visits: one row per id and time, with measurements, an action, perhaps a reward.
The transition of a visit leads from its state, under its action, to the state of the next visit of
the same id. Everything that this changes, leaves out or assumes is counted in a `TrajectoryReport`.
"""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, final

import numpy as np

from softrobust._core.arrays import BoolArray, CodeArray, FloatArray, Rows, frozen
from softrobust._core.notes import Note
from softrobust.data.bins import Bins
from softrobust.data.columns import MISSING, Columns
from softrobust.data.labels import Labels
from softrobust.data.log import TransitionLog, build_log
from softrobust.data.visit_report import Ledger, TrajectoryReport, gaps_of
from softrobust.data.visit_rows import Visits, read_events, read_visits
from softrobust.data.visit_rules import TrajectoryRules, time_text
from softrobust.data.visit_states import (
    Measured,
    binned,
    fill_missing,
    fitted_bins,
    measured_columns,
    states_of,
)
from softrobust.data.visit_steps import (
    CENSORED,
    END,
    GAP,
    HOLE,
    NEXT,
    Ends,
    Steps,
    earned,
    make_steps,
    split_ends,
)
from softrobust.errors import InputError

NONE = "none"


@final
@dataclass(frozen=True, slots=True, eq=False)
class Trajectories:
    """A log made of visits, and how it was made.

    Attributes
    ----------
    log : TransitionLog
        Its episodes are unbroken chains: a step that could not be used starts a new one.
    report : TrajectoryReport
        What was found, changed and left out, with counts.
    bins : Bins or None
        How numbers became parts of states; save them for new visits.
    who : (n_rows,) int32
        The id of each transition, as a position in `ids`.
    ids : Labels
    """

    log: TransitionLog
    report: TrajectoryReport
    bins: Bins | None
    who: CodeArray
    ids: Labels


def read_trajectories(source: Any, **rules: Any) -> Trajectories:
    """Read a table of visits and make transitions of it.

    Parameters
    ----------
    source : path, pandas.DataFrame, pyarrow.Table, other frame or mapping of columns
        One row per visit; a file is CSV (.gz, .xz) or Parquet, by its content.
    rules
        Which column is what (`id`, `time` and `action` are needed), and what is done with cells
        that are missing, rows that stand twice, irregular times and ends: see `TrajectoryRules`.

    Examples
    --------
    >>> visits = read_trajectories(
    ...     {
    ...         "id": ["a", "a", "a"],
    ...         "day": [0, 1, 2],
    ...         "bp": ["high", "high", "low"],
    ...         "dose": ["10", "20", None],
    ...         "reward": [0, 1, 1],
    ...     },
    ...     id="id",
    ...     time="day",
    ...     action="dose",
    ...     reward="reward",
    ... )
    >>> visits.log.n_rows, visits.log.states.names, visits.report.n_censored
    (2, ('high', 'low'), 1)
    """
    return trajectories_of(source, TrajectoryRules(**rules))


def trajectories_of(source: Any, rules: TrajectoryRules, events: Any = None) -> Trajectories:
    """Make transitions of a table of visits by the rules.

    `source`, and `events` in place of those of the rules, may be `Columns` of cells read before.
    """
    ledger = Ledger()
    every, n_rows = read_visits(source, rules, ledger)
    happened = None
    if rules.events is not None:
        given = rules.events if events is None else events
        happened = read_events(given, rules, every, ledger)
    visits, ends = split_ends(every, happened, rules, ledger)
    if not visits.n:
        raise InputError(
            f"{every.rows.source} has no visit with an action: every row only marks an end. Check "
            "the columns of action and end."
        )
    given_bins = Bins.load(rules.bins) if isinstance(rules.bins, (str, Path)) else rules.bins
    others = {rules.action, rules.reward, None if not rules.terminal else rules.terminal_pair[0]}
    measured = [name for name in visits.cells if name not in others]
    columns = measured_columns(visits, measured, given_bins)
    columns = fill_missing(columns, visits, rules.missing_measurement, ledger)
    steps = make_steps(visits, ends, rules, ledger)
    columns = _at_steps(columns, steps, rules.several)
    bins = fitted_bins(given_bins, columns)
    columns = binned(columns, bins)
    state, states = states_of(columns, rules.missing_measurement == "level")
    act, actions = _actions(visits, steps, rules, ledger)
    usable, lost = _usable(steps, state, act)
    paid = earned(every, happened, ends, steps, usable, rules)
    if paid is not None and rules.missing_reward == "drop":
        lost["reward"] = int((usable & paid.missing).sum())
        usable &= ~paid.missing
    decisions = Columns(
        visits.rows,
        codes={"state": state, "action": act},
        names={"state": list(states), "next_state": list(states), "action": actions},
    )
    log = _log(steps, decisions, states, usable, None if paid is None else paid.reward)
    report = TrajectoryReport(
        source=visits.rows.source,
        n_rows=n_rows,
        n_steps=steps.m,
        n_transitions=log.n_rows,
        n_terminal=int((usable & (steps.follows == END)).sum()),
        lost={reason: n for reason, n in lost.items() if n},
        rewards={} if paid is None else paid.tallies,
        findings=tuple(ledger.notes),
        states={column.name: column.levels for column in columns},
        **_summed_up(visits, ends),
    )
    log = replace(log, remarks=(*report.notes, *log.remarks))
    who = frozen(steps.who[usable], np.int32)
    return Trajectories(log, report, bins, who, Labels(tuple(visits.ids), noun="id"))


def _summed_up(visits: Visits, ends: Ends) -> dict[str, Any]:
    """What the report says of the visits themselves."""
    same = visits.who[1:] == visits.who[:-1]
    present = np.unique(visits.who)
    ended = int((~np.isnan(ends.t[present])).sum())
    low, high = (time_text(float(t), visits.clock) for t in (visits.t.min(), visits.t.max()))
    return {
        "n_ids": int(present.size),
        "n_visits": visits.n,
        "n_censored": int(present.size) - ended,
        "n_ended": ended,
        "clock": visits.clock,
        "span": (low, high),
        "gaps": gaps_of(np.diff(visits.t)[same], visits.clock),
    }


def _at_steps(columns: list[Measured], steps: Steps, several: str) -> list[Measured]:
    """Measurements at the steps: those of the visit that counts, or means of numbers."""
    out = []
    for column in columns:
        if several == "mean" and not column.levels:
            chosen = np.unique(steps.visit)
            group = np.searchsorted(chosen, np.arange(column.values.size))
            known = ~column.missing
            n = np.bincount(group[known], minlength=chosen.size)
            total = np.bincount(group[known], weights=column.values[known], minlength=chosen.size)
            mean = np.where(n > 0, total / np.maximum(n, 1), np.nan)
            out.append(replace(column, values=mean[np.searchsorted(chosen, steps.visit)]))
        else:
            out.append(column.take(steps.visit))
    return out


def _actions(
    visits: Visits, steps: Steps, rules: TrajectoryRules, ledger: Ledger
) -> tuple[CodeArray, list[str]]:
    """The action of every step, -1 where it is missing, and the names of actions."""
    names = list(visits.names[rules.action])
    acts = visits.cells[rules.action][steps.visit].astype(np.int32)
    needed = (acts == MISSING) & (steps.follows != CENSORED) & ~steps.carried
    rows = visits.row[steps.visit[needed]]
    if needed.any() and rules.missing_action == "error":
        raise InputError(
            f"Every visit that has a next one needs an action: "
            f"{visits.where(int(steps.visit[np.argmax(needed)]))} has none ({int(needed.sum())} "
            "such visits). Fill it in, or use missing_action='drop' or 'none'.",
            arguments={"missing_action": ""},
        )
    taken_as = rules.missing_action if rules.missing_action == NONE else None
    ledger.add("missing_actions", visits.rows, rows, taken_as=taken_as, known=NONE in names)
    if taken_as is not None and needed.any():
        if NONE not in names:
            names.append(NONE)
        acts[acts == MISSING] = names.index(NONE)
    return acts, names


# --------------------------------------------------------------------------------------------------
# From decisions to a log: which steps are transitions, in which episode, and where p₀ is.
#
# An episode of the log is an unbroken chain of transitions, so that discounting along it means what
# it says; p₀ is where ids have their first visit, and not where a chain begins after a hole.


def _usable(steps: Steps, state: CodeArray, act: CodeArray) -> tuple[BoolArray, dict[str, int]]:
    """Which steps make a transition, and how many do not, by the first reason that holds.

    `state` and `act`, (m,), are -1 where unknown.
    """
    onward = steps.follows != CENSORED
    lands_nowhere = (steps.follows == NEXT) & (np.append(state[1:], 0) == MISSING)
    reasons = {
        "gap": steps.broken == GAP,
        "hole": steps.broken == HOLE,
        "state": (state == MISSING) | lands_nowhere,
        "action": act == MISSING,
    }
    lost = {}
    for reason, bad in reasons.items():
        lost[reason] = int((onward & bad).sum())
        onward = onward & ~bad
    return onward, lost


def _log(
    steps: Steps, columns: Columns, states: Labels, usable: BoolArray, reward: FloatArray | None
) -> TransitionLog:
    """The log of the usable steps; `columns` has the state and the action of every step."""
    at = np.flatnonzero(usable)
    state, act = columns.codes["state"], columns.codes["action"]
    if not at.size:
        raise InputError(
            f"No transition could be made of {columns.rows.source}: no id has two neighbouring "
            "visits with states and an action. Check the columns of id, time and action, the step "
            "of the grid and max_gap."
        )
    ends = steps.follows[at] == END
    arrived = np.where(ends, MISSING, np.append(state[1:], MISSING)[at]).astype(np.int32)
    seen = np.unique(np.concatenate([state[at], arrived[~ends]]))
    used, taken = np.unique(act[at], return_inverse=True)
    who = steps.who
    chain = np.ones(at.size, dtype=bool)  # a new one at a new id and after what is no transition
    chain[1:] = (at[1:] != at[:-1] + 1) | (who[at[1:]] != who[at[:-1]])
    made = Columns(
        Rows(f"the transitions of {columns.rows.source}"),
        codes={"state": state[at], "action": taken.astype(np.int32), "next_state": arrived},
        names=columns.names | {"action": [columns.names["action"][a] for a in used]},
        flags={"terminal": ends},
        groups={"episode": np.cumsum(chain) - 1},
    )
    if reward is not None:
        made.numbers["reward"] = reward[at]
    # p₀: first visits, where a transition is known from there.
    first = state[np.concatenate([[True], who[1:] != who[:-1]])]
    starts = first[np.isin(first, state[at])]
    p0: dict[str | int, float] = {
        states[int(s)]: float((starts == s).sum() / starts.size) for s in np.unique(starts)
    }
    log = build_log(made, states=[states[int(s)] for s in seen], initial=p0 or None)
    if not p0:
        return log
    facts = {"n_ids": int(starts.size), "n_others": int(first.size - starts.size)}
    return replace(log, p0_source=Note("p0_first_visits", facts=facts))
