"""From columns to a log: labels in order, "(end)", p₀ and rewards.

The rules are those a user can read off the notes of the log: integers 0…max, other names in natural
order; terminal rows lead to "(end)"; p₀ is given, or the episode starts, or uniform over visited
states; rewards are given, or the function that the column shows (see `reward_rules`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from numpy.typing import NDArray

from softrobust._core.arrays import BoolArray, CodeArray, FloatArray, seal
from softrobust.data.coding import Columns
from softrobust.data.initial import initial_distribution
from softrobust.data.labels import Labels, order_names
from softrobust.data.log import END, TransitionLog, as_rewards, visited_states
from softrobust.data.reward_rules import estimate_rewards, refined
from softrobust.data.rewards import Rewards
from softrobust.errors import InputError

Names = Labels | Sequence[str | int]
GivenRewards = Rewards | Callable[..., float] | npt.ArrayLike


def build_log(
    columns: Columns,
    *,
    states: Names | None = None,
    actions: Names | None = None,
    initial: Mapping[str | int, float] | npt.ArrayLike | str | Path | None = None,
    rewards: GivenRewards | None = None,
    reward_table: Any = None,
    reward_default: float | None = None,
) -> TransitionLog:
    """Return the log that the columns of a table make; see `read_log` for the arguments."""
    _refuse_empty(columns)
    terminal = columns.flags.get("terminal")
    columns.require("state")
    columns.require("action")
    columns.require("next_state", unless=terminal)
    remarks = list(columns.notes)
    state_names, place = _order(columns, "state", states, remarks, fill=True)
    action_names, action_place = _order(columns, "action", actions, remarks, fill=False)
    # Popped, so that codes and indices do not both stay in memory.
    s = place[columns.codes.pop("state")]
    a = action_place[columns.codes.pop("action")]
    s_next = place[columns.codes.pop("next_state")]
    if terminal is not None and terminal.any():
        state_names = _with_end(state_names)
        s_next[terminal] = len(state_names) - 1
        n = int(terminal.sum())
        rows = "1 terminal row leads" if n == 1 else f"{n} terminal rows lead"
        remarks.append(f"{rows} to the state '{END}'.")
    end = len(state_names) - 1 if state_names.names[-1] == END else None
    _refuse_leaving_end(s, end, columns)
    episode = columns.groups.get("episode")
    if initial is not None:
        p0, p0_source = initial_distribution(initial, state_names)
    else:
        p0, p0_source = _usual_p0(s, s_next, len(state_names), end, episode)
    reward = columns.numbers.get("reward")
    found = None
    if rewards is not None:
        found = as_rewards(rewards, state_names, action_names, end)
    elif reward is not None:
        found = estimate_rewards(s, a, s_next, reward, state_names, action_names, end)
    found = refined(found, reward_table, reward_default, state_names, action_names, end)
    # These arrays are ours: sealed, they are shared with the log and not copied.
    return TransitionLog(
        s=seal(s),
        a=seal(a),
        s_next=seal(s_next),
        states=state_names,
        actions=action_names,
        p0=p0,
        p0_source=p0_source,
        reward=reward if reward is None else seal(reward),
        episode=episode if episode is None else seal(episode),
        rewards=found,
        rows=columns.rows,
        remarks=tuple(remarks),
    )


def _refuse_empty(columns: Columns) -> None:
    if not columns.codes["state"].size:
        raise InputError(
            f"A log needs at least one transition: {columns.rows.source} has none. Check that it "
            "is the right file."
        )


def _order(
    columns: Columns, noun: str, given: Names | None, remarks: list[str], fill: bool
) -> tuple[Labels, CodeArray]:
    """Return the labels of a vocabulary and, for every code, the index of its name."""
    names = columns.names[noun]
    if given is None:
        usual = [name for name in names if name != END]
        ordered = order_names(usual, noun, fill)
        labels, positions = ordered.labels, dict(zip(usual, ordered.positions, strict=True))
        remarks.extend(ordered.notes)
        if len(usual) < len(names):
            labels = _with_end(labels)
            positions[END] = len(labels) - 1
    else:
        labels = Labels.of(given, noun)
        _refuse_unknown(columns, noun, names, labels)
        if END in labels:
            labels = _with_end(labels)
        positions = {name: labels.lookup[name] for name in names}
    # The last entry serves the code -1 of a missing cell, which "(end)" overwrites.
    place = np.array([positions[name] for name in names] + [0], dtype=np.int32)
    return labels, place


def _with_end(labels: Labels) -> Labels:
    """Return the labels with "(end)" as the last one."""
    return Labels((*(name for name in labels if name != END), END), noun=labels.noun)


def _refuse_unknown(columns: Columns, noun: str, names: list[str], labels: Labels) -> None:
    """Raise if the log has a name that the given list lacks; name the first row that has it."""
    lacking = [code for code, name in enumerate(names) if name not in labels.lookup]
    if not lacking:
        return
    roles = ("state", "next_state") if noun == "state" else ("action",)
    hits = [np.flatnonzero(np.isin(columns.codes[role], lacking)) for role in roles]
    i = min(int(hit[0]) for hit in hits if hit.size)
    name = next(
        names[columns.codes[role][i]] for role in roles if columns.codes[role][i] in lacking
    )
    raise InputError(
        f"Every {noun} of the log must be in the given list of {noun}s: {columns.rows.where(i)} "
        f"has '{name}', which is not. {labels.suggest(name)} Add it to the list or correct the row."
    )


def _refuse_leaving_end(s: CodeArray, end: int | None, columns: Columns) -> None:
    if end is None or not (leaving := s == end).any():
        return
    raise InputError(
        f"The state '{END}' is the absorbing end of an episode and is never left: "
        f"{columns.rows.where(int(np.argmax(leaving)))} leaves it. Rename that state or remove "
        "the row."
    )


def _usual_p0(
    s: CodeArray, s_next: CodeArray, n_states: int, end: int | None, episode: CodeArray | None
) -> tuple[FloatArray, str]:
    """p₀ of a log without a given one: episode starts, else uniform over visited states."""
    if episode is not None:
        first = np.empty(int(episode.max()) + 1, dtype=np.int64)
        # Written backwards, so that the earliest row of each episode stays.
        first[episode[::-1]] = np.arange(s.size - 1, -1, -1)
        p0 = np.bincount(s[first], minlength=n_states) / first.size
        n = first.size
        return p0, f"the {n} episode starts" if n > 1 else "the start of the only episode"
    visited: BoolArray = visited_states(s, s_next, n_states, end)
    return visited / visited.sum(), f"uniform over the {int(visited.sum())} visited states"


# --------------------------------------------------------------------------------------------------
# Two logs of the same world in one: the old rows first, the new ones after them.
#
# The old labels keep their places, so that a policy for them stays a policy; labels that are new
# come after them, and "(end)" stays last. Episodes of the two logs are different ones. p₀ that was
# given stays; p₀ from episode starts is counted anew. Rewards that the old log's column showed are
# estimated again from both columns; rewards that were given (a table, a function) stay, and then
# the new log may not bring states or actions that they do not know.

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
