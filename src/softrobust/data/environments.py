"""Logs from Gymnasium environments and from Minari datasets.

Discrete observations give a `TransitionLog`; vectors give a `ContinuousLog`, which `Bins` turns
into a table. A step that terminates its episode is marked; one that is cut off (truncated) is not.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from softrobust._core.arguments import names_arguments
from softrobust._core.settings import refused
from softrobust.data.continuous import ContinuousLog
from softrobust.data.labels import Labels
from softrobust.data.log import TransitionLog
from softrobust.data.table import minari_columns, minari_dataset
from softrobust.errors import InputError, optional

Log = TransitionLog | ContinuousLog


@names_arguments
def roll_out(
    env: Any, policy: Callable[[Any], Any] | None = None, *, steps: int = 1000, seed: int = 0
) -> Log:
    """Run a policy in a Gymnasium environment and keep the log.

    Parameters
    ----------
    env : environment or registered name
    policy : callable observation → action, optional
        Any callable; by default actions are drawn from the action space.
    steps : int
        Transitions in all; episodes follow one another.
    """
    gymnasium = optional("gymnasium", "gym", "Rolling out an environment")
    try:
        world = gymnasium.make(env) if isinstance(env, str) else env
    except gymnasium.error.Error as error:
        raise InputError(f"There is no environment '{env}' ({error}). Check its name.") from None
    if not hasattr(world, "action_space"):
        raise refused("env", "a Gymnasium environment or its name", env, "")
    source = env if isinstance(env, str) else "the environment"
    if steps < 1:
        raise InputError(f"A log needs at least one step; {steps} were asked for.")
    if not hasattr(world.action_space, "n"):
        raise InputError(
            f"Actions must be discrete; {source} has {world.action_space}. Discretise them first."
        )
    world.action_space.seed(seed)
    rows: list[tuple[Any, ...]] = []
    episode = 0
    s, _ = world.reset(seed=seed)
    for _ in range(steps):
        a = world.action_space.sample() if policy is None else policy(s)
        s_next, reward, terminated, truncated, _ = world.step(a)
        rows.append((np.ravel(s).copy(), np.ravel(s_next).copy(), int(a), float(reward), episode,
                     bool(terminated)))  # fmt: skip
        s = s_next
        if terminated or truncated:
            episode += 1
            s, _ = world.reset()
    if isinstance(env, str):
        world.close()
    return _log(world, source, *(np.array(column) for column in zip(*rows, strict=True)))


@names_arguments
def read_minari(dataset: Any) -> Log:
    """Read a Minari dataset: the object, the folder it lies in, or the name of a local one."""
    data = minari_dataset(dataset) if isinstance(dataset, (str, Path)) else dataset
    c = minari_columns(data)
    variables = [name for name in c if f"next_{name}" in c]
    here, there = (np.column_stack([c[p + v] for v in variables]) for p in ("", "next_"))
    rest = (c[name] for name in ("action", "reward", "episode", "terminal"))
    return _log(data, f"the dataset {dataset}", here, there, *rest)


def _log(world: Any, source: str, here: Any, there: Any, a: Any, *rest: Any) -> Log:
    """A log of observations (n_rows, n_variables); `rest` are rewards, episodes and true ends."""
    names = _numbered(world.action_space, "action")
    if hasattr(world.observation_space, "n"):
        return TransitionLog.from_arrays(
            here[:, 0].astype(np.int64), a, there[:, 0].astype(np.int64), *rest,
            state_names=_numbered(world.observation_space, "state"), action_names=names,
            source=source,
        )  # fmt: skip
    return ContinuousLog.from_arrays(here, a, there, *rest, action_names=names, source=source)


def _numbered(space: Any, noun: str) -> Labels:
    """The names of a discrete space."""
    first = int(getattr(space, "start", 0))
    return Labels(tuple(str(first + i) for i in range(int(space.n))), noun=noun)
