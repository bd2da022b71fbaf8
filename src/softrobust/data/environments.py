"""Logs from Gymnasium environments and from Minari datasets.

Discrete observations give a `TransitionLog`; vectors give a `ContinuousLog`, which `Bins` turns
into a table. A step that terminates its episode is marked; one that is cut off (truncated) is not.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from softrobust.data.continuous import ContinuousLog
from softrobust.data.labels import Labels
from softrobust.data.log import TransitionLog
from softrobust.data.table import minari_columns, minari_dataset
from softrobust.errors import InputError, MissingExtraError

Log = TransitionLog | ContinuousLog


def roll_out(
    env: Any,
    policy: Callable[[Any], Any] | None = None,
    *,
    steps: int = 1000,
    seed: int = 0,
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
    gymnasium = _need("gymnasium", "Rolling out an environment")
    world = gymnasium.make(env) if isinstance(env, str) else env
    if steps < 1:
        raise InputError(f"A log needs at least one step; {steps} were asked for.")
    world.action_space.seed(seed)
    rows: list[tuple[Any, ...]] = []
    episode = 0
    s, _ = world.reset(seed=seed)
    for _ in range(steps):
        a = world.action_space.sample() if policy is None else policy(s)
        s_next, reward, terminated, truncated, _ = world.step(a)
        rows.append((np.copy(s), np.copy(a), np.copy(s_next), reward, episode, terminated))
        s = s_next
        if terminated or truncated:
            episode += 1
            s, _ = world.reset()
    if isinstance(env, str):
        world.close()
    source = env if isinstance(env, str) else "the environment"
    return _log(rows, world.observation_space, world.action_space, source)


def read_minari(dataset: Any) -> Log:
    """Read a Minari dataset: the object, the folder it lies in, or the name of a local one."""
    data = minari_dataset(dataset) if isinstance(dataset, (str, Path)) else dataset
    c, source = minari_columns(data), f"the dataset {dataset}"
    names = _numbered(data.action_space, "action")
    rest = (c["reward"], c["episode"], c["terminal"])
    if "state" in c:
        return TransitionLog.from_arrays(
            c["state"], c["action"], c["next_state"], *rest,
            state_names=_numbered(data.observation_space, "state"), action_names=names,
            source=source,
        )  # fmt: skip
    variables = [name for name in c if f"next_{name}" in c]
    here, there = (np.column_stack([c[p + v] for v in variables]) for p in ("", "next_"))
    return ContinuousLog.from_arrays(
        here, c["action"], there, *rest, action_names=names, source=source
    )


def _log(rows: list[tuple[Any, ...]], observations: Any, actions: Any, source: str) -> Log:
    if not rows:
        raise InputError(f"A log needs at least one transition: {source} has none.")
    if not hasattr(actions, "n"):
        raise InputError(
            f"Actions must be discrete; {source} has {actions}. Discretise them before the log."
        )
    s, a, s_next, reward, episode, terminal = (list(column) for column in zip(*rows, strict=True))
    rest = (np.array(reward, dtype=np.float64), episode, np.array(terminal, dtype=bool))
    names = _numbered(actions, "action")
    acts = [int(x) for x in a]
    if hasattr(observations, "n"):
        return TransitionLog.from_arrays(
            [int(x) for x in s], acts, [int(x) for x in s_next], *rest,
            state_names=_numbered(observations, "state"), action_names=names, source=source,
        )  # fmt: skip
    here, there = (np.array([np.ravel(x) for x in column], float) for column in (s, s_next))
    return ContinuousLog.from_arrays(here, acts, there, *rest, action_names=names, source=source)


def _numbered(space: Any, noun: str) -> Labels:
    """The names of a discrete space."""
    first = int(getattr(space, "start", 0))
    return Labels(tuple(str(first + i) for i in range(int(space.n))), noun=noun)


def _need(package: str, purpose: str) -> Any:
    try:
        return import_module(package)
    except ImportError as error:
        raise MissingExtraError(package, "gym", purpose) from error
