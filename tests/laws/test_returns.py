"""The order of the four returns of a policy (propositions 4.3 and B.1), and nature's mixture."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from softrobust.objective import soft_robust
from softrobust.returns import (
    dynamic_return,
    policy_return,
    s_rect_return,
    sa_rect_return,
    static_return,
)
from tests.instances import random_policy, random_problem

instances = st.builds(
    random_problem,
    seed=st.integers(0, 10_000),
    n_states=st.integers(1, 4),
    n_actions=st.integers(1, 3),
    n_models=st.integers(1, 5),
    gamma=st.sampled_from([0.1, 0.9, 0.99]),
    lam=st.sampled_from([0.0, 1e-6, 0.5, 1.0]),
    alpha=st.sampled_from([0.0, 0.5, 0.75, 1.0]),
    masks=st.booleans(),
    reward_form=st.sampled_from(["pair", "transition"]),
)


@given(instances, st.integers(0, 100))
@settings(max_examples=60, deadline=None)
def test_sa_rectangular_below_s_rectangular_below_dynamic(problem, seed) -> None:  # type: ignore[no-untyped-def]
    policy = random_policy(problem, seed)
    scale = max(1.0, np.abs(problem.R).max() / (1 - problem.gamma))
    dynamic = dynamic_return(problem, policy, starts=3, steps=30)
    s_rect = s_rect_return(problem, policy)
    assert sa_rect_return(problem, policy) <= s_rect + 1e-8 * scale
    assert s_rect <= dynamic.value + 1e-8 * scale
    assert dynamic.lower <= dynamic.value
    low, high = soft_robust(problem.objective, "test").xi_bounds(problem.models.f)
    assert (dynamic.xi >= low - 1e-9).all()
    assert (dynamic.xi <= high + 1e-9).all()


@given(instances)
@settings(max_examples=30, deadline=None)
def test_all_returns_agree_when_nature_has_no_choice(problem) -> None:  # type: ignore[no-untyped-def]
    """With λ = 0 nature is bound to f: every dynamic form is the return in the mean model."""
    from dataclasses import replace

    from softrobust.objective import SoftRobust

    nominal = replace(problem, objective=SoftRobust(0.0, 0.5))
    policy = random_policy(nominal, 0)
    expected = policy_return(nominal.mean_problem(), policy)[0]
    scale = max(1.0, np.abs(problem.R).max() / (1 - problem.gamma))
    for value in (
        s_rect_return(nominal, policy),
        sa_rect_return(nominal, policy),
        dynamic_return(nominal, policy, starts=1, steps=2).value,
    ):
        assert value == pytest.approx(expected, abs=1e-8 * scale)


@pytest.mark.parametrize("seed", range(8))
def test_dynamic_return_finds_the_minimum_over_two_models(seed: int) -> None:
    """With two models Ξ is a line: a fine grid over it is an independent route."""
    problem = random_problem(seed, n_states=3, n_actions=2, n_models=2, lam=0.8, alpha=0.6)
    policy = random_policy(problem, seed)
    low, high = soft_robust(problem.objective, "test").xi_bounds(problem.models.f)
    first = np.linspace(max(low[0], 1 - high[1]), min(high[0], 1 - low[1]), 2001)
    values = [policy_return(problem.mean_problem(np.array([x, 1 - x])), policy)[0] for x in first]
    found = dynamic_return(problem, policy)
    assert found.value <= min(values) + 1e-9
    assert found.value >= min(values) - 1e-4 * np.ptp(values) - 1e-12
    assert found.lower <= min(values) + 1e-9


def test_one_model_has_one_return() -> None:
    problem = random_problem(0, n_models=1)
    policy = random_policy(problem, 0)
    value = static_return(problem, policy)
    assert s_rect_return(problem, policy) == pytest.approx(value, abs=1e-8)
    assert sa_rect_return(problem, policy) == pytest.approx(value, abs=1e-8)
