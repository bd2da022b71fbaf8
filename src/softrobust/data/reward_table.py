"""A table of rewards: state, action, reward, and perhaps next_state, one row per entry."""

from dataclasses import replace
from typing import Any

import numpy as np

from softrobust.data.arrays import CodeArray, IntArray
from softrobust.data.coding import Columns
from softrobust.data.columns import ACTION, NEXT_STATE, REWARD, STATE
from softrobust.data.labels import Labels
from softrobust.data.rewards import Rewards
from softrobust.errors import InputError

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
