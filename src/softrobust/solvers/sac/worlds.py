"""What training reads of a continuous problem: arrays (`data`) and functions that JAX can trace.

    draw(data, ω, s, a, key, k) → (k, n_rows, n_variables)    k next states of every row under ω
    step(data, s, a, key)       → (n_rows, n_variables)       one next state under the mean model
    reward(data, s, a, s′)      → (…)                         r(s, a, s′)

`data` is an argument of the compiled program and `World` its hashable rest, so that other models of
the same shapes cost no new compilation. Actions are indices among those that may be taken.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, final

import numpy as np
from numpy.typing import NDArray

from softrobust.errors import InputError
from softrobust.models.continuous import MixtureModel
from softrobust.models.continuous_rewards import LinearReward
from softrobust.models.gaussian import GaussianModels
from softrobust.solvers.sac.dynamics import (
    CallableDynamics,
    Dynamics,
    GaussianDynamics,
    callable_parameters,
    gaussian_parameters,
)

if TYPE_CHECKING:
    from softrobust.continuous_problem import ContinuousProblem
    from softrobust.models.continuous import ContinuousModels
    from softrobust.models.continuous_rewards import RewardFunction

FloatArray = NDArray[np.float64]
Data = dict[str, Any]
START_ROWS = 10_000  # drawn once from a start sampler, then equally likely
PROBE_EPISODES = 100  # of a uniform policy in the mean model, to learn the scale of states


@final
@dataclass(frozen=True, slots=True)
class World:
    """Functions of the problem.

    Attributes
    ----------
    dynamics : Dynamics
    reward_of : callable or None
        A reward function that JAX can trace; None for a linear one, whose numbers are data.
    mixed, mean_mixed : bool
        Whether "the" model of targets, or that of episodes, is a mixture drawn afresh every step.
    """

    dynamics: Dynamics
    reward_of: RewardFunction | None
    mixed: bool
    mean_mixed: bool

    def draw(self, data: Data, omega: Any, s: Any, a: Any, key: Any, k: int) -> Any:
        """k next states of every row under model ω."""
        import jax.numpy as jnp

        own = data["action_index"][a]
        if not self.mixed:
            return self.dynamics.draw(data["models"], omega, s, own, key, k)
        rows = self._mixture(data["models"], jnp.tile(s, (k, 1)), jnp.tile(own, k), key)
        return rows.reshape(k, *s.shape)

    def step(self, data: Data, s: Any, a: Any, key: Any) -> Any:
        """One next state of every row under the mean model."""
        own = data["action_index"][a]
        if self.mean_mixed:
            return self._mixture(data["mean"], s, own, key)
        return self.dynamics.draw(data["mean"], 0, s, own, key, 1)[0]

    def _mixture(self, parameters: dict[str, Any], s: Any, a: Any, key: Any) -> Any:
        """Every row follows a model of its own, drawn with the weights of the parts."""
        import jax
        import jax.numpy as jnp

        pick, draw = jax.random.split(key)
        omega = jax.random.categorical(pick, jnp.log(parameters["f"]), shape=s.shape[:1])
        keys = jax.random.split(draw, s.shape[0])

        def one(omega: Any, s: Any, a: Any, own: Any) -> Any:
            return self.dynamics.draw(parameters, omega, s[None], a[None], own, 1)[0, 0]

        return jax.vmap(one)(omega, s, a, keys)

    def reward(self, data: Data, s: Any, a: Any, s_next: Any) -> Any:
        """r(s, a, s′), the leading axes of s and a broadcast to those of s′."""
        import jax.numpy as jnp

        own = jnp.broadcast_to(data["action_index"][a], s_next.shape[:-1])
        if self.reward_of is not None:
            r = self.reward_of(jnp.broadcast_to(s, s_next.shape), own, s_next)
            return jnp.broadcast_to(jnp.asarray(r, jnp.float32), s_next.shape[:-1])
        # As `LinearReward`, with its numbers as data: elementwise, so that it fuses.
        p = data["reward"]
        r = (s * p["now"]).sum(-1) + (s_next * p["next"]).sum(-1) + p["constant"]
        if "square" in p:
            r = r + ((s_next[..., None, :] * p["square"]).sum(-1) * s_next).sum(-1)
        return r + p["action"][own] if "action" in p else r

    def start(self, data: Data, key: Any, n: int) -> Any:
        """(n, n_variables) first states of n episodes."""
        import jax

        return data["start"][jax.random.randint(key, (n,), 0, data["start"].shape[0])]


def world_of(problem: ContinuousProblem, plain: bool) -> tuple[World, Data]:
    """World and data (NumPy arrays) of a problem; `plain` has the mean model as its only one."""
    models = problem.models.mean_model() if plain else problem.models
    mean = problem.models.mean_model()
    parts, mean_parts = _parts(models), _parts(mean)
    dynamics: Dynamics
    if isinstance(parts, GaussianModels):
        dynamics = GaussianDynamics(tuple(parts.frame._products()))
    else:
        callable_parameters(parts)  # refuses what is neither
        dynamics = CallableDynamics(parts.step)  # type: ignore[attr-defined]
    linear = isinstance(problem.reward, LinearReward)
    world = World(
        dynamics, None if linear else problem.reward, parts is not models, mean_parts is not mean
    )
    centre, scale = input_scaling(problem)
    data: Data = {
        "models": _parameters(parts),
        "mean": _parameters(mean_parts),
        "f": models.f,
        "gamma": np.array(problem.gamma),
        "start": _start(problem),
        "action_index": np.flatnonzero(problem.allowed).astype(np.int32),
        "input_centre": centre,
        "input_scale": scale,
    }
    if isinstance(problem.reward, LinearReward):
        named = problem.reward.arrays().items()
        data["reward"] = {name.removeprefix("reward_"): x for name, x in named}
    return world, data


def input_scaling(problem: ContinuousProblem) -> tuple[FloatArray, FloatArray]:
    """Centre and scale (n_variables,) of the states that the networks read.

    Gaussian models know those of the log they were fitted on. For others they are measured on
    episodes of a uniform policy in the mean model; what never varies keeps the scale 1.
    """
    models, d = problem.models, problem.n_variables
    if isinstance(models, GaussianModels):  # the features are 1, the state, the action, products
        return models.scaling.centre[1 : d + 1], models.scaling.scale[1 : d + 1]
    rng = np.random.default_rng(0)
    mean, may = models.mean_model(), np.flatnonzero(problem.allowed)
    s = problem.sample_start(PROBE_EPISODES, rng)
    seen = []
    for _ in range(problem.horizon):
        seen.append(s)
        s = mean.draw(s, rng.choice(may, size=len(s)), rng, np.zeros(len(s), np.int64)).s_next
    rows = np.concatenate(seen)
    if not np.isfinite(rows).all():
        raise InputError(
            "Episodes of a uniform policy in the mean model run away to infinite states. Give the "
            "models a box: clip=(low, high)."
        )
    spread = rows.std(axis=0)
    return rows.mean(axis=0), np.where(spread > 1e-12 * np.abs(rows).max(axis=0), spread, 1.0)


def on_device(data: Data) -> Data:
    """The same arrays for JAX: numbers in single precision, indices as 32-bit integers."""
    import jax
    import jax.numpy as jnp

    def put(x: Any) -> Any:
        kind = jnp.int32 if np.issubdtype(np.asarray(x).dtype, np.integer) else jnp.float32
        return jnp.asarray(np.asarray(x), kind)

    return dict(jax.tree_util.tree_map(put, data))


def _parts(models: ContinuousModels) -> ContinuousModels:
    return models.parts if isinstance(models, MixtureModel) else models


def _parameters(models: ContinuousModels) -> dict[str, Any]:
    if isinstance(models, GaussianModels):
        return gaussian_parameters(models) | {"f": models.f}
    return callable_parameters(models) | {"f": models.f}


def _start(problem: ContinuousProblem) -> FloatArray:
    if not callable(problem.start):
        return np.asarray(problem.start)
    return problem.sample_start(START_ROWS, np.random.default_rng(0))
