"""From visits to transitions: (s_t, a_t, r_t, s_{t+1}) by shifting within each id (paper, §2).

Real logs are visits: one row per id and time, with measurements, an action, perhaps a reward.
The transition of a visit leads from its state, under its action, to the state of the next visit of
the same id. Everything that this changes, leaves out or assumes is counted in a `TrajectoryReport`.
The counts balance, and tests hold them to it: rows = visits + rows left out; steps that could be
transitions = transitions + those not made, by reason; the reward of all rows and events = the
reward of the transitions + what fell outside of them, by reason.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple, final

import numpy as np

from softrobust._core.arguments import names_arguments
from softrobust._core.arrays import BoolArray, CodeArray, FloatArray, IntArray, Rows, frozen
from softrobust._core.notes import Ledger, Level, Note
from softrobust.data import visit_states, visit_steps
from softrobust.data.bins import Bins
from softrobust.data.columns import MISSING, Columns
from softrobust.data.formula import action_costs
from softrobust.data.labels import Labels
from softrobust.data.log import TransitionLog, build_log
from softrobust.data.times import Clock, length_text, time_text
from softrobust.data.visit_rows import Visits, read_events, read_visits
from softrobust.data.visit_rules import TrajectoryRules
from softrobust.errors import InputError

NONE = "none"
MANY_LOST = 0.1  # share of the steps


@final
class Gaps(NamedTuple):
    """Times between one visit of an id and the next.

    edges : (n_bars + 1,) borders of the histogram, the last may be infinite; counts : (n_bars,);
    quantiles : (5,) smallest, first quartile, median, third quartile, largest
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
    edges = low + width * np.arange(int(np.ceil((top - low) / width)) + 2)
    edges = edges[: 2 + int(np.sum(edges[1:] <= top))]
    if quantiles[-1] >= edges[-1]:
        edges = np.append(edges, np.inf)
    place = np.searchsorted(edges, gap, side="right") - 1
    return Gaps(edges, np.bincount(place, minlength=edges.size - 1), quantiles, clock)


@final
@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class TrajectoryReport:
    """What a table of visits held and what was done with it."""

    source: str
    n_rows: int
    n_ids: int
    n_visits: int
    n_steps: int  # decision points: the visits that were kept, or the points of the grid
    n_transitions: int
    n_terminal: int  # transitions that lead to "(end)"
    # n_censored, n_ended: ids whose last visit is only the last one known, and ids that truly ended
    n_censored: int
    n_ended: int
    clock: Clock
    span: tuple[str, str]
    gaps: Gaps | None  # times between visits; None if no id has two
    # steps that could have been transitions and are none, by reason: "gap" (the next visit is too
    # late), "hole" (of the grid), "state" (unknown before or after), "action", "reward"
    lost: Mapping[str, int] = field(default_factory=dict)
    # rewards "used", and those that fell outside of all transitions, by reason: "unknown_id",
    # "before_first" visit, "after_last" visit of an id that did not end, "after_end", and
    # "no_transition"
    rewards: Mapping[str, visit_steps.Tally] = field(default_factory=dict)
    findings: tuple[Note, ...] = ()
    # column → the values that are parts of states
    states: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    @property
    def notes(self) -> tuple[Note, ...]:
        """What was done, one thing at a time."""
        names = ("source", "n_rows", "n_visits", "n_ids", "n_transitions")
        read = {name: getattr(self, name) for name in names}
        notes = [Note("visits_read", facts=read | {"low": self.span[0], "high": self.span[1]})]
        notes += self.findings
        steps = self.n_transitions + sum(self.lost.values())
        for reason, n in self.lost.items():  # one that costs many belongs under the answer
            level = Level.CAUTION if n > MANY_LOST * steps else Level.INFO
            notes.append(Note("steps_lost", level, {"reason": reason, "n_rows": n}))
        ends = {"n_ended": self.n_ended, "n_censored": self.n_censored}
        notes.append(Note("ends", facts=ends))
        for reason, (n, total) in self.rewards.items():
            if reason != "used":
                facts = {"reason": reason, "n_rows": n, "total": total}
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


@final
@dataclass(frozen=True, slots=True, eq=False)
class Trajectories:
    """A log made of visits, and how it was made.

    Episodes of the log are unbroken chains: a step that could not be used starts a new one. `bins`
    are how numbers became parts of states; `who`, (n_rows,), is the id of each transition, as a
    position in `ids`.
    """

    log: TransitionLog
    report: TrajectoryReport
    bins: Bins | None
    who: CodeArray
    ids: Labels


@names_arguments
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
    if missing := [name for name in ("id", "time", "action") if name not in rules]:
        raise InputError(
            f"read_trajectories needs the columns id, time and action; {', '.join(missing)} not "
            "named. Give each as a column, such as id='patient'.",
            arguments=missing,
        )
    return trajectories_of(source, TrajectoryRules(**rules))


def trajectories_of(source: Any, rules: TrajectoryRules, events: Any = None) -> Trajectories:
    """Make transitions by the rules; both tables may be `Columns` of cells read before."""
    ledger = Ledger()
    every, n_rows, measured, formula = read_visits(source, rules, ledger)
    happened = None
    if rules.events is not None:
        given = rules.events if events is None else events
        happened = read_events(given, rules, every, ledger)
    visits, ends = visit_steps.split_ends(every, happened, rules, ledger)
    if not visits.n:
        raise InputError(
            f"{every.rows.source} has no visit with an action: every row only marks an end. Check "
            "the columns of action and end."
        )
    given_bins = Bins.load(rules.bins) if isinstance(rules.bins, (str, Path)) else rules.bins
    columns = [
        visit_states.fill_missing(column, visits, rules.missing_measurement, ledger)
        for column in visit_states.measured_columns(visits, measured, given_bins)
    ]
    steps = visit_steps.make_steps(visits, ends, rules, ledger)
    columns = [column.at(steps.visit, rules.several == "mean") for column in columns]
    bins = visit_states.fitted_bins(given_bins, columns)
    columns = visit_states.binned(columns, bins)
    state, states = visit_states.states_of(columns, rules.missing_measurement == "level")
    act, actions = _actions(visits, steps, rules, ledger)
    usable, lost = _usable(steps, state, act)
    paid = visit_steps.earned(every, happened, ends, visits, steps, usable, rules, formula, ledger)
    if paid is not None and rules.missing_reward == "drop":
        lost["reward"] = int((usable & paid.missing).sum())
        usable &= ~paid.missing
    if rules.cost is not None:
        if paid is None:
            paid = visit_steps.Earned(np.zeros(act.size), np.zeros(act.size, dtype=bool), {})
        seen, price = np.unique(act[usable]), np.zeros(len(actions) + 1)
        price[seen] = action_costs(rules.cost, [actions[a] for a in seen])
        paid = paid._replace(reward=paid.reward - np.where(usable, price[act], 0.0))
    if formula is not None or rules.cost is not None:
        costs = ", ".join(f"{name}: {cost:g}" for name, cost in (rules.cost or {}).items())
        facts = {"formula": None if formula is None else formula.text, "costs": costs}
        ledger.append(Note("rewards_formula", facts=facts))
    if formula is not None and rules.cost is None and rules.action not in formula.columns:
        ledger.say("actions_free")
    cut = rules.action_bins is not None
    log = _log(visits.rows.source, steps, (state, states), (act, actions), usable, paid, cut)
    report = TrajectoryReport(
        source=visits.rows.source,
        n_rows=n_rows,
        n_steps=steps.m,
        n_transitions=log.n_rows,
        n_terminal=int((usable & (steps.follows == visit_steps.END)).sum()),
        lost={reason: n for reason, n in lost.items() if n},
        rewards={} if paid is None else paid.tallies,
        findings=tuple(ledger),
        states={column.name: column.levels for column in columns},
        **_summed_up(visits, ends),
    )
    log = replace(log, remarks=(*report.notes, *log.remarks))
    who = frozen(steps.who[usable], np.int32)
    return Trajectories(log, report, bins, who, Labels(tuple(visits.ids), noun="id"))


def _summed_up(visits: Visits, ends: visit_steps.Ends) -> dict[str, Any]:
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


def _actions(
    visits: Visits, steps: visit_steps.Steps, rules: TrajectoryRules, ledger: Ledger
) -> tuple[CodeArray, list[str]]:
    """The action of every step, -1 where it is missing, and the names of actions."""
    names = list(visits.names[rules.action])
    acts = visits.cells[rules.action][steps.visit].astype(np.int32)
    if rules.action_bins is not None:
        dose = visits.numbers(rules.action, "action with bins")
        columns = [visit_states.Measured(rules.action, dose)]
        cut = visit_states.fitted_bins({rules.action: rules.action_bins}, columns)
        (column,) = visit_states.binned(columns, cut)
        names, acts = list(column.levels), np.asarray(column.values, np.int32)[steps.visit]
        ledger.append(Note("action_bins", facts={"column": rules.action, "names": names}))
    needed = (acts == MISSING) & (steps.follows != visit_steps.CENSORED) & ~steps.carried
    rows = visits.row[steps.visit[needed]]
    if needed.any() and rules.missing_action == "error":
        raise InputError(
            f"Every visit that has a next one needs an action: "
            f"{visits.where(int(steps.visit[needed][0]))} has none ({int(needed.sum())} such "
            "visits). Fill it in, or use missing_action='drop' or 'none'.",
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


def _usable(
    steps: visit_steps.Steps, state: CodeArray, act: CodeArray
) -> tuple[BoolArray, dict[str, int]]:
    """Which steps make a transition, and how many do not, by the first reason that holds."""
    onward = steps.follows != visit_steps.CENSORED
    lands_nowhere = (steps.follows == visit_steps.NEXT) & (np.append(state[1:], 0) == MISSING)
    reasons = {
        "gap": steps.broken == visit_steps.GAP,
        "hole": steps.broken == visit_steps.HOLE,
        "state": (state == MISSING) | lands_nowhere,
        "action": act == MISSING,
    }
    lost = {}
    for reason, bad in reasons.items():
        lost[reason] = int((onward & bad).sum())
        onward = onward & ~bad
    return onward, lost


def _log(
    source: str,
    steps: visit_steps.Steps,
    decided_in: tuple[CodeArray, Labels],
    taken: tuple[CodeArray, list[str]],
    usable: BoolArray,
    paid: visit_steps.Earned | None,
    cut: bool,
) -> TransitionLog:
    """The log of the usable steps; actions that were `cut` from numbers keep their order."""
    (state, states), (act, actions), who = decided_in, taken, steps.who
    at = np.flatnonzero(usable)
    if not at.size:
        raise InputError(
            f"No transition could be made of {source}: no id has two neighbouring visits with "
            "states and an action. Check the columns of id, time and action, the step of the grid "
            "and max_gap."
        )
    ends = steps.follows[at] == visit_steps.END
    arrived = np.where(ends, MISSING, np.append(state[1:], MISSING)[at]).astype(np.int32)
    seen = np.unique(np.concatenate([state[at], arrived[~ends]]))
    used, action = np.unique(act[at], return_inverse=True)
    chain = np.ones(at.size, dtype=bool)  # a new one at a new id and after what is no transition
    chain[1:] = (at[1:] != at[:-1] + 1) | (who[at[1:]] != who[at[:-1]])
    names = list(states)
    made = Columns(
        Rows(f"the transitions of {source}"),
        codes={"state": state[at], "action": action.astype(np.int32), "next_state": arrived},
        names={"state": names, "next_state": names, "action": [actions[a] for a in used]},
        numbers={} if paid is None else {"reward": paid.reward[at]},
        flags={"terminal": ends},
        groups={"episode": np.cumsum(chain) - 1},
    )
    # p₀: first visits, where a transition is known from there.
    first = state[np.unique(who, return_index=True)[1]]
    starts = first[np.isin(first, state[at])]
    p0: dict[str | int, float] = {
        states[int(s)]: float((starts == s).sum() / starts.size) for s in np.unique(starts)
    }
    order = [actions[a] for a in used] if cut else None
    log = build_log(made, [states[int(s)] for s in seen], order, p0 or None)
    if not p0:
        return log
    facts = {"n_ids": int(starts.size), "n_others": int(first.size - starts.size)}
    return replace(log, p0_source=Note("p0_first_visits", facts=facts))
