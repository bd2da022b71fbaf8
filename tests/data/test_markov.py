"""Is the state enough? The check stays silent where it is, and speaks where it is not."""

from __future__ import annotations

import math

import numpy as np
import pytest

from softrobust.data import TransitionLog, markov_check
from softrobust.errors import InputError


def chain(memory: float, n_episodes: int = 150, seed: int = 0, n: int = 4) -> TransitionLog:
    """Episodes of 12 steps; with probability `memory` a step follows a rule of the state before."""
    rng = np.random.default_rng(seed)
    P = rng.dirichlet(np.ones(n), size=(n, 2))
    Q = rng.dirichlet(np.full(n, 0.3), size=(n, n, 2))
    rows = []
    for episode in range(n_episodes):
        before = now = int(rng.integers(n))
        for _ in range(12):
            action = int(rng.integers(2))
            p = (1 - memory) * P[now, action] + memory * Q[before, now, action]
            after = int(rng.choice(n, p=p))
            rows.append((now, action, after, episode))
            before, now = now, after
    s, a, s_next, episode_of = (list(column) for column in zip(*rows, strict=True))
    return TransitionLog.from_arrays(s, a, s_next, None, episode_of)


def test_markov_chains_pass() -> None:
    checks = [markov_check(chain(0.0, seed=seed)) for seed in range(12)]
    # Two standard errors on one side: 2.3 % each if the gain were centred at 0, which it is not.
    assert sum(check.gains[0].helps for check in checks) <= 1
    assert not any(check.verdict == "helps" for check in checks)
    assert checks[0].verdict == "no sign"


def test_memory_is_found() -> None:
    checks = [markov_check(chain(0.5, seed=seed)) for seed in range(6)]
    assert all(check.verdict == "helps" for check in checks)


def test_the_gain_of_a_known_process() -> None:
    """s′ repeats the state before last with probability .9: the gain is that entropy's fall."""
    rng = np.random.default_rng(1)
    rows = []
    for episode in range(200):
        before, now = int(rng.integers(2)), int(rng.integers(2))
        for _ in range(12):
            after = before if rng.random() < 0.9 else 1 - before
            rows.append((now, after, episode))
            before, now = now, after
    s, s_next, episodes = (list(column) for column in zip(*rows, strict=True))
    check = markov_check(TransitionLog.from_arrays(s, [0] * len(s), s_next, None, episodes))
    # Before last and now are independent fair coins, so that s′ given now is one as well.
    fall = math.log(2) + 0.9 * math.log(0.9) + 0.1 * math.log(0.1)
    top = check.gains[0]
    assert top.gain == pytest.approx(fall, abs=4 * top.error)
    assert top.error < 0.05


def test_the_column_that_matters_is_named() -> None:
    rng = np.random.default_rng(2)
    rows = []
    for episode in range(200):
        x, y, was = (int(v) for v in rng.integers(0, 2, 3))
        for _ in range(10):
            after = was if rng.random() < 0.85 else 1 - was
            other = int(rng.integers(2))
            rows.append((f"x={x}|y={y}", f"x={after}|y={other}", episode))
            was, x, y = x, after, other
    s, s_next, episodes = (list(column) for column in zip(*rows, strict=True))
    log = TransitionLog.from_arrays(s, ["u"] * len(s), s_next, None, episodes)
    check = markov_check(log)
    gains = {gain.column: gain for gain in check.gains if gain.before == "column"}
    assert gains["x"].helps
    assert not gains["y"].helps


def test_folds_are_made_of_whole_groups() -> None:
    """Rows of one id repeated: with ids as groups the error grows, the gain stays."""
    log = chain(0.3, 60)
    assert log.episode is not None
    twice = TransitionLog.from_arrays(
        np.tile(log.s, 4), np.tile(log.a, 4), np.tile(log.s_next, 4), None,
        np.concatenate([log.episode + 60 * k for k in range(4)]),
    )  # fmt: skip
    apart = markov_check(twice)
    assert twice.episode is not None
    together = markov_check(twice, groups=twice.episode % 60)
    assert together.n_groups == 60
    assert together.gains[0].gain < apart.gains[0].gain  # copies leak into the other folds
    assert together.gains[0].error > apart.gains[0].error


def test_too_little_to_tell() -> None:
    log = chain(0.5, 4)
    assert markov_check(log).verdict == "cannot tell"
    assert markov_check(log).reason == "too few"
    bare = TransitionLog.from_arrays([0, 1], [0, 0], [1, 0])
    assert markov_check(bare).reason == "no episodes"
    with pytest.raises(InputError, match="one entry per row"):
        markov_check(log, groups=[1, 2])


def test_breaks_in_a_chain_are_no_neighbours() -> None:
    log = TransitionLog.from_arrays([0, 1, 5], [0, 0, 0], [1, 2, 6], None, [0, 0, 0])
    assert markov_check(log).n_rows == 1


def test_the_record_is_plain() -> None:
    import json

    record = json.loads(json.dumps(markov_check(chain(0.5)).to_dict(), allow_nan=False))
    assert record["verdict"] == "helps"
    assert record["gains"][0]["before"] == "state"
