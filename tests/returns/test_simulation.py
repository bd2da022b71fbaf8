"""Simulated returns: a known answer, common random numbers, boxes, explosions, environments."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from softrobust.errors import InputError, SolverError
from softrobust.models import CallableModels, ConstantPolicy
from softrobust.problem import ContinuousProblem
from softrobust.returns import roll_out_policy, simulate
from tests.continuous_instances import linear_models, linear_problem


def constant(problem: ContinuousProblem, action: str) -> ConstantPolicy:
    return ConstantPolicy(action, problem.variables, problem.actions)


def test_means_are_those_of_the_linear_recursion() -> None:
    models = linear_models(3, noise=0.2)
    W = np.array(models.weights)
    W[:, 5] = 0.0  # no products: the mean of a sum is the sum of means
    problem = ContinuousProblem(replace(models, weights=W), start=[[1.0, 0.5]])
    found = simulate(problem, constant(problem, "on"), episodes=4000, seed=1)
    for omega in range(3):
        s, total = np.array([1.0, 0.5]), 0.0
        for t in range(10):
            s = np.array([W[omega, 1, 0], W[omega, 2, 1]]) * s + W[omega, 3]
            total += 0.8**t * (s[0] - s[1])
        x = found.returns[omega]
        assert x.mean() == pytest.approx(total, abs=4 * x.std() / np.sqrt(x.size))


def test_common_random_numbers() -> None:
    problem = linear_problem(n=5, noise=0.3)
    a, b = (constant(problem, name) for name in ("off", "on"))
    x, y = (simulate(problem, p, episodes=50, seed=7).returns for p in (a, b))
    np.testing.assert_array_equal(x, simulate(problem, a, episodes=50, seed=7).returns)
    other = simulate(problem, b, episodes=50, seed=8).returns
    assert x.shape == (5, 50)
    # The same luck: a difference of two policies varies far less than with fresh luck.
    assert (x - y).std(axis=1).mean() < 0.3 * (x - other).std(axis=1).mean()


def test_steps_at_the_edge_and_states_beyond_the_data_are_counted() -> None:
    problem = linear_problem(n=3, clip=([0.0, 0.0], [0.9, 2.0]), seen=([0.0, 0.0], [0.8, 2.0]))
    sim = simulate(problem, constant(problem, "on"), episodes=20)
    assert 0 < sim.clipped <= sim.clipped_episodes <= 1
    assert sim.outside is not None
    assert 0 < sim.outside < 1
    free = simulate(linear_problem(n=3), constant(problem, "on"), episodes=20)
    assert (free.clipped, free.clipped_episodes, free.outside) == (0.0, 0.0, None)


def exploding(**more: Any) -> ContinuousProblem:
    models = CallableModels(lambda s, a, omega, rng: 10.0 * s**3, 2, ["x"], ["a"], **more)
    return ContinuousProblem(models, [[2.0]], lambda s, a, to: to[..., 0], 0.9, 12)


def test_explosions_say_the_step_and_what_to_do() -> None:
    problem = exploding()
    with pytest.raises(SolverError, match=r"step \d+ model 0 gives 'x' = inf.*Give them a box"):
        simulate(problem, constant(problem, "a"), episodes=2)
    boxed = exploding(clip=([-5.0], [5.0]))
    assert np.isfinite(simulate(boxed, constant(boxed, "a"), episodes=2).returns).all()


def test_rewards_must_be_finite() -> None:
    problem = replace(linear_problem(n=2), reward=lambda s, a, to: np.full(len(s), np.nan))
    with pytest.raises(InputError, match="reward must be a finite number: at step 0"):
        simulate(problem, constant(problem, "on"), episodes=2)


def test_policies_of_another_problem_are_refused() -> None:
    problem = linear_problem(n=2)
    policy = constant(exploding(), "a")
    with pytest.raises(InputError, match="policy is for the variables"):
        simulate(problem, policy)
    with pytest.raises(InputError, match="episodes"):
        simulate(problem, constant(problem, "on"), episodes=0)


def test_any_function_can_act() -> None:
    problem = linear_problem(n=2)
    by_hand = simulate(problem, lambda s, rng: np.ones(len(s), int), episodes=5).returns
    np.testing.assert_array_equal(
        by_hand, simulate(problem, constant(problem, "on"), episodes=5).returns
    )


def test_rolling_out_in_an_environment() -> None:
    gymnasium = pytest.importorskip("gymnasium")
    from softrobust.domains import CancerGrowth, register_envs

    register_envs()
    problem = CancerGrowth().problem(n_models=2)
    always = constant(problem, "1")
    found = roll_out_policy("softrobust/CancerGrowth-v0", always, episodes=40, gamma=0.9)
    assert (found.lengths == 30).all()
    assert found.returns.mean() == pytest.approx(-6.4, abs=0.5)
    env = gymnasium.make("softrobust/CancerGrowth-v0")
    again = roll_out_policy(env, lambda s: 1, episodes=40, gamma=0.9)
    np.testing.assert_allclose(again.returns, found.returns)
    short = roll_out_policy(env, always, episodes=2, steps=3)
    assert short.lengths.tolist() == [3, 3]
    np.testing.assert_allclose(short.totals, short.returns)
