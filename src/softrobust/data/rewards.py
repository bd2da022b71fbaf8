"""Rewards r(s,a), r(s′), r(s,a,s′) and r(s,a,s′,ω) in one object (paper, §2).

A reward is looked up in layers, the finest first:

1. a listed triple (s, a, s′);
2. r(s′), for the pairs that take their reward from the next state;
3. r(s,a).

What solvers read is the expected reward R[s,a,ω] = Σ_{s′} P^ω(s′|s,a) r(s,a,s′,ω), which
`Rewards.expected` computes. A pair whose reward nobody gave stays unknown, and asking for its
expectation is an error: an unknown reward is never taken as zero.
"""

import inspect
import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import product
from typing import Any, Literal, cast, final

import numpy as np
import numpy.typing as npt

from softrobust._core import arrays
from softrobust._core.arguments import names_arguments
from softrobust._core.arrays import BoolArray, CodeArray, FloatArray, IntArray, Sealed
from softrobust._core.files import Arrays
from softrobust._core.notes import Note, read_notes
from softrobust._core.schema import parse
from softrobust._core.settings import real, whole
from softrobust.data.labels import Labels
from softrobust.errors import InputError

Kind = Literal["pair", "next", "triple", "model"]
_LAYERS: dict[str, type[np.float64] | type[np.bool_] | type[np.int64]] = {
    "pairs": np.float64, "known": np.bool_, "nexts": np.float64, "next_listed": np.bool_,
    "by_next": np.bool_, "keys": np.int64, "triples": np.float64, "per_model": np.float64,
}  # fmt: skip
_ALL = cast(BoolArray, None)  # a default that __post_init__ fills in
# A callable is asked for every triple; beyond this many a table is the better way.
_MOST_CALLS = 4_000_000


DRAWN_REWARDS = "rewards_drawn"  # the code of a note: rewards were drawn with the models


@names_arguments
@final
@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Rewards(Sealed):
    """The reward of every transition; make it with one of the constructors `of_…`.

    Attributes
    ----------
    pairs : (n_states, n_actions) float64
        r(s,a): the reward of a transition of the pair that no finer layer lists; 0 where unknown.
    known : (n_states, n_actions) bool
        Whether `pairs` says anything about the pair; by default about all.
    nexts, next_listed : (n_states,) float64, bool, or None
        r(s′), and the next states whose r(s′) is known.
    by_next : (n_states, n_actions) bool or None
        The pairs that take their reward from `nexts`.
    keys, triples : (n_listed,) int64, float64, or None
        Listed triples, ascending, as (s · n_actions + a) · n_states + s′, and their rewards.
    per_model : (nnz · n_models,) float64 or None
        r(s,a,s′,ω) aligned with `ModelSet.prob`; then no other layer is used.
    notes : tuple of Note
        Where these rewards come from.
    """

    pairs: FloatArray
    known: BoolArray = _ALL
    nexts: FloatArray | None = None
    next_listed: BoolArray | None = None
    by_next: BoolArray | None = None
    keys: IntArray | None = None
    triples: FloatArray | None = None
    per_model: FloatArray | None = None
    notes: tuple[Note, ...] = ()

    def __post_init__(self) -> None:
        if self.known is None:
            object.__setattr__(self, "known", np.ones(np.shape(self.pairs), dtype=bool))
        for name, dtype in _LAYERS.items():
            given = getattr(self, name)
            if given is not None:
                object.__setattr__(self, name, arrays.frozen(given, dtype))
        if self.pairs.ndim != 2 or self.pairs.shape != self.known.shape:
            raise InputError(
                "r(s,a) must be an array of shape (n_states, n_actions): "
                f"got shape {self.pairs.shape}."
            )
        keys = self.keys
        each = {"nexts": self.pairs.shape[:1], "next_listed": self.pairs.shape[:1]}
        each |= {"by_next": self.pairs.shape, "triples": () if keys is None else keys.shape}
        for name, shape in each.items():
            layer = getattr(self, name)
            if layer is not None and layer.shape != shape:
                raise InputError(f"The rewards '{name}' have shape {layer.shape}, not {shape}.")
        if keys is not None and keys.size:
            most = self.n_states * self.n_actions * self.n_states
            if keys.ndim != 1 or (np.diff(keys) <= 0).any() or keys[0] < 0 or keys[-1] >= most:
                raise InputError(f"The keys of listed rewards must ascend from 0 to {most - 1}.")
        for name in ("pairs", "nexts", "triples", "per_model"):
            values = getattr(self, name)
            if values is not None and not np.isfinite(values).all():
                i = int(np.argmin(np.isfinite(values.ravel())))
                where = f"state {i // self.n_actions}, action {i % self.n_actions}"
                if name == "triples" and keys is not None:
                    where = _triple(int(keys[i]), self.n_states, self.n_actions)
                where = {"nexts": f"next state {i}", "per_model": f"entry {i}"}.get(name, where)
                raise InputError(
                    f"Rewards must be finite numbers: {where} has "
                    f"{values.ravel()[i]}. Give a number there, or leave the pair out of the known "
                    "ones."
                )

    # ---------------------------------------------------------------- constructors
    @classmethod
    @names_arguments
    def of_pairs(cls, values: npt.ArrayLike, known: npt.ArrayLike | None = None) -> "Rewards":
        """Rewards r(s,a) from an array of shape (n_states, n_actions)."""
        mask = _ALL if known is None else np.asarray(known, dtype=bool)
        return cls(pairs=np.asarray(values, dtype=np.float64), known=mask, notes=_given("pair"))

    @classmethod
    @names_arguments
    def of_next(cls, values: npt.ArrayLike, n_actions: int) -> "Rewards":
        """Rewards r(s′) from an array of shape (n_states,)."""
        nexts = np.asarray(values, dtype=np.float64)
        if nexts.ndim != 1:
            raise InputError(f"r(s′) must have shape (n_states,): got shape {nexts.shape}.")
        shape = (nexts.size, whole("n_actions", n_actions))
        return cls(
            pairs=np.zeros(shape),
            nexts=nexts,
            next_listed=np.ones(nexts.size, dtype=bool),
            by_next=np.ones(shape, dtype=bool),
            notes=_given("next"),
        )

    @classmethod
    @names_arguments
    def of_transitions(cls, values: npt.ArrayLike) -> "Rewards":
        """Rewards r(s,a,s′) from an array of shape (n_states, n_actions, n_states)."""
        dense = np.asarray(values, dtype=np.float64)
        if dense.ndim != 3 or dense.shape[0] != dense.shape[2]:
            raise InputError(
                "r(s,a,s′) must have shape (n_states, n_actions, n_states): "
                f"got shape {dense.shape}. Check the order of the axes."
            )
        return cls(
            pairs=np.zeros(dense.shape[:2]),
            keys=np.arange(dense.size, dtype=np.int64),
            triples=dense.ravel(),
            notes=_given("triple"),
        )

    @classmethod
    @names_arguments
    def of_triples(
        cls,
        s: npt.ArrayLike,
        a: npt.ArrayLike,
        s_next: npt.ArrayLike,
        values: npt.ArrayLike,
        n_states: int,
        n_actions: int,
        default: npt.ArrayLike | None = None,
    ) -> "Rewards":
        """Rewards of listed triples; `default`, (n_states, n_actions) or a number, for the others.

        Without a default, a transition that is not listed has no reward, and `expected` refuses
        models in which it is possible.
        """
        keys = (np.asarray(s, dtype=np.int64) * n_actions + np.asarray(a)) * n_states + s_next
        order = np.argsort(keys, kind="stable")
        keys = keys[order]
        triples = np.asarray(values, dtype=np.float64)[order]
        again = np.flatnonzero(keys[1:] == keys[:-1])
        if again.size:
            place = _triple(int(keys[again[0]]), n_states, n_actions)
            raise InputError(f"The reward of {place} is given twice. Remove one of the two.")
        shape = (n_states, n_actions)
        listed = np.bincount(keys // n_states, minlength=n_states * n_actions).reshape(shape)
        return cls(
            pairs=np.zeros(shape) if default is None else np.broadcast_to(default, shape),
            known=(listed == n_states) | (default is not None),
            keys=keys,
            triples=triples,
            notes=_given("triple"),
        )

    @classmethod
    @names_arguments
    def of_models(cls, values: npt.ArrayLike, n_states: int, n_actions: int) -> "Rewards":
        """Rewards r(s,a,s′,ω) as a flat array aligned with `ModelSet.prob`."""
        return cls(
            pairs=np.zeros((n_states, n_actions)),
            per_model=np.ravel(np.asarray(values, dtype=np.float64)),
            notes=_given("model"),
        )

    @classmethod
    @names_arguments
    def from_callable(
        cls, fn: Callable[..., float], states: Labels, actions: Labels, absorbing: int | None = None
    ) -> "Rewards":
        """Rewards from a function of labels: fn(s, a) or fn(s, a, s_next).

        `absorbing` is a state that yields 0 and is not asked for, such as "(end)".
        """
        n_states, n_actions = len(states), len(actions)
        triple = _takes_next_state(fn)
        if n_states * n_actions * (n_states if triple else 1) > _MOST_CALLS:
            raise InputError(
                f"A reward function would be called for {n_states} × {n_actions} × {n_states} "
                f"transitions (at most {_MOST_CALLS}). Give the rewards as arrays or as a table."
            )
        values = np.zeros((n_states, n_actions, n_states if triple else 1))
        for (i, s), (j, a) in product(enumerate(states), enumerate(actions)):
            if i != absorbing:
                values[i, j] = [fn(s, a, t) for t in states] if triple else fn(s, a)
        made = cls.of_transitions(values) if triple else cls.of_pairs(values[:, :, 0])
        return replace(made, notes=(Note("rewards_function"),))

    @classmethod
    @names_arguments
    def of_given(
        cls, given: Any, states: Labels, actions: Labels, end: int | None = None
    ) -> "Rewards":
        """Rewards given as `Rewards`, function of labels, or array; the state `end` yields 0."""
        if isinstance(given, Rewards):
            return given
        if callable(given):
            return cls.from_callable(given, states, actions, absorbing=end)
        shape = (len(states), len(actions), len(states))
        values = arrays.shaped("An array of rewards", given, np.float64, shape[:2], shape).copy()
        if end is not None:
            values[end] = 0.0
        return cls.of_pairs(values) if values.ndim == 2 else cls.of_transitions(values)

    # ---------------------------------------------------------------- what there is
    @property
    def n_states(self) -> int:
        """Number of states."""
        return int(self.pairs.shape[0])

    @property
    def n_actions(self) -> int:
        """Number of actions."""
        return int(self.pairs.shape[1])

    @property
    def kind(self) -> Kind:
        """The finest layer in use."""
        if self.per_model is not None:
            return "model"
        if self.keys is not None:
            return "triple"
        return "pair" if self.nexts is None else "next"

    @property
    def drawn(self) -> bool:
        """Whether they differ by model because they were drawn with the models."""
        return self.per_model is not None and any(n.code == DRAWN_REWARDS for n in self.notes)

    @property
    def values(self) -> FloatArray:
        """The numbers of the finest layer."""
        layers = (self.per_model, self.triples, self.nexts, self.pairs)
        return next(layer for layer in layers if layer is not None)

    @names_arguments
    def at(
        self, s: npt.ArrayLike, a: npt.ArrayLike, s_next: npt.ArrayLike
    ) -> tuple[FloatArray, BoolArray]:
        """Return the rewards of transitions, and whether each is known (0 where it is not)."""
        pair = np.asarray(s, dtype=np.int64) * self.n_actions + np.asarray(a)
        return self.lookup(pair, np.asarray(s_next))

    def lookup(self, pair: IntArray, s_next: IntArray | CodeArray) -> tuple[FloatArray, BoolArray]:
        """Return rewards and whether they are known, for pair indices s · n_actions + a and s′."""
        if self.per_model is not None:
            raise InputError("These rewards differ by model: a transition alone has no reward.")
        value = self.pairs.ravel()[pair]
        known = self.known.ravel()[pair]
        if self.nexts is not None and self.by_next is not None and self.next_listed is not None:
            use = self.by_next.ravel()[pair] & self.next_listed[s_next]
            value = np.where(use, self.nexts[s_next], value)
            known = known | use
        if self.keys is not None and self.triples is not None and self.keys.size:
            key = pair * self.n_states + s_next
            place, hit = arrays.found_at(self.keys, key)
            value = np.where(hit, self.triples[place], value)
            known = known | hit
        return value, known

    def expected(
        self,
        indptr: IntArray,
        next_states: CodeArray,
        prob: FloatArray,
        n_models: int,
        needed: BoolArray | None = None,
        states: Labels | None = None,
        actions: Labels | None = None,
    ) -> FloatArray:
        """Return R[s,a,ω] = Σ_{s′} P^ω(s′|s,a) r(s,a,s′,ω), shape (n_states, n_actions, n_models).

        Parameters
        ----------
        indptr, next_states, prob, n_models
            The storage of `ModelSet`.
        needed : (n_states, n_actions) bool, optional
            Pairs whose reward must be known (all available ones by default). The others get 0.
        states, actions : Labels, optional
            Names for messages.
        """
        shape = (self.n_states, self.n_actions)
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
        if self.kind == "pair":
            _refuse_unknown(wanted & ~self.known.ravel(), shape, states, actions)
            out[wanted] = self.pairs.ravel()[wanted, None]
            return out.reshape(*shape, n_models)
        if self.per_model is not None and self.per_model.size != prob.size:
            raise InputError(
                f"Rewards by model must match the probabilities one to one: {self.per_model.size} "
                f"rewards, {prob.size} probabilities."
            )
        for first, last in _blocks(indptr, n_models):
            part = slice(int(indptr[first]) * n_models, int(indptr[last]) * n_models)
            if self.per_model is not None:
                _weigh(prob[part], self.per_model[part], sizes[first:last], out[first:last])
                continue
            near = slice(int(indptr[first]), int(indptr[last]))
            pair = np.repeat(np.arange(first, last), sizes[first:last])
            value, known = self.lookup(pair, next_states[near])
            lacking = ~known & wanted[pair]
            if lacking.any():
                # A next state that no model ever reaches needs no reward.
                blocks = np.split(prob[part], np.cumsum(sizes[first:last])[:-1] * n_models)
                used = [(block.reshape(n_models, -1) > 0).any(axis=0) for block in blocks]
                missing = np.zeros(n_pairs, dtype=bool)
                missing[pair[lacking & np.concatenate(used)]] = True
                _refuse_unknown(missing, shape, states, actions)
            _weigh(prob[part], value, sizes[first:last], out[first:last])
        out[~wanted] = 0.0
        return out.reshape(*shape, n_models)

    # ---------------------------------------------------------------- changes
    def with_default(self, value: float) -> "Rewards":
        """Give every pair whose reward is unknown the reward `value`."""
        real("The default reward", value)
        unknown = ~self.known
        facts = {"pairs": int(unknown.sum()), "value": float(value)}
        return replace(
            self,
            pairs=np.where(unknown, value, self.pairs),
            known=np.ones_like(self.known),
            notes=(*self.notes, Note("rewards_default", facts=facts)),
        )

    @names_arguments
    def merge(self, other: "Rewards") -> "Rewards":
        """Return these rewards with those of `other` in their place wherever it knows one."""
        if self.pairs.shape != other.pairs.shape:
            raise InputError(
                f"Rewards for {self.pairs.shape} and {other.pairs.shape} states and actions "
                "cannot be merged. Make both for the same states and actions."
            )
        if self.kind == "model" or other.kind in ("model", "next"):
            raise InputError(
                "Rewards that differ by model, or r(s′) over others, cannot be merged. "
                "Give one of the two."
            )
        keys, triples = _merged_triples(self, other)
        own = [Note(n.code, n.level, {**n.facts, "elsewhere": True}) for n in self.notes]
        return replace(
            self,
            pairs=np.where(other.known, other.pairs, self.pairs),
            known=self.known | other.known,
            by_next=None if self.by_next is None else self.by_next & ~other.known,
            keys=keys,
            triples=triples,
            notes=(*other.notes, *own),
        )


def _takes_next_state(fn: Callable[..., float]) -> bool:
    """Whether the function takes (s, a, s′) rather than (s, a)."""
    try:
        signature = inspect.signature(fn)
    except (TypeError, ValueError):
        return True
    for labels in (("s", "a", "s′"), ("s", "a")):
        with suppress(TypeError):
            signature.bind(*labels)
            return len(labels) == 3
    raise InputError(
        "A reward function takes (state, action) or (state, action, next_state): this one takes "
        f"{signature}."
    )


def _merged_triples(base: Rewards, top: Rewards) -> tuple[IntArray | None, FloatArray | None]:
    """Listed triples of both, without those of `base` that `top` lists or whose pair it knows."""
    every = [x.keys for x in (base, top) if x.keys is not None]
    if not every:
        return None, None
    keys = np.concatenate(every)
    triples = np.concatenate([x.triples for x in (base, top) if x.triples is not None])
    own = np.arange(keys.size) >= keys.size - (0 if top.keys is None else top.keys.size)
    keep = own | ~(top.known.ravel()[keys // base.n_states] | np.isin(keys, keys[own]))
    keys, triples = keys[keep], triples[keep]
    order = np.argsort(keys, kind="stable")
    return arrays.seal(keys[order]), arrays.seal(triples[order])


def _given(kind: Kind) -> tuple[Note, ...]:
    return (Note("rewards_given", facts={"kind": kind}),)


def _triple(key: int, n_states: int, n_actions: int) -> str:
    k, to = divmod(key, n_states)
    return f"state {k // n_actions}, action {k % n_actions}, next state {to}"


def rewards_to_arrays(rewards: Rewards) -> Arrays:
    """The layers of rewards that are in use, each under `reward_…`."""
    layers = {f"reward_{name}": getattr(rewards, name) for name in _LAYERS}
    out = {name: np.asarray(layer) for name, layer in layers.items() if layer is not None}
    return out | {"reward_note": np.array(json.dumps([note.to_dict() for note in rewards.notes]))}


def rewards_from_arrays(stored: Mapping[str, npt.NDArray[Any]]) -> Rewards | None:
    """The inverse of `rewards_to_arrays`; None if there are none."""
    if "reward_pairs" not in stored:
        return None
    layers = {name: stored[f"reward_{name}"] for name in _LAYERS if f"reward_{name}" in stored}
    text = str(stored["reward_note"])  # a sentence in files of older versions
    records = parse(text) if text.startswith("[") else [text] if text else []
    return Rewards(**layers, notes=read_notes(records))


# --------------------------------------------------------------------------------------------------
# Expected rewards in blocks of pairs.
#
# A set of models can hold 2·10⁸ probabilities, so no array of that size is made besides: pairs are
# taken in blocks of a few million probabilities, and inside a block those with equally many next
# states are multiplied together.

_BLOCK = 1 << 22


def _blocks(indptr: IntArray, n_models: int) -> Iterator[tuple[int, int]]:
    """Yield ranges of pairs with about `_BLOCK` probabilities, at least one pair each."""
    first, n_pairs = 0, indptr.size - 1
    while first < n_pairs:
        room = int(indptr[first]) + max(1, _BLOCK // max(1, n_models))
        last = max(first + 1, int(np.searchsorted(indptr, room, side="right")) - 1)
        yield first, min(last, n_pairs)
        first = last


def _weigh(prob: FloatArray, value: FloatArray, sizes: IntArray, out: FloatArray) -> None:
    """out (n_pairs, n_models) ← Σ_{s′} P r; `value` has a reward a next state, or a probability."""
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
        "reward table. Give it in a reward table, give a default, or allow only actions that were "
        "seen.",
        arguments={"reward_table": "FILE", "reward_default": "VALUE", "allowed": "FILE"},
    )
