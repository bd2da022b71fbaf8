"""Episodes of a log as padded arrays: one row an episode, one column a step."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Self, final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from softrobust.data.memory import refuse_if_too_large
from softrobust.errors import InputError
from softrobust.models.checks import freeze

if TYPE_CHECKING:
    from softrobust.data import TransitionLog

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]
BoolArray = NDArray[np.bool_]


@final
@dataclass(frozen=True, slots=True, eq=False)
class Episodes:
    """Steps (n_episodes, longest); beyond the end of an episode `live` is False and r is 0.

    Attributes
    ----------
    s, a, s_next : (n_episodes, longest) int
    reward : (n_episodes, longest)
    live : (n_episodes, longest) bool
    """

    s: IntArray
    a: IntArray
    s_next: IntArray
    reward: FloatArray
    live: BoolArray

    def __post_init__(self) -> None:
        for name in ("s", "a", "s_next"):
            object.__setattr__(self, name, freeze(getattr(self, name), np.int64))
        object.__setattr__(self, "reward", freeze(self.reward, np.float64))
        object.__setattr__(self, "live", freeze(self.live, np.bool_))

    def __len__(self) -> int:
        return int(self.s.shape[0])

    @property
    def lengths(self) -> IntArray:
        """(n_episodes,)."""
        return np.asarray(self.live.sum(axis=1), dtype=np.int64)

    @property
    def last_state(self) -> IntArray:
        """(n_episodes,): where each episode was seen last."""
        return np.asarray(self.s_next[np.arange(len(self)), self.lengths - 1], dtype=np.int64)

    def discounts(self, gamma: float) -> FloatArray:
        """γ^t for every step, (longest,)."""
        return np.asarray(gamma ** np.arange(self.s.shape[1]))

    def returns(self, gamma: float) -> FloatArray:
        """Σ_t γ^t r_t of every episode, (n_episodes,)."""
        return np.asarray(self.reward @ self.discounts(gamma))

    def select(self, which: ArrayLike) -> Self:
        """The chosen episodes."""
        at = np.arange(len(self))[np.asarray(which)]
        return type(self)(self.s[at], self.a[at], self.s_next[at], self.reward[at], self.live[at])


def episodes_of(log: TransitionLog) -> Episodes:
    """The episodes of a log, in the order of their rows."""
    if log.episode is None:
        raise InputError(
            "Off-policy estimates need episodes, and the log has no column for them. Add a column "
            "'episode' that says which rows belong together."
        )
    order = np.argsort(log.episode, kind="stable")
    _, first, length = np.unique(log.episode[order], return_index=True, return_counts=True)
    n, longest = first.size, int(length.max())
    refuse_if_too_large(
        33.0 * n * longest,
        f"{n} episodes padded to {longest} steps",
        "Cut very long episodes into shorter ones.",
    )
    row = np.repeat(np.arange(n), length)
    column = np.arange(order.size) - np.repeat(first, length)

    def padded(values: NDArray[np.generic], kind: type) -> NDArray[np.generic]:
        out: NDArray[np.generic] = np.zeros((n, longest), dtype=kind)
        out[row, column] = values[order]
        return out

    live = np.zeros((n, longest), dtype=bool)
    live[row, column] = True
    return Episodes(
        s=np.asarray(padded(log.s, np.int64), dtype=np.int64),
        a=np.asarray(padded(log.a, np.int64), dtype=np.int64),
        s_next=np.asarray(padded(log.s_next, np.int64), dtype=np.int64),
        reward=np.asarray(padded(row_rewards(log), np.float64), dtype=np.float64),
        live=live,
    )


def row_rewards(log: TransitionLog) -> FloatArray:
    """The reward of every row: the log's own column, or what its rewards say of (s, a, s′)."""
    if log.reward is not None:
        return np.asarray(log.reward)
    if log.rewards is None:
        raise InputError("The log has no rewards. Add a column 'reward' or a reward table.")
    pair = log.s.astype(np.int64) * log.n_actions + log.a
    value, known = log.rewards.lookup(pair, log.s_next)
    if not known.all():
        i = int(np.flatnonzero(~known)[0])
        raise InputError(f"The reward of {log.rows.where(i)} is not known. Add it to the table.")
    return np.asarray(value)
