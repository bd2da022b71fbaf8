"""A finite stand-in for the posterior: N sampled transition models P̂^ω with weights f (section 2).

Storage is chosen once, for speed. All models share, per pair (s, a), one ascending list of possible
next states; beside it stands a block of probabilities with one row per model:

    pair k = s·A + a
    next_states[indptr[k] : indptr[k+1]]                       (n_next,)
    prob[indptr[k]·N : indptr[k+1]·N].reshape(N, n_next)       rows ω, columns next states

A dense model is the case where every list is 0 … S−1. A pair without next states is not available.
What a set must satisfy is checked when it is made, in messages that name the place.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field, replace
from typing import Any, Self, cast, final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from softrobust._core.arguments import names_arguments
from softrobust._core.arrays import BoolArray, FloatArray, IntArray, Sealed, frozen, seal, shaped
from softrobust._core.notes import Note
from softrobust._core.settings import whole
from softrobust.data.labels import Labels, OfStates
from softrobust.data.log import check_p0
from softrobust.data.rewards import Rewards
from softrobust.errors import InputError

SUM_TOLERANCE = 1e-8
LOOSE_TOLERANCE = 1e-6  # for `normalise`
MOST_DENSE = 2**31  # bytes
_LATER = cast(BoolArray, None)  # a default that __post_init__ fills in


class WeightedModels(Sealed, ABC):
    """N models with weights f, (n_models,): what sets of tables and of vectors have in common."""

    __slots__ = ()
    f: FloatArray

    @abstractmethod
    def select(self, which: ArrayLike) -> Self:
        """The chosen models (indices or a mask over ω), with weights renormalised among them."""

    @property
    def n_models(self) -> int:
        """N."""
        return int(self.f.size)

    def __len__(self) -> int:
        return self.n_models

    def split(self, n: int) -> tuple[Self, Self]:
        """The first `n` models (to train on) and the rest (held out); weights sum to 1 in each."""
        if whole("n", n) >= self.n_models:
            raise InputError(
                f"split(n) needs 0 < n < {self.n_models} (the number of models); it got {n}."
            )
        index = np.arange(self.n_models)
        return self.select(index[:n]), self.select(index[n:])

    @names_arguments
    def _chosen(self, which: ArrayLike) -> tuple[IntArray, FloatArray]:
        """Indices of a selection and its weights."""
        chosen = np.asarray(which)
        if chosen.dtype.kind not in "iub":
            raise InputError(f"Models are chosen by whole numbers or a mask; it got {which!r}.")
        index = np.arange(self.n_models)[chosen]
        f = self.f[index]
        if index.size == 0 or f.sum() <= 0:
            raise InputError(
                "A selection of models needs at least one model of positive weight; "
                f"{index.size} models with total weight {f.sum():g} were chosen."
            )
        return index, np.asarray(f / f.sum())


@names_arguments
@final
@dataclass(frozen=True, slots=True, eq=False, repr=False, weakref_slot=True)
class ModelSet(WeightedModels, OfStates):
    """N transition models on common states and actions, with weights.

    Parameters
    ----------
    indptr, next_states, prob
        The storage described at the top of this module; shapes (S·A + 1,), (nnz,), (nnz·N,).
    f : (n_models,)
        Weights of the models; they sum to 1, and zeros are allowed.
    rewards, p0, gamma
        What came with the models, if anything: a `Problem` uses it where it is not told otherwise.
    sinks : (n_states,) bool
        States that the data never left: they stay where they are, with reward 0.
    taken : (n_states, n_actions), optional
        How often the data show each action: current practice, where they came from a log.
    normalise : bool
        Accept row sums off by up to 1e-6 (instead of 1e-8) and divide by them.
    """

    indptr: IntArray
    next_states: NDArray[np.int32]
    prob: FloatArray
    f: FloatArray
    states: Labels
    actions: Labels
    rewards: Rewards | None = None
    p0: FloatArray | None = None
    gamma: float | None = None
    sinks: BoolArray = _LATER
    notes: tuple[Note, ...] = ()
    taken: IntArray | None = None
    normalise: bool = field(default=False, repr=False)

    def __post_init__(self) -> None:
        put = object.__setattr__  # the one place where a frozen object is completed
        n_pairs = self.n_states * self.n_actions
        put(self, "f", check_weights(self.f))
        put(self, "indptr", frozen(self.indptr, np.int64))
        put(self, "next_states", frozen(self.next_states, np.int32).reshape(-1))
        put(self, "prob", frozen(self.prob, np.float64).reshape(-1))
        if self.indptr.shape != (n_pairs + 1,) or self.indptr[-1] != self.next_states.size:
            raise InputError(
                f"indptr must have n_states·n_actions + 1 = {n_pairs + 1} entries and end at the "
                f"length of next_states ({self.next_states.size}); its shape is "
                f"{self.indptr.shape}."
            )
        if self.prob.size != self.next_states.size * self.n_models:
            raise InputError(
                f"prob must hold one row of {self.next_states.size} probabilities for each of "
                f"{self.n_models} models; it has {self.prob.size} numbers in all."
            )
        _check_next_states(self)
        put(self, "prob", _checked_probabilities(self))
        sinks = np.zeros(self.n_states, dtype=bool) if self.sinks is None else self.sinks
        put(self, "sinks", shaped("sinks", sinks, np.bool_, (self.n_states,)))
        if self.taken is not None:
            put(self, "taken", shaped("taken", self.taken, np.int64, self.shape))
        if self.p0 is not None:
            put(self, "p0", check_p0(self.p0, self.states))

    @property
    def available(self) -> BoolArray:
        """(n_states, n_actions): pairs that have next states."""
        return (np.diff(self.indptr) > 0).reshape(self.shape)

    @property
    def dense(self) -> bool:
        """Whether every pair lists all states, so that `prob` is a plain (S, A, N, S) array."""
        return self.next_states.size == self.n_states * self.n_actions * self.n_states

    @property
    def P(self) -> FloatArray:
        """(n_models, n_states, n_actions, n_states): all probabilities, dense (small models)."""
        size = 8.0 * self.n_models * self.n_actions * self.n_states**2
        if size > MOST_DENSE:
            raise InputError(
                f"The dense array P would take {size / 2**30:.1f} GiB. Use models[omega].P or "
                "models.block(s, a) instead."
            )
        if self.dense:
            shape = (self.n_states, self.n_actions, self.n_models, self.n_states)
            return self.prob.reshape(shape).transpose(2, 0, 1, 3)
        return np.stack([self[omega].P for omega in range(self.n_models)])

    def block(self, s: int, a: int) -> tuple[NDArray[np.int32], FloatArray]:
        """Next states (n_next,) and probabilities (n_models, n_next) of one pair."""
        k = s * self.n_actions + a
        lo, hi = self.indptr[k], self.indptr[k + 1]
        N = self.n_models
        return self.next_states[lo:hi], self.prob[lo * N : hi * N].reshape(N, hi - lo)

    def __getitem__(self, omega: int) -> MDP:
        if not -self.n_models <= omega < self.n_models:
            raise IndexError(f"model {omega} of {self.n_models}")
        return MDP(self, int(omega) % self.n_models)

    def __repr__(self) -> str:
        kind = "dense" if self.dense else f"{self.next_states.size} shared next-state entries"
        return (
            f"ModelSet({self.n_models} models, {self.n_states} states, "
            f"{self.n_actions} actions, {kind})"
        )

    def select(self, which: ArrayLike) -> Self:
        """The chosen models (indices or a mask over ω), with weights renormalised among them."""
        index, f = self._chosen(which)
        rewards = self.rewards
        if rewards is not None and rewards.kind == "model":
            rewards = replace(rewards, per_model=self._rows(rewards.values, index))
        prob = self._rows(self.prob, index)
        return replace(self, prob=prob, f=f, rewards=rewards, normalise=False)

    @names_arguments
    def mean_model(self, weights: ArrayLike | None = None) -> Self:
        """The one-model set E[P̂] = Σ_ω f_ω P̂^ω (or with other weights, such as a worst-case ξ)."""
        own = self.f if weights is None else weights
        xi = shaped("weights", own, np.float64, (self.n_models,), rule="one for each model")
        if self.dense:
            shape = (self.n_states * self.n_actions, self.n_models, self.n_states)
            prob = np.einsum("knj,n->kj", self.prob.reshape(shape), xi)
        else:
            prob = np.concatenate([xi @ self.block(s, a)[1] for s, a in np.ndindex(self.shape)])
        # Without rewards: an average of r^ω alone would not give E[P r] (see Problem.mean_problem).
        return replace(self, prob=prob, f=np.ones(1), rewards=None, notes=(), normalise=False)

    def _rows(self, flat: FloatArray, index: IntArray) -> FloatArray:
        """Rows `index` of every pair's block of a flat array laid out like `prob`."""
        N = self.n_models
        if self.dense:
            shape = (self.n_states * self.n_actions, N, self.n_states)
            return seal(np.take(flat.reshape(shape), index, axis=1)).reshape(-1)
        out = np.empty(self.next_states.size * index.size)
        for lo, hi in zip(self.indptr[:-1], self.indptr[1:], strict=True):
            rows = flat[lo * N : hi * N].reshape(N, hi - lo)
            out[lo * index.size : hi * index.size] = rows[index].reshape(-1)
        return seal(out)

    @classmethod
    @names_arguments
    def from_dense(
        cls,
        P: ArrayLike,
        f: ArrayLike | None = None,
        *,
        states: Labels | None = None,
        actions: Labels | None = None,
        available: ArrayLike | None = None,
        **companions: Any,
    ) -> Self:
        """Build from an array P of shape (n_models, n_states, n_actions, n_states), or one model.

        Examples
        --------
        >>> import numpy as np
        >>> stay_or_swap = np.array([[[1.0, 0.0], [0.0, 1.0]], [[0.0, 1.0], [1.0, 0.0]]])
        >>> ModelSet.from_dense(stay_or_swap)
        ModelSet(1 models, 2 states, 2 actions, dense)
        """
        P = np.asarray(P, dtype=np.float64)
        P = P[None] if P.ndim == 3 else P
        if P.ndim != 4 or P.shape[1] != P.shape[3]:
            raise InputError(
                "P must have shape (n_models, n_states, n_actions, n_states); it has "
                f"{P.shape}. Move the axes with np.transpose."
            )
        N, S, A, _ = P.shape
        pairs = np.ones((S, A), bool) if available is None else available
        keep = shaped("available", pairs, np.bool_, (S, A))
        return cls(
            indptr=np.concatenate([[0], np.cumsum(np.where(keep.reshape(-1), S, 0))]),
            next_states=np.tile(np.arange(S, dtype=np.int32), int(keep.sum())),
            prob=seal(np.ascontiguousarray(P.transpose(1, 2, 0, 3)[keep])).reshape(-1),
            f=np.full(N, 1.0 / N) if f is None else np.asarray(f, dtype=np.float64),
            states=Labels.range(S, "state") if states is None else states,
            actions=Labels.range(A, "action") if actions is None else actions,
            **companions,
        )


@final
@dataclass(frozen=True, slots=True, eq=False)
class MDP:
    """A view of one model ω of a `ModelSet`."""

    models: ModelSet
    omega: int

    @property
    def P(self) -> FloatArray:
        """(n_states, n_actions, n_states), dense."""
        m = self.models
        widths = np.diff(m.indptr)
        pair = np.repeat(np.arange(widths.size), widths)
        at = m.indptr[pair] * (m.n_models - 1) + self.omega * widths[pair] + np.arange(pair.size)
        out = np.zeros((widths.size, m.n_states))
        out[pair, m.next_states] = m.prob[at]
        return out.reshape(m.n_states, m.n_actions, m.n_states)


def check_weights(f: ArrayLike) -> FloatArray:
    """Weights of models, read-only: finite, not negative, summing to 1 within 1e-8."""
    out = np.asarray(f, dtype=np.float64)
    if out.ndim != 1 or out.size == 0:
        raise InputError(f"Model weights must be a non-empty vector; got shape {out.shape}.")
    bad = np.flatnonzero(~np.isfinite(out) | (out < 0))
    if bad.size:
        raise InputError(
            f"Model weights must be finite and not negative: model {bad[0]} has {out[bad[0]]}."
        )
    total = out.sum()
    if total == 0:
        raise InputError("Model weights are all zero; at least one model must count.")
    if abs(total - 1) > SUM_TOLERANCE:
        raise InputError(
            f"Model weights must sum to 1 (tolerance 1e-8); they sum to {total:.10g}. "
            "Divide them by their sum."
        )
    # Later sums take Σf = 1 at its word: what the tolerance lets through is divided out, once.
    return frozen(out if abs(total - 1) <= 1e-13 else out / total, np.float64)


def _check_next_states(models: ModelSet) -> None:
    """Next states exist, and ascend within each pair (so none is listed twice)."""
    listed, starts = models.next_states, models.indptr
    if not listed.size:
        return
    if starts[0] != 0 or (np.diff(starts) < 0).any():
        raise InputError("indptr must start at 0 and never fall.")
    if listed.min() < 0 or listed.max() >= models.n_states:
        raise InputError(f"next_states must lie in 0…{models.n_states - 1}.")
    falls = np.flatnonzero(np.diff(listed) <= 0) + 1
    first = np.zeros(listed.size + 1, dtype=bool)
    first[starts] = True
    inside = falls[~first[falls]]
    if inside.size:
        k = int(np.searchsorted(starts, inside[0], side="right")) - 1
        raise InputError(
            "The next states of a pair must be listed once each, in ascending order: "
            f"{_place(models, k)} has them out of order."
        )


def _checked_probabilities(models: ModelSet) -> FloatArray:
    """Entries in [0, 1], rows that sum to 1; with `normalise` they are divided by their sum."""
    prob, N = models.prob, models.n_models
    tolerance = LOOSE_TOLERANCE if models.normalise else SUM_TOLERANCE
    tolerance *= 1 + 1e-6  # so that mixtures of rows that pass do so too
    widths = np.diff(models.indptr)
    # Ordinary comparisons are false for NaN, so the sound case is the one tested for.
    if not (prob.min(initial=0.0) >= 0 and prob.max(initial=0.0) <= 1 + tolerance):
        flat = int(np.flatnonzero(~((prob >= 0) & (prob <= 1 + tolerance)))[0])
        k = int(np.searchsorted(models.indptr * N, flat, side="right")) - 1
        omega, j = divmod(flat - int(models.indptr[k]) * N, int(widths[k]))
        s_next = models.next_states[models.indptr[k] + j]
        raise InputError(
            f"A probability must lie in [0, 1]: model {omega}, {_place(models, k)}, next state "
            f"'{models.states[s_next]}' has {prob[flat]}. Check the column or the axis order."
        )
    if not prob.size:
        return prob
    used = widths[widths > 0]
    if (used == used[0]).all():
        rows = prob.reshape(-1, used[0])
        sums = rows.sum(axis=1) if models.normalise else rows @ np.ones(used[0])  # ten times faster
    else:
        sums = np.add.reduceat(prob, np.cumsum(np.repeat(used, N)) - np.repeat(used, N))
    worst = int(np.argmax(np.abs(sums - 1)))
    if not abs(sums[worst] - 1) <= tolerance:
        pair, omega = divmod(worst, N)
        k, near = int(np.flatnonzero(widths)[pair]), abs(sums[worst] - 1) <= LOOSE_TOLERANCE
        how = " (normalise=True)" if near else ""
        raise InputError(
            f"P rows must sum to 1 (tolerance {tolerance:g}): model {omega}, {_place(models, k)} "
            f"sums to {sums[worst]:.10g}. Normalise the draws{how} or check the axis order.",
            arguments={"normalise": ""} if near else None,
        )
    return seal(prob / np.repeat(sums, np.repeat(used, N))) if models.normalise else prob


def _place(models: ModelSet, k: int) -> str:
    s, a = divmod(k, models.n_actions)
    return f"state '{models.states[s]}', action '{models.actions[a]}'"
