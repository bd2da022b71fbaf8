"""Models to and from other packages: Gymnasium's toy-text tables and pymdptoolbox arrays.

Both hold one model. Gymnasium's `P[s][a]` lists (probability, next state, reward, terminated); a
terminated step leads to one added absorbing state `(end)` with zero reward, because some tables
(Taxi) go on paying after the end. pymdptoolbox keeps transitions as (A, S, S).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from softrobust._core.arrays import FloatArray
from softrobust.data.labels import Labels
from softrobust.data.log import END
from softrobust.data.rewards import Rewards
from softrobust.errors import InputError
from softrobust.models.model_set import ModelSet

Row = Sequence[tuple[float, int, float, bool]]


def from_gymnasium(
    table: Mapping[int, Mapping[int, Row]] | Any, gamma: float | None = None
) -> ModelSet:
    """One model from a toy-text table `P[s][a]`, or from the environment that carries it.

    Parameters
    ----------
    table : mapping or environment
        `{s: {a: [(probability, next state, reward, terminated), …]}}`, or an environment with an
        attribute `P` (its start distribution is then used as p0).
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
        P, r, available, ends = _tables(table)
    except (KeyError, IndexError, TypeError, ValueError) as error:
        raise InputError(
            "P[s][a] must list (probability, next state, reward, terminated) for states and "
            f"actions numbered from 0 without gaps: {type(error).__name__} {error}."
        ) from None
    S = len(table)
    if ends:
        P[S, 0, S], available[S, 0] = 1.0, True
    names = [str(s) for s in range(S)] + [END] * int(ends)
    start = None if p0 is None else np.concatenate([np.asarray(p0, float), np.zeros(int(ends))])
    return ModelSet.from_dense(
        P,
        states=Labels(tuple(names)),
        available=available,
        rewards=Rewards.of_transitions(r),
        p0=start,
        gamma=gamma,
        sinks=np.array([name == END for name in names]),
    )


def _tables(
    table: Mapping[int, Mapping[int, Row]],
) -> tuple[FloatArray, FloatArray, NDArray[np.bool_], bool]:
    """P and r (S, A, S), the pairs that exist, and whether `(end)` was added as the last state."""
    S, A = len(table), max((len(row) for row in table.values()), default=0)
    if S == 0 or A == 0:
        raise ValueError("it is empty")
    ends = any(
        _ends(table, step) for row in table.values() for ways in row.values() for step in ways
    )
    total = S + int(ends)
    P, r = np.zeros((total, A, total)), np.zeros((total, A, total))
    available = np.zeros((total, A), bool)
    for s, row in table.items():
        for a, ways in row.items():
            _add_ways(table, ways, P[s, a], r[s, a])
            available[s, a] = True
    return P, r, available, ends


def _add_ways(
    table: Mapping[int, Mapping[int, Row]], ways: Row, P: FloatArray, r: FloatArray
) -> None:
    """Add the ways of one pair to its row; rewards of merged ways are averaged by probability."""
    for step in ways:
        probability, s_next, reward, _ = step
        column = P.size - 1 if _ends(table, step) else int(s_next)
        P[column] += probability
        r[column] += probability * reward
    hit = P > 0
    r[hit] /= P[hit]


def _ends(table: Mapping[int, Mapping[int, Row]], step: tuple[float, int, float, bool]) -> bool:
    """Whether a terminated step needs `(end)`: not when it leads to a state that stays at 0."""
    _, s_next, _, terminated = step
    if not terminated:
        return False
    ways = [way for row in table[int(s_next)].values() for way in row]
    return any(way[1] != s_next or way[2] != 0 for way in ways)


def to_gymnasium(
    models: ModelSet, omega: int = 0
) -> dict[int, dict[int, list[tuple[float, int, float, bool]]]]:
    """Model ω as a toy-text table; `models.rewards` must be there. Nothing is marked terminated."""
    rewards = _rewards_of(models)
    out: dict[int, dict[int, list[tuple[float, int, float, bool]]]] = {}
    for s in range(models.n_states):
        out[s] = {}
        for a in range(models.n_actions):
            columns, block = models.block(s, a)
            r = row_rewards(models, rewards, s, a, omega)
            if columns.size:
                out[s][a] = [
                    (float(p), int(j), float(x), False)
                    for p, j, x in zip(block[omega], columns, r, strict=True)
                ]
    return out


def from_mdptoolbox(
    transitions: ArrayLike | Sequence[Any], rewards: ArrayLike, gamma: float | None = None
) -> ModelSet:
    """One model from pymdptoolbox arrays.

    Parameters
    ----------
    transitions : (n_actions, n_states, n_states), or a sequence of sparse matrices
    rewards : (n_states,), (n_states, n_actions) or (n_actions, n_states, n_states)
    """
    mats = [_dense(m, "transitions") for m in transitions]  # type: ignore[union-attr]
    if len({m.shape for m in mats}) != 1:
        raise InputError(
            "pymdptoolbox transitions must be one matrix per action, all of one shape."
        )
    P = np.stack(mats)
    if P.ndim != 3 or P.shape[1] != P.shape[2]:
        raise InputError(
            f"pymdptoolbox transitions have shape (n_actions, n_states, n_states); got {P.shape}."
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
    try:
        if hasattr(given, "toarray"):
            return np.asarray(given.toarray(), dtype=np.float64)
        if isinstance(given, (list, tuple)) and any(hasattr(m, "toarray") for m in given):
            return np.stack([_dense(m, what) for m in given])
        return np.asarray(given, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InputError(f"pymdptoolbox {what} must be arrays of numbers: {error}.") from None


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
    k = s * models.n_actions + a
    lo, hi = int(models.indptr[k]), int(models.indptr[k + 1])
    if rewards.per_model is not None:
        N = models.n_models
        block = rewards.per_model[lo * N : hi * N].reshape(N, hi - lo)
        return np.asarray(block[omega])
    columns = models.next_states[lo:hi].astype(np.int64)
    return rewards.lookup(np.full(columns.size, k, dtype=np.int64), columns)[0]
