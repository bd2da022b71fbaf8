"""What a domain's posterior knows before any data: states, actions, rewards, start and discount.

Its models carry all of it, so that they are a problem on their own. The log is checked against it:
labels must be known, and rewards, where the log has them, must be those of the frame.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, final

import numpy as np
from numpy.typing import NDArray

from softrobust._core.arrays import FloatArray, IntArray
from softrobust.data.labels import Labels
from softrobust.data.rewards import Rewards
from softrobust.errors import InputError
from softrobust.models.model_set import ModelSet

if TYPE_CHECKING:
    from softrobust.data import TransitionLog


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

    def dense(self, blocks: FloatArray, notes: tuple[str, ...] = ()) -> ModelSet:
        """Models from rows laid out (n_states, n_actions, n_models, n_states)."""
        S, A = len(self.states), len(self.actions)
        return self.models(
            np.arange(S * A + 1, dtype=np.int64) * S,
            np.tile(np.arange(S, dtype=np.int32), S * A),
            blocks.reshape(-1),
            blocks.shape[2],
            notes,
        )

    def models(
        self,
        indptr: IntArray,
        next_states: NDArray[np.int32],
        prob: FloatArray,
        n: int,
        notes: tuple[str, ...] = (),
    ) -> ModelSet:
        """`n` equally weighted models in the storage of `ModelSet`, with all that is known."""
        return ModelSet(
            indptr=indptr,
            next_states=next_states,
            prob=prob,
            f=np.full(n, 1.0 / n),
            states=self.states,
            actions=self.actions,
            rewards=self.rewards,
            p0=self.p0,
            gamma=self.gamma,
            notes=notes,
        )


def _places(names: Labels, known: Labels) -> IntArray:
    """Index in `known` of every name; −1 where it is not there."""
    return np.array([known.lookup.get(name, -1) for name in names], dtype=np.int64)


# --------------------------------------------------------------------------------------------------
# Which next states a pair (s, a) may have: the support that the prior mass is spread over.

SUPPORTS = ("neighbours", "visited", "all")


def pair_support(
    log: TransitionLog, kept: NDArray[np.bool_], support: str | NDArray[np.bool_]
) -> tuple[IntArray, NDArray[np.int32]]:
    """`indptr` (S·A + 1,) and ascending `next_states` of every kept pair; others list nothing.

    neighbours : states observed after s under any action, and s itself
    visited    : every state that occurs in the log
    all        : every state
    mask       : a bool array (n_states, n_states) over (s, s′) or (n_states, n_actions, n_states)
    """
    S, A = kept.shape
    if isinstance(support, str):
        if support not in SUPPORTS:
            raise InputError(
                f"support must be one of {', '.join(SUPPORTS)} or a mask; it is '{support}'."
            )
        if support == "neighbours":
            s, s_next = _neighbours(log)
        else:
            columns = np.arange(S) if support == "all" else _visited(log)
            s, s_next = np.repeat(np.arange(S), columns.size), np.tile(columns, S)
        return _by_state(s, s_next, kept)
    mask = np.asarray(support, dtype=bool)
    if mask.shape == (S, S):
        s, s_next = np.nonzero(mask)
        return _by_state(s, s_next, kept)
    if mask.shape != (S, A, S):
        raise InputError(
            f"A support mask has shape (n_states, n_states) = {(S, S)} or {(S, A, S)}; "
            f"it has {mask.shape}."
        )
    pair, s_next = np.nonzero((mask & kept[:, :, None]).reshape(S * A, S))
    indptr = np.concatenate([[0], np.cumsum(np.bincount(pair, minlength=S * A))])
    return indptr, s_next.astype(np.int32)


def _neighbours(log: TransitionLog) -> tuple[IntArray, IntArray]:
    """Sorted unique (s, s′) seen, with (s, s) added."""
    S = len(log.states)
    pairs, s_next, _ = log.counts()
    own = np.arange(S, dtype=np.int64)
    keys = np.unique(np.concatenate([(pairs // len(log.actions)) * S + s_next, own * S + own]))
    return keys // S, keys % S


def _visited(log: TransitionLog) -> IntArray:
    return np.unique(np.concatenate([log.s, log.s_next])).astype(np.int64)


def _by_state(
    s: IntArray, s_next: IntArray, kept: NDArray[np.bool_]
) -> tuple[IntArray, NDArray[np.int32]]:
    """Give every kept pair the list of its state; (s, s_next) is sorted by s, then s′."""
    S, A = kept.shape
    starts = np.concatenate([[0], np.cumsum(np.bincount(s, minlength=S))])
    widths = np.where(kept, np.diff(starts)[:, None], 0).reshape(-1)
    indptr = np.concatenate([[0], np.cumsum(widths)])
    k = np.flatnonzero(widths)
    # Position j of pair k is entry starts[s] + j of its state's list.
    offset = np.repeat(starts[k // A] - indptr[k], widths[k])
    return indptr, s_next[offset + np.arange(indptr[-1])].astype(np.int32)
