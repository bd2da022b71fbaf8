"""Two simulated policies in pairs: a difference that is known, and none at all."""

from __future__ import annotations

import numpy as np
import pytest

from softrobust._core.arrays import frozen
from softrobust.certificate.comparison import blurred, paired
from softrobust.objective import Percentile, SoftRobust
from softrobust.returns.simulation import Simulation


def simulation(means: np.ndarray, noise: np.ndarray, f: np.ndarray | None = None) -> Simulation:
    N = means.size
    weights = np.full(N, 1 / N) if f is None else f
    returns = frozen(means[:, None] + noise, np.float64)
    return Simulation(returns, frozen(weights, np.float64), 0.0, 0.0, None)


def test_a_known_difference() -> None:
    rng = np.random.default_rng(0)
    N, E = 400, 20
    luck = rng.normal(size=(N, E))
    old = rng.normal(size=N)
    gain = 0.5 + rng.normal(size=N)  # positive with probability Φ(0.5) = 0.6915
    found = paired(
        simulation(old + gain, luck), simulation(old, luck), SoftRobust(0.5, 0.9), "old", True
    )
    assert found.chance.value == pytest.approx(float((gain > 0).mean()))
    assert found.chance.low is not None
    assert found.chance.high is not None
    assert found.chance.low < 0.6915 < found.chance.high
    assert found.mean.value == pytest.approx(float(gain.mean()), abs=1e-9)  # luck cancels
    assert found.mean.low is not None
    assert found.mean.high is not None
    assert found.mean.low < 0.5 < found.mean.high


def test_noise_pulls_a_likely_win_towards_one_half() -> None:
    rng = np.random.default_rng(1)
    gain = 0.5 + 0.3 * rng.normal(size=2000)
    chances = []
    for size in (0.0, 1.0, 5.0):
        mine, theirs = (size * rng.normal(size=(2000, 4)) for _ in range(2))
        new, old = simulation(gain, mine), simulation(np.zeros(2000), theirs)
        chances.append(paired(new, old, SoftRobust(), "old", True).chance.value)
        assert (blurred(new, old) > 0.5) == (size > 0)  # the noise of d is 0.7 a unit of size
    assert chances[0] > chances[1] > chances[2] > 0.5


def test_the_same_policy_ties_and_weights_count() -> None:
    luck, z = np.random.default_rng(2).normal(size=(50, 6)), np.linspace(0, 1, 50)
    same = paired(simulation(z, luck), simulation(z, luck), SoftRobust(), "practice", False)
    assert same.ties == pytest.approx(1.0)
    f = np.zeros(50)
    f[:10] = 0.1  # only the first ten models count, and there the new policy loses
    new = z + np.where(np.arange(50) < 10, -1.0, 1.0)
    found = paired(simulation(new, luck, f), simulation(z, luck, f), Percentile(0.8), "old", True)
    assert found.chance.value == 0.0
    assert found.mean.value == pytest.approx(-1.0)
    assert found.objective.low is None  # no interval for the percentile criterion
