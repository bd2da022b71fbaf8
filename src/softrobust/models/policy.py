"""Policies π: S → Δ^A for tables, with the labels a person uses, and their file."""

from __future__ import annotations

import csv
from dataclasses import dataclass
from pathlib import Path
from typing import Self, cast, final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from softrobust.data.files import atomic_write
from softrobust.data.labels import Labels
from softrobust.errors import InputError
from softrobust.models.checks import freeze

_LATER = cast("NDArray[np.bool_]", None)  # a default that __post_init__ fills in


@final
@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Policy:
    """A stationary policy; `probs[s, a]` is the probability of action a in state s.

    `decided` marks the states where there was something to decide: a state that the data never
    left carries a formal action only, and `action` refuses to recommend it.
    """

    probs: NDArray[np.float64]
    states: Labels
    actions: Labels
    decided: NDArray[np.bool_] = _LATER

    def __post_init__(self) -> None:
        probs = np.asarray(self.probs, dtype=np.float64)
        shape = (len(self.states), len(self.actions))
        if probs.shape != shape:
            raise InputError(
                f"A policy needs one probability for each state and action, shape {shape}; "
                f"it has {probs.shape}."
            )
        off = np.abs(probs.sum(axis=1) - 1)
        if not ((probs >= 0).all() and (off <= 1e-12).all()):
            s = int(np.argmax(np.where((probs < 0).any(axis=1), np.inf, off)))
            raise InputError(
                "The action probabilities of a state must be at least 0 and sum to 1 (tolerance "
                f"1e-12): state '{self.states[s]}' has {probs[s].tolist()}, which sum to "
                f"{float(probs[s].sum())!r}. Divide them by their sum."
            )
        object.__setattr__(self, "probs", freeze(probs, np.float64))
        decided = np.ones(shape[0], bool) if self.decided is None else self.decided
        object.__setattr__(self, "decided", freeze(decided, np.bool_))

    @classmethod
    def from_decision(
        cls,
        decision: ArrayLike,
        states: Labels,
        actions: Labels,
        decided: NDArray[np.bool_] | None = None,
    ) -> Self:
        """The deterministic policy that takes action `decision[s]` in state s."""
        d = np.asarray(decision, dtype=np.int64)
        probs = np.zeros((len(states), len(actions)))
        probs[np.arange(len(states)), d] = 1.0
        everywhere = np.ones(len(states), dtype=bool)
        return cls(probs, states, actions, everywhere if decided is None else decided)

    @property
    def decision(self) -> NDArray[np.int64]:
        """(n_states,): the most probable action (the first of equals)."""
        return np.asarray(np.argmax(self.probs, axis=1), dtype=np.int64)

    @property
    def deterministic(self) -> bool:
        """Whether every state has one action of probability 1."""
        return bool((self.probs.max(axis=1) == 1.0).all())

    def action(self, state: str | int, seed: int | np.random.Generator | None = None) -> str:
        """The action for a state label; where the policy randomizes, drawn with `seed`.

        Without a seed a randomized state is an error: it says the probabilities instead of
        hiding them behind the most probable action.
        """
        s = self.states.index(state)
        if not self.decided[s]:
            raise InputError(
                f"State '{self.states[s]}' was never left in the data, so no action can be "
                "recommended there. Collect transitions from it, or decide by other means."
            )
        row = self.probs[s]
        if row.max() == 1.0:
            return self.actions[int(np.argmax(row))]
        if seed is None:
            mix = ", ".join(f"{self.actions[a]}: {row[a]:.3g}" for a in np.flatnonzero(row))
            raise InputError(
                f"The policy randomizes in state '{self.states[s]}' ({mix}). "
                "Pass a seed to draw an action."
            )
        return self.actions[int(np.random.default_rng(seed).choice(row.size, p=row))]

    def save(self, path: str | Path) -> None:
        """Write `state,action,probability` rows (probability > 0), atomically.

        States without a recommendation (`decided` is False) are left out.
        """
        with atomic_write(path, "w", newline="") as file:
            rows = csv.writer(file)
            rows.writerow(["state", "action", "probability"])
            for s, a in np.argwhere((self.probs > 0) & self.decided[:, None]):
                rows.writerow([self.states[s], self.actions[a], repr(float(self.probs[s, a]))])

    def __repr__(self) -> str:
        kind = "deterministic" if self.deterministic else "randomized"
        return f"Policy({kind}, {len(self.states)} states, {len(self.actions)} actions)"
