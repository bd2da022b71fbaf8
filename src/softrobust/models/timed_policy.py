"""Policies for a finite horizon: one decision rule per step."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import numpy as np
from numpy.typing import NDArray

from softrobust.data.labels import Labels
from softrobust.errors import InputError
from softrobust.models.checks import freeze


@final
@dataclass(frozen=True, slots=True, eq=False, repr=False)
class TimedPolicy:
    """`decisions[t, s]` is the action taken in state s at step t = 0 … horizon − 1."""

    decisions: NDArray[np.int64]
    states: Labels
    actions: Labels

    def __post_init__(self) -> None:
        d = np.asarray(self.decisions)
        if d.ndim != 2 or d.shape[1] != len(self.states) or d.shape[0] < 1:
            raise InputError(
                f"A timed policy needs decisions of shape (horizon, {len(self.states)}); the shape "
                f"is {d.shape}."
            )
        if not np.issubdtype(d.dtype, np.integer):
            raise InputError(f"A decision is a whole action number; the array holds {d.dtype}.")
        if d.min() < 0 or d.max() >= len(self.actions):
            raise InputError(f"A decision is an action number in 0…{len(self.actions) - 1}.")
        object.__setattr__(self, "decisions", freeze(d, np.int64))

    @property
    def horizon(self) -> int:
        """Number of steps."""
        return int(self.decisions.shape[0])

    def action(self, state: str | int, step: int) -> str:
        """The action for a state label at a step counted from 0."""
        if not 0 <= step < self.horizon:
            raise InputError(f"step must lie in 0…{self.horizon - 1}; it is {step}.")
        return self.actions[self.decisions[step, self.states.index(state)]]

    def __repr__(self) -> str:
        return f"TimedPolicy({self.horizon} steps, {len(self.states)} states)"
