"""Cancer: the eight returns of the specification, the batch, and the learner's reward."""

from __future__ import annotations

import numpy as np
import pytest

from softrobust.domains import CancerGrowth, CancerSimulator
from softrobust.errors import InputError
from softrobust.models import GaussianModels

t = np.arange(30)
SCHEDULES = {"never": t < 0, "always": t >= 0, "until 15": t <= 15, "until 4": t <= 4}


@pytest.mark.parametrize(
    ("penalty", "schedule", "wanted"),
    [
        (1.0, "never", -5.0), (1.0, "always", -6.4),
        (1.0, "until 15", -3.4), (1.0, "until 4", 4.2),
        (0.0, "never", -5.0), (0.0, "always", 16.3),
        (0.0, "until 15", 16.2), (0.0, "until 4", 14.1),
    ],
)  # fmt: skip
def test_schedule_returns(penalty: float, schedule: str, wanted: float) -> None:
    s, total = np.array([0.0, 7.13, 41.2, 0.0]), 0.0
    for step, dose in enumerate(SCHEDULES[schedule]):
        s, reward = CancerSimulator(penalty).step(s, dose)  # without noise
        total += 0.9**step * float(reward)
    assert total == pytest.approx(wanted, abs=0.05)


def test_one_step_by_hand() -> None:
    s_next, reward = CancerSimulator().step([1.0, 10.0, 40.0, 2.0], 1)
    C = 0.76 * 2.0
    kill = 0.729 * 0.24 * C
    P = 10 + 0.121 * 10 * (1 - 52 / 100) + 0.0031 * 2 - 0.0295 * 10 - kill * 10
    Q = 40 + 0.0295 * P - kill * 40
    Qp = 2 + kill * Q - (0.0031 + 0.00867) * 2
    np.testing.assert_allclose(s_next, [C, P, Q, Qp], rtol=1e-14)
    assert reward == pytest.approx(52 - (P + Q + Qp) - C)


def test_noise_is_a_share_of_the_value() -> None:
    world = CancerSimulator()
    s = np.tile([1.0, 10.0, 40.0, 2.0], (40_000, 1))
    noisy = world.step(s, np.ones(40_000), np.random.default_rng(0)).s_next
    clean = world.step(s[0], 1).s_next
    np.testing.assert_allclose(noisy.mean(axis=0), clean, rtol=1e-3)
    np.testing.assert_allclose(noisy.std(axis=0) / clean, 0.03, rtol=0.02)


def test_batch() -> None:
    log = CancerGrowth().collect(0)
    assert len(log) == 600
    assert log.episode is not None
    assert log.reward is not None
    step = np.tile(np.arange(30), 20)
    assert (log.a[step == 0] == 1).all()  # no random action at the start
    off = np.mean(log.a[step > 0] != (step[step > 0] <= 15))
    assert off == pytest.approx(0.05, abs=0.03)
    reward = log.s[:, 1:].sum(axis=1) - log.s_next[:, 1:].sum(axis=1) - log.s_next[:, 0]
    np.testing.assert_allclose(log.reward, reward, rtol=1e-12)
    np.testing.assert_array_equal(log.s[1:30], log.s_next[:29])


def test_problem_carries_all_that_is_known() -> None:
    problem = CancerGrowth(dose_penalty=0.5).problem(3, 7)
    models = problem.models
    assert isinstance(models, GaussianModels)
    assert problem.n_models == 7
    assert (problem.gamma, problem.horizon) == (0.9, 30)
    s, s_next = np.array([0.0, 7, 41, 0]), np.array([1.0, 6, 41, 1])
    assert problem.reward(s, 1, s_next) == pytest.approx(48 - 48 - 0.5)
    assert len(models.frame.feature_names) == 20
    # The mean of a model is close to the world where the data lie.
    clean = CancerSimulator().step([[0.0, 7.13, 41.2, 0.0]], [1]).s_next
    np.testing.assert_allclose(
        models.mean([[0.0, 7.13, 41.2, 0.0]], [1])[:, 0], np.tile(clean, (7, 1)), atol=1.0
    )


def test_refused() -> None:
    with pytest.raises(InputError, match="noise"):
        CancerGrowth(noise=-1.0)
    with pytest.raises(InputError, match="episode"):
        CancerGrowth(episodes=0)
