"""Models to and from other packages: Gymnasium's toy-text tables and pymdptoolbox arrays.

Both hold one model. Gymnasium's `P[s][a]` lists (probability, next state, reward, terminated); a
terminated step leads to one added absorbing state `(end)` with zero reward, because some tables
(Taxi) go on paying after the end. pymdptoolbox keeps transitions as (A, S, S).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from softrobust._core.arguments import names_arguments
from softrobust._core.arrays import BoolArray, FloatArray
from softrobust._core.settings import instance
from softrobust.data import END, Labels, Rewards
from softrobust.errors import InputError
from softrobust.models.model_set import ModelSet

Row = Sequence[tuple[float, int, float, bool]]
Table = Mapping[int, Mapping[int, Row]]


@names_arguments
def from_gymnasium(table: Table | Any, gamma: float | None = None) -> ModelSet:
    """One model from a toy-text table, or from the environment that carries it.

    The table is `{s: {a: [(probability, next state, reward, terminated), …]}}`; an environment has
    it as its attribute `P`, and its start distribution is then used as p0.
    """
    p0 = None
    if not isinstance(table, Mapping):
        env = getattr(table, "unwrapped", table)
        table, p0 = getattr(env, "P", None), getattr(env, "initial_state_distrib", None)
        if not isinstance(table, Mapping):
            raise InputError(
                "from_gymnasium needs a table P[s][a] or a toy-text environment that has one "
                "(attribute P), such as FrozenLake, Taxi or CliffWalking."
            )
    try:
        P, r, available = _tables(table)
    except (KeyError, IndexError, TypeError, ValueError, AttributeError) as error:
        raise InputError(
            "P[s][a] must list (probability, next state, reward, terminated) for states and "
            f"actions numbered from 0 without gaps: {type(error).__name__} {error}."
        ) from None
    S, ends = len(table), len(P) - len(table)
    return ModelSet.from_dense(
        P,
        states=Labels((*map(str, range(S)), *[END] * ends)),
        available=available,
        rewards=Rewards.of_transitions(r),
        p0=None if p0 is None else np.concatenate([np.asarray(p0, float), np.zeros(ends)]),
        gamma=gamma,
        sinks=np.arange(len(P)) >= S,
    )


def _tables(table: Mapping[int, Mapping[int, Row]]) -> tuple[FloatArray, FloatArray, BoolArray]:
    """P and r (S, A, S), averaged over ways to one state, and the pairs that exist."""
    S, A = len(table), max((len(row) for row in table.values()), default=0)
    if S == 0 or A == 0:
        raise ValueError("it is empty")
    steps = [(s, a, *way) for s, row in table.items() for a, ways in row.items() for way in ways]
    # A terminated step needs `(end)`, unless it leads to a state that stays where it is, at 0.
    resting = [
        all(way[1] == s and way[2] == 0 for ways in table[s].values() for way in ways)
        for s in range(S)
    ]
    ends = any(done and not resting[int(to)] for *_, to, _, done in steps)
    total = S + int(ends)
    P, r = np.zeros((total, A, total)), np.zeros((total, A, total))
    available = np.zeros((total, A), bool)
    for s, row in table.items():
        available[s, list(row)] = True
    for s, a, probability, s_next, reward, done in steps:
        to = S if done and not resting[int(s_next)] else int(s_next)
        P[s, a, to] += probability
        r[s, a, to] += probability * reward
    r[P > 0] /= P[P > 0]
    if ends:
        P[S, 0, S], available[S, 0] = 1.0, True
    return P, r, available


def to_gymnasium(models: ModelSet, omega: int = 0) -> Table:
    """Model ω as a toy-text table; `models.rewards` must be there. Nothing is marked terminated."""
    rewards = _rewards_of(models)
    out: dict[int, dict[int, Row]] = {}
    for s, a in np.ndindex(models.n_states, models.n_actions):
        columns, block = models.block(s, a)
        ways = zip(
            block[omega].tolist(), columns.tolist(),
            row_rewards(models, rewards, s, a, omega).tolist(), strict=True,
        )  # fmt: skip
        own = out.setdefault(s, {})
        if columns.size:
            own[a] = [(p, to, r, False) for p, to, r in ways]
    return out


@names_arguments
def from_mdptoolbox(
    transitions: ArrayLike | Sequence[Any], rewards: ArrayLike, gamma: float | None = None
) -> ModelSet:
    """One model from pymdptoolbox arrays.

    Parameters
    ----------
    transitions : (n_actions, n_states, n_states), or a sequence of sparse matrices
    rewards : (n_states,), (n_states, n_actions) or (n_actions, n_states, n_states)
    """
    instance("transitions", transitions, Sequence, np.ndarray, hint="Give a matrix per action.")
    P = _dense(list(transitions), "transitions")  # type: ignore[arg-type]
    if P.ndim != 3 or P.shape[1] != P.shape[2]:
        raise InputError(
            "pymdptoolbox transitions are one matrix per action, all of one shape: (n_actions, "
            f"n_states, n_states); got {P.shape}."
        )
    A, S, _ = P.shape
    r = _dense(rewards, "rewards")
    if r.shape == (S,):
        table = Rewards.of_pairs(np.repeat(r[:, None], A, axis=1))
    elif r.shape == (S, A):
        table = Rewards.of_pairs(r)
    elif r.shape == (A, S, S):
        table = Rewards.of_transitions(r.transpose(1, 0, 2))
    else:
        raise InputError(
            f"pymdptoolbox rewards have shape {(S,)}, {(S, A)} or {(A, S, S)}; got {r.shape}."
        )
    return ModelSet.from_dense(P.transpose(1, 0, 2), rewards=table, gamma=gamma)


def _dense(given: Any, what: str) -> FloatArray:
    """An array, a sparse matrix, or a sequence of either, as one dense array."""
    parts = given if isinstance(given, (list, tuple)) else [given]
    plain = [m.toarray() if hasattr(m, "toarray") else m for m in parts]
    try:
        return np.asarray(plain if parts is given else plain[0], dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InputError(
            f"pymdptoolbox {what} must be arrays of numbers, all of one shape: {error}."
        ) from None


def to_mdptoolbox(models: ModelSet, omega: int = 0) -> tuple[FloatArray, FloatArray]:
    """Model ω as (transitions (A, S, S), expected rewards (S, A)); every pair must be available."""
    missing = np.argwhere(~models.available)
    if missing.size:
        s, a = missing[0]
        raise InputError(
            "pymdptoolbox has no forbidden actions: state "
            f"'{models.states[s]}', action '{models.actions[a]}' has no transitions."
        )
    rewards = _rewards_of(models)
    R = rewards.expected(models.indptr, models.next_states, models.prob, models.n_models)
    return np.ascontiguousarray(models[omega].P.transpose(1, 0, 2)), R[:, :, omega]


def _rewards_of(models: ModelSet) -> Rewards:
    if models.rewards is None:
        raise InputError(
            "These models carry no rewards. Attach them first: "
            "dataclasses.replace(models, rewards=Rewards.of_pairs(r))."
        )
    return models.rewards


def row_rewards(models: ModelSet, rewards: Rewards, s: int, a: int, omega: int) -> FloatArray:
    """r(s, a, s′, ω) for the stored next states of one pair."""
    columns, block = models.block(s, a)
    k = s * models.n_actions + a
    if rewards.per_model is not None:
        first = int(models.indptr[k]) * models.n_models
        own = rewards.per_model[first : first + block.size].reshape(block.shape)
        return np.asarray(own[omega])
    return rewards.lookup(np.full(columns.size, k, dtype=np.int64), columns)[0]
