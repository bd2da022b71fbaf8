"""How episodes go: what is measured and what is done, step by step, over models and chance."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, final

import numpy as np
from numpy.typing import NDArray

from softrobust.data.settings import whole
from softrobust.returns.simulation import Actor, actor, run_episodes

if TYPE_CHECKING:
    from softrobust.continuous_problem import ContinuousProblem
    from softrobust.models.continuous import ContinuousModels
    from softrobust.models.continuous_policy import ContinuousPolicy

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]
LEVELS = (0.1, 0.5, 0.9)


@final
@dataclass(frozen=True, slots=True, eq=False)
class Paths:
    """The course of simulated episodes under one policy.

    Attributes
    ----------
    bands : (horizon, n_variables, 3)
        10 %, 50 % and 90 % of episodes lie below, models counted by their weights.
    shares : (horizon, n_actions)
        How often each action is taken at each step.
    states, actions : (n, n_variables) and (n,)
        A sample of the states that were decided in, all steps alike, and what was decided.
    """

    bands: FloatArray
    shares: FloatArray
    states: FloatArray
    actions: IntArray


def follow(
    problem: ContinuousProblem,
    policy: ContinuousPolicy | Actor,
    models: ContinuousModels | None = None,
    episodes: int = 10,
    seed: int = 0,
    sample: int = 600,
) -> Paths:
    """Simulate `episodes` episodes per model and keep their course.

    Parameters
    ----------
    models : ContinuousModels, optional
        Other models than the problem's, such as held-out ones.
    sample : int
        How many of the visited states are kept.
    """
    own = problem if models is None else problem.with_models(models)
    omega = np.repeat(np.arange(own.n_models), whole("episodes", episodes))
    rng = np.random.default_rng(seed)
    with np.errstate(over="ignore", invalid="ignore"):  # explosions are reported by their step
        run = run_episodes(own, own.models, actor(policy, own), omega, rng, keep=True)
    assert run.states is not None  # asked for
    assert run.actions is not None
    weight = own.models.f[omega] / episodes
    bands = np.quantile(run.states, LEVELS, axis=1, weights=weight, method="inverted_cdf")
    shares = np.stack([(run.actions == a) @ weight for a in range(own.n_actions)], axis=1)
    visited, chance = run.states.reshape(-1, own.n_variables), np.tile(weight, own.horizon)
    size = min(whole("sample", sample), int(np.count_nonzero(chance)))
    kept = np.random.default_rng(seed).choice(
        chance.size, size, replace=False, p=chance / chance.sum()
    )
    return Paths(np.moveaxis(bands, 0, 2), shares, visited[kept], run.actions.ravel()[kept])
