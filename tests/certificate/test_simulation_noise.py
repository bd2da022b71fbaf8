"""Figures under much simulation noise: intervals cover, and a gain keeps its sign."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import norm

from softrobust.certificate import certify, paired_difference
from softrobust.certificate.intervals import MUCH, Noise, noise_of, shrunk
from softrobust.models import CallableModels, ConstantPolicy, LinearReward
from softrobust.objective import SoftRobust, cvar
from softrobust.problem import ContinuousProblem
from softrobust.returns import Simulation, simulate
from tests.certificate.test_simulated import on_models, on_posterior

GOAL = SoftRobust(0.75, 0.9)
TAIL = -norm.pdf(norm.ppf(0.1)) / 0.1  # CVaR of the standard normal at α = 0.9
RUNS = 120


def normal(rng: np.random.Generator, n: int, ratio: float, episodes: int = 20) -> Simulation:
    """Averages have noise of deviation 1, expected returns the deviation `ratio`."""
    mu = ratio * rng.standard_normal(n)
    x = mu[:, None] + np.sqrt(episodes) * rng.standard_normal((n, episodes))
    return Simulation(x, np.full(n, 1 / n), 0.0, 0.0, None)


@pytest.mark.parametrize("ratio", [0.0, 0.3, 1.0, 3.0])
def test_held_out_intervals_cover_whatever_the_noise(ratio: float) -> None:
    rng = np.random.default_rng(int(10 * ratio))
    hits = []
    for _ in range(RUNS):
        found = on_posterior(normal(rng, 300, ratio), GOAL).cvar
        assert found.low is not None
        assert found.high is not None
        hits.append(found.low <= ratio * TAIL <= found.high)
    assert np.mean(hits) > 0.9  # 95 %, less three standard errors of 120 runs


@pytest.mark.parametrize("ratio", [0.0, 0.3, 1.0])
def test_intervals_on_given_models_cover(ratio: float) -> None:
    rng = np.random.default_rng(5 + int(10 * ratio))
    hits = []
    for _ in range(RUNS):
        mu = ratio * rng.standard_normal(50)
        x = mu[:, None] + np.sqrt(20) * rng.standard_normal((50, 20))
        f = np.full(50, 1 / 50)
        found = on_models(Simulation(x, f, 0.0, 0.0, None), GOAL).cvar
        assert found.low is not None
        assert found.high is not None
        hits.append(found.low <= cvar(mu, f, 0.9) <= found.high)
    assert np.mean(hits) > 0.9


def test_the_share_of_noise() -> None:
    rng = np.random.default_rng(0)
    for ratio in (0.0, 1.0, 3.0):
        sim = normal(rng, 4000, ratio)
        noise = noise_of(sim.returns, sim.f)
        assert noise.share == pytest.approx(1 / (1 + ratio**2), abs=0.06)
        assert noise.low <= noise.mid <= noise.high
        true = ratio / np.sqrt(1 + ratio**2)
        assert noise.low <= true <= noise.high
    calm = np.repeat(np.arange(5.0)[:, None], 4, axis=1)
    assert noise_of(calm, np.full(5, 0.2)) == Noise(0.0, 1.0, 1.0, 1.0)
    assert shrunk(calm, np.full(5, 0.2), 0.5).tolist() == [1.0, 1.5, 2.0, 2.5, 3.0]


def gamble(s: NDArray[np.float64], a: NDArray[np.int64], omega: object, rng: np.random.Generator
           ) -> NDArray[np.float64]:  # fmt: skip
    return np.asarray(a[:, None] * rng.standard_normal(s.shape))


def test_models_that_agree_do_not_make_a_gamble_look_bad() -> None:
    """All models are the same: safe pays −0.02 a step, risky pays 0 on average in every one."""

    def models(n: int) -> CallableModels:
        return CallableModels(gamble, n, ["x"], ["safe", "risky"])

    reward = LinearReward([0.0], [1.0], action=[-0.02, 0.0])
    problem = ContinuousProblem(models(50), [[0.0]], reward, 0.9, 30, GOAL)
    safe, risky = (ConstantPolicy(n, problem.variables, problem.actions) for n in ("safe", "risky"))
    true = -0.02 * (1 - 0.9**30) / 0.1
    for seed in range(4):
        sims = [simulate(problem, p, models(300), 30, seed) for p in (safe, risky)]
        gain = paired_difference(sims[0], sims[1], GOAL)
        assert gain.low is not None
        assert gain.high is not None
        assert gain.low <= true <= gain.high
        assert gain.value < 0
    for policy, episodes, noisy in ((risky, 30, True), (safe, 100, False)):
        found = certify(problem, policy, models(300), episodes=episodes).sample.simulation
        assert found is not None
        assert (found.noise_share > MUCH) == noisy
