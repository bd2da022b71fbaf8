"""Current practice from a log of vectors: found where it is there, and not where it is not."""

from __future__ import annotations

import numpy as np
import pytest

from softrobust.data.continuous import ContinuousLog
from softrobust.solvers.continuous.behaviour import continuous_behaviour


def log_of(s: np.ndarray, p: np.ndarray, seed: int = 0, episodes: int = 20) -> ContinuousLog:
    """Actions 0, 1, … drawn with probabilities p (n, A)."""
    rng = np.random.default_rng(seed)
    a = (rng.random((len(s), 1)) > np.cumsum(p, axis=1)).sum(axis=1)
    names = [str(i) for i in range(p.shape[1])]
    return ContinuousLog.from_arrays(
        s, a, s, episode=np.arange(len(s)) % episodes, action_names=names
    )


def softmax(z: np.ndarray) -> np.ndarray:
    e = np.exp(z - z.max(axis=1, keepdims=True))
    return np.asarray(e / e.sum(axis=1, keepdims=True))


@pytest.mark.parametrize("degree", [0, 1, 2])
def test_the_policy_behind_the_log_is_found(degree: int) -> None:
    rng = np.random.default_rng(degree)
    s = rng.normal(size=(6000, 2)) * [3.0, 0.1] + [10.0, -1.0]
    z = (s - [10.0, -1.0]) / [3.0, 0.1]
    logits = np.zeros((6000, 3))
    logits[:, 1] = 0.4
    if degree >= 1:
        logits[:, 1] += 1.5 * z[:, 0]
        logits[:, 2] -= z[:, 1]
    if degree == 2:
        logits[:, 2] += 1.2 * z[:, 0] * z[:, 1]
    truth = softmax(logits)
    found = continuous_behaviour(log_of(s, truth))
    assert found.degree == degree
    assert np.abs(found.policy.probs(s) - truth).max(axis=1).mean() < 0.03
    assert sum(found.shares) == pytest.approx(1.0)
    assert (found.gain > 0) == (degree > 0)
    assert (found.gain > 0) == (degree > 0)


def test_certain_practice_and_one_action() -> None:
    s = np.random.default_rng(0).normal(size=(300, 1))
    certain = continuous_behaviour(log_of(s, np.stack([s[:, 0] < 0, s[:, 0] >= 0], axis=1) * 1.0))
    assert certain.policy.probs([[-1.0], [1.0]])[[0, 1], [0, 1]].min() > 0.95
    one = continuous_behaviour(log_of(s, np.ones((300, 1))))
    assert one.policy.probs([[5.0]]).tolist() == [[1.0]]


def test_constant_measurements_and_few_rows() -> None:
    s = np.column_stack([np.full(200, 4.0), np.random.default_rng(1).normal(size=200)])
    found = continuous_behaviour(log_of(s, np.full((200, 2), 0.5)))
    assert found.degree == 0
    assert np.isfinite(found.policy.probs([[1e9, 0.0]])).all()
    few = continuous_behaviour(log_of(s[:3], np.full((3, 2), 0.5)))
    assert few.degree == 0
