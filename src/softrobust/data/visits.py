"""From visits to transitions: (s_t, a_t, r_t, s_{t+1}) by shifting within each id (paper, §2).

Real logs are visits: one row per id and time, with measurements, an action, perhaps a reward.
The transition of a visit leads from its state, under its action, to the state of the next visit of
the same id. Everything that this changes, leaves out or assumes is counted in a `TrajectoryReport`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, final

import numpy as np

from softrobust._core.arrays import BoolArray, CodeArray, FloatArray, IntArray, Rows, frozen
from softrobust.data.bins import Bins
from softrobust.data.build import build_log
from softrobust.data.coding import MISSING, Columns
from softrobust.data.labels import Labels
from softrobust.data.log import TransitionLog
from softrobust.data.visit_report import Ledger, TrajectoryReport, gaps_of
from softrobust.data.visit_rows import Events, Visits, cell_columns, read_events, read_visits
from softrobust.data.visit_rules import BinsGiven, TrajectoryRules, time_text
from softrobust.data.visit_states import (
    Cuts,
    Measured,
    binned,
    fill_missing,
    measured_columns,
    states_of,
)
from softrobust.data.visit_steps import (
    CENSORED,
    END,
    GAP,
    HOLE,
    NEXT,
    Earned,
    Ends,
    Steps,
    assign,
    collect,
    event_payments,
    make_steps,
    note_unknown,
    row_payments,
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


def read_trajectories(
    source: Any,
    *,
    id: str,  # noqa: A002 (the word for the column)
    time: str,
    action: str,
    measurements: str | Sequence[str] | None = None,
    reward: str | None = None,
    reward_at: str = "start",
    events: Any = None,
    events_columns: Mapping[str, str] | None = None,
    terminal: str | None = None,
    grid: float | str | None = None,
    several: str = "last",
    fill: str = "break",
    max_gap: float | str | None = None,
    bins: BinsGiven | None = None,
    missing_action: str = "drop",
    missing_measurement: str = "error",
    missing_reward: str = "error",
    missing_rows: str = "error",
    duplicates: str = "error",
    after_end: str = "error",
) -> Trajectories:
    """Read a table of visits and make transitions of it.

    Parameters
    ----------
    source : path, pandas.DataFrame, pyarrow.Table or mapping of columns
        One row per visit; a file is CSV (.gz, .xz) or Parquet, by its content.
    id, time, action : str
        Columns: whose visit, when (numbers or ISO dates), and what was done then.
    measurements : str or sequence of str, optional
        Columns that make up the state, in this order; by default all that have no other role.
    reward : str, optional
        Column of rewards; `reward_at="start"` if a row has the reward that follows its action,
        "end" if it has what was earned since the visit before.
    events : path or table, optional
        Rewards in a table of their own, with `id, time, reward[, kind]`: each is earned by the
        step in which it falls. `events_columns` gives the names of these columns.
    terminal : str, optional
        What marks a true end: a column of true and false, "column=value", or "kind=value" of the
        events. A row that marks an end and has no action is the end itself, and no visit.
        Without it every last visit is censored.
    grid : float or str, optional
        A regular step ("7d" for dates, a number for numbers). Of `several` visits at one point
        the "last" or "first" counts, or the last with the "mean" of its numbers; a point without
        a visit breaks the chain or, with ``fill="carry"``, repeats state and action.
    max_gap : float or str, optional
        Visits further apart make no transition.
    bins : mapping, Bins or path, optional
        Cuts or number of bins by column, ``{"hba1c": [7, 8, 9], "weight": 4}``, or saved bins.
    missing_action : "drop", "none" or "error"
        A visit without action makes no transition, or has the action "none", or is refused.
    missing_measurement : "error", "carry", "level" or "drop"
        Refuse; take the last value of the id; a value "missing"; or leave the state unknown.
    missing_reward : "error", "zero" or "drop"
    missing_rows : "error" or "drop"
        Rows without id or time.
    duplicates : "error", "first", "last" or "merge"
        Rows of one id and time that differ; equal rows always count once.
    after_end : "error" or "drop"
        Visits later than the end of their id.

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
    given = dict(locals())
    del given["source"]
    return trajectories_of(source, TrajectoryRules(**given))


def trajectories_of(source: Any, rules: TrajectoryRules) -> Trajectories:
    """Make transitions of a table of visits by the rules; see `read_trajectories`."""
    ledger = Ledger()
    every = read_visits(source, rules, ledger)
    events = None if rules.events is None else read_events(rules, every, ledger)
    visits, ends = split_ends(every, events, rules, ledger)
    if not visits.n:
        raise InputError(
            f"{every.rows.source} has no visit with an action: every row only marks an end. Check "
            "the columns of action and end."
        )
    cuts = Cuts.of(rules.bins)
    columns = measured_columns(visits, _measured_names(source, rules), cuts)
    columns = fill_missing(columns, visits, rules.missing_measurement, ledger)
    steps = make_steps(visits, ends, rules, ledger)
    columns = _at_steps(columns, steps, rules.several)
    bins = None if cuts is None else cuts.fit(columns)
    columns = binned(columns, bins)
    state, states = states_of(columns, rules.missing_measurement == "level")
    act, actions = _actions(visits, steps, rules, ledger)
    made = Decisions(steps, state, states, act, actions)
    usable, lost = made.usable()
    earned = _earned(every, events, ends, steps, usable, rules, ledger)
    if earned is not None and rules.missing_reward == "drop":
        lost["the reward is missing"] = int((usable & earned.missing).sum())
        usable &= ~earned.missing
    reward = None if earned is None else earned.reward
    log = made.log(usable, reward, visits.rows.source)
    report = TrajectoryReport(
        source=visits.rows.source,
        n_rows=ledger.n_rows,
        n_steps=steps.m,
        n_transitions=log.n_rows,
        n_terminal=int((usable & (steps.follows == END)).sum()),
        lost={words: n for words, n in lost.items() if n},
        rewards={} if earned is None else earned.tallies,
        findings=tuple(ledger.findings),
        states={column.name: _described(column) for column in columns},
        **_summed_up(visits, ends),
    )
    log = replace(log, remarks=(*report.sentences(), *log.remarks))
    who = frozen(steps.who[usable], np.int32)
    return Trajectories(log, report, bins, who, Labels(tuple(visits.ids), noun="id"))


def _earned(
    every: Visits,
    events: Events | None,
    ends: Ends,
    steps: Steps,
    usable: BoolArray,
    rules: TrajectoryRules,
    ledger: Ledger,
) -> Earned | None:
    """The rewards of rows and events by step; None if there are neither."""
    payments = []
    if rules.reward is not None:
        payments.append(row_payments(every, ends, rules.reward, rules.reward_at))
    if events is not None:
        payments.append(event_payments(events))
        note_unknown(events, ledger)
    for one in payments:
        assign(one, steps)
    return collect(payments, usable, rules.missing_reward, every) if payments else None


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


def _described(column: Measured) -> str:
    shown = ", ".join(column.levels[:8]) + (" …" if column.levels[8:] else "")
    return f"{len(column.levels)} values: {shown}"


def _measured_names(source: Any, rules: TrajectoryRules) -> list[str]:
    """The columns of measurements, those that no role was given to included."""
    others = {rules.action, rules.reward}
    if rules.terminal is not None:
        others.add(rules.terminal_pair[0])
    return [name for name in cell_columns(source, rules) if name not in others]


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
            "such visits). Fill it in, or use missing_action='drop' or 'none' (--missing-action)."
        )
    if rules.missing_action == "none" and needed.any():
        also = ", which other visits have too" if NONE in names else ""
        if NONE not in names:
            names.append(NONE)
        acts[acts == MISSING] = names.index(NONE)
        words = f"{{visit has|visits have}} no action: taken as '{NONE}'{also}"
        ledger.add("missing_action", words, visits.rows, rows)
    else:
        words = "{visit has|visits have} no action: no transition starts there"
        ledger.add("missing_action", words, visits.rows, rows)
    return acts, names


# --------------------------------------------------------------------------------------------------
# From decisions to a log: which steps are transitions, in which episode, and where p₀ is.
#
# An episode of the log is an unbroken chain of transitions, so that discounting along it means what
# it says; p₀ is where ids have their first visit, and not where a chain begins after a hole.


@final
@dataclass(frozen=True, slots=True, eq=False)
class Decisions:
    """Steps with their states and actions.

    Attributes
    ----------
    state, act : (m,) int32
        Positions in `states` and `actions`; -1 where unknown.
    """

    steps: Steps
    state: CodeArray
    states: Labels
    act: CodeArray
    actions: list[str]

    def usable(self) -> tuple[BoolArray, dict[str, int]]:
        """Which steps make a transition, and how many do not, by the first reason that holds."""
        steps, state = self.steps, self.state
        onward = steps.follows != CENSORED
        lands_nowhere = (steps.follows == NEXT) & (np.append(state[1:], 0) == MISSING)
        reasons = {
            "the next visit is too late (max_gap)": steps.broken == GAP,
            "the next point of the grid has no visit": steps.broken == HOLE,
            "the state before or after is unknown": (state == MISSING) | lands_nowhere,
            "the action is missing": self.act == MISSING,
        }
        lost = {}
        for words, bad in reasons.items():
            lost[words] = int((onward & bad).sum())
            onward = onward & ~bad
        return onward, lost

    def log(self, usable: BoolArray, reward: FloatArray | None, source: str) -> TransitionLog:
        """The log of the usable steps."""
        at = np.flatnonzero(usable)
        if not at.size:
            raise InputError(
                f"No transition could be made of {source}: no id has two neighbouring visits with "
                "states and an action. Check the columns of id, time and action, the step of the "
                "grid and max_gap."
            )
        ends = self.steps.follows[at] == END
        arrived = np.where(ends, MISSING, np.append(self.state[1:], MISSING)[at])
        state, states = _only_used(self.state[at], arrived, self.states)
        used = np.unique(self.act[at])
        columns = Columns(
            Rows(f"the transitions of {source}"),
            codes={
                "state": state[0],
                "action": np.searchsorted(used, self.act[at]).astype(np.int32),
                "next_state": state[1],
            },
            names={"state": list(states), "action": [self.actions[int(a)] for a in used]},
            flags={"terminal": ends},
            groups={"episode": self._episodes(at)},
        )
        if reward is not None:
            columns.numbers["reward"] = reward[at]
        return self._with_start(columns, states)

    def _episodes(self, at: IntArray) -> CodeArray:
        """Number unbroken chains: a new one at a new id and after a step that is no transition."""
        who = self.steps.who
        begins = np.ones(at.size, dtype=bool)
        begins[1:] = (at[1:] != at[:-1] + 1) | (who[at[1:]] != who[at[:-1]])
        return (np.cumsum(begins) - 1).astype(np.int32)

    def _with_start(self, columns: Columns, states: Labels) -> TransitionLog:
        """Build the log with p₀ from first visits, where a transition is known from there."""
        who = self.steps.who
        first = self.state[np.concatenate([[True], who[1:] != who[:-1]])]
        place = {name: i for i, name in enumerate(self.states)}
        left = [place[states[int(s)]] for s in np.unique(columns.codes["state"])]
        starts = first[np.isin(first, left)]
        if not starts.size:
            return build_log(columns, states=states)
        share = np.bincount(starts, minlength=len(self.states)) / starts.size
        p0: dict[str | int, float] = {
            self.states[int(s)]: float(share[s]) for s in np.unique(starts)
        }
        log = build_log(columns, states=states, initial=p0)
        words = f"the first visits of {starts.size} ids"
        others = first.size - starts.size
        if others:
            words += f" ({others} more begin where no transition is known)"
        return replace(log, p0_source=words)


def _only_used(
    state: CodeArray, arrived: CodeArray, states: Labels
) -> tuple[tuple[CodeArray, CodeArray], Labels]:
    """Codes among the states that occur in transitions, and their names."""
    seen = np.unique(np.concatenate([state, arrived[arrived != MISSING]]))
    place = np.full(len(states) + 1, MISSING, dtype=np.int32)  # the last serves -1
    place[seen] = np.arange(seen.size)
    names = Labels(tuple(states[int(s)] for s in seen), noun="state")
    return (place[state], place[arrived]), names
