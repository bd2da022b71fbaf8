"""Expected reward R[s,a,ω] = Σ_{s′} P^ω(s′|s,a) r(s,a,s′,ω) (paper, §2), in blocks of pairs.

A set of models can hold 2·10⁸ probabilities, so no array of that size is made besides: pairs are
taken in blocks of a few million probabilities, and inside a block those with equally many next
states are multiplied together.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from softrobust.data.arrays import BoolArray, CodeArray, FloatArray, IntArray
from softrobust.data.labels import Labels
from softrobust.errors import InputError

if TYPE_CHECKING:
    from softrobust.data.rewards import Rewards

_BLOCK = 1 << 22


def expected_rewards(
    rewards: "Rewards",
    indptr: IntArray,
    next_states: CodeArray,
    prob: FloatArray,
    n_models: int,
    needed: BoolArray | None,
    states: Labels | None,
    actions: Labels | None,
) -> FloatArray:
    """See `Rewards.expected`."""
    shape = (rewards.n_states, rewards.n_actions)
    n_pairs = shape[0] * shape[1]
    if indptr.size != n_pairs + 1:
        raise InputError(
            f"The rewards are for {shape[0]} states and {shape[1]} actions, the models have "
            f"{indptr.size - 1} pairs of state and action. Make both for the same labels."
        )
    sizes = np.diff(indptr)
    wanted = sizes > 0
    if needed is not None:
        wanted &= needed.ravel()
    out = np.zeros((n_pairs, n_models))
    if rewards.kind == "pair":
        _refuse_unknown(wanted & ~rewards.known.ravel(), shape, states, actions)
        out[wanted] = rewards.pairs.ravel()[wanted, None]
        return out.reshape(*shape, n_models)
    if rewards.per_model is not None and rewards.per_model.size != prob.size:
        raise InputError(
            f"Rewards by model must match the probabilities one to one: {rewards.per_model.size} "
            f"rewards, {prob.size} probabilities."
        )
    for first, last in _blocks(indptr, n_models):
        part = slice(int(indptr[first]) * n_models, int(indptr[last]) * n_models)
        if rewards.per_model is not None:
            _weigh(prob[part], rewards.per_model[part], sizes[first:last], out[first:last])
            continue
        near = slice(int(indptr[first]), int(indptr[last]))
        pair = np.repeat(np.arange(first, last), sizes[first:last])
        value, known = rewards.lookup(pair, next_states[near])
        lacking = ~known & wanted[pair]
        if lacking.any():
            # A next state that no model ever reaches needs no reward.
            used = _reached(prob[part], sizes[first:last], n_models)
            missing = np.zeros(n_pairs, dtype=bool)
            missing[pair[lacking & used]] = True
            _refuse_unknown(missing, shape, states, actions)
        _weigh(prob[part], value, sizes[first:last], out[first:last])
    out[~wanted] = 0.0
    return out.reshape(*shape, n_models)


def _blocks(indptr: IntArray, n_models: int) -> Iterator[tuple[int, int]]:
    """Yield ranges of pairs with about `_BLOCK` probabilities, at least one pair each."""
    first, n_pairs = 0, indptr.size - 1
    while first < n_pairs:
        room = int(indptr[first]) + max(1, _BLOCK // max(1, n_models))
        last = max(first + 1, int(np.searchsorted(indptr, room, side="right")) - 1)
        yield first, min(last, n_pairs)
        first = last


def _weigh(prob: FloatArray, value: FloatArray, sizes: IntArray, out: FloatArray) -> None:
    """Put Σ_{s′} P r of each pair and model into `out` (n_pairs, n_models).

    `value` holds one reward per listed next state, or one per probability (rewards by model).
    """
    n_models = out.shape[1]
    by_model = value.size == prob.size and n_models > 1
    starts = np.concatenate(([0], np.cumsum(sizes)[:-1]))
    for n in np.unique(sizes[sizes > 0]):
        chosen = np.flatnonzero(sizes == n)
        p = _gather(prob, starts[chosen] * n_models, int(n) * n_models).reshape(-1, n_models, n)
        if by_model:
            r = _gather(value, starts[chosen] * n_models, int(n) * n_models).reshape(p.shape)
            out[chosen] = np.einsum("kwn,kwn->kw", p, r)
        else:
            r = _gather(value, starts[chosen], int(n))
            out[chosen] = np.matmul(p, r[:, :, None])[:, :, 0]


def _gather(flat: FloatArray, starts: IntArray, length: int) -> FloatArray:
    """Return the rows flat[start : start + length], without a copy where they touch."""
    if starts.size * length == starts[-1] + length - starts[0]:
        return flat[starts[0] : starts[-1] + length].reshape(-1, length)
    return np.asarray(flat[starts[:, None] + np.arange(length)])


def _reached(prob: FloatArray, sizes: IntArray, n_models: int) -> BoolArray:
    """Whether any model gives a listed next state a positive probability, in listed order."""
    used = []
    at = 0
    for n in sizes:
        block = prob[at : at + n * n_models].reshape(n_models, n)
        used.append((block > 0).any(axis=0))
        at += n * n_models
    return np.concatenate(used)


def _refuse_unknown(
    missing: BoolArray, shape: tuple[int, int], states: Labels | None, actions: Labels | None
) -> None:
    """Raise if the reward of a pair that is needed is unknown."""
    if not missing.any():
        return
    s, a = divmod(int(np.flatnonzero(missing)[0]), shape[1])
    state = f"state {s}" if states is None else f"state '{states[s]}'"
    action = f"action {a}" if actions is None else f"action '{actions[a]}'"
    count = int(missing.sum())
    more = "" if count == 1 else f" (and {count - 1} more pairs)"
    raise InputError(
        f"Every allowed action needs a reward: {state}, {action}{more} has none in the log or the "
        "reward table. Give it in a reward table (--reward-table FILE), a default "
        "(--reward-default VALUE), or allow only actions that were seen (--min-count 1)."
    )
