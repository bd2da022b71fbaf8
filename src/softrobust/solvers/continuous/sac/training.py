"""A whole training run: blocks one after the other, with limits, checkpoints and a watch on NaN.

Blocks start at multiples of `block` iterations, whatever stopped a run before: a run that is taken
up again computes the same blocks from the same state, hence the same numbers on the same device.
With a limit of time they are as long as it allows.

A checkpoint is one `.npz` file without pickled objects: `state:…` are the leaves of the state,
named by their path (networks, optimisers, replay buffer, key, iteration), `curve:…` what was
recorded, `meta` a JSON text. A digest of settings, models and seeds must agree: a run goes on as
itself or not at all. Only learning rates may be others, so that a run whose losses left the numbers
can go on with lower ones from its last good state; a warning says so.
"""

from __future__ import annotations

import hashlib
import json
import warnings
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from softrobust._core.files import read_npz, write_npz
from softrobust._core.limits import Deadline, LiveLine
from softrobust.errors import InputError, SolverError
from softrobust.solvers.base import Status
from softrobust.solvers.continuous.sac.learning import (
    NETWORKS,
    Plan,
    State,
    Trace,
    compiled_block,
    compiled_start,
)
from softrobust.solvers.continuous.sac.traced import Data, Traced, jax, jnp

FORMAT, VERSION = "softrobust-actor-critic", 2  # 2: rates beside the digest
RATES = ("rates", "target_rate")
LARGEST = 1e8  # of a parameter: what follows is no longer a number


@final
@dataclass(frozen=True, slots=True, eq=False)
class LearningCurves:
    """What training recorded, by agent and iteration, each (n_agents, n_iterations[, 3])."""

    returns: NDArray[np.float32]  # mean discounted return of the episodes in the mean model
    entropy: NDArray[np.float32]  # mean entropy of the policy in the states of these episodes
    losses: NDArray[np.float32]  # mean J(π), J(Q), J(V) over the iteration's updates

    @classmethod
    def empty(cls, agents: int) -> LearningCurves:
        """Of no iterations."""
        none = np.zeros((agents, 0), np.float32)
        return cls(none, none, np.zeros((agents, 0, 3), np.float32))

    def thinned(self, agent: int, points: int) -> list[float]:
        """The returns of one agent, averaged over stretches so that about `points` are left."""
        x = self.returns[agent]
        stretch = max(1, x.size // points)
        whole = x[: x.size // stretch * stretch].reshape(-1, stretch)
        return [float(mean) for mean in whole.mean(axis=1)]

    def joined(self, more: LearningCurves) -> LearningCurves:
        """These followed by more."""
        pairs = ((getattr(self, k), getattr(more, k)) for k in self.__slots__)
        return LearningCurves(*(np.concatenate(pair, axis=1) for pair in pairs))


# Hears of every block: iterations made, the block's curves, seconds.
Notify = Callable[[int, LearningCurves, float], None]


@final
@dataclass(frozen=True, slots=True)
class Limits:
    """How long to train, in what pieces, where to keep checkpoints, and whom to tell."""

    iterations: int
    block: int
    time_limit: float | None = None
    checkpoint: str | Path | None = None
    notify: Notify | None = None


@final
@dataclass(frozen=True, slots=True, eq=False)
class Trained:
    """The agents after training."""

    networks: dict[str, dict[str, NDArray[np.float32]]]  # by network and array, agents first
    curves: LearningCurves
    iterations: int
    status: Status  # `iteration_limit` when all iterations are made, else what stopped them
    seconds: float
    device: str


@final
class _Pace:
    """How many iterations come next: a block, or one where a limit leaves no time for a block.

    A block of another length is compiled, which takes as long as many iterations. So with a limit
    there is one iteration at first, which is always made, and one more, which tells both times.
    """

    def __init__(self, limits: Limits, clock: Deadline) -> None:
        self.limits, self.clock = limits, clock
        self.begin, self.each, self.compiling = 0.0, 0.0, 0.0
        self.known: set[int] = set()  # lengths that are compiled

    def length(self, at: int) -> int:
        """0 where no more iterations are made in time."""
        limits, left = self.limits, self.clock.left
        self.begin = self.clock.elapsed
        if limits.time_limit is None:
            return min(limits.block - at % limits.block, limits.iterations - at)
        block = min(limits.block, limits.iterations - at)
        if self.each > 0:
            compiling = 0.0 if block in self.known else self.compiling
            if 2 * compiling + block * self.each <= left:
                return block
        return 1 if not self.known or self.each < left else 0

    def took(self, length: int) -> None:
        """It was made, in the time since it was begun."""
        seconds = self.clock.elapsed - self.begin
        if length in self.known:
            self.each = seconds / length
        else:
            self.compiling = max(seconds - length * self.each, 0.0)
            self.known.add(length)


def train(
    plan: Plan, world: Traced, data: Data, seeds: tuple[int, ...], limits: Limits, label: str
) -> Trained:
    """Train one agent per seed, side by side."""
    clock, line = Deadline(limits.time_limit), LiveLine()
    notify = limits.notify or _live(line, label, limits.iterations)
    own = digest(plan, world, data, seeds)
    state = compiled_start(plan)(np.array(seeds, np.uint32))
    curves, status = LearningCurves.empty(len(seeds)), Status.ITERATION_LIMIT
    if limits.checkpoint is not None and Path(limits.checkpoint).exists():
        state, curves = load_training(limits.checkpoint, own, plan, state)
        if (have := curves.returns.shape[1]) > limits.iterations:
            raise InputError(
                f"The checkpoint {Path(limits.checkpoint).name} is at iteration {have}, beyond the "
                f"{limits.iterations} asked for. Set iterations={have} or more, or remove the file."
            )
    at = saved = curves.returns.shape[1]
    pace = _Pace(limits, clock)
    try:
        while at < limits.iterations:
            length = pace.length(at)
            if length == 0:
                status = Status.TIME_LIMIT
                break
            after, trace = compiled_block(plan, world, length)(state, data)
            part = _curves(trace, seeds, at, limits)
            _check_parameters(after, at + length, limits, at)
            pace.took(length)
            state, curves, at = after, curves.joined(part), at + length
            if limits.checkpoint is not None and at // limits.block > (at - length) // limits.block:
                saved = at
                save_training(limits.checkpoint, own, plan, state, curves)
            notify(at, part, clock.elapsed)
    except KeyboardInterrupt:
        if at == 0:
            raise
        status = Status.INTERRUPTED
    if limits.checkpoint is not None and at > saved:
        save_training(limits.checkpoint, own, plan, state, curves)
    line.clear()
    networks = jax.tree_util.tree_map(np.asarray, state.learner.networks)
    return Trained(networks, curves, at, status, clock.elapsed, device_name())


def _curves(trace: Trace, seeds: tuple[int, ...], at: int, limits: Limits) -> LearningCurves:
    """The block's curves as NumPy arrays; a loss that is no number ends the run."""
    losses, returns = np.asarray(trace.losses), np.asarray(trace.returns)
    bad = np.argwhere(~np.isfinite(losses))  # agent, iteration, update, network
    if bad.size:
        agent, i, u, network = bad[np.lexsort((bad[:, 3], bad[:, 2], bad[:, 1]))][0]
        raise SolverError(
            f"The loss of the {NETWORKS[network]} network is no longer finite: agent with seed "
            f"{seeds[agent]}, iteration {at + i + 1}, update {u + 1}. {_cure(limits, at)}"
        )
    return LearningCurves(returns, np.asarray(trace.entropy), losses.mean(axis=2))


def _check_parameters(state: Any, after: int, limits: Limits, at: int) -> None:
    """Losses are computed before an update: a state is good only if its parameters are, too."""
    for name, parts in state.learner.networks.items():
        sizes = [float(np.abs(np.asarray(x)).max()) for x in parts.values()]
        if not all(size <= LARGEST for size in sizes):  # max() passes over NaN
            raise SolverError(
                f"The parameters of the {name} network have run away (largest {np.max(sizes):.3g}) "
                f"by iteration {after}. {_cure(limits, at)}"
            )


def _cure(limits: Limits, at: int) -> str:
    kept = ""
    if limits.checkpoint is not None and at > 0:
        kept = (
            f"The checkpoint {Path(limits.checkpoint).name} keeps the last good state (iteration "
            f"{at}), and can be resumed with lower rates. "
        )
    return (
        f"{kept}Lower the learning rates or target_rate; if states run away, give the models a "
        "box (clip)."
    )


def _live(line: LiveLine, label: str, iterations: int) -> Notify:
    """One live line on a terminal, nothing in a pipe."""

    def notify(at: int, part: LearningCurves, seconds: float) -> None:
        value = float(part.returns[:, -1].mean())
        text = f"{label}: iteration {at} of {iterations}, return {value:.3g}, {seconds:.0f} s"
        line.update(lambda: text)

    return notify


def device_name() -> str:
    """What JAX computes on, in words: "NVIDIA H200", "cpu"."""
    device = jax.devices()[0]
    return str(device.device_kind if device.platform != "cpu" else "cpu")


def digest(plan: Plan, world: Traced, data: Data, seeds: tuple[int, ...]) -> str:
    """SHA-256 of arrays and settings that a run depends on (not of rates or a user's functions)."""
    settings = {name: value for name, value in asdict(plan).items() if name not in RATES}
    out = hashlib.sha256(json.dumps([settings, list(seeds)], sort_keys=True).encode())
    out.update(type(world.dynamics).__name__.encode())
    for place, leaf in jax.tree_util.tree_flatten_with_path(data)[0]:
        out.update(jax.tree_util.keystr(place).encode() + np.asarray(leaf).tobytes())
    return out.hexdigest()


def rates_of(plan: Plan) -> dict[str, list[float]]:
    """The rates that a run may change on its way."""
    return {name: np.atleast_1d(getattr(plan, name)).tolist() for name in RATES}


def save_training(
    path: str | Path, own: str, plan: Plan, state: State, curves: LearningCurves
) -> None:
    """Write state and curves, atomically."""
    leaves, _ = jax.tree_util.tree_flatten_with_path(state)
    arrays: dict[str, Any] = {_name(at): np.asarray(leaf) for at, leaf in leaves}
    arrays |= {f"curve:{k}": getattr(curves, k) for k in LearningCurves.__slots__}
    meta = {"run": own, "iteration": int(np.asarray(state.iteration)[0]), "jax": jax.__version__}
    meta |= {"rates": rates_of(plan)}
    write_npz(path, FORMAT, VERSION, arrays | {"meta": np.array(json.dumps(meta))})


def load_training(
    path: str | Path, own: str, plan: Plan, like: State
) -> tuple[State, LearningCurves]:
    """Read what `save_training` wrote, for the same run; `like` has the shapes of its state."""
    arrays = read_npz(path, FORMAT, VERSION)
    try:
        meta = json.loads(str(arrays["meta"]))
        if meta["run"] != own:
            raise _unusable(path, "it belongs to other models, settings or seeds")
        if meta["rates"] != rates_of(plan):
            warnings.warn(
                f"The checkpoint {Path(path).name} was trained with other learning rates "
                f"({meta['rates']}); those of now ({rates_of(plan)}) count from iteration "
                f"{meta['iteration'] + 1} on.",
                stacklevel=3,
            )
        places, tree = jax.tree_util.tree_flatten_with_path(like)
        leaves = [_leaf(arrays[_name(at)], shape) for at, shape in places]
        curves = LearningCurves(*(arrays[f"curve:{k}"] for k in LearningCurves.__slots__))
    except (KeyError, TypeError, json.JSONDecodeError) as error:
        raise _unusable(path, f"it is damaged ({error})") from None
    return jax.tree_util.tree_unflatten(tree, leaves), curves


def _name(path: Any) -> str:
    return f"state:{jax.tree_util.keystr(path)}"


def _leaf(found: NDArray[Any], like: Any) -> Any:
    if found.shape != like.shape or found.dtype != like.dtype:
        raise TypeError(f"an array of {found.shape} where {like.shape} belongs")
    return jnp.asarray(found)


def _unusable(path: str | Path, reason: str) -> InputError:
    return InputError(
        f"The checkpoint '{Path(path).name}' cannot be resumed: {reason}. "
        "Remove the file, or name another, to start afresh."
    )
