"""What training reads of a continuous problem: arrays (`data`) and functions that JAX can trace.

    draw(data, ω, s, a, key, k) → (k, n_rows, n_variables)    k next states of every row under ω
    step(data, s, a, key)       → (n_rows, n_variables)       one next state under the mean model
    reward(data, s, a, s′)      → (…)                         r(s, a, s′)

`data` is an argument of the compiled program and `Traced` its hashable rest, so that other models
of the same shapes cost no new compilation. Actions are indices among those that may be taken. Next
states are drawn by a `Dynamics`, a hashable object without arrays, of Gaussian models or of models
given by a function; their arrays come as `parameters`, a part of `data`.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from typing import Any, Protocol, final

import numpy as np

from softrobust._core.arrays import FloatArray
from softrobust.errors import InputError, MissingExtraError
from softrobust.models.continuous import CallableModels, ContinuousModels, MixtureModel, Step
from softrobust.models.continuous_rewards import LinearReward, RewardFunction
from softrobust.models.gaussian import GaussianModels, Scaling
from softrobust.problem import ContinuousProblem


@final
class _Lazy:
    """JAX or optax, imported when first used: that takes a second, and it may not be there."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, attribute: str) -> Any:
        try:
            import_module("optax")  # which needs JAX itself
            return getattr(import_module(self._name), attribute)
        except ImportError as error:
            raise MissingExtraError("optax", "deep", "Soft actor-critic") from error


jax: Any = _Lazy("jax")
jnp: Any = _Lazy("jax.numpy")
optax: Any = _Lazy("optax")

Data = dict[str, Any]
Parameters = dict[str, Any]
START_ROWS = 10_000  # drawn once from a start sampler, then equally likely
PROBE_EPISODES = 100  # of a uniform policy in the mean model, to learn the scale of states


class Dynamics(Protocol):
    """How next states are drawn; equal ones share a compiled program."""

    def draw(self, parameters: Parameters, omega: Any, s: Any, a: Any, key: Any, k: int) -> Any:
        """(k, n_rows, n_variables) for states (n_rows, n_variables) and action indices."""


@final
@dataclass(frozen=True, slots=True)
class GaussianDynamics:
    """s′ ~ Normal, mean and variance linear in polynomial features (`models.gaussian`)."""

    products: tuple[tuple[int, int], ...]

    def draw(self, parameters: Parameters, omega: Any, s: Any, a: Any, key: Any, k: int) -> Any:
        """Mean plus noise, kept in the box if there is one."""
        mean, sd = self.moments(parameters, omega, s, a)
        return kept(parameters, mean + sd * jax.random.normal(key, (k, *mean.shape), mean.dtype))

    def moments(self, parameters: Parameters, omega: Any, s: Any, a: Any) -> tuple[Any, Any]:
        """Mean and standard deviation of s′, (n_rows, n_variables) each.

        In full single precision: the three digits of TF32 would be as coarse as the noise.
        """
        p, exact = parameters, jax.lax.Precision.HIGHEST
        W, U = p["weights"][omega], p["noise"][omega]
        x = jnp.concatenate([s, p["action_values"][a][:, None]], axis=1)
        pairs = [x[:, i] * x[:, j] for i, j in self.products]
        phi = jnp.concatenate([jnp.ones_like(x[:, :1]), x, jnp.stack(pairs, axis=1)], axis=1)
        z = (phi - p["centre"]) / p["scale"]
        mean = p["out_centre"] + p["out_scale"] * jnp.matmul(z, W, precision=exact)
        psi = jnp.abs(phi[:, : U.shape[0]]) / p["noise_scale"]
        return mean, p["out_scale"] * jnp.sqrt(jnp.matmul(psi, U, precision=exact))


@final
@dataclass(frozen=True, slots=True)
class CallableDynamics:
    """s′ by a user's function (s, a, ω, rng); `rng` is a `TracedGenerator`."""

    step: Step

    def draw(self, parameters: Parameters, omega: Any, s: Any, a: Any, key: Any, k: int) -> Any:
        """All k·n_rows rows in one call."""
        rows = jnp.tile(s, (k, 1))
        own = jnp.broadcast_to(parameters["own"][omega], rows.shape[:1])
        rng: Any = TracedGenerator(key)
        out = jnp.asarray(self.step(rows, jnp.tile(a, k), own, rng))
        if out.shape != rows.shape:
            raise InputError(
                f"step must give one next state per row, shape {rows.shape}; it gave {out.shape}."
            )
        return kept(parameters, out.astype(jnp.float32).reshape(k, *s.shape))


@final
class TracedGenerator:
    """The few methods of `numpy.random.Generator` that a traced function may call.

    The same `step` thus draws with NumPy in simulations and with JAX in training; what it computes
    with must be operators or functions of `jax.numpy`.
    """

    __slots__ = ("_key",)

    def __init__(self, key: Any) -> None:
        self._key = key

    def _next(self) -> Any:
        self._key, own = jax.random.split(self._key)
        return own

    def standard_normal(self, size: Any = ()) -> Any:
        """Draws from N(0, 1)."""
        return jax.random.normal(self._next(), _shape(size))

    def normal(self, loc: Any = 0.0, scale: Any = 1.0, size: Any = None) -> Any:
        """Draws from N(loc, scale²)."""
        shape = jnp.broadcast_shapes(jnp.shape(loc), jnp.shape(scale)) if size is None else size
        return loc + scale * self.standard_normal(shape)

    def random(self, size: Any = ()) -> Any:
        """Draws from [0, 1)."""
        return jax.random.uniform(self._next(), _shape(size))

    def uniform(self, low: Any = 0.0, high: Any = 1.0, size: Any = None) -> Any:
        """Draws from [low, high)."""
        shape = jnp.broadcast_shapes(jnp.shape(low), jnp.shape(high)) if size is None else size
        return low + (high - low) * self.random(shape)


def _shape(size: Any) -> tuple[int, ...]:
    return () if size is None else (size,) if isinstance(size, int) else tuple(size)


def kept(parameters: Parameters, s: Any) -> Any:
    """States moved to the edge of the models' box where they lie beyond it."""
    return jnp.clip(s, parameters["low"], parameters["high"]) if "low" in parameters else s


@final
@dataclass(frozen=True, slots=True)
class Traced:
    """Functions of the problem."""

    dynamics: Dynamics
    reward_of: RewardFunction | None  # None for a linear reward, whose numbers are data
    mixed: bool  # whether "the" model of targets is a mixture, drawn afresh every step,
    mean_mixed: bool  # and that of episodes

    def draw(self, data: Data, omega: Any, s: Any, a: Any, key: Any, k: int) -> Any:
        """k next states of every row under model ω."""
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
        pick, draw = jax.random.split(key)
        omega = jax.random.categorical(pick, jnp.log(parameters["f"]), shape=s.shape[:1])
        keys = jax.random.split(draw, s.shape[0])

        def one(omega: Any, s: Any, a: Any, own: Any) -> Any:
            return self.dynamics.draw(parameters, omega, s[None], a[None], own, 1)[0, 0]

        return jax.vmap(one)(omega, s, a, keys)

    def ends(self, data: Data, which: str, omega: Any, s: Any, a: Any) -> Any:
        """(n_rows,) P(end for good) under a model of data[which]; 0 where none ends."""
        p = data[which]
        if "end_weights" not in p:
            return jnp.zeros(s.shape[0])
        x = jnp.concatenate([s, p["action_values"][data["action_index"][a]][:, None]], axis=1)
        x = jnp.concatenate([jnp.ones_like(x[:, :1]), x], axis=1)
        k = x.shape[1]
        z = (x - p["centre"][:k]) / p["scale"][:k]
        return jax.nn.sigmoid((z * p["end_weights"][omega]).sum(-1))

    def reward(self, data: Data, s: Any, a: Any, s_next: Any) -> Any:
        """r(s, a, s′), the leading axes of s and a broadcast to those of s′."""
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
        return data["start"][jax.random.randint(key, (n,), 0, data["start"].shape[0])]


def world_of(problem: ContinuousProblem, plain: bool) -> tuple[Traced, Data]:
    """Traced and data (NumPy arrays) of a problem; `plain` has the mean model as its only one."""
    mean = problem.models.mean_model()
    models = mean if plain else problem.models
    parts, mean_parts = _parts(models), _parts(mean)
    dynamics: Dynamics
    if isinstance(parts, GaussianModels):
        dynamics = GaussianDynamics(tuple(parts.frame._products()))
    elif isinstance(parts, CallableModels):
        dynamics = CallableDynamics(parts.step)
    else:
        raise InputError(
            "Soft actor-critic reads GaussianModels and CallableModels (with a step that JAX can "
            f"trace); these are {type(parts).__name__}."
        )
    reward = None if isinstance(problem.reward, LinearReward) else problem.reward
    world = Traced(dynamics, reward, parts is not models, mean_parts is not mean)
    centre, scale = input_scaling(problem)
    data: Data = {
        "models": _parameters(parts),
        "mean": _parameters(mean_parts),
        "f": models.f,
        "gamma": np.array(problem.gamma),
        "end_reward": np.array(models.end_reward),
        "start": problem.sample_start(START_ROWS, np.random.default_rng(0))
        if callable(problem.start)
        else np.asarray(problem.start),
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

    def put(x: Any) -> Any:
        kind = jnp.int32 if np.issubdtype(np.asarray(x).dtype, np.integer) else jnp.float32
        return jnp.asarray(np.asarray(x), kind)

    return dict(jax.tree_util.tree_map(put, data))


def _parts(models: ContinuousModels) -> ContinuousModels:
    return models.parts if isinstance(models, MixtureModel) else models


def _parameters(models: ContinuousModels) -> Parameters:
    """The numbers that a dynamics reads: of Gaussian models, or by which a function knows them."""
    out: Parameters = {"f": models.f}
    if isinstance(models, GaussianModels):
        out |= {"weights": models.weights, "noise": models.noise}
        out |= {name: getattr(models.scaling, name) for name in Scaling.__slots__}
        out["action_values"] = models.frame.action_values
        if models.end_weights is not None:
            out |= {"end_weights": models.end_weights}
    elif isinstance(models, CallableModels):
        out |= {"own": models.own.astype(np.int32)}
    return out if models.clip is None else out | {"low": models.clip[0], "high": models.clip[1]}
