"""A whole training run: blocks one after the other, with limits, checkpoints and a watch on NaN.

Blocks start at multiples of `block` iterations, whatever stopped a run before: a run that is taken
up again computes the same blocks from the same state, hence the same numbers on the same device.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, final

import numpy as np
from numpy.typing import NDArray

from softrobust.errors import InputError, MissingExtraError, SolverError
from softrobust.solvers.base import Deadline, Status
from softrobust.solvers.progress import LiveLine
from softrobust.solvers.sac.checkpoint import Curves, digest, load_checkpoint, save_checkpoint
from softrobust.solvers.sac.training import Trace, compiled_block, compiled_start
from softrobust.solvers.sac.update import NETWORKS

if TYPE_CHECKING:
    from softrobust.solvers.sac.update import Plan
    from softrobust.solvers.sac.worlds import Data, World

LARGEST = 1e8  # of a parameter: what follows is no longer a number

Notify = Callable[[int, "Curves", float], None]  # iterations made, the last block's curves, seconds


@final
@dataclass(frozen=True, slots=True)
class Limits:
    """How long to train, in what pieces, where to keep checkpoints, and whom to tell."""

    iterations: int
    block: int
    time_limit: float | None = None
    checkpoint: str | None = None
    notify: Notify | None = None


@final
@dataclass(frozen=True, slots=True, eq=False)
class Trained:
    """The agents after training.

    Attributes
    ----------
    networks : dict
        By network and array: parameters with a leading axis of agents, as NumPy arrays.
    status : Status
        `iteration_limit` when all iterations are made, else what stopped them.
    device : str
    """

    networks: dict[str, dict[str, NDArray[np.float32]]]
    curves: Curves
    iterations: int
    status: Status
    seconds: float
    device: str


def train(
    plan: Plan, world: World, data: Data, seeds: tuple[int, ...], limits: Limits, label: str
) -> Trained:
    """Train one agent per seed, side by side."""
    jax = import_jax()
    clock, line = Deadline(limits.time_limit), LiveLine()
    notify = limits.notify or _line(line, label, limits.iterations)
    own = digest(plan, world, data, seeds)
    _check_folder(limits)
    state = compiled_start(plan)(np.array(seeds, np.uint32))
    curves, status = Curves.empty(len(seeds)), Status.ITERATION_LIMIT
    if limits.checkpoint is not None and Path(limits.checkpoint).exists():
        state, curves = load_checkpoint(limits.checkpoint, own, plan, state)
        _check_length(limits, curves)
    at = begun = curves.returns.shape[1]
    last = 0.0
    try:
        while at < limits.iterations:
            begin = clock.elapsed
            # A block that would pass the limit is not begun; the first one always is.
            if at > begun and last >= clock.left:
                status = Status.TIME_LIMIT
                break
            length = min(limits.block - at % limits.block, limits.iterations - at)
            after, trace = compiled_block(plan, world, length)(state, data)
            part = _curves(trace, seeds, at, limits)
            _check_parameters(after, at + length, limits, at)
            # How long a block takes is known from the second on: the first is compiled, too.
            last = clock.elapsed - begin if at > begun else 0.0
            state, curves, at = after, curves.joined(part), at + length
            if limits.checkpoint is not None:
                save_checkpoint(limits.checkpoint, own, plan, state, curves)
            notify(at, part, clock.elapsed)
    except KeyboardInterrupt:
        if at == 0:
            raise
        status = Status.INTERRUPTED
    line.clear()
    networks = jax.tree_util.tree_map(np.asarray, state.learner.networks)
    return Trained(networks, curves, at, status, clock.elapsed, device_name())


def _curves(trace: Trace, seeds: tuple[int, ...], at: int, limits: Limits) -> Curves:
    """The block's curves as NumPy arrays; a loss that is no number ends the run."""
    losses, returns = np.asarray(trace.losses), np.asarray(trace.returns)
    bad = np.argwhere(~np.isfinite(losses))  # agent, iteration, update, network
    if bad.size:
        agent, i, u, network = bad[np.lexsort((bad[:, 3], bad[:, 2], bad[:, 1]))][0]
        raise SolverError(
            f"The loss of the {NETWORKS[network]} network is no longer finite: agent with seed "
            f"{seeds[agent]}, iteration {at + i + 1}, update {u + 1}. {_cure(limits, at)}"
        )
    return Curves(returns, np.asarray(trace.entropy), losses.mean(axis=2))


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


def _check_folder(limits: Limits) -> None:
    if limits.checkpoint is not None and not Path(limits.checkpoint).resolve().parent.is_dir():
        raise InputError(
            f"The folder of the checkpoint '{limits.checkpoint}' does not exist. Make it first."
        )


def _check_length(limits: Limits, curves: Curves) -> None:
    have = curves.returns.shape[1]
    if have > limits.iterations:
        raise InputError(
            f"The checkpoint {Path(str(limits.checkpoint)).name} is at iteration {have}, beyond "
            f"the {limits.iterations} asked for. Set iterations={have} or more, or remove the file."
        )


def _line(line: LiveLine, label: str, iterations: int) -> Notify:
    """One live line on a terminal, nothing in a pipe."""

    def notify(at: int, part: Curves, seconds: float) -> None:
        value = float(part.returns[:, -1].mean())
        text = f"{label}: iteration {at} of {iterations}, return {value:.3g}, {seconds:.0f} s"
        line.update(lambda: text)

    return notify


def device_name() -> str:
    """What JAX computes on, in words: "NVIDIA H200", "cpu"."""
    device = import_jax().devices()[0]
    return str(device.device_kind if device.platform != "cpu" else "cpu")


def import_jax() -> Any:
    """The module jax, with optax beside it, or the line that installs them."""
    try:
        import jax
        import optax
    except ImportError as error:
        raise MissingExtraError("optax", "deep", "Soft actor-critic") from error
    del optax
    return jax
