"""Two logs of the same world in one: the old rows first, the new ones after them.

The old labels keep their places, so that a policy for them stays a policy; labels that are new come
after them, and "(end)" stays last. Episodes of the two logs are different ones. p₀ that was given
stays; p₀ from episode starts is counted anew. Rewards that the old log's column showed are
estimated again from both columns; rewards that were given (a table, a function) stay, and then the
new log may not bring states or actions that they do not know.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from softrobust.data.build import _usual_p0, _with_end
from softrobust.data.labels import Labels
from softrobust.data.log import END, TransitionLog
from softrobust.data.reward_rules import estimate_rewards
from softrobust.data.rewards import Rewards
from softrobust.errors import InputError

Codes = NDArray[np.int32]


def join_logs(old: TransitionLog, new: TransitionLog) -> TransitionLog:
    """The rows of both logs, with common labels."""
    states, old_s, new_s = _common(old.states, new.states)
    actions, old_a, new_a = _common(old.actions, new.actions)
    if (old.episode is None) != (new.episode is None):
        have, lack = ("old", "new") if new.episode is None else ("new", "old")
        raise InputError(
            f"Both logs need episodes, or neither: the {have} log has an episode column and the "
            f"{lack} one does not. Add it, or leave it out of both."
        )
    s = np.concatenate([old_s[old.s], new_s[new.s]])
    a = np.concatenate([old_a[old.a], new_a[new.a]])
    s_next = np.concatenate([old_s[old.s_next], new_s[new.s_next]])
    episode = None
    if old.episode is not None and new.episode is not None:
        episode = np.concatenate([old.episode, new.episode + old.episode.max() + 1])
    end = len(states) - 1 if states.names[-1] == END else None
    reward = None
    if old.reward is not None and new.reward is not None:
        reward = np.concatenate([old.reward, new.reward])
    p0, source = _p0(old, s, s_next, len(states), end, episode, old_s)
    return replace(
        old,
        s=s,
        a=a,
        s_next=s_next,
        states=states,
        actions=actions,
        p0=p0,
        p0_source=source,
        reward=reward,
        episode=episode,
        rewards=_rewards(old, new, s, a, s_next, reward, states, actions, end),
        remarks=(*old.remarks, f"{new.n_rows} rows were added from {new.rows.source}."),
    )


def _common(old: Labels, new: Labels) -> tuple[Labels, Codes, Codes]:
    """Common labels, and where the old and the new ones are among them."""
    names = [*old, *(name for name in new if name not in old.lookup)]
    labels = Labels(tuple(names), noun=old.noun)
    if END in labels.lookup:
        labels = _with_end(labels)
    places = [np.array([labels.lookup[name] for name in part], np.int32) for part in (old, new)]
    return labels, places[0], places[1]


def _p0(
    old: TransitionLog,
    s: Codes,
    s_next: Codes,
    n_states: int,
    end: int | None,
    episode: Codes | None,
    place: Codes,
) -> tuple[NDArray[np.float64], str]:
    if old.p0_source.startswith("given"):
        p0 = np.zeros(n_states)
        p0[place] = old.p0
        return p0, old.p0_source
    return _usual_p0(s, s_next, n_states, end, episode)


def _rewards(
    old: TransitionLog,
    new: TransitionLog,
    s: Codes,
    a: Codes,
    s_next: Codes,
    reward: NDArray[np.float64] | None,
    states: Labels,
    actions: Labels,
    end: int | None,
) -> Rewards | None:
    if old.rewards is None or _from_column(old):
        if old.rewards is not None and reward is None:
            raise InputError(
                f"The old log has a reward column and {new.rows.source} has none. Add it."
            )
        if reward is None:
            return None
        return estimate_rewards(s, a, s_next, reward, states, actions, end)
    if states != old.states or actions != old.actions:
        added = [name for name in states if name not in old.states.lookup]
        added += [name for name in actions if name not in old.actions.lookup]
        raise InputError(
            "Rewards were given for the old log's states and actions, and the new rows bring "
            f"others ('{added[0]}'). Solve both logs together with a reward table that knows them."
        )
    return old.rewards


def _from_column(log: TransitionLog) -> bool:
    """Whether the log's rewards are what its own column shows."""
    if log.reward is None or log.rewards is None:
        return False
    again = estimate_rewards(log.s, log.a, log.s_next, log.reward, log.states, log.actions, log.end)
    pair = log.s.astype(np.int64) * log.n_actions + log.a
    mine, known = log.rewards.lookup(pair, log.s_next)
    theirs, _ = again.lookup(pair, log.s_next)
    same_pairs = np.array_equal(np.asarray(log.rewards.known), np.asarray(again.known))
    return bool(known.all() and same_pairs and np.allclose(mine, theirs, rtol=1e-9, atol=1e-12))
