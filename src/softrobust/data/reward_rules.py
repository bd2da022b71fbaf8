"""Which function of the transition a logged reward is.

A log has one reward per row; a problem needs r on all transitions. The first rule that the log
does not contradict is taken:

1. r(s,a), equal on all rows of a pair;
2. r(s′), equal on all rows that lead to a state;
3. r(s,a,s′), equal on all rows of a triple; a triple never seen of a pair that was has the pair's
   mean;
4. the mean per pair (rewards are noisy).

Equal means within 1e-9 of the larger of the two sizes. Numbers that differ only by rounding at the
scale of the whole column (1e-12 of its largest size) count as equal too, since a reward that is a
difference of large numbers can be 1e-13 in one row and 0 in the next.
"""

from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple, final

import numpy as np

from softrobust._core.arrays import BoolArray, CodeArray, FloatArray, IntArray
from softrobust.data.coding import Columns
from softrobust.data.columns import ACTION, NEXT_STATE, REWARD, STATE
from softrobust.data.labels import Labels
from softrobust.data.rewards import Rewards
from softrobust.errors import InputError

if TYPE_CHECKING:
    from softrobust.data.log import TransitionLog


RELATIVE = 1e-9
_ROUNDING = 1e-12


@final
class Groups(NamedTuple):
    """Rewards of rows by group: number of rows, sum, smallest and largest; n = 0 if none.

    Each array has one entry per possible group.
    """

    n: IntArray
    total: FloatArray
    low: FloatArray
    high: FloatArray

    @property
    def mean(self) -> FloatArray:
        """Mean of each group; exactly the common value where all rows agree, 0 without rows."""
        mean = np.where(self.low == self.high, self.low, self.total / np.maximum(self.n, 1))
        return np.where(self.n > 0, mean, 0.0)

    @property
    def spread(self) -> FloatArray:
        """Largest minus smallest reward of each group, 0 without rows."""
        return np.where(self.n > 0, self.high, 0.0) - np.where(self.n > 0, self.low, 0.0)

    def agree(self, scale: float) -> BoolArray:
        """Whether all rows of each group have the same reward; `scale` is the largest size."""
        size = np.where(self.n > 0, np.maximum(np.abs(self.low), np.abs(self.high)), 0.0)
        return np.asarray(self.spread <= RELATIVE * size + _ROUNDING * scale)


def group_rewards(keys: IntArray | CodeArray, reward: FloatArray, n_groups: int) -> Groups:
    """Group the rewards of rows by key 0…n_groups-1, without sorting."""
    low = np.full(n_groups, np.inf)
    high = np.full(n_groups, -np.inf)
    np.minimum.at(low, keys, reward)
    np.maximum.at(high, keys, reward)
    return Groups(
        np.bincount(keys, minlength=n_groups),
        np.asarray(np.bincount(keys, weights=reward, minlength=n_groups), dtype=np.float64),
        low,
        high,
    )


@np.errstate(over="ignore", invalid="ignore")  # sums beyond 1e308 are refused by `Rewards`
def estimate_rewards(
    s: CodeArray,
    a: CodeArray,
    s_next: CodeArray,
    reward: FloatArray,
    states: Labels,
    actions: Labels,
    end: int | None,
) -> Rewards:
    """Return the rewards that a column of a log stands for; the note says which rule was taken.

    Parameters
    ----------
    s, a, s_next : (n_rows,) int32
        The transitions.
    reward : (n_rows,) float64
        Their rewards, finite.
    states, actions : Labels
        Names.
    end : int or None
        The absorbing state that terminal rows lead to; it yields 0.
    """
    n_states, n_actions = shape = (len(states), len(actions))
    scale = float(np.abs(reward).max(initial=0.0))
    pair = s.astype(np.int64) * n_actions + a
    pairs = group_rewards(pair, reward, n_states * n_actions)
    table, seen = pairs.mean.reshape(shape), (pairs.n > 0).reshape(shape)
    known = seen.copy()
    if end is not None:
        known[end] = True
    if pairs.agree(scale).all():
        return Rewards(pairs=table, known=known, note="Rewards are a function r(s,a) of the log.")
    nexts = group_rewards(s_next, reward, n_states)
    if nexts.agree(scale).all():
        return _by_next(nexts, table, known, seen)
    # Only now, since a log may have as many triples as rows, and listing them takes a sort.
    keys, place = np.unique(pair * n_states + s_next, return_inverse=True)
    triples = group_rewards(place, reward, keys.size)
    if triples.agree(scale).all():
        return Rewards(
            pairs=table,
            known=known,
            keys=keys,
            triples=triples.mean,
            note="Rewards are a function r(s,a,s′) of the log; a transition never seen, of a pair "
            "that was, gets the pair's mean.",
        )
    # Name a triple that rules out r(s,a,s′), so that the reader can look at its rows.
    worst = int(np.argmax(np.where(triples.agree(scale), 0.0, triples.spread)))
    k, to = divmod(int(keys[worst]), n_states)
    variance = float(np.mean((reward - pairs.mean[pair]) ** 2))
    note = (
        f"Rewards are noisy (state '{states[k // n_actions]}', action '{actions[k % n_actions]}', "
        f"next state '{states[to]}' has rewards from {triples.low[worst]:g} to "
        f"{triples.high[worst]:g}): the mean per pair is used; averaged away is a standard "
        f"deviation of {variance**0.5:.3g} within pairs (widest range {pairs.spread.max():.3g})."
    )
    return Rewards(pairs=table, known=known, note=note)


def _by_next(nexts: Groups, table: FloatArray, known: BoolArray, seen: BoolArray) -> Rewards:
    """Rewards r(s′); a state never reached has no r(s′), and the pair's mean takes its place."""
    listed = nexts.n > 0
    note = "Rewards are a function r(s′) of the next state in the log"
    if not listed.all():
        note += (
            f"; a step to one of the {int((~listed).sum())} states never reached there gets the "
            "mean of its pair"
        )
    return Rewards(
        pairs=table,
        known=known,
        nexts=nexts.mean,
        next_listed=listed,
        by_next=seen,
        note=note + ".",
    )


def reward_noise(rewards: Rewards, log: "TransitionLog") -> float:
    """Standard deviation of rewards within a pair; 0 where rewards are a function of the log.

    Only means r(s, a) hide noise: rewards by next state are what was seen.
    """
    if log.reward is None or rewards.kind != "pair":
        return 0.0
    rest = log.reward - rewards.pairs[log.s, log.a]
    free = log.n_rows - int((np.asarray(log.pair_counts) > 0).sum())
    scale = max(float(np.abs(log.reward).max()), 1e-300)
    noise = float(np.sqrt(np.square(rest).sum() / max(free, 1)))
    return noise if noise > 1e-9 * scale else 0.0


# --------------------------------------------------------------------------------------------------
# A table of rewards: state, action, reward, and perhaps next_state, one row per entry.

_ROLES = (
    STATE,
    ACTION,
    NEXT_STATE._replace(required=False),
    REWARD._replace(required=True),
)


def read_reward_table(source: Any, states: Labels, actions: Labels) -> Rewards:
    """Return the rewards that a table lists; pairs that it does not list stay unknown.

    Parameters
    ----------
    source : path, pandas.DataFrame, pyarrow.Table or mapping of columns
        With the columns state, action and reward, and next_state for rewards r(s,a,s′).
    states, actions : Labels
        Names; a row with another name is an error.
    """
    from softrobust.data.table import read_table

    table = read_table(source, _ROLES)
    s = _positions(table, "state", states)
    a = _positions(table, "action", actions)
    values = table.numbers["reward"]
    n_states, n_actions = len(states), len(actions)
    pair = s.astype(np.int64) * n_actions + a
    words = f"Rewards come from {table.rows.source}."
    if "next_state" in table.codes:
        to = _positions(table, "next_state", states)
        _refuse_twice(pair * n_states + to, table, states, actions, pair)
        return replace(Rewards.of_triples(s, a, to, values, n_states, n_actions), note=words)
    _refuse_twice(pair, table, states, actions, pair)
    pairs = np.zeros(n_states * n_actions)
    known = np.zeros(n_states * n_actions, dtype=bool)
    pairs[pair] = values
    known[pair] = True
    shape = (n_states, n_actions)
    return Rewards(pairs=pairs.reshape(shape), known=known.reshape(shape), note=words)


def _positions(table: Columns, role: str, labels: Labels) -> CodeArray:
    """Return the indices of a label column; raise at the first unknown name, with its row."""
    table.require(role)
    names = table.names["action" if role == "action" else "state"]
    place = np.array([labels.lookup.get(name, -1) for name in names], dtype=np.int32)
    out = place[table.codes[role]]
    if (out < 0).any():
        i = int(np.argmax(out < 0))
        name = names[table.codes[role][i]]
        raise InputError(
            f"A reward must be for a known {labels.noun}: {table.rows.where(i)} has '{name}'. "
            f"{labels.suggest(name)}"
        )
    return out


def _refuse_twice(
    keys: IntArray, table: Columns, states: Labels, actions: Labels, pair: IntArray
) -> None:
    """Raise if two rows give the reward of the same thing."""
    order = np.argsort(keys, kind="stable")
    again = np.flatnonzero(keys[order][1:] == keys[order][:-1])
    if not again.size:
        return
    first, second = int(order[again[0]]), int(order[again[0] + 1])
    s, a = divmod(int(pair[first]), len(actions))
    raise InputError(
        f"A reward is given once: rows {table.rows.number(first)} and {table.rows.number(second)} "
        f"of {table.rows.source} both give state '{states[s]}', action '{actions[a]}'. Remove one."
    )


def refined(
    rewards: Rewards | None,
    table: Any,
    default: float | None,
    states: Labels,
    actions: Labels,
    end: int | None,
) -> Rewards | None:
    """Return rewards with a table laid over them and a default under them; "(end)" yields 0."""
    if table is None and default is None:
        return rewards
    if rewards is None:
        known = np.zeros((len(states), len(actions)), dtype=bool)
        if end is not None:
            known[end] = True
        rewards = Rewards(pairs=np.zeros(known.shape), known=known)
    if table is not None:
        rewards = rewards.merge(read_reward_table(table, states, actions))
    return rewards if default is None else rewards.with_default(default)
