"""Logs from Gymnasium environments and from Minari datasets.

Discrete observations give a `TransitionLog`; vectors give a `ContinuousLog`, which `Bins` turns
into a table. A step that terminates its episode is marked; one that is cut off (truncated) is not.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from softrobust.data.continuous import ContinuousLog
from softrobust.data.labels import Labels
from softrobust.data.log import TransitionLog
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

    def act(observation: Any) -> Any:
        return world.action_space.sample() if policy is None else policy(observation)

    columns: dict[str, list[Any]] = {k: [] for k in _COLUMNS}
    episode = 0
    s, _ = world.reset(seed=seed)
    for _ in range(steps):
        a = act(s)
        s_next, reward, terminated, truncated, _ = world.step(a)
        row = (s, a, s_next, float(reward), episode, bool(terminated))
        for name, value in zip(_COLUMNS, row, strict=True):
            columns[name].append(np.copy(value) if isinstance(value, np.ndarray) else value)
        s = s_next
        if terminated or truncated:
            episode += 1
            s, _ = world.reset()
    source = "the environment"
    if isinstance(env, str):
        world.close()
        source = env
    return _log(columns, world.observation_space, world.action_space, source)


def read_minari(dataset: Any) -> Log:
    """Read a Minari dataset: the object, the folder it lies in, or the name of a local one."""
    minari = _need("minari", "Reading a Minari dataset")
    data = dataset
    if isinstance(dataset, (str, Path)):
        folder = Path(dataset)
        inner = folder / "data" if (folder / "data").is_dir() else folder
        try:
            data = (
                minari.MinariDataset(inner)
                if folder.exists()
                else minari.load_dataset(str(dataset))
            )
        except (FileNotFoundError, OSError, KeyError, ValueError) as error:
            raise InputError(
                f"'{dataset}' is no local Minari dataset ({error}). Give its folder, or download "
                "it first with `minari download`."
            ) from None
    columns: dict[str, list[Any]] = {k: [] for k in _COLUMNS}
    for number, episode in enumerate(data.iterate_episodes()):
        seen = episode.observations
        if isinstance(seen, (dict, tuple)):
            raise InputError(
                "Only discrete or vector observations can be read; this dataset has others."
            )
        for t in range(len(episode.actions)):
            row = (
                seen[t], episode.actions[t], seen[t + 1], float(episode.rewards[t]),
                number, bool(episode.terminations[t]),
            )  # fmt: skip
            for name, value in zip(_COLUMNS, row, strict=True):
                columns[name].append(value)
    return _log(columns, data.observation_space, data.action_space, f"the dataset {dataset}")


_COLUMNS = ("s", "a", "s_next", "reward", "episode", "terminal")


def _log(columns: dict[str, list[Any]], observations: Any, actions: Any, source: str) -> Log:
    if not columns["s"]:
        raise InputError(f"A log needs at least one transition: {source} has none.")
    if not hasattr(actions, "n"):
        raise InputError(
            f"Actions must be discrete; {source} has {actions}. Discretise them before the log."
        )
    first = int(getattr(actions, "start", 0))
    names = Labels(tuple(str(first + i) for i in range(int(actions.n))), noun="action")
    rest = [columns[k] for k in ("reward", "episode", "terminal")]
    a = [int(x) for x in columns["a"]]
    if hasattr(observations, "n"):
        zero = int(getattr(observations, "start", 0))
        states = Labels(tuple(str(zero + i) for i in range(int(observations.n))), noun="state")
        return TransitionLog.from_arrays(
            [int(x) for x in columns["s"]], a, [int(x) for x in columns["s_next"]], *rest,
            state_names=states, action_names=names, source=source,
        )  # fmt: skip
    s = np.array([np.ravel(x) for x in columns["s"]], dtype=np.float64)
    s_next = np.array([np.ravel(x) for x in columns["s_next"]], dtype=np.float64)
    return ContinuousLog.from_arrays(
        s, np.array(a), s_next, *rest, action_names=names, source=source
    )


def _need(package: str, purpose: str) -> Any:
    import importlib

    try:
        return importlib.import_module(package)
    except ImportError as error:
        raise MissingExtraError(package, "gym", purpose) from error
