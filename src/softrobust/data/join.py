"""Two logs of the same world in one: the old rows first, the new ones after them.

The old labels keep their places, so that a policy for them stays a policy; labels that are new
come after them, and "(end)" stays last. Episodes of the two logs are different ones. p₀ that was
given stays; p₀ from episode starts is counted anew. Rewards that the old log's column showed are
estimated again from both columns; rewards that were given (a table, a function) stay, and then
the new log may not bring states or actions that they do not know.
"""

from dataclasses import replace

import numpy as np

from softrobust._core.arrays import CodeArray
from softrobust._core.notes import Note
from softrobust.data.initial import GIVEN
from softrobust.data.labels import Labels
from softrobust.data.log import END, TransitionLog, usual_p0, with_end
from softrobust.data.rewards import Rewards
from softrobust.errors import InputError


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
    episode = None
    if old.episode is not None and new.episode is not None:
        episode = np.concatenate([old.episode, new.episode + old.episode.max() + 1])
    reward = None
    if old.reward is not None and new.reward is not None:
        reward = np.concatenate([old.reward, new.reward])
    p0 = np.zeros(len(states))
    p0[old_s] = old.p0
    facts = {"n_rows": new.n_rows, "source": new.rows.source}
    both = replace(
        old,
        s=np.concatenate([old_s[old.s], new_s[new.s]]),
        a=np.concatenate([old_a[old.a], new_a[new.a]]),
        s_next=np.concatenate([old_s[old.s_next], new_s[new.s_next]]),
        states=states,
        actions=actions,
        p0=p0,
        reward=reward,
        episode=episode,
        rewards=None,
        remarks=(*old.remarks, Note("rows_added", facts=facts)),
    )
    if old.p0_source.code != GIVEN:
        p0, source = usual_p0(both.s, both.s_next, both.n_states, both.end, episode)
        both = replace(both, p0=p0, p0_source=source)
    return replace(both, rewards=_rewards(old, new, both))


def _common(old: Labels, new: Labels) -> tuple[Labels, CodeArray, CodeArray]:
    """Common labels, and where the old and the new ones are among them."""
    names = [*old, *(name for name in new if name not in old.lookup)]
    labels = Labels(tuple(names), noun=old.noun)
    if END in labels.lookup:
        labels = with_end(labels)
    places = [np.array([labels.lookup[name] for name in part], np.int32) for part in (old, new)]
    return labels, places[0], places[1]


def _rewards(old: TransitionLog, new: TransitionLog, both: TransitionLog) -> Rewards | None:
    if old.rewards is None or _from_column(old):
        if old.rewards is not None and both.reward is None:
            raise InputError(
                f"The old log has a reward column and {new.rows.source} has none. Add it."
            )
        return both.shown_rewards()
    added = [name for name in both.states if name not in old.states.lookup]
    added += [name for name in both.actions if name not in old.actions.lookup]
    if added:
        raise InputError(
            "Rewards were given for the old log's states and actions, and the new rows bring "
            f"others ('{added[0]}'). Solve both logs together with a reward table that knows them."
        )
    return old.rewards


def _from_column(log: TransitionLog) -> bool:
    """Whether the log's rewards are what its own column shows."""
    again = log.shown_rewards()
    if again is None or log.rewards is None:
        return False
    mine, known = log.rewards.at(log.s, log.a, log.s_next)
    theirs, _ = again.at(log.s, log.a, log.s_next)
    same_pairs = np.array_equal(log.rewards.known, again.known)
    return bool(known.all() and same_pairs and np.allclose(mine, theirs, rtol=1e-9, atol=1e-12))
