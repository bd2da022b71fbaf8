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
from typing import Any, NamedTuple, final

import numpy as np

from softrobust._core.arrays import BoolArray, CodeArray, FloatArray, IntArray, counted
from softrobust._core.notes import Note
from softrobust.data.columns import ACTION, NEXT_STATE, REWARD, STATE
from softrobust.data.labels import Labels
from softrobust.data.rewards import Rewards
from softrobust.data.table import read_table

NOISY = "rewards_noisy"  # the code of a note: rewards of one transition differ
RELATIVE = 1e-9
_ROUNDING = 1e-12


@final
class Groups(NamedTuple):
    """Rewards of rows by group, (n_groups,): number of rows, sum, smallest and largest."""

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
    """The rewards that columns (n_rows,) of a log stand for; a note says which rule was taken."""
    n_states, n_actions = shape = (len(states), len(actions))
    scale = float(np.abs(reward).max(initial=0.0))
    pair = s.astype(np.int64) * n_actions + a
    pairs = group_rewards(pair, reward, n_states * n_actions)
    table, seen = pairs.mean.reshape(shape), (pairs.n > 0).reshape(shape)
    known = seen.copy()
    if end is not None:
        known[end] = True
    if pairs.agree(scale).all():
        return Rewards(pairs=table, known=known, notes=_of_log("pair"))
    nexts = group_rewards(s_next, reward, n_states)
    if nexts.agree(scale).all():
        # A state never reached has no r(s′), and the pair's mean takes its place.
        listed = nexts.n > 0
        return Rewards(
            pairs=table, known=known, nexts=nexts.mean, next_listed=listed, by_next=seen,
            notes=_of_log("next", never_reached=int((~listed).sum())),
        )  # fmt: skip
    # Only now, since a log may have as many triples as rows, and listing them may take a sort.
    keys, _, place = counted(pair * n_states + s_next, n_states * n_actions * n_states)
    triples = group_rewards(place, reward, keys.size)
    if triples.agree(scale).all():
        return Rewards(
            pairs=table, known=known, keys=keys, triples=triples.mean, notes=_of_log("triple")
        )
    # Name a triple that rules out r(s,a,s′), so that the reader can look at its rows.
    worst = int(np.argmax(np.where(triples.agree(scale), 0.0, triples.spread)))
    k, to = divmod(int(keys[worst]), n_states)
    variance = float(np.mean((reward - pairs.mean[pair]) ** 2))
    facts = {
        "state": states[k // n_actions],
        "action": actions[k % n_actions],
        "next_state": states[to],
        "low": float(triples.low[worst]),
        "high": float(triples.high[worst]),
        "deviation": variance**0.5,
        "range": float(pairs.spread.max()),
    }
    return Rewards(pairs=table, known=known, notes=(Note(NOISY, facts=facts),))


def _of_log(kind: str, **facts: int) -> tuple[Note, ...]:
    return (Note("rewards_of_log", facts={"kind": kind, **facts}),)


# --------------------------------------------------------------------------------------------------
# A table of rewards: state, action, reward, and perhaps next_state, one row per entry.

_ROLES = (STATE, ACTION, NEXT_STATE._replace(required=False), REWARD._replace(required=True))


def read_reward_table(source: Any, states: Labels, actions: Labels) -> Rewards:
    """The rewards that a table lists, r(s,a) or r(s,a,s′); other pairs stay unknown."""
    table = read_table(source, _ROLES)
    s = table.positions("state", states, "A reward")
    a = table.positions("action", actions, "A reward")
    values = table.numbers["reward"]
    shape = n_states, n_actions = len(states), len(actions)
    pair = s.astype(np.int64) * n_actions + a
    notes = (Note("rewards_table", facts={"source": table.rows.source}),)
    if "next_state" in table.codes:
        to = table.positions("next_state", states, "A reward")
        table.refuse_twice(pair * n_states + to, "A reward")
        return replace(Rewards.of_triples(s, a, to, values, n_states, n_actions), notes=notes)
    table.refuse_twice(pair, "A reward")
    pairs, known = np.zeros(shape), np.zeros(shape, dtype=bool)
    pairs[s, a] = values
    known[s, a] = True
    return Rewards(pairs=pairs, known=known, notes=notes)
