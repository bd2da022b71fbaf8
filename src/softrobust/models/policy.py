"""Policies π: S → Δ^A for tables, with the labels a person uses, and their file.

The file is a table `state, action[, probability]`: what `Policy.save` writes and people type. With
a finite horizon there may be a rule for each step (`TimedPolicy`), whose table has a column `time`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, Self, cast, final

import numpy as np
from numpy.typing import ArrayLike

from softrobust._core.arguments import names_arguments
from softrobust._core.arrays import BoolArray, FloatArray, IntArray, shaped
from softrobust._core.files import write_csv
from softrobust._core.limits import generator
from softrobust._core.show import SHOWN, facts_html
from softrobust.data.bins import measured_state
from softrobust.data.columns import ACTION, STATE, Columns, Role
from softrobust.data.labels import Labels, OfStates
from softrobust.data.table import read_table
from softrobust.errors import InputError, optional

TIME = Role("time", ("time", "step"), "number", required=False)
PROBABILITY = Role("probability", ("probability", "prob", "p"), "number", required=False)
SUM_TOLERANCE = 1e-6  # how far typed probabilities may miss 1 before they are refused
State = str | int | Mapping[str, Any]  # by its label, or by its measurements
Seed = int | np.random.Generator
_LATER = cast(BoolArray, None)  # a default that __post_init__ fills in


def _proper(probs: FloatArray) -> BoolArray:
    """(…, n_states): whether probabilities are at least 0 and sum to 1."""
    return np.asarray((probs >= 0).all(axis=-1) & (np.abs(probs.sum(axis=-1) - 1) <= 1e-12))


class _Rules(OfStates, ABC):
    """What policies with one rule, and with one for each step, have in common."""

    __slots__ = ()
    probs: FloatArray

    @abstractmethod
    def columns(self) -> dict[str, list[Any]]:
        """A table of every action that is taken, by names of columns."""

    @property
    def deterministic(self) -> bool:
        """Whether every state has one action of probability 1, at every step."""
        return bool((self.probs.max(axis=-1) == 1.0).all())

    def to_frame(self) -> Any:
        """The columns as a pandas frame."""
        return optional("pandas", "pandas", "A frame").DataFrame(self.columns())

    @names_arguments
    def save(self, path: str | Path) -> None:
        """Write the columns as CSV, atomically; cells are safe to open in a spreadsheet."""
        write_csv(path, self.columns(), people=True)


@names_arguments
@final
@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Policy(_Rules):
    """A stationary policy; `probs[s, a]` is the probability of action a in state s.

    `decided` marks the states where there was something to decide: a state that the data never
    left carries a formal action only, and `action` refuses to recommend it.
    """

    probs: FloatArray
    states: Labels
    actions: Labels
    decided: BoolArray = _LATER

    def __post_init__(self) -> None:
        rule = "one probability for each state and action"
        probs = shaped("A policy", self.probs, np.float64, self.shape, rule=rule)
        if not _proper(probs).all():
            off = np.abs(probs.sum(axis=1) - 1)
            s = int(np.argmax(np.where((probs < 0).any(axis=1), np.inf, off)))
            raise InputError(
                "The action probabilities of a state must be at least 0 and sum to 1 (tolerance "
                f"1e-12): state '{self.states[s]}' has {probs[s].tolist()}, which sum to "
                f"{float(probs[s].sum())!r}. Divide them by their sum."
            )
        object.__setattr__(self, "probs", probs)
        given = np.ones(self.n_states, bool) if self.decided is None else self.decided
        rule = "one entry for each state"
        decided = shaped("decided", given, np.bool_, (self.n_states,), rule=rule)
        object.__setattr__(self, "decided", decided)

    @classmethod
    @names_arguments
    def from_decision(
        cls, decision: ArrayLike, states: Labels, actions: Labels, decided: BoolArray = _LATER
    ) -> Self:
        """The deterministic policy that takes action `decision[s]` in state s."""
        probs = np.zeros((len(states), len(actions)))
        rule, n = "one action for each state", len(actions)
        chosen = shaped("decision", decision, np.int64, (len(states),), rule=rule)
        for s in np.flatnonzero((chosen < 0) | (chosen >= n))[:1]:
            raise InputError(
                f"Actions are numbered 0…{n - 1}; the decision in state '{states[s]}' is "
                f"{chosen[s]}. Number them in the order of `actions`."
            )
        probs[np.arange(len(states)), chosen] = 1.0
        return cls(probs, states, actions, decided)

    @property
    def decision(self) -> IntArray:
        """(n_states,): the most probable action (the first of equals)."""
        return np.asarray(np.argmax(self.probs, axis=1), dtype=np.int64)

    def _repr_html_(self) -> str:
        rows, index = [], np.flatnonzero(self.decided)
        for s in index[:SHOWN]:
            mix = (f"{action} {p:g}" for action, p in self.mix(s).items())
            rows.append((self.states[s], ", ".join(mix)))
        return facts_html("Policy", {}, ("state", "action and probability"), rows, index.size)

    def mix(self, s: int) -> dict[str, float]:
        """Action → probability of those that are taken in the state with this index."""
        row = self.probs[s]
        return {self.actions[a]: float(row[a]) for a in np.flatnonzero(row > 0).tolist()}

    def index(self, state: State) -> int:
        """The index of a state: by its label, or by the measurements that it is made of."""
        if isinstance(state, Mapping):
            return measured_state(self.states, state)
        return self.states.index(state)

    @names_arguments
    def action(self, state: State, seed: Seed | None = None) -> str | int:
        """The action for a state; where the policy randomizes, drawn with `seed`.

        The state is its label, also as a keyboard types it (">=4"), or its measurements
        ({"bili": 3.2, "albumin": 3.4}). Actions that came in as integers come back so. Without a
        seed a randomized state is an error: it says the probabilities instead of hiding them behind
        the most probable action.
        """
        s = self.index(state)
        if not self.decided[s]:
            raise InputError(
                f"State '{self.states[s]}' was never left in the data, so no action can be "
                "recommended there. Collect transitions from it, or decide by other means."
            )
        row = self.probs[s]
        if row.max() == 1.0:
            return self.actions.value(int(np.argmax(row)))
        if seed is None:
            mix = ", ".join(f"{action}: {p:.3g}" for action, p in self.mix(s).items())
            raise InputError(
                f"The policy randomizes in state '{self.states[s]}' ({mix}). "
                "Pass a seed to draw an action."
            )
        return self.actions.value(int(generator(seed).choice(row.size, p=row)))

    def columns(self) -> dict[str, list[Any]]:
        """`state`, `action`, `probability` of every action that is taken.

        States without a recommendation (`decided` is False) are left out.
        """
        s, a = np.nonzero((self.probs > 0) & self.decided[:, None])
        return {
            "state": [self.states[i] for i in s],
            "action": [self.actions.value(i) for i in a],
            "probability": self.probs[s, a].tolist(),
        }

    def __repr__(self) -> str:
        kind = "deterministic" if self.deterministic else "randomized"
        return f"Policy({kind}, {len(self.states)} states, {len(self.actions)} actions)"


def action_shares(counts: ArrayLike, among: BoolArray) -> tuple[FloatArray, BoolArray]:
    """(n_states, n_actions) shares of actions among those marked, and where any was seen."""
    seen = np.where(among, counts, 0).astype(np.float64)
    known = seen.sum(axis=1) > 0
    seen[~known] = among[~known]
    return seen / seen.sum(axis=1, keepdims=True), known


@names_arguments
def read_policy(
    path: str | Path, states: Labels, actions: Labels, rest: Policy | None = None
) -> Policy:
    """Read a policy: columns `state`, `action`, and `probability` where a state has several.

    The probabilities of a state sum to 1 (tolerance 1e-6, for numbers that were printed with few
    digits; they are divided by their sum). `rest` is what is done in states that the file does not
    list; without it every state must be listed.
    """
    policy = read_timed_policy(path, states, actions, None, rest)
    assert isinstance(policy, Policy)  # without a horizon there are no times
    return policy


def read_timed_policy(
    path: str | Path,
    states: Labels,
    actions: Labels,
    horizon: int | None,
    rest: Policy | None = None,
) -> Policy | TimedPolicy:
    """The same with a horizon: where there is a column `time`, a rule for each step 0 … H − 1."""
    table = read_table(path, (STATE, ACTION, PROBABILITY, TIME))
    s = table.positions("state", states, "A policy")
    a = table.positions("action", actions, "A policy")
    weights = table.numbers.get("probability", np.ones(s.size))
    bad = ~((weights >= 0) & (weights <= 1))
    if bad.any():
        i = int(np.argmax(bad))
        raise InputError(
            f"A probability lies between 0 and 1: {table.rows.where(i)} has {weights[i]:g}."
        )
    time = table.numbers.get("time")
    steps = 1 if time is None else _steps(table, time, horizon)
    t = np.zeros(s.size, np.int64) if time is None else time.astype(np.int64)
    table.refuse_twice((t * len(states) + s) * len(actions) + a, "Each pair")
    probs = np.zeros((steps, len(states), len(actions)))
    probs[t, s, a] = weights
    total, name = probs.sum(axis=2), Path(path).name
    listed = total > 0
    off = np.argwhere(listed & (np.abs(total - 1) > SUM_TOLERANCE))
    if off.size:
        at = (int(off[0, 0]), int(off[0, 1]))
        when = "" if time is None else f" at time {at[0]}"
        raise InputError(
            f"The probabilities of a state must sum to 1: in {name} those of state "
            f"'{states[at[1]]}'{when} sum to {total[at]:g}. List one action, or add a column "
            "'probability'."
        )
    missing = ~listed
    if missing.any() and rest is None:
        when = "" if time is None else " at every time"
        raise InputError(
            f"A policy must say what to do in every state{when}: {name} lacks "
            f"{states.shortened(np.flatnonzero(missing.any(axis=0)))}. Add them."
        )
    probs = probs / np.where(listed, total, 1.0)[:, :, None]
    decided = listed.all(axis=0)
    if rest is not None:
        probs[missing] = np.broadcast_to(rest.probs, probs.shape)[missing]
        decided = np.where(missing.any(axis=0), rest.decided, decided)
    if time is None:
        return Policy(probs[0], states, actions, decided)
    return TimedPolicy(probs, states, actions, decided)


def _steps(table: Columns, time: FloatArray, horizon: int | None) -> int:
    """How many steps a policy with times is for; each time is one of them."""
    if horizon is None:
        raise InputError(
            f"{table.rows.source} has a column 'time', and only a policy of a problem with a "
            "horizon has steps; there is no horizon. Give the number of steps of an episode, or "
            "leave the column out.",
            arguments=("horizon",),
        )
    bad = ~((time >= 0) & (time < horizon) & (time == np.floor(time)))
    if bad.any():
        i = int(np.argmax(bad))
        raise InputError(
            f"A time is a step 0 … {horizon - 1}, counted from the start of an episode: "
            f"{table.rows.where(i)} has {time[i]:g}."
        )
    return horizon


@final
@dataclass(frozen=True, slots=True, eq=False, repr=False)
class TimedPolicy(_Rules):
    """One rule per step: `probs[t, s, a]` is the probability of a in s at step t = 0 … horizon − 1.

    `probs` may also be given as decisions (horizon, n_states): the action taken at each step.
    """

    probs: FloatArray
    states: Labels
    actions: Labels
    decided: BoolArray = _LATER

    def __post_init__(self) -> None:
        S, A = len(self.states), len(self.actions)
        given = np.asarray(self.probs)
        if given.ndim not in (2, 3) or given.shape[0] < 1 or given.shape[1] != S:
            raise InputError(
                f"A timed policy needs decisions of shape (horizon, {S}) or probabilities of shape "
                f"(horizon, {S}, {A}); the shape is {given.shape}."
            )
        if given.ndim == 2:
            if given.dtype.kind not in "iu" or given.min() < 0 or given.max() >= A:
                raise InputError(f"A decision is a whole number in 0…{A - 1}: got {given}.")
            given = np.eye(A)[given]
        probs = shaped("A timed policy", given, np.float64, (given.shape[0], S, A))
        # A rule that is none says so; the first stands for what does not change with steps.
        bad = np.flatnonzero(~_proper(probs).all(axis=1))
        rules = [Policy(probs[t], self.states, self.actions, self.decided) for t in (*bad[:1], 0)]
        object.__setattr__(self, "probs", probs)
        object.__setattr__(self, "decided", rules[-1].decided)

    @property
    def horizon(self) -> int:
        """Number of steps."""
        return int(self.probs.shape[0])

    @property
    def decisions(self) -> IntArray:
        """(horizon, n_states): the most probable action (the first of equals)."""
        return np.asarray(np.argmax(self.probs, axis=2), dtype=np.int64)

    def at(self, step: int) -> Policy:
        """The rule of a step counted from 0."""
        if not 0 <= step < self.horizon:
            raise InputError(f"step must lie in 0…{self.horizon - 1}; it is {step}.")
        return Policy(self.probs[step], self.states, self.actions, self.decided)

    def action(self, state: State, step: int, seed: Seed | None = None) -> str | int:
        """The action for a state label at a step counted from 0; drawn where it randomizes."""
        return self.at(step).action(state, seed)

    def columns(self) -> dict[str, list[Any]]:
        """Columns time, state, action and probability (> 0) of a table of the policy."""
        t, s, a = np.nonzero((self.probs > 0) & self.decided[None, :, None])
        names = {"state": [self.states[i] for i in s], "action": [self.actions[i] for i in a]}
        return {"time": t.tolist(), **names, "probability": self.probs[t, s, a].tolist()}

    def _repr_html_(self) -> str:
        index = np.flatnonzero(self.decided)
        rows = [(self.states[s], "; ".join(self.spans(s))) for s in index[:SHOWN]]
        return facts_html(f"{self!r}", {}, ("state", "steps: action"), rows, index.size)

    def spans(self, s: int) -> list[str]:
        """What is done in a state, step after step: `0–11: treat`, `12–29: wait`."""
        first = np.flatnonzero(np.any(np.diff(self.probs[:, s], axis=0) != 0, axis=1)) + 1
        ends = [0, *first.tolist(), self.horizon]
        out = []
        for lo, hi in pairwise(ends):
            taken = self.at(lo).mix(s).items()
            mix = (name if p == 1.0 else f"{name} {p:.3g}" for name, p in taken)
            out.append((f"{lo}" if hi == lo + 1 else f"{lo}–{hi - 1}") + ": " + " or ".join(mix))
        return out

    def __repr__(self) -> str:
        return f"TimedPolicy({self.horizon} steps, {len(self.states)} states)"


def policy_of(probs: FloatArray, *labels: Any) -> Any:
    """A policy of probabilities (n_states, n_actions), or of such for each step."""
    return (TimedPolicy if probs.ndim == 3 else Policy)(probs, *labels)
