"""Episodes of vectors that end for good: learned, simulated, and seen by value iteration."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy.special import expit

from softrobust.data.continuous import ContinuousLog
from softrobust.models import ConstantPolicy
from softrobust.models.continuous_rewards import fit_linear_reward
from softrobust.models.expectation import expectation_of
from softrobust.models.features import PolynomialFeatures
from softrobust.models.gaussian import load_gaussian, save_gaussian
from softrobust.posterior.regression import RegressionPosterior
from softrobust.problem import ContinuousProblem
from softrobust.returns import simulate
from softrobust.solvers.continuous.srvi import SRVI
from tests.continuous_instances import linear_models

THETA = np.array([-1.5, 2.0, -1.0])  # constant, x, action: on protects


def ended_log(n: int = 2000, seed: int = 0) -> ContinuousLog:
    """x decays with noise; an episode ends with expit(θ·(1, x, a)), which costs 3."""
    rng = np.random.default_rng(seed)
    x, a = rng.uniform(0, 2, (n, 1)), rng.integers(0, 2, n)
    end = rng.random(n) < expit(THETA[0] + THETA[1] * (x[:, 0] - 1) + THETA[2] * a)
    to = 0.8 * x + 0.1 * rng.standard_normal((n, 1))
    reward = to[:, 0] - 0.2 * a - 3.0 * end
    return ContinuousLog.from_arrays(
        x, a, to, reward, np.arange(n), end, variables=["x"], action_names=["0", "1"]
    )


def test_hazards_and_their_reward_are_learned() -> None:
    log = ended_log()
    reward, r2, end = fit_linear_reward(log)
    assert end == pytest.approx(-3.0, abs=1e-9)
    assert r2 == pytest.approx(1.0)
    assert reward.next[0] == pytest.approx(1.0)
    models = RegressionPosterior().fit(log).sample(200, seed=1)
    s, a = np.array([[0.2], [1.0], [1.8], [1.0]]), np.array([0, 0, 0, 1])
    truth = expit(THETA[0] + THETA[1] * (s[:, 0] - 1) + THETA[2] * a)
    q = models.ends(s, a)
    assert q is not None
    error = q.std(axis=0)
    assert (np.abs(q.mean(axis=0) - truth) <= 4 * error).all()
    assert (error < 0.06).all()
    one = models.ends(s, a, np.array([3, 3, 3, 3]))
    assert one is not None
    np.testing.assert_allclose(one, q[3], rtol=1e-12)
    plain = RegressionPosterior().fit(replace(log, terminal=None)).sample(200, seed=1)
    np.testing.assert_array_equal(plain.weights, models.weights)
    assert plain.ends(s, a) is None


def ending(n: int = 3, theta: float = -1.0, end: float = -2.0) -> tuple[Any, Any]:
    """Models that end with the same probability everywhere: their problem, and without ends."""
    models = linear_models(n, noise=0.2)
    weights = np.zeros((n, models.n_variables + 2))
    weights[:, 0] = theta
    frame = replace(models.frame, reward_end=end)
    ends = replace(models, frame=frame, end_weights=weights)
    return ContinuousProblem(ends), ContinuousProblem(models)


def test_nothing_is_earned_after_an_end() -> None:
    problem, never = ending()
    policy = ConstantPolicy("on", problem.variables, problem.actions)
    found = simulate(problem, policy, episodes=4000, seed=1).returns
    # E = Σ_t γ^t (1 − q)^t (E[r_t] + q·end), with E[r_t] from episodes that do not end.
    q, gamma, T = float(expit(-1.0)), problem.gamma, problem.horizon
    parts = []
    for t in range(1, T + 1):
        short = replace(never, horizon=t)
        parts.append(simulate(short, policy, episodes=4000, seed=1).returns.mean(axis=1))
    steps = np.diff(np.array([np.zeros(3), *parts]), axis=0)
    alive = (1 - q) ** np.arange(T)
    expected = alive @ steps + q * -2.0 * (gamma ** np.arange(T) @ alive)
    error = found.std(axis=1) / np.sqrt(4000)
    assert (np.abs(found.mean(axis=1) - expected) <= 5 * error + 1e-3).all()


def test_certain_ends_leave_one_step(tmp_path: pytest.TempPathFactory) -> None:
    problem, never = ending(theta=50.0, end=-2.0)
    policy = ConstantPolicy("on", problem.variables, problem.actions)
    once = simulate(replace(never, horizon=1), policy, episodes=20, seed=3).returns
    np.testing.assert_allclose(simulate(problem, policy, episodes=20, seed=3).returns, once - 2.0)
    solution = SRVI(iterations=30, episodes=5, batch=50, ridge=0.1).solve(problem)
    assert solution.model_value is not None
    assert abs(solution.model_value) < 20.0
    save_gaussian(f"{tmp_path}/models.npz", problem.models)
    again = load_gaussian(f"{tmp_path}/models.npz")
    assert again.end_reward == -2.0
    np.testing.assert_array_equal(again.end_weights, problem.models.end_weights)
    assert problem.models.mean_model().select([0]).end_weights.shape == (1, 4)


@pytest.mark.parametrize("samples", [None, 4000])
def test_values_count_ends(samples: int | None) -> None:
    problem, never = ending()
    models, rng = problem.models, np.random.default_rng(0)
    s = rng.uniform(0, 1, (5, models.n_variables))
    features = PolynomialFeatures(2).fit(s)
    w = rng.normal(size=(features.transform(s).shape[1],))
    free = never.models
    q, gamma = float(expit(-1.0)), 0.8
    with_v, without = (
        expectation_of(free, problem.reward, features, None).values(s, k * w, gamma) for k in (1, 0)
    )
    by = expectation_of(models, problem.reward, features, samples)
    found = by.values(s, w, gamma, np.random.default_rng(1))
    expected = without + q * -2.0 + (1 - q) * (with_v - without)
    rtol, atol = (1e-9, 0.0) if samples is None else (0.05, 0.1)
    np.testing.assert_allclose(found, expected, rtol=rtol, atol=atol)
    if samples is None:
        np.testing.assert_allclose(by.at(s)(w, gamma), expected, rtol=1e-9)
