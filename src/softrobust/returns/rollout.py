"""Episodes simulated in the models: what a log of the same shape would look like if they were true.

Each episode has its own start, its own length and its own model ω; it stops early where nothing can
happen any more (a sink). The same seed gives the same episodes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from softrobust.data.memory import refuse_if_too_large
from softrobust.errors import InputError

if TYPE_CHECKING:
    from softrobust.models.policy import Policy
    from softrobust.problem import Problem

IntArray = NDArray[np.int64]


@final
class Simulated(NamedTuple):
    """Steps (n_episodes, longest) and how many of them each episode has, (n_episodes,)."""

    s: IntArray
    a: IntArray
    s_next: IntArray
    length: IntArray

    @property
    def live(self) -> NDArray[np.bool_]:
        """(n_episodes, longest): which steps took place."""
        return np.arange(self.s.shape[1]) < self.length[:, None]


def simulate(
    problem: Problem,
    policy: Policy,
    start: ArrayLike,
    length: ArrayLike,
    omega: ArrayLike,
    seed: int | np.random.Generator = 0,
) -> Simulated:
    """Episodes of a policy in the problem's models.

    Parameters
    ----------
    start, length, omega : (n_episodes,) int
        First state, most steps, and model of every episode.
    """
    from softrobust.kernels.rollout import roll_episodes

    first, steps, which = (np.array(x, dtype=np.int64) for x in (start, length, omega))
    m = problem.models
    stray = np.argwhere((policy.probs > 0) & ~m.available)
    if stray.size:
        i, j = stray[0]
        raise InputError(
            f"The policy takes action '{m.actions[int(j)]}' in state '{m.states[int(i)]}', and no "
            "model knows what follows."
        )
    shape = (first.size, max(int(steps.max(initial=0)), 1))
    refuse_if_too_large(
        40.0 * shape[0] * shape[1],
        f"{shape[0]} episodes of up to {shape[1]} steps",
        "Simulate fewer or shorter episodes.",
    )
    u = np.random.default_rng(seed).random((*shape, 2))
    s, a, s_next = (np.zeros(shape, dtype=np.int64) for _ in range(3))
    roll_episodes(
        m.indptr, m.next_states, m.prob, m.n_models, policy.probs, np.asarray(m.sinks),
        first, which, steps, u, s, a, s_next,
    )  # fmt: skip
    return Simulated(s, a, s_next, steps)
