"""Draws of next states that JAX can trace: of Gaussian models, and of models given by a function.

A dynamics is a hashable object without arrays; the arrays come as `parameters`, an argument of the
compiled program, so that other models of the same shapes cost no new compilation:

    draw(parameters, ω, s, a, key, k) → (k, n_rows, n_variables)    k draws for every row under ω
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, final

import numpy as np

from softrobust.errors import InputError
from softrobust.models.continuous import CallableModels

if TYPE_CHECKING:
    from softrobust.models.continuous import ContinuousModels, Step
    from softrobust.models.gaussian import GaussianModels

Parameters = dict[str, Any]
SCALING = ("centre", "scale", "out_centre", "out_scale", "noise_scale")


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
        import jax

        mean, sd = self.moments(parameters, omega, s, a)
        return kept(parameters, mean + sd * jax.random.normal(key, (k, *mean.shape), mean.dtype))

    def moments(self, parameters: Parameters, omega: Any, s: Any, a: Any) -> tuple[Any, Any]:
        """Mean and standard deviation of s′, (n_rows, n_variables) each.

        In full single precision: the three digits of TF32 would be as coarse as the noise.
        """
        import jax
        import jax.numpy as jnp

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
        import jax.numpy as jnp

        rows = jnp.tile(s, (k, 1))
        own = jnp.broadcast_to(parameters["own"][omega], rows.shape[:1])
        out = jnp.asarray(self.step(rows, jnp.tile(a, k), own, TracedGenerator(key)))  # type: ignore[arg-type]
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
        import jax

        self._key, own = jax.random.split(self._key)
        return own

    def standard_normal(self, size: Any = ()) -> Any:
        """Draws from N(0, 1)."""
        import jax

        return jax.random.normal(self._next(), _shape(size))

    def normal(self, loc: Any = 0.0, scale: Any = 1.0, size: Any = None) -> Any:
        """Draws from N(loc, scale²)."""
        import jax.numpy as jnp

        shape = jnp.broadcast_shapes(jnp.shape(loc), jnp.shape(scale)) if size is None else size
        return loc + scale * self.standard_normal(shape)

    def random(self, size: Any = ()) -> Any:
        """Draws from [0, 1)."""
        import jax

        return jax.random.uniform(self._next(), _shape(size))

    def uniform(self, low: Any = 0.0, high: Any = 1.0, size: Any = None) -> Any:
        """Draws from [low, high)."""
        import jax.numpy as jnp

        shape = jnp.broadcast_shapes(jnp.shape(low), jnp.shape(high)) if size is None else size
        return low + (high - low) * self.random(shape)


def _shape(size: Any) -> tuple[int, ...]:
    return () if size is None else (size,) if isinstance(size, int) else tuple(size)


def kept(parameters: Parameters, s: Any) -> Any:
    """States moved to the edge of the models' box where they lie beyond it."""
    import jax.numpy as jnp

    return jnp.clip(s, parameters["low"], parameters["high"]) if "low" in parameters else s


def gaussian_parameters(models: GaussianModels) -> Parameters:
    """Weights, noise and scaling of Gaussian models."""
    out: Parameters = {"weights": models.weights, "noise": models.noise}
    out |= {name: getattr(models.scaling, name) for name in SCALING}
    return out | {"action_values": models.frame.action_values} | _box(models)


def callable_parameters(models: ContinuousModels) -> Parameters:
    """The numbers by which the function knows its models."""
    if not isinstance(models, CallableModels):
        raise InputError(
            "Soft actor-critic reads GaussianModels and CallableModels (with a step that JAX can "
            f"trace); these are {type(models).__name__}."
        )
    return {"own": models.own.astype(np.int32)} | _box(models)


def _box(models: ContinuousModels) -> Parameters:
    return {} if models.clip is None else {"low": models.clip[0], "high": models.clip[1]}
