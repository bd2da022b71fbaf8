"""From decisions to a log: which steps are transitions, in which episode, and where p₀ is.

An episode of the log is an unbroken chain of transitions, so that discounting along it means what
it says; p₀ is where ids have their first visit, and not where a chain begins after a hole.
"""

from dataclasses import dataclass, replace
from typing import final

import numpy as np

from softrobust.data.arrays import BoolArray, CodeArray, FloatArray, IntArray
from softrobust.data.build import build_log
from softrobust.data.coding import MISSING, Columns
from softrobust.data.labels import Labels
from softrobust.data.log import TransitionLog
from softrobust.data.rows import Rows
from softrobust.data.trajectories_steps import CENSORED, END, GAP, HOLE, NEXT, Steps
from softrobust.errors import InputError


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
