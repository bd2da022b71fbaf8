"""The log D: transitions (s, a, s′) that were observed, with their labels (paper, §2).

Everything later is computed from counts n(s,a,s′) of the log, from the rewards of its rows, and
from p₀. A transition that ends its episode leads to one added absorbing state, "(end)", which
yields 0: that a step was the last one belongs to the transition, not to the state it led to.

How columns become a log can be read off its notes: integers 0…max, other names in natural order;
terminal rows lead to "(end)"; p₀ is given, or the episode starts, or uniform over visited states;
rewards are given, or the function that the column shows (see `reward_rules`).
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple, cast, final

import numpy as np
import numpy.typing as npt

from softrobust._core import arrays
from softrobust._core.arguments import names_arguments
from softrobust._core.arrays import BoolArray, CodeArray, FloatArray, IntArray, Rows, seal, shaped
from softrobust._core.notes import Note
from softrobust._core.show import SHOWN, facts_html
from softrobust.data.columns import LOG_ROLES, Columns, Role, number_groups
from softrobust.data.labels import Labels, OfStates, order_names
from softrobust.data.reward_rules import estimate_rewards, read_reward_table
from softrobust.data.rewards import Rewards
from softrobust.data.table import opened, read_arrays
from softrobust.errors import InputError

END = "(end)"
Names = Labels | Sequence[str | int]
Start = Mapping[str | int, float] | npt.ArrayLike | str | Path
GivenRewards = Rewards | Callable[..., float] | npt.ArrayLike
# One cell per row: labels, numbers or flags.
Column = Sequence[Any] | npt.NDArray[Any]
_COLUMNS = ("s", "a", "s_next", "episode", "reward")
LARGEST = 1e60  # of rewards: products of their variances must be numbers
_NOWHERE = Rows("the log")
P0_TOLERANCE = 1e-8
GIVEN = "p0_given"  # the code of a note: the user gave p₀
_P0_ROLES = (
    Role("state", ("state", "idstate", "s"), "label", "state"),
    Role("probability", ("probability", "prob", "p", "p0"), "number"),
)


@final
class Counts(NamedTuple):
    """n(s,a,s′) ≥ 1, (n_triples,), by pair s · n_actions + a and next state, sorted by these."""

    pair: IntArray
    s_next: CodeArray
    n: IntArray


@names_arguments
@final
@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class TransitionLog(OfStates):
    """Observed transitions with labels, rewards and start distribution.

    Make one with `read_log`, or with `TransitionLog.from_arrays`.

    Attributes
    ----------
    s, a, s_next : (n_rows,) int32
        Indices into `states` and `actions`.
    p0, p0_source : (n_states,) float64, Note
        Distribution of the first state, and where it comes from.
    reward, episode : (n_rows,) float64, int32, or None
        The reward column, and the number of the episode, counted from 0.
    rewards : Rewards or None
        The reward of every transition; None if the log has no rewards and none were given.
    rows, remarks : Rows, tuple of Note
        Where rows came from, for messages; what was assumed on reading (`notes` has more).

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
    p0_source: Note
    reward: FloatArray | None = None
    episode: CodeArray | None = None
    rewards: Rewards | None = None
    rows: Rows = _NOWHERE
    remarks: tuple[Note, ...] = ()
    _pair_counts: IntArray | None = field(default=None, init=False, repr=False)

    def __post_init__(self) -> None:
        n_rows, rule = np.size(self.s), "one entry for each row"
        for name in _COLUMNS:
            dtype, column = np.float64 if name == "reward" else np.int32, getattr(self, name)
            if column is not None:
                column = shaped(f"The column '{name}'", column, dtype, (n_rows,), rule=rule)
                object.__setattr__(self, name, column)
        if not n_rows:
            raise InputError(
                f"A log needs at least one transition: {self.rows.source} has none. "
                "Check that it is the right file."
            )
        most = {"s": self.n_states, "a": self.n_actions, "s_next": self.n_states}
        for name, n in (most | {"episode": np.iinfo(np.int32).max}).items():
            codes = getattr(self, name)
            if codes is not None and (codes.min() < 0 or codes.max() >= n):
                bad = (codes < 0) | (codes >= n)
                raise InputError(
                    f"Indices in '{name}' must be from 0 to {n - 1}: {self.rows.where(bad)} has "
                    f"{codes[bad][0]}."
                )
        if self.reward is not None and (large := np.abs(self.reward) > LARGEST).any():
            raise InputError(
                f"Rewards must be at most {LARGEST:g} in size: {self.rows.where(large)} has "
                f"{self.reward[large][0]:g}. Count in larger units."
            )
        if self.rewards is not None and self.rewards.pairs.shape != self.shape:
            raise InputError(
                f"The rewards are for {self.rewards.pairs.shape} states and actions, the log has "
                f"{self.shape}."
            )
        object.__setattr__(self, "p0", check_p0(self.p0, self.states))

    @classmethod
    @names_arguments
    def from_arrays(
        cls,
        states: Column,
        actions: Column,
        next_states: Column,
        rewards: Column | None = None,
        episodes: Column | None = None,
        terminals: Column | None = None,
        *,
        state_names: Names | None = None,
        action_names: Names | None = None,
        source: str = "the arrays",
    ) -> "TransitionLog":
        """Make a log from columns: labels (strings or integers) and numbers, one entry per row.

        `state_names` and `action_names` set the order of the labels and may add unvisited ones.
        """
        columns = {
            "state": states, "action": actions, "next_state": next_states,
            "reward": rewards, "episode": episodes, "terminal": terminals,
        }  # fmt: skip
        given = {name: column for name, column in columns.items() if column is not None}
        log = build_log(read_arrays(given, LOG_ROLES, source), state_names, action_names)
        if np.asarray(actions).dtype.kind not in "iu":
            return log
        return replace(log, actions=replace(log.actions, integers=True))

    # ---------------------------------------------------------------- sizes
    @property
    def n_rows(self) -> int:
        """Number of transitions."""
        return int(self.s.size)

    @property
    def end(self) -> int | None:
        """Index of the absorbing state "(end)", or None."""
        return self.n_states - 1 if self.states.names[-1] == END else None

    @names_arguments
    def part(self, rows: IntArray | BoolArray) -> "TransitionLog":
        """Some of the rows (indices, or a mask), with the labels, start and rewards of all."""
        columns = {name: getattr(self, name) for name in _COLUMNS}
        # These are ours, and not copied again.
        some: dict[str, Any] = {k: seal(x[rows]) for k, x in columns.items() if x is not None}
        return replace(self, **some)

    # ---------------------------------------------------------------- counts
    def counts(self) -> Counts:
        """Return n(s,a,s′) for the transitions that were seen."""
        keys = self._pairs()
        keys *= self.n_states
        keys += self.s_next
        # Counting into an array beats sorting, as long as the array is not the larger of the two.
        if self.n_states * self.n_actions * self.n_states <= max(4 * self.n_rows, 1 << 16):
            every = np.bincount(keys)
            keys = np.flatnonzero(every)
            count = every[keys]
        else:
            keys, count = np.unique(keys, return_counts=True)
        pair, s_next = np.divmod(keys, self.n_states)
        return Counts(seal(pair), seal(s_next.astype(np.int32)), seal(count))

    @property
    def pair_counts(self) -> IntArray:
        """How often each pair was seen, (n_states, n_actions)."""
        if self._pair_counts is None:  # asked for again and again, and a log may be large
            counts = np.bincount(self._pairs(), minlength=self.n_states * self.n_actions)
            object.__setattr__(self, "_pair_counts", seal(counts.reshape(self.shape)))
        return cast(IntArray, self._pair_counts)

    def _pairs(self) -> IntArray:
        """s · n_actions + a of every row, made in place: a log may be large."""
        keys = self.s.astype(np.int64)
        keys *= self.n_actions
        keys += self.a
        return keys

    @names_arguments
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
        columns = (self.s, self.a, self.s_next, self.reward, self.episode, self.p0)
        return arrays.digest("softrobust-log-1", columns, self.states, self.actions)

    # ---------------------------------------------------------------- changes
    @names_arguments
    def with_initial(self, initial: Start) -> "TransitionLog":
        """Return the log with another p0: an array, a mapping label → probability, or a file."""
        p0, source = initial_distribution(initial, self.states)
        return replace(self, p0=p0, p0_source=source)

    @names_arguments
    def with_rewards(self, rewards: GivenRewards) -> "TransitionLog":
        """Return the log with rewards given as `Rewards`, function of labels, or array.

        An array has shape (n_states, n_actions) or (n_states, n_actions, n_states). In functions
        and arrays "(end)" yields 0 whatever they say.
        """
        return replace(self, rewards=Rewards.of_given(rewards, self.states, self.actions, self.end))

    @names_arguments
    def with_reward_table(self, table: Any = None, default: float | None = None) -> "TransitionLog":
        """Return the log with a table of rewards laid over its own, and a default for the rest.

        `table` (a path or table with the columns state, action, reward[, next_state]) goes before
        the rewards of the log; `default` serves pairs whose reward is known from nowhere.
        """
        if table is None and default is None:
            return self
        known = np.zeros(self.shape, dtype=bool)
        if self.end is not None:
            known[self.end] = True
        rewards = self.rewards or Rewards(pairs=np.zeros(self.shape), known=known)
        if table is not None:
            rewards = rewards.merge(read_reward_table(table, self.states, self.actions))
        return replace(self, rewards=rewards if default is None else rewards.with_default(default))

    def shown_rewards(self) -> Rewards | None:
        """The rewards that the log's own column stands for; None without a column."""
        if self.reward is None:
            return None
        columns = (self.s, self.a, self.s_next, self.reward)
        return estimate_rewards(*columns, self.states, self.actions, self.end)

    def __len__(self) -> int:
        return self.n_rows

    def __repr__(self) -> str:
        sizes = f"{self.n_rows} transitions, {self.n_states} states, {self.n_actions} actions"
        return f"TransitionLog({sizes})"

    def _repr_html_(self) -> str:
        facts = {"transitions": self.n_rows, "states": self.n_states, "actions": self.n_actions,
                 "pairs seen": int((self.pair_counts > 0).sum())}  # fmt: skip
        named = ((self.states, self.s), (self.actions, self.a), (self.states, self.s_next))
        columns = ([labels[i] for i in codes[:SHOWN]] for labels, codes in named)
        head, rows = ("state", "action", "next state"), list(zip(*columns, strict=True))
        return facts_html("TransitionLog", facts, head, rows, self.n_rows)

    @property
    def notes(self) -> tuple[Note, ...]:
        """What was assumed on reading, p₀, rewards, and what the log does not show."""
        paid = (Note("no_rewards"),) if self.rewards is None else self.rewards.notes
        notes = [*self.remarks, self.p0_source, *paid]
        pairs = int((~self.sinks).sum()) * self.n_actions
        unseen = pairs - int((self.pair_counts > 0).sum())
        if unseen:
            notes.append(Note("pairs_never_seen", facts={"unseen": unseen, "pairs": pairs}))
        never_left = self.sinks.copy()
        if self.end is not None:
            never_left[self.end] = False
        for visited in (True, False):
            places = np.flatnonzero(never_left & (self.visited == visited))
            if places.size:
                some = [self.states[i] for i in places[:5]]
                facts = {"count": int(places.size), "states": some, "visited": visited}
                notes.append(Note("states_never_left", facts=facts))
        return tuple(notes)


def visited_states(s: CodeArray, s_next: CodeArray, n_states: int, end: int | None) -> BoolArray:
    """Return which states occur among `s` and `s_next`, "(end)" apart."""
    seen = np.zeros(n_states, dtype=bool)
    seen[s] = True
    seen[s_next] = True
    if end is not None:
        seen[end] = False
    return seen


def reward_noise(rewards: Rewards, log: TransitionLog) -> float:
    """Standard deviation of rewards within a pair; only means r(s, a) hide any."""
    if log.reward is None or rewards.kind != "pair":
        return 0.0
    rest = log.reward - rewards.pairs[log.s, log.a]
    free = log.n_rows - int((np.asarray(log.pair_counts) > 0).sum())
    scale = max(float(np.abs(log.reward).max()), 1e-300)
    noise = float(np.sqrt(np.square(rest).sum() / max(free, 1)))
    return noise if noise > 1e-9 * scale else 0.0


def build_log(
    columns: Columns,
    states: Names | None = None,
    actions: Names | None = None,
    initial: Start | None = None,
) -> TransitionLog:
    """Return the log that the columns of a table make; see `read_log` for the arguments."""
    terminal = columns.flags.get("terminal")
    columns.refuse_empty()
    remarks = list(columns.notes)
    state_names = _ordered(columns, "state", states, remarks)
    action_names = _ordered(columns, "action", actions, remarks)

    def indices(role: str, labels: Labels, unless: BoolArray | None = None) -> CodeArray:
        out = columns.positions(role, labels, "A row of the log", unless)
        del columns.codes[role]  # so that codes and indices do not both stay in memory
        return out

    s, a = indices("state", state_names), indices("action", action_names)
    s_next = indices("next_state", state_names, terminal)
    if terminal is not None and terminal.any():
        state_names = with_end(state_names)
        s_next[terminal] = len(state_names) - 1
        remarks.append(Note("terminal_rows", facts={"n_rows": int(terminal.sum())}))
    end = len(state_names) - 1 if state_names.names[-1] == END else None
    if end is not None and (leaving := s == end).any():
        raise InputError(
            f"The state '{END}' is the absorbing end of an episode and is never left: "
            f"{columns.rows.where(leaving)} leaves it. Rename that state or remove the row."
        )
    episode = number_groups(columns.groups.pop("episode")) if columns.groups else None
    if initial is not None:
        p0, p0_source = initial_distribution(initial, state_names)
    else:
        p0, p0_source = usual_p0(s, s_next, len(state_names), end, episode)
    reward = columns.numbers.get("reward")
    # These arrays are ours: sealed, they are shared with the log and not copied.
    log = TransitionLog(
        s=seal(s),
        a=seal(a),
        s_next=seal(s_next),
        states=state_names,
        actions=action_names,
        p0=p0,
        p0_source=p0_source,
        reward=reward if reward is None else seal(reward),
        episode=episode if episode is None else seal(episode),
        rows=columns.rows,
        remarks=tuple(remarks),
    )
    return log if reward is None else replace(log, rewards=log.shown_rewards())


def _ordered(columns: Columns, noun: str, given: Names | None, remarks: list[Note]) -> Labels:
    """The labels of a vocabulary, whose names are then those of the labels ("1" for "1.0")."""
    names = columns.names[noun]
    if given is not None:
        labels = Labels.of(given, noun)
        return with_end(labels) if END in labels else labels
    usual = [name for name in names if name != END]
    ordered = order_names(usual, noun, fill=noun == "state")
    remarks.extend(ordered.notes)
    own = dict(zip(usual, ordered.positions, strict=True))
    labels = with_end(ordered.labels) if END in names else ordered.labels
    names[:] = [name if name == END else labels[own[name]] for name in names]
    return labels


def with_end(labels: Labels) -> Labels:
    """Return the labels with "(end)" as the last one."""
    return Labels((*(name for name in labels if name != END), END), noun=labels.noun)


def initial_distribution(
    initial: Mapping[str | int, float] | npt.ArrayLike | str | Path, states: Labels
) -> tuple[FloatArray, Note]:
    """p₀ (n_states,) of an array, label → probability, or a table; and its source."""
    source, p0 = None, np.zeros(len(states))
    if isinstance(initial, Mapping):
        for label, probability in initial.items():
            p0[states.index(label)] = probability
    elif isinstance(initial, (str, Path)) or hasattr(initial, "columns"):
        with opened(initial) as table:
            columns = table.read(_P0_ROLES)
            source = None if table.path is None else table.source
        s = columns.positions("state", states, "An initial probability")
        columns.refuse_twice(s, "An initial probability")
        p0[s] = columns.numbers["probability"]
    else:
        p0 = np.asarray(initial)
    return check_p0(p0, states), Note(GIVEN, facts={"source": source})


def check_p0(given: npt.ArrayLike, states: Labels) -> FloatArray:
    """A distribution over the states, (n_states,), read-only; anything else raises."""
    p0 = shaped("p0", given, np.float64, (len(states),), rule="one probability per state")
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
    return p0


def usual_p0(
    s: CodeArray, s_next: CodeArray, n_states: int, end: int | None, episode: CodeArray | None
) -> tuple[FloatArray, Note]:
    """p₀ of a log without a given one: episode starts, else uniform over visited states."""
    if episode is not None:
        first = np.empty(int(episode.max()) + 1, dtype=np.int64)
        # Written backwards, so that the earliest row of each episode stays.
        first[episode[::-1]] = np.arange(s.size - 1, -1, -1)
        p0 = np.bincount(s[first], minlength=n_states) / first.size
        return p0, Note("p0_episode_starts", facts={"n_starts": int(first.size)})
    visited = visited_states(s, s_next, n_states, end)
    return visited / visited.sum(), Note("p0_uniform", facts={"states": int(visited.sum())})
