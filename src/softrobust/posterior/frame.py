"""What a domain's posterior knows before any data: states, actions, rewards, start and discount.

Its models carry all of it, so that they are a problem on their own. The log is checked against it:
labels must be known, and rewards, where the log has them, must be those of the frame.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, final

import numpy as np
from numpy.typing import NDArray

from softrobust._core.arrays import FloatArray, IntArray, seal
from softrobust.data import TransitionLog
from softrobust.data.labels import Labels
from softrobust.data.rewards import Rewards
from softrobust.errors import InputError
from softrobust.models.model_set import ModelSet

REWARD_TOLERANCE = 1e-6  # of 1 + |r|: logs round their rewards


@final
class Transitions(NamedTuple):
    """Columns of a log in the indices of a frame, each (n_rows,) int64."""

    s: IntArray
    a: IntArray
    s_next: IntArray


@final
@dataclass(frozen=True, slots=True, eq=False)
class Frame:
    """States, actions, and what is known of rewards, start and discount."""

    states: Labels
    actions: Labels
    rewards: Rewards | None = None
    p0: FloatArray | None = None
    gamma: float | None = None

    def transitions(self, log: TransitionLog, domain: str) -> Transitions:
        """The rows of the log, re-indexed; an unknown label or a foreign reward is an error."""
        state = _places(log.states, self.states)
        action = _places(log.actions, self.actions)
        for codes, place, names, known in (
            (log.s, state, log.states, self.states),
            (log.s_next, state, log.states, self.states),
            (log.a, action, log.actions, self.actions),
        ):
            lost = np.flatnonzero(place[codes] < 0)
            if lost.size:
                i, name = int(lost[0]), names[int(codes[lost[0]])]
                raise InputError(
                    f"{domain} knows the {known.noun}s {known.shortened(range(len(known)), 3)}: "
                    f"{log.rows.where(i)} has '{name}'. Correct the row, map the labels, or use "
                    "another posterior."
                )
        out = Transitions(state[log.s], action[log.a], state[log.s_next])
        self._check_rewards(log, out, domain)
        return out

    def _check_rewards(self, log: TransitionLog, t: Transitions, domain: str) -> None:
        if log.reward is None or self.rewards is None or self.rewards.kind == "model":
            return
        own, known = self.rewards.at(t.s, t.a, t.s_next)
        off = np.flatnonzero(known & (np.abs(own - log.reward) > REWARD_TOLERANCE * (1 + abs(own))))
        if off.size:
            i = int(off[0])
            raise InputError(
                f"The rewards of the log must be those of {domain}: {log.rows.where(i)} has "
                f"{log.reward[i]:g}, the domain pays {own[i]:g} ({off.size} such rows). Drop the "
                "reward column, or give the posterior a frame with your own rewards."
            )

    def dense(self, blocks: FloatArray) -> ModelSet:
        """Models from rows laid out (n_states, n_actions, n_models, n_states)."""
        S, A = len(self.states), len(self.actions)
        return self.models(
            np.arange(S * A + 1, dtype=np.int64) * S,
            np.tile(np.arange(S, dtype=np.int32), S * A),
            blocks,
            blocks.shape[2],
        )

    def models(
        self, indptr: IntArray, next_states: NDArray[np.int32], prob: FloatArray, n: int
    ) -> ModelSet:
        """`n` equally weighted models in the storage of `ModelSet`, with all that is known.

        The array `prob` was made for them: they keep it, and it can be written no more.
        """
        return ModelSet(
            indptr=indptr,
            next_states=next_states,
            prob=seal(prob),
            f=np.full(n, 1.0 / n),
            states=self.states,
            actions=self.actions,
            rewards=self.rewards,
            p0=self.p0,
            gamma=self.gamma,
        )


def _places(names: Labels, known: Labels) -> IntArray:
    """Index in `known` of every name; −1 where it is not there."""
    return np.array([known.lookup.get(name, -1) for name in names], dtype=np.int64)
