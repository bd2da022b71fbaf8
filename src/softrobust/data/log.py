"""The log D: transitions (s, a, s′) that were observed, with their labels (paper, §2).

Everything later is computed from counts n(s,a,s′) of the log, from the rewards of its rows, and
from p₀. A transition that ends its episode leads to one added absorbing state, "(end)", which
yields 0: that a step was the last one belongs to the transition, not to the state it led to.
"""

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple, final

import numpy as np
import numpy.typing as npt

from softrobust._core.arrays import BoolArray, CodeArray, FloatArray, IntArray, Rows, frozen, seal
from softrobust.data.labels import Labels
from softrobust.data.rewards import Rewards
from softrobust.errors import InputError

END = "(end)"
P0_TOLERANCE = 1e-8
# One cell per row: labels, numbers or flags.
Column = Sequence[Any] | npt.NDArray[Any]
_NOWHERE = Rows("the log")


@final
class Counts(NamedTuple):
    """How often each transition was seen, sorted by pair and next state.

    Attributes
    ----------
    pair : (n_triples,) int64
        s · n_actions + a.
    s_next : (n_triples,) int32
        Next states.
    n : (n_triples,) int64
        n(s,a,s′) ≥ 1.
    """

    pair: IntArray
    s_next: CodeArray
    n: IntArray


@final
@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class TransitionLog:
    """Observed transitions with labels, rewards and start distribution.

    Make one with `read_log`, or with `TransitionLog.from_arrays`.

    Attributes
    ----------
    s, a, s_next : (n_rows,) int32
        Indices into `states` and `actions`.
    states, actions : Labels
        Names.
    p0 : (n_states,) float64
        Distribution of the first state.
    p0_source : str
        In words, where `p0` comes from.
    reward : (n_rows,) float64 or None
        The reward column.
    episode : (n_rows,) int32 or None
        Number of the episode, counted from 0.
    rewards : Rewards or None
        The reward of every transition; None if the log has no rewards and none were given.
    rows : Rows
        Where rows came from, for messages.
    remarks : tuple of str
        What was assumed on reading; `notes` has these and more.

    Examples
    --------
    >>> log = TransitionLog.from_arrays(["dry", "wet"], ["wait", "wait"], ["wet", "wet"], [0, 1])
    >>> log.n_rows, log.states[1], log.p0
    (2, 'wet', array([0.5, 0.5]))
    """

    s: CodeArray
    a: CodeArray
    s_next: CodeArray
    states: Labels
    actions: Labels
    p0: FloatArray
    p0_source: str
    reward: FloatArray | None = None
    episode: CodeArray | None = None
    rewards: Rewards | None = None
    rows: Rows = _NOWHERE
    remarks: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for name in ("s", "a", "s_next", "episode"):
            if getattr(self, name) is not None:
                object.__setattr__(self, name, frozen(getattr(self, name), np.int32))
        if self.reward is not None:
            object.__setattr__(self, "reward", frozen(self.reward, np.float64))
        object.__setattr__(self, "p0", frozen(self.p0, np.float64))
        self._check()

    def _check(self) -> None:
        if not self.s.size:
            raise InputError(
                f"A log needs at least one transition: {self.rows.source} has none. "
                "Check that it is the right file."
            )
        for name in ("a", "s_next", "reward", "episode"):
            column = getattr(self, name)
            if column is not None and column.shape != self.s.shape:
                raise InputError(
                    f"The columns of a log must be equally long: s has {self.s.size} rows, "
                    f"{name} has {column.size}."
                )
        for name, n in (("s", self.n_states), ("a", self.n_actions), ("s_next", self.n_states)):
            codes = getattr(self, name)
            if codes.min() < 0 or codes.max() >= n:
                i = int(np.flatnonzero((codes < 0) | (codes >= n))[0])
                raise InputError(
                    f"Indices in '{name}' must be from 0 to {n - 1}: {self.rows.where(i)} has "
                    f"{codes[i]}."
                )
        if self.rewards is not None and self.rewards.pairs.shape != self.shape:
            raise InputError(
                f"The rewards are for {self.rewards.pairs.shape} states and actions, the log has "
                f"{self.shape}."
            )
        check_p0(self.p0, self.states)

    @classmethod
    def from_arrays(
        cls,
        states: Column,
        actions: Column,
        next_states: Column,
        rewards: Column | None = None,
        episodes: Column | None = None,
        terminals: Column | None = None,
        *,
        state_names: Labels | Sequence[str | int] | None = None,
        action_names: Labels | Sequence[str | int] | None = None,
        source: str = "the arrays",
    ) -> "TransitionLog":
        """Make a log from columns: labels (strings or integers) and numbers, one entry per row.

        `state_names` and `action_names` set the order of the labels and may add unvisited ones.
        """
        from softrobust.data.build import build_log
        from softrobust.data.coding import columns_of_arrays

        columns = columns_of_arrays(
            states, actions, next_states, rewards, episodes, terminals, source
        )
        return build_log(columns, states=state_names, actions=action_names)

    # ---------------------------------------------------------------- sizes
    @property
    def n_rows(self) -> int:
        """Number of transitions."""
        return int(self.s.size)

    @property
    def n_states(self) -> int:
        """Number of states, unvisited ones and "(end)" included."""
        return len(self.states)

    @property
    def n_actions(self) -> int:
        """Number of actions."""
        return len(self.actions)

    @property
    def shape(self) -> tuple[int, int]:
        """(n_states, n_actions)."""
        return self.n_states, self.n_actions

    @property
    def end(self) -> int | None:
        """Index of the absorbing state "(end)", or None."""
        return self.n_states - 1 if self.states.names[-1] == END else None

    # ---------------------------------------------------------------- counts
    def counts(self) -> Counts:
        """Return n(s,a,s′) for the transitions that were seen."""
        n_states, n_actions = self.shape
        keys = self.s.astype(np.int64)
        keys *= n_actions
        keys += self.a
        keys *= n_states
        keys += self.s_next
        # Counting into an array beats sorting, as long as the array is not the larger of the two.
        if n_states * n_actions * n_states <= max(4 * self.n_rows, 1 << 16):
            every = np.bincount(keys)
            keys = np.flatnonzero(every)
            count = every[keys]
        else:
            keys, count = np.unique(keys, return_counts=True)
        pair, s_next = np.divmod(keys, n_states)
        return Counts(seal(pair), seal(s_next.astype(np.int32)), seal(count))

    @property
    def pair_counts(self) -> IntArray:
        """How often each pair was seen, (n_states, n_actions)."""
        keys = self.s.astype(np.int64) * self.n_actions + self.a
        counts = np.bincount(keys, minlength=self.n_states * self.n_actions)
        return seal(counts.reshape(self.shape))

    def allowed(self, min_count: int = 1) -> BoolArray:
        """Return which pairs were seen at least `min_count` times, (n_states, n_actions)."""
        if min_count < 0:
            raise InputError(f"The smallest count of a pair must be 0 or more: got {min_count}.")
        return seal(self.pair_counts >= min_count)

    @property
    def behaviour(self) -> FloatArray:
        """Share of each action in each state, (n_states, n_actions); 0 in states never left."""
        counts = self.pair_counts
        return seal(counts / np.maximum(counts.sum(axis=1, keepdims=True), 1))

    @property
    def visited(self) -> BoolArray:
        """States that occur in the log, "(end)" apart, (n_states,)."""
        return seal(visited_states(self.s, self.s_next, self.n_states, self.end))

    @property
    def sinks(self) -> BoolArray:
        """States in which no action was seen, "(end)" included, (n_states,)."""
        left = np.zeros(self.n_states, dtype=bool)
        left[self.s] = True
        return seal(~left)

    @property
    def data_hash(self) -> str:
        """SHA-256 of transitions, rewards, episodes, labels and p0: equal logs, equal hashes."""
        digest = hashlib.sha256(b"softrobust-log-1")
        for column in (self.s, self.a, self.s_next, self.reward, self.episode, self.p0):
            digest.update(b"-" if column is None else column.data)
        for labels in (self.states, self.actions):
            digest.update("\x00".join(labels).encode() + b"\x01")
        return digest.hexdigest()

    # ---------------------------------------------------------------- changes
    def with_initial(
        self, initial: Mapping[str | int, float] | npt.ArrayLike | str | Path
    ) -> "TransitionLog":
        """Return the log with another p0: an array, a mapping label → probability, or a file."""
        from softrobust.data.initial import initial_distribution

        p0, source = initial_distribution(initial, self.states)
        return replace(self, p0=p0, p0_source=source)

    def with_rewards(
        self, rewards: Rewards | Callable[..., float] | npt.ArrayLike
    ) -> "TransitionLog":
        """Return the log with rewards given as `Rewards`, function of labels, or array.

        An array has shape (n_states, n_actions) or (n_states, n_actions, n_states). In functions
        and arrays "(end)" yields 0 whatever they say.
        """
        made = as_rewards(rewards, self.states, self.actions, self.end)
        return replace(self, rewards=made)

    def with_reward_table(self, table: Any = None, default: float | None = None) -> "TransitionLog":
        """Return the log with a table of rewards laid over its own, and a default for the rest.

        `table` (a path or table with the columns state, action, reward[, next_state]) goes before
        the rewards of the log; `default` serves pairs whose reward is known from nowhere.
        """
        from softrobust.data.reward_rules import refined

        rewards = refined(self.rewards, table, default, self.states, self.actions, self.end)
        return replace(self, rewards=rewards)

    def __len__(self) -> int:
        return self.n_rows

    def __repr__(self) -> str:
        return (
            f"TransitionLog({self.n_rows} transitions, {self.n_states} states, "
            f"{self.n_actions} actions)"
        )

    def _repr_html_(self) -> str:
        # How an object is shown is for the last stage to say: looked up when somebody looks.
        html: str = import_module("softrobust.report.notebook").log_html(self)
        return html

    def plot(self, axes: Any = None) -> Any:
        """How often each pair was seen, as shades; returns the matplotlib axes."""
        return import_module("softrobust.report.notebook").plot_log(self, axes)

    @property
    def notes(self) -> tuple[str, ...]:
        """Sentences for the user on what was assumed and what the log does not show."""
        # GONE

        return log_notes(self)


def visited_states(s: CodeArray, s_next: CodeArray, n_states: int, end: int | None) -> BoolArray:
    """Return which states occur among `s` and `s_next`, "(end)" apart."""
    seen = np.zeros(n_states, dtype=bool)
    seen[s] = True
    seen[s_next] = True
    if end is not None:
        seen[end] = False
    return seen


def check_p0(p0: FloatArray, states: Labels) -> None:
    """Raise unless `p0` is a distribution over the states (tolerance 1e-8)."""
    if p0.shape != (len(states),):
        raise InputError(
            f"p0 must have one probability per state, shape ({len(states)},): got {p0.shape}."
        )
    bad = np.flatnonzero(~((p0 >= 0) & (p0 <= 1)))
    if bad.size:
        raise InputError(
            f"Initial probabilities must be between 0 and 1: state '{states[bad[0]]}' has "
            f"{p0[bad[0]]:g}."
        )
    if abs(float(p0.sum()) - 1.0) > P0_TOLERANCE:
        raise InputError(
            f"Initial probabilities must sum to 1 (tolerance {P0_TOLERANCE:g}): they sum to "
            f"{p0.sum():.10g}. Correct them; they are not rescaled silently."
        )


def as_rewards(given: Any, states: Labels, actions: Labels, end: int | None) -> Rewards:
    """Return rewards given as `Rewards`, function of labels, or array; "(end)" yields 0."""
    if isinstance(given, Rewards):
        return given
    if callable(given):
        return Rewards.from_callable(given, states, actions, absorbing=end)
    values = np.array(given, dtype=np.float64)
    if values.ndim == 2:
        shape: tuple[int, ...] = (len(states), len(actions))
    else:
        shape = (len(states), len(actions), len(states))
    if values.shape != shape:
        raise InputError(
            f"Rewards for this log must have shape {(len(states), len(actions))} or "
            f"{(len(states), len(actions), len(states))}: got {values.shape}."
        )
    if end is not None:
        values[end] = 0.0
    return Rewards.of_pairs(values) if values.ndim == 2 else Rewards.of_transitions(values)


# --------------------------------------------------------------------------------------------------
# What a user should know about a log before trusting a policy from it, in sentences.


def log_notes(log: "TransitionLog") -> tuple[str, ...]:
    """Return the remarks made on reading, then p₀, rewards and what the log does not show."""
    notes = [*log.remarks, f"The start distribution p0 is {log.p0_source}."]
    if log.rewards is None:
        notes.append("The log has no rewards; give them to the problem.")
    elif log.rewards.note:
        notes.append(log.rewards.note)
    left = ~log.sinks
    n_pairs = int(left.sum()) * log.n_actions
    unseen = n_pairs - int((log.pair_counts > 0).sum())
    if unseen:
        notes.append(
            f"{unseen} of the {n_pairs} pairs of action and state (where any action was seen) "
            "were never seen."
        )
    ends = log.sinks & log.visited
    if ends.any():
        notes.append(_never_left(log, np.flatnonzero(ends).tolist(), "visited"))
    unvisited = log.sinks & ~log.visited
    if log.end is not None:
        unvisited[log.end] = False
    if unvisited.any():
        notes.append(_never_left(log, np.flatnonzero(unvisited).tolist(), "unvisited"))
    return tuple(notes)


def _never_left(log: "TransitionLog", positions: list[int], kind: str) -> str:
    names = log.states.shortened(positions)
    if len(positions) == 1:
        return f"No action was seen in the {kind} state {names}."
    return f"No action was seen in {len(positions)} {kind} states: {names}."
