"""Policies for continuous states, and their files.

    policy(observation)          the index of the action, as a Gymnasium environment takes it
    policy.action(observation)   its label
    policy.act(observations)     (n,) indices of a batch
    policy.probs(observations)   (n, n_actions) probabilities of a batch

A policy holds all it needs to decide: it is saved and loaded without models, problem or
environment, as arrays and JSON in one `.npz` file that is read without unpickling anything
(`load_continuous_policy`, in `lookahead`, knows all kinds).
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Self, final

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import softmax

from softrobust._core.arrays import FloatArray, IntArray, Sealed, frozen
from softrobust._core.files import write_npz
from softrobust.data.continuous import vectors
from softrobust.data.labels import Labels
from softrobust.errors import InputError
from softrobust.models.continuous import Box

Seed = int | np.random.Generator
Arrays = Mapping[str, NDArray[Any]]
Words = Mapping[str, Any]
POLICY_FORMAT = "softrobust-continuous-policy"
FORMAT_VERSION = 1


class ContinuousPolicy(Sealed, ABC):
    """A stationary policy on vectors: observation → probabilities of actions."""

    __slots__ = ()
    kind: ClassVar[str]

    variables: Labels  # names of the entries of an observation
    actions: Labels

    @abstractmethod
    def _probs(self, s: FloatArray) -> FloatArray:
        """(n, n_actions) for finite observations (n, n_variables)."""

    @abstractmethod
    def to_arrays(self) -> tuple[Arrays, Words]:
        """Arrays, and what else is to be kept, ready for JSON."""

    @classmethod
    @abstractmethod
    def from_arrays(cls, arrays: Arrays, words: Words, variables: Labels, actions: Labels) -> Self:
        """The inverse of `to_arrays`."""

    @property
    def seen(self) -> Box | None:
        """The range of the data that it was learned from, where it knows it."""
        return None

    def save(self, path: str | Path) -> None:
        """Write the policy, atomically: arrays and JSON in one `.npz` file."""
        arrays, words = self.to_arrays()
        names = {"variables": list(self.variables), "actions": list(self.actions)}
        head = {"kind": self.kind, **names, "settings": words}
        text = np.array(json.dumps(head, allow_nan=False))
        write_npz(path, POLICY_FORMAT, FORMAT_VERSION, {"policy": text, **arrays})

    def probs(self, observations: ArrayLike) -> FloatArray:
        """(n, n_actions) probabilities for observations (n, n_variables)."""
        s, _ = vectors(observations, self.variables)
        if s.ndim != 2:
            raise InputError(
                f"Observations have one entry for each of {list(self.variables)}: shape (n, "
                f"{len(self.variables)}); this has shape {s.shape}."
            )
        return self._probs(s)

    def act(self, observations: ArrayLike, seed: Seed | None = None) -> IntArray:
        """(n,) action indices; where the policy randomizes, drawn with `seed`."""
        return choose_actions(self.probs(observations), seed, self.actions)

    def __call__(self, observation: ArrayLike, seed: Seed | None = None) -> int:
        """The index of the action for one observation (n_variables,)."""
        return int(self.act(np.asarray(observation, dtype=np.float64)[None], seed)[0])

    def action(self, observation: ArrayLike, seed: Seed | None = None) -> str | int:
        """The label of the action for one observation (n_variables,)."""
        return self.actions.value(self(observation, seed))


def choose_actions(probs: FloatArray, seed: Seed | None, actions: Labels) -> IntArray:
    """One action per row: the certain one, or a draw with one uniform number per row.

    The uniform numbers are drawn for all rows, so that runs with common random numbers stay in
    step whatever a policy does.
    """
    best = np.asarray(np.argmax(probs, axis=1), dtype=np.int64)
    mixed = np.flatnonzero(probs[np.arange(probs.shape[0]), best] < 1.0)
    if seed is None:
        if mixed.size:
            row = probs[mixed[0]]
            mix = ", ".join(f"{actions[int(a)]}: {row[a]:.3g}" for a in np.flatnonzero(row))
            raise InputError(f"The policy randomizes here ({mix}). Pass a seed to draw an action.")
        return best
    u = np.random.default_rng(seed).random((probs.shape[0],))
    if mixed.size:
        edges = np.cumsum(probs[mixed], axis=1)
        best[mixed] = (u[mixed, None] * edges[:, -1:] >= edges).sum(axis=1)
    return best


@final
@dataclass(frozen=True, slots=True, eq=False)
class ConstantPolicy(ContinuousPolicy):
    """The same action everywhere: the yardstick "never treat", "always treat"."""

    kind: ClassVar[str] = "constant"
    choice: str
    variables: Labels
    actions: Labels

    def __post_init__(self) -> None:
        self.actions.index(self.choice)

    def _probs(self, s: FloatArray) -> FloatArray:
        out = np.zeros((s.shape[0], len(self.actions)))
        out[:, self.actions.index(self.choice)] = 1.0
        return out

    def to_arrays(self) -> tuple[Arrays, Words]:
        """The choice alone."""
        return {}, {"choice": self.choice}

    @classmethod
    def from_arrays(cls, arrays: Arrays, words: Words, variables: Labels, actions: Labels) -> Self:
        """The inverse of `to_arrays`."""
        return cls(words["choice"], variables, actions)


@final
@dataclass(frozen=True, slots=True, eq=False)
class NetworkPolicy(ContinuousPolicy):
    """π(a|s) ∝ exp(logits(x)): a multi-layer perceptron on features of the observation, in NumPy.

    Layer by layer weights are (n_in, n_out) and biases (n_out,), with ReLU between them and softmax
    at the end. The inputs are z = (s − centre)/scale, with degree 2 followed by the products
    z_i·z_j with i ≤ j, row by row. A greedy policy takes the most probable action.
    """

    kind: ClassVar[str] = "network"
    weights: tuple[FloatArray, ...]
    biases: tuple[FloatArray, ...]
    variables: Labels
    actions: Labels
    centre: FloatArray
    scale: FloatArray
    degree: int = 1
    greedy: bool = False

    def __post_init__(self) -> None:
        put = object.__setattr__  # the one place where a frozen object is completed
        for name in ("weights", "biases"):
            put(self, name, tuple(frozen(x, np.float64) for x in getattr(self, name)))
        for name in ("centre", "scale"):
            put(self, name, frozen(getattr(self, name), np.float64))
        d = len(self.variables)
        width = d if self.degree == 1 else d + d * (d + 1) // 2
        sizes = [width, *(w.shape[1] for w in self.weights)]
        fits = (
            self.degree in (1, 2)
            and len(self.weights) == len(self.biases) > 0
            and self.centre.shape == self.scale.shape == (d,)
            and all(w.shape[0] == n for w, n in zip(self.weights, sizes, strict=False))
            and all(b.shape == w.shape[1:] for w, b in zip(self.weights, self.biases, strict=True))
            and sizes[-1] == len(self.actions)
        )
        if not fits:
            raise InputError(
                f"The layers of a network policy must lead from {width} inputs to "
                f"{len(self.actions)} actions; the weights have shapes "
                f"{[w.shape for w in self.weights]}."
            )
        if not all(np.isfinite(x).all() for x in (*self.weights, *self.biases)):
            raise InputError("The weights of a network policy must be finite.")

    def logits(self, s: FloatArray) -> FloatArray:
        """(n, n_actions) before the softmax."""
        x = (s - self.centre) / self.scale
        if self.degree == 2:
            i, j = np.triu_indices(x.shape[1])
            x = np.concatenate([x, x[:, i] * x[:, j]], axis=1)
        for W, b in zip(self.weights[:-1], self.biases[:-1], strict=True):
            x = np.maximum(x @ W + b, 0.0)
        return np.asarray(x @ self.weights[-1] + self.biases[-1])

    def _probs(self, s: FloatArray) -> FloatArray:
        z = self.logits(s)
        if self.greedy:
            return np.asarray(np.eye(z.shape[1])[np.argmax(z, axis=1)])
        return np.asarray(softmax(z, axis=1))

    def to_arrays(self) -> tuple[Arrays, Words]:
        """Layers and standardisation."""
        arrays = {"centre": self.centre, "scale": self.scale}
        for i, (W, b) in enumerate(zip(self.weights, self.biases, strict=True)):
            arrays |= {f"weights_{i}": W, f"biases_{i}": b}
        words = {"layers": len(self.weights), "degree": self.degree, "greedy": self.greedy}
        return arrays, words

    @classmethod
    def from_arrays(cls, arrays: Arrays, words: Words, variables: Labels, actions: Labels) -> Self:
        """The inverse of `to_arrays`."""
        n = range(int(words["layers"]))
        return cls(
            tuple(arrays[f"weights_{i}"] for i in n), tuple(arrays[f"biases_{i}"] for i in n),
            variables, actions, arrays["centre"], arrays["scale"], int(words["degree"]),
            bool(words["greedy"]),
        )  # fmt: skip
