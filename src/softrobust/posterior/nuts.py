"""The No-U-Turn sampler (Hoffman and Gelman 2014) by NumPyro, as blocks that can be resumed.

A NumPyro model takes one mapping of arrays, its data. The potential energy is compiled as a
function of that mapping, so other data of the same shapes cost no new compilation: simulation-based
calibration runs hundreds of fits on one compiled chain. Chains run side by side (vectorised) and
in double precision; after every block of draws the state of the chains can be written to a file,
from which an interrupted run goes on with the same numbers as an uninterrupted one.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cache, partial
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any, final

import numpy as np
from numpy.typing import NDArray

from softrobust._core.arrays import FloatArray
from softrobust._core.files import read_npz, under, write_npz
from softrobust._core.limits import LiveLine, time_bound
from softrobust._core.settings import Count, Natural, check_fields, real, whole
from softrobust.errors import InputError, optional
from softrobust.posterior.diagnostics import check_divergence

Data = Mapping[str, NDArray[Any]]
CHECKPOINT_FORMAT = "softrobust-chains"
SAMPLING_SHARE = 0.5  # of the time that is left, for draws beyond the first block


@final
@dataclass(frozen=True, slots=True)
class Nuts:
    """Settings of the sampler."""

    # chains, warmup, draws: draws are counted per chain, after the warm-up
    chains: Count = 4
    warmup: Count = 1000
    draws: Count = 1000
    # acceptance rate that the step size is adapted to; higher means smaller steps
    target_accept: Annotated[float, partial(real, least=0.5, below=1)] = 0.9
    seed: Natural = 0
    block: Count = 250  # draws between two checkpoints and two refreshes of the progress line
    # file to write after every block and to go on from when it exists
    checkpoint: str | None = None

    def __post_init__(self) -> None:
        check_fields(self)
        if self.checkpoint is not None and not isinstance(self.checkpoint, str):
            raise InputError(
                f"checkpoint must be the name of a file, as text; it is {self.checkpoint!r}."
            )


@final
@dataclass(frozen=True, slots=True, eq=False)
class Chains:
    """Draws (n_chains, n_draws, …) by name, divergences, and the state to go on from."""

    values: dict[str, FloatArray]
    diverging: NDArray[np.bool_]
    state: tuple[NDArray[Any], ...]

    @property
    def n_draws(self) -> int:
        """Draws in all chains together."""
        return int(self.diverging.size)

    def flat(self, name: str) -> FloatArray:
        """(n_draws, …): the draws of one parameter, chain after chain."""
        values = self.values[name]
        return values.reshape(-1, *values.shape[2:])

    def joined(self, more: Chains) -> Chains:
        """These draws followed by those of the continued chains."""
        return Chains(
            {k: np.concatenate([v, more.values[k]], axis=1) for k, v in self.values.items()},
            np.concatenate([self.diverging, more.diverging], axis=1),
            more.state,
        )

    def block(self, part: slice) -> Chains:
        """Some consecutive draws of every chain."""
        values = {k: v[:, part] for k, v in self.values.items()}
        return Chains(values, self.diverging[:, part], self.state)

    def to_arrays(self, prefix: str = "") -> dict[str, NDArray[Any]]:
        """All of it as plain arrays."""
        out: dict[str, NDArray[Any]] = {f"{prefix}draw.{k}": v for k, v in self.values.items()}
        out[f"{prefix}diverging"] = self.diverging
        out |= {f"{prefix}state.{i:03d}": leaf for i, leaf in enumerate(self.state)}
        return out

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]], prefix: str = "") -> Chains:
        """The inverse of `to_arrays`."""
        own = under(prefix, arrays)
        state = tuple(own[k] for k in sorted(own) if k.startswith("state."))
        return cls(under("draw.", own), own["diverging"], state)


Model = Callable[[Any], None]
Start = Callable[[Any], dict[str, Any]]


@final
class Sampler:
    """A NumPyro model of one mapping of arrays, compiled; chains start near `start(data)`."""

    __slots__ = ("_init", "_run", "_structure")

    def __init__(self, model: Model, start: Start, settings: Nuts, example: Data) -> None:
        jax, numpyro_infer = import_numpyro()
        from numpyro.infer.hmc import hmc

        def potential(data: Any) -> Any:
            return lambda z: numpyro_infer.util.potential_energy(model, (data,), {}, z)

        def constrained(data: Any, z: Any) -> Any:
            return numpyro_infer.util.constrain_fn(model, (data,), {}, z, return_deterministic=True)

        begin, advance = hmc(potential_fn_gen=potential, algo="NUTS")

        def init(key: Any, data: Any) -> Any:
            place, own = jax.random.split(key)
            values = start(data)
            keys = jax.random.split(place, len(values))
            jittered = {
                name: x + jax.random.uniform(k, x.shape, x.dtype, -1.0, 1.0)
                for k, (name, x) in zip(keys, sorted(values.items()), strict=True)
            }
            return begin(
                jittered,
                settings.warmup,
                dense_mass=True,
                target_accept_prob=settings.target_accept,
                model_args=(data,),
                rng_key=own,
            )

        def run(state: Any, data: Any, length: Any) -> Any:
            # A buffer of fixed size and a loop of any length: warm-up and draws are one program.
            def one(i: Any, carry: Any) -> Any:
                now, kept = carry
                now = advance(now, (data,))
                row = (constrained(data, now.z), now.diverging)
                put = jax.tree_util.tree_map(lambda x, y: x.at[i].set(y), kept, row)
                return now, put

            row = jax.eval_shape(lambda z: (constrained(data, z), state.diverging), state.z)
            zeros, block = jax.numpy.zeros, settings.block
            empty = jax.tree_util.tree_map(lambda x: zeros((block, *x.shape), x.dtype), row)
            return jax.lax.fori_loop(0, length, one, (state, empty))

        self._init = jax.jit(jax.vmap(init, in_axes=(0, None)))
        self._run = jax.jit(jax.vmap(run, in_axes=(0, None, None)))
        with double_precision(jax):
            keys = jax.random.split(jax.random.PRNGKey(0), settings.chains)
            # Tracing once gives the structure of a state and readies `advance` for a resumed run.
            shapes = jax.eval_shape(self._init, keys, _on_device(example))
            self._structure = jax.tree_util.tree_structure(shapes)

    def sample(
        self, data: Data, nuts: Nuts, label: str, before: Chains | None = None, draws: int = 0
    ) -> Chains:
        """Warm up and draw; with `before`, let its chains go on for `draws` steps instead.

        Where time is short there are fewer draws; the warm-up and the first block are always made.
        """
        jax, _ = import_numpyro()
        line, ends = LiveLine(), time_bound().part(SAMPLING_SHARE)
        wanted = nuts.draws if before is None else whole("The number of draws", draws)
        with double_precision(jax):
            device = _on_device(data)
            done = _read_checkpoint(nuts, data) if before is None else None
            if before is None and done is None:
                keys = jax.random.split(jax.random.PRNGKey(nuts.seed), nuts.chains)
                state = self._init(keys, device)
                for at in range(0, nuts.warmup, nuts.block):
                    line.update(f"{label}: warm-up, {at} of {nuts.warmup} steps")
                    state, _ = self._run(state, device, min(nuts.block, nuts.warmup - at))
            else:
                leaves = before.state if before is not None else done.state  # type: ignore[union-attr]
                state = jax.tree_util.tree_unflatten(self._structure, leaves)
            have = 0 if done is None else done.diverging.shape[1]
            while have < wanted:
                step = min(nuts.block, wanted - have)
                state, (values, diverging) = self._run(state, device, step)
                part = Chains(
                    {k: np.array(v, np.float64)[:, :step] for k, v in values.items()},
                    np.array(diverging)[:, :step],
                    tuple(np.array(leaf) for leaf in jax.tree_util.tree_leaves(state)),
                )
                check_divergence(part.diverging, part.values)  # before anything is written
                done = part if done is None else done.joined(part)
                have += step
                line.update(f"{label}: {have} of {wanted} draws in {nuts.chains} chains")
                if before is None and nuts.checkpoint is not None:
                    head = {"data": np.array(_digest(nuts, data))}
                    write_npz(nuts.checkpoint, CHECKPOINT_FORMAT, 1, head | done.to_arrays())
                if before is None and have < wanted and ends.passed:
                    time_bound().note("draws")
                    break
            line.clear()
        if done is None:
            raise InputError("No draws were made. Ask for at least one.")
        return done if before is None else before.joined(done)


def _read_checkpoint(nuts: Nuts, data: Data) -> Chains | None:
    if nuts.checkpoint is None or not Path(nuts.checkpoint).exists():
        return None
    arrays = read_npz(nuts.checkpoint, CHECKPOINT_FORMAT, 1)
    if str(arrays.get("data", "")) != _digest(nuts, data):
        raise InputError(
            f"The checkpoint {Path(nuts.checkpoint).name} belongs to other data or settings. "
            "Remove the file to start afresh, or name another one."
        )
    chains = Chains.from_arrays(arrays)
    have = chains.diverging.shape[1]
    if have > nuts.draws:
        # The first draws alone would not do: the file has the state after the last one only, so
        # that chains cut short could not be extended.
        raise InputError(
            f"A checkpoint cannot hold more draws than are asked for: "
            f"{Path(nuts.checkpoint).name} has {have} per chain, draws is {nuts.draws}. Set "
            f"draws={have} (or more), or remove the file to start afresh."
        )
    return chains


def _digest(nuts: Nuts, data: Data) -> str:
    """Data and those settings that the chains depend on."""
    kept = (nuts.chains, nuts.warmup, nuts.target_accept, nuts.seed)
    digest = hashlib.sha256(repr(kept).encode())
    for name in sorted(data):
        digest.update(name.encode() + np.ascontiguousarray(data[name]).tobytes())
    return digest.hexdigest()


def sampler(model: Model, start: Start, nuts: Nuts, data: Data) -> Sampler:
    """The compiled sampler for a model and data of these shapes; compiled once per process."""
    shapes = tuple((name, data[name].shape, data[name].dtype.str) for name in sorted(data))
    return _compiled(model, start, replace(nuts, draws=1, seed=0, checkpoint=None), shapes)


@cache
def _compiled(model: Model, start: Start, nuts: Nuts, shapes: tuple[Any, ...]) -> Sampler:
    example = {name: np.ones(shape, dtype) for name, shape, dtype in shapes}
    return Sampler(model, start, nuts, example)


def _on_device(data: Data) -> dict[str, Any]:
    import jax.numpy as jnp

    return {name: jnp.asarray(values) for name, values in data.items()}


def double_precision(jax: Any) -> Any:
    """A context in which JAX computes in 64 bits, whatever the rest of the program does."""
    if hasattr(jax, "enable_x64"):
        return jax.enable_x64(True)
    from jax import experimental  # older releases keep it there

    return experimental.enable_x64(True)


def import_numpyro() -> tuple[Any, Any]:
    """(jax, numpyro.infer), or the line that installs them."""
    infer = optional("numpyro.infer", "bayes", "Sampling with NUTS")  # which needs JAX itself
    return import_module("jax"), infer
