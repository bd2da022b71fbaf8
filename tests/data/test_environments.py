"""Logs from Gymnasium and Minari."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from softrobust.certificate import load_solution
from softrobust.cli.main import run as run_cli
from softrobust.data import TransitionLog, read_log
from softrobust.data.continuous import ContinuousLog, read_continuous_log
from softrobust.data.environments import read_minari, roll_out
from softrobust.domains import register_envs
from softrobust.errors import InputError
from softrobust.models.policy import Policy
from softrobust.run.folder import load_run

gymnasium: Any = pytest.importorskip("gymnasium")


def test_discrete_environment() -> None:
    register_envs()
    log = roll_out("softrobust/RiverSwim-v0", lambda s: 1, steps=150, seed=3)
    assert isinstance(log, TransitionLog)
    assert (log.n_rows, log.n_states, log.n_actions) == (150, 20, 2)
    assert log.episode is not None
    assert log.episode.max() == 1  # 100 steps an episode
    assert log.end is None  # cut off is not the end
    again = roll_out("softrobust/RiverSwim-v0", lambda s: 1, steps=150, seed=3)
    assert log.data_hash == again.data_hash


def test_ends_are_marked() -> None:
    log = roll_out(gymnasium.make("FrozenLake-v1"), steps=60, seed=0)
    assert isinstance(log, TransitionLog)
    assert log.end is not None


def test_vectors() -> None:
    log = roll_out("softrobust/CancerGrowth-v0", lambda s: int(s[1] > 5), steps=70)
    assert isinstance(log, ContinuousLog)
    assert log.s.shape == (70, 4)
    np.testing.assert_array_equal(log.s[1], log.s_next[0])
    with pytest.raises(InputError, match="Actions must be discrete"):
        roll_out("Pendulum-v1", steps=3)
    with pytest.raises(InputError, match="at least one step"):
        roll_out("softrobust/CancerGrowth-v0", steps=0)


@pytest.mark.parametrize("name", ["FrozenLake-v1", "softrobust/CancerGrowth-v0"])
def test_a_local_minari_dataset(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path))
    minari: Any = pytest.importorskip("minari")
    register_envs()
    env = gymnasium.make(name)
    episodes: list[Any] = []
    for seed in range(2):
        seen, done = [env.reset(seed=seed)[0]], False
        steps: list[tuple[int, float, bool, bool]] = []
        while not done and len(steps) < 8:
            a = int(env.action_space.sample())
            s, reward, terminated, truncated, _ = env.step(a)
            seen.append(s)
            steps.append((a, float(reward), terminated, truncated))
            done = terminated or truncated
        a_, r, ends, cuts = (list(x) for x in zip(*steps, strict=True))
        episodes.append(
            minari.data_collector.EpisodeBuffer(
                id=seed, observations=seen, actions=a_, rewards=r, terminations=ends,
                truncations=cuts, infos={},
            )
        )  # fmt: skip
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # Minari asks for metadata that no test needs
        made = minari.create_dataset_from_buffers("own/log-v0", episodes, env=env)
    log = read_minari(made)
    assert len(log) == made.total_steps
    by_path = read_minari(tmp_path / "own" / "log-v0")
    assert by_path.data_hash == read_minari("own/log-v0").data_hash == log.data_hash
    with pytest.raises(InputError, match="no local Minari dataset"):
        read_minari("own/nothing-v0")
    # On the command line it is a log like any other, by its name or by its folder.
    for source in ("minari:own/log-v0", str(tmp_path / "own" / "log-v0")):
        assert run_cli(["inspect", source]) == (0 if isinstance(log, TransitionLog) else 2)
    if isinstance(log, TransitionLog):
        out = tmp_path / "run"
        words = "--gamma 0.9 --models 10 --test-models 20 --replications 0 --quiet --out"
        assert run_cli(["solve", "minari:own/log-v0", *words.split(), str(out)]) == 0
        policy = load_solution(out).policy
        assert policy.actions.integers
        assert "minari:own/log-v0" in load_run(out).command
    else:
        by_table = read_continuous_log("minari:own/log-v0")
        np.testing.assert_array_equal(by_table.s, log.s)
    assert run_cli(["inspect", "minari:own/nothing-v0"]) == 2


def test_integers_in_a_frame_come_back_as_integers() -> None:
    columns = {"state": [0, 1], "next_state": [1, 0], "reward": [1.0, 0.0]}
    for actions, integers in (([3, 5], True), (["3", "5"], False), (["a", "b"], False)):
        log = read_log(columns | {"action": actions})
        assert log.actions.integers is integers
        policy = Policy.from_decision([1, 0], log.states, log.actions)
        assert policy.action(0) == actions[1]
