"""Returns, values and occupancies against plain linear algebra, on every route."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from softrobust.errors import InputError
from softrobust.models import ModelSet, Policy
from softrobust.objective import SoftRobust
from softrobust.problem import Problem
from softrobust.returns import (
    evaluation,
    occupancies,
    optimal_returns,
    policy_return,
    policy_values,
)
from tests.instances import random_policy, random_problem


def reference(problem: Problem, policy: Policy) -> tuple[np.ndarray, np.ndarray]:
    """v and h by numpy, model by model."""
    v, h = [], []
    for omega in range(problem.n_models):
        P = np.einsum("sa,saj->sj", policy.probs, problem.models[omega].P)
        r = np.einsum("sa,sa->s", policy.probs, problem.R[:, :, omega])
        M = np.eye(problem.n_states) - problem.gamma * P
        v.append(np.linalg.solve(M, r))
        h.append(np.linalg.solve(M.T, problem.p0))
    return np.array(v), np.array(h)


@pytest.mark.parametrize("reward_form", ["pair", "transition"])
@pytest.mark.parametrize("seed", range(5))
def test_batched_lu(seed: int, reward_form: str) -> None:
    problem = random_problem(seed, masks=True, gamma=0.99, reward_form=reward_form)
    policy = random_policy(problem, seed)
    v, h = reference(problem, policy)
    np.testing.assert_allclose(policy_values(problem, policy), v, rtol=1e-10, atol=1e-11)
    np.testing.assert_allclose(occupancies(problem, policy), h, rtol=1e-10, atol=1e-11)
    np.testing.assert_allclose(policy_return(problem, policy), v @ problem.p0, rtol=1e-10)
    np.testing.assert_allclose(h.sum(axis=1), 1 / (1 - problem.gamma), rtol=1e-10)


@pytest.mark.parametrize("gamma", [1.0, 0.999, 0.9])
def test_time_in_states_of_a_long_horizon(gamma: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """By squares, and step by step: the same."""
    problem = replace(random_problem(2), gamma=gamma, horizon=3001)
    policy = random_policy(problem, 1)
    squares = occupancies(problem, policy)
    monkeypatch.setattr(evaluation, "DENSE_STATES", 0)
    np.testing.assert_allclose(squares, occupancies(problem, policy), rtol=1e-11, atol=1e-14)


def test_rewards_depend_on_the_next_state() -> None:
    problem = random_problem(3, reward_form="transition")
    dense = problem.rewards.values.reshape(5, 3, 5)
    for omega in range(problem.n_models):
        expected = np.einsum("saj,saj->sa", problem.models[omega].P, dense)
        np.testing.assert_allclose(problem.R[:, :, omega], expected, atol=1e-12)


def sparse_problem(S: int, width: int, gamma: float, seed: int = 0) -> Problem:
    rng = np.random.default_rng(seed)
    A, N = 2, 3
    next_states = np.sort(
        np.array([rng.choice(S, width, replace=False) for _ in range(S * A)]), axis=1
    )
    models = ModelSet(
        indptr=np.arange(S * A + 1) * width,
        next_states=next_states.reshape(-1),
        prob=rng.dirichlet(np.ones(width), size=(S * A, N)).reshape(-1),
        f=np.full(N, 1 / N),
        states=ModelSet.from_dense(np.ones((1, 1, 1))).states.range(S),
        actions=ModelSet.from_dense(np.ones((1, 1, 1))).states.range(A),
    )
    return Problem(models, rewards=rng.normal(size=(S, A)), gamma=gamma, objective=SoftRobust())


@pytest.mark.parametrize("gamma", [0.9, 0.999])
def test_krylov_and_lapack_agree_with_numpy(gamma: float, monkeypatch: pytest.MonkeyPatch) -> None:
    problem = sparse_problem(400, 5, gamma)
    policy = random_policy(problem, 1)
    assert evaluation.is_large_and_sparse(problem)
    v, h = reference(problem, policy)
    scale = np.abs(v).max()
    np.testing.assert_allclose(policy_values(problem, policy), v, atol=1e-9 * scale)
    np.testing.assert_allclose(occupancies(problem, policy), h, atol=1e-9 / (1 - gamma))
    monkeypatch.setattr(evaluation, "is_large_and_sparse", lambda _: False)
    again, occupancy = evaluation.evaluate_policy(problem, policy)
    np.testing.assert_allclose(again, v, atol=1e-11 * scale)
    np.testing.assert_allclose(occupancy, h, atol=1e-11 / (1 - gamma))


@pytest.mark.parametrize(("n_states", "gamma"), [(5, 0.9), (20, 0.999), (120, 0.99)])
def test_optimal_returns_are_bracketed(n_states: int, gamma: float) -> None:
    problem = random_problem(1, n_states=n_states, masks=True, gamma=gamma)
    optima = optimal_returns(problem)
    for omega in range(problem.n_models):
        v = np.zeros(n_states)
        P, R = problem.models[omega].P, problem.R[:, :, omega]
        for _ in range(int(40 / (1 - gamma))):  # value iteration, an independent route
            v = np.where(problem.allowed, R + gamma * P @ v, -np.inf).max(axis=1)
        value = problem.p0 @ v
        error = 1e-15 * np.abs(v).max() / (1 - gamma)
        assert optima.lower[omega] - error <= value <= optima.upper[omega] + error
        assert optima.upper[omega] - optima.lower[omega] <= 1e-9 * np.abs(v).max()


def test_a_policy_must_fit_the_problem() -> None:
    problem = random_problem(0, masks=True)
    other = random_problem(0, n_states=4)
    with pytest.raises(InputError, match="4 states"):
        policy_return(problem, other.uniform_policy())
    s, a = np.argwhere(~problem.allowed)[0]
    decision = np.argmax(problem.allowed, axis=1)
    decision[s] = a
    policy = Policy.from_decision(decision, problem.models.states, problem.models.actions)
    with pytest.raises(InputError, match=f"action '{a}' in state '{s}', which is not allowed"):
        policy_return(problem, policy)
