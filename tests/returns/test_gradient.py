"""Adjoint gradients against finite differences of the exact returns."""

from __future__ import annotations

import numpy as np
import pytest

from softrobust.models import Policy
from softrobust.problem import Problem
from softrobust.returns import policy_return, return_gradients, static_gradient, static_return
from tests.instances import random_policy, random_problem


def direction(problem: Problem, policy: Policy, seed: int) -> np.ndarray:
    """A change of the policy that keeps probabilities positive and their sums 1."""
    rng = np.random.default_rng(seed)
    d = rng.normal(size=policy.probs.shape) * (policy.probs > 0)
    support = (policy.probs > 0).sum(axis=1, keepdims=True)
    return np.asarray((d - d.sum(axis=1, keepdims=True) / support) * (policy.probs > 0))


def moved(policy: Policy, d: np.ndarray, step: float) -> Policy:
    probs = policy.probs + step * d
    return Policy(probs / probs.sum(axis=1, keepdims=True), policy.states, policy.actions)


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("gamma", [0.5, 0.9, 0.99])
def test_gradients_equal_finite_differences(seed: int, gamma: float) -> None:
    problem = random_problem(seed, masks=seed % 2 == 0, gamma=gamma, reward_form="transition")
    policy = random_policy(problem, seed)
    d = direction(problem, policy, seed)
    step = 1e-3 * min(1.0, policy.probs[policy.probs > 0].min() / max(np.abs(d).max(), 1e-12))
    returns, gradients = return_gradients(problem, policy)
    np.testing.assert_allclose(returns, policy_return(problem, policy), rtol=1e-12)

    def slope(h: float) -> np.ndarray:
        ahead, behind = (policy_return(problem, moved(policy, d, x)) for x in (h, -h))
        return (ahead - behind) / (2 * h)

    # Two step widths cancel the error of third order (Richardson).
    expected = (4 * slope(step / 2) - slope(step)) / 3
    found = np.einsum("nsa,sa->n", gradients, d)
    scale = np.abs(gradients).max() * np.abs(d).max()
    np.testing.assert_allclose(found, expected, atol=1e-6 * max(scale, 1e-9))


@pytest.mark.parametrize("seed", range(8))
def test_static_gradient_is_a_directional_derivative(seed: int) -> None:
    problem = random_problem(seed, lam=0.6, alpha=0.55)
    policy = random_policy(problem, seed + 1)
    d = direction(problem, policy, seed)
    step = 1e-6 * policy.probs[policy.probs > 0].min() / max(np.abs(d).max(), 1e-12)
    ahead, behind = (static_return(problem, moved(policy, d, x)) for x in (step, -step))
    found = float((static_gradient(problem, policy) * d).sum())
    assert found == pytest.approx((ahead - behind) / (2 * step), rel=1e-4, abs=1e-4)


def test_forbidden_pairs_have_no_gradient() -> None:
    problem = random_problem(0, masks=True)
    assert (static_gradient(problem, random_policy(problem, 0))[~problem.allowed] == 0).all()
