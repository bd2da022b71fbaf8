"""Rectangular sweeps of several points (λ, α) in lock step: one read of the models serves all.

Each lane is a `Sweeps` of its own, with its own (λ, α), bases and answers, laid out side by side so
that one kernel fills them (`kernels.group_sweeps`). A lane's single sweeps, bounds and Newton steps
are those of any other `Sweeps`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, final

import numpy as np
from numpy.typing import NDArray

from softrobust.data.memory import refuse_if_too_large
from softrobust.kernels.expected import centred
from softrobust.kernels.group_sweeps import Group, sweep_group
from softrobust.kernels.short_rows import LANES as VECTOR
from softrobust.kernels.sweeps import Memory, Update
from softrobust.returns._rectangle import Sweeps

if TYPE_CHECKING:
    from softrobust.models.model_set import ModelSet

FloatArray = NDArray[np.float64]


def lane_bytes(models: ModelSet) -> float:
    """What one lane allocates, in bytes."""
    S, A = models.n_states, models.n_actions
    return 8.0 * models.next_states.size + 16.0 * S * A + 40.0 * S


@final
class Lanes:
    """`count` sweeps that can run together.

    Parameters
    ----------
    first : Sweeps
        A sweep of the problem, whose models and rewards all lanes share.
    """

    def __init__(self, first: Sweeps, count: int) -> None:
        if count == 1:
            self.sweeps = [first]
            return
        m = first.models
        S, A, nnz = m.n_states, m.n_actions, m.next_states.size
        refuse_if_too_large(
            count * lane_bytes(m),
            f"The working memory of {count} points solved together (mixed rows, bases)",
            "Solve fewer points together.",
        )
        self.K, self.F = np.zeros((count, S, A), np.int32), np.zeros((count, S, A), np.int32)
        self.k = np.zeros((count, S), np.int32)
        self.out = Update(
            np.zeros((count, S)), np.zeros((count, S)), np.zeros((count, S, A)),
            np.zeros((count, S), np.int8), np.zeros((count, S), np.int32),
            np.zeros((count, S), np.int64), np.zeros((count, nnz)), np.zeros((0, 0)),
        )  # fmt: skip
        self.sweeps = [
            first.lane(
                Memory(self.K[j], self.F[j], self.k[j]),
                Update._make([*(x[j] for x in self.out[:-1]), self.out.xi]),
            )
            for j in range(count)
        ]

    def run(self, kind: int, lanes: Sequence[int], values: Sequence[FloatArray]) -> None:
        """One sweep of each lane listed, at its v; `kind` is S_GAME or SA_GAME."""
        members = [self.sweeps[j] for j in lanes]
        one = members[0]
        if len(members) == 1:
            one.run(kind, values[0])
            return
        shifted = [centred(one.prob, v) for v in values]
        room = -len(members) % VECTOR  # filled up with copies
        V = np.stack([x for x, _, _ in shifted] + [shifted[0][0]] * room)
        centres = np.array([c for _, c, _ in shifted] + [shifted[0][1]] * room)
        group = Group(
            np.array(lanes, dtype=np.int64), V, one.gamma * centres,
            np.array([x.size_of(v) for x, v in zip(members, values, strict=True)]),
            np.array([x.rect.lam for x in members]), np.stack([x.rect.u for x in members]),
            np.array([x.rect.total for x in members]), self.K, self.F, self.k, *self.out,
        )  # fmt: skip
        sweep_group(kind, one.rect, group, one.threads)
        for x, v, (flat, centre, _) in zip(members, values, shifted, strict=True):
            x.conclude(kind, v, flat, centre, share=1.0 / len(members))
