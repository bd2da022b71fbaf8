"""The quantile updates against value iteration written by hand."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray

from softrobust.data import Rewards
from softrobust.errors import InputError
from softrobust.models.model_set import ModelSet
from softrobust.objective import Percentile, SoftRobust, mean, value_at_risk
from softrobust.problem import Problem
from softrobust.solvers import (
    Nominal,
    RSVFSimple,
    SaturationWarning,
    Status,
    VaRBellman,
    WorstModel,
    solve,
)
from softrobust.solvers.baselines.draws import tail_mass
from tests.instances import random_problem

FloatArray = NDArray[np.float64]


def by_hand(problem: Problem, figure: Callable[[FloatArray, FloatArray], float]) -> FloatArray:
    """v(s) = max_a figure(Z(s, a, ·), f), by plain value iteration."""
    P, f = problem.models.P, problem.models.f
    v = np.zeros(problem.n_states)
    for _ in range(4000):
        Z = problem.R + problem.gamma * np.einsum("nsat,t->san", P, v)
        Q = np.array([[figure(Z[s, a], f) for a in range(Z.shape[1])] for s in range(Z.shape[0])])
        new = np.where(problem.allowed, Q, -np.inf).max(axis=1)
        if np.abs(new - v).max() < 1e-12:
            break
        v = new
    return v


@pytest.mark.parametrize("alpha", [0.0, 0.3, 0.7, 1.0])
def test_var_by_hand(alpha: float) -> None:
    for seed in range(3):
        problem = random_problem(seed, gamma=0.8, alpha=alpha, masks=True, reward_form="transition")
        solution = solve(problem, VaRBellman())
        v = by_hand(problem, lambda z, f: value_at_risk(z, f, alpha))
        assert solution.v is not None
        np.testing.assert_allclose(solution.v, v, rtol=1e-8, atol=1e-9)
        assert solution.status is Status.TOLERANCE_REACHED
        assert (solution.policy.probs[~problem.allowed] == 0).all()


def test_var_of_equal_models_at_a_tie_is_the_lower_quantile() -> None:
    problem = replace(random_problem(3, n_models=10), objective=SoftRobust(1.0, 0.7))
    equal = problem.with_models(ModelSet.from_dense(problem.models.P))
    solution = solve(equal, VaRBellman())
    v = by_hand(equal, lambda z, _: float(np.sort(z)[2]))  # (1 − .7)·10 of rounding 3.0000000004
    assert solution.v is not None
    np.testing.assert_allclose(solution.v, v, rtol=1e-8, atol=1e-9)


@pytest.mark.parametrize("gamma", [0.9, 0.99, 0.999])
def test_bounds_hold_where_newton_may_cycle(gamma: float) -> None:
    for seed in range(12):
        problem = random_problem(seed, 15, 3, 30, gamma=gamma, alpha=0.6)
        solution = solve(problem, VaRBellman())
        assert solution.status is Status.TOLERANCE_REACHED
        assert solution.stats["tol_achieved"] <= 1e-8
        # The fixed point itself: one update at v leaves it where it is.
        assert solution.v is not None
        Z = problem.R + gamma * np.einsum("nsat,t->san", problem.models.P, solution.v)
        f = problem.models.f
        Tv = [max(value_at_risk(z, f, 0.6) for z in row) for row in Z]
        scale = np.abs(solution.v).max()
        np.testing.assert_allclose(Tv, solution.v, atol=3e-8 * scale)


def test_at_full_confidence_var_is_the_worst_model() -> None:
    problem = random_problem(6, alpha=1.0, lam=1.0)
    v, worst = solve(problem, VaRBellman()).v, solve(problem, WorstModel()).v
    assert v is not None
    assert worst is not None
    np.testing.assert_allclose(v, worst, rtol=1e-8)


def test_var_takes_the_percentile_criterion_too() -> None:
    problem = random_problem(1, alpha=0.6)
    other = replace(problem, objective=Percentile(0.6))
    assert solve(other, VaRBellman()).model_value == solve(problem, VaRBellman()).model_value


@pytest.mark.parametrize("lam", [0.3, 1.0])
def test_rsvf_simple_by_hand(lam: float) -> None:
    problem = random_problem(4, gamma=0.8, lam=lam, alpha=0.2, masks=True)
    draws = random_problem(11, n_models=60).models
    draws = replace(problem.models, prob=draws.prob, f=draws.f)
    tail, _, _ = tail_mass(problem)
    solution = solve(problem, RSVFSimple(draws))
    R = problem.with_models(draws).R

    # Value iteration with VaR over the draws and the mean over the problem's models.
    v = np.zeros(5)
    for _ in range(3000):
        Z = R + 0.8 * np.einsum("nsat,t->san", draws.P, v)
        own = problem.R + 0.8 * np.einsum("nsat,t->san", problem.models.P, v)
        Q = np.array(
            [
                [
                    lam * value_at_risk(Z[s, a], draws.f, 1 - tail)
                    + (1 - lam) * mean(own[s, a], problem.models.f)
                    for a in range(3)
                ]
                for s in range(5)
            ]
        )
        v = np.where(problem.allowed, Q, -np.inf).max(axis=1)
    assert solution.v is not None
    np.testing.assert_allclose(solution.v, v, rtol=1e-8, atol=1e-9)


def test_rsvf_simple_without_caution_is_nominal() -> None:
    problem = random_problem(4, lam=0.0)
    nominal, solution = solve(problem, Nominal()), solve(problem, RSVFSimple())
    assert solution.model_value == nominal.model_value
    np.testing.assert_array_equal(solution.policy.probs, nominal.policy.probs)


def test_rsvf_simple_says_when_draws_are_few() -> None:
    problem = random_problem(4, lam=0.5)
    with pytest.warns(SaturationWarning, match="quantile_saturated"):
        solution = solve(problem, RSVFSimple())
    assert solution.stats["quantile_saturated"]
    tail, _, _ = tail_mass(problem)
    v = by_hand(problem, lambda z, f: 0.5 * value_at_risk(z, f, 1 - tail) + 0.5 * mean(z, f))
    assert solution.v is not None
    np.testing.assert_allclose(solution.v, v, rtol=1e-8, atol=1e-9)


def test_draws_on_other_lists_are_laid_out_together() -> None:
    problem = random_problem(5, lam=0.5, alpha=0.0)
    near = problem.models.P.copy()
    near[:, 0, :, 4] = 0.0  # from state 0 the problem's models never reach state 4
    near /= near.sum(axis=3, keepdims=True)
    listed = np.ones((5, 3, 5), bool)
    listed[0, :, 4] = False
    m = problem.models
    keep = listed.reshape(15, 5)
    short = replace(
        m,
        indptr=np.concatenate([[0], np.cumsum(keep.sum(axis=1))]),
        next_states=np.concatenate([np.flatnonzero(k) for k in keep]).astype(np.int32),
        prob=np.concatenate(
            [near.transpose(1, 2, 0, 3).reshape(15, 7, 5)[k][:, keep[k]].ravel() for k in range(15)]
        ),
    )
    dense = replace(m, prob=np.ascontiguousarray(near.transpose(1, 2, 0, 3)).ravel())
    draws = random_problem(11, n_models=60).models
    a, b = (solve(problem.with_models(x), RSVFSimple(draws)).model_value for x in (short, dense))
    assert a == pytest.approx(b, rel=1e-9)
    lacking = np.ones((5, 3), bool)
    lacking[2, 1] = False  # a pair that the problem does not have
    few = ModelSet.from_dense(near, m.f, available=lacking)
    c = solve(problem.with_models(few), RSVFSimple(draws))
    barred = replace(problem.with_models(dense), allowed=lacking)
    assert c.model_value == pytest.approx(solve(barred, RSVFSimple(draws)).model_value, rel=1e-9)
    assert c.policy.probs[2, 1] == 0
    own = replace(draws, rewards=Rewards.of_models(np.zeros(draws.prob.size), 5, 3))
    with pytest.raises(InputError, match="rewards cannot be laid out anew"):
        solve(problem.with_models(short), RSVFSimple(own))


def test_the_worst_model_is_sa_rectangular_at_the_extreme() -> None:
    from softrobust.solvers import SARect

    problem = random_problem(8, masks=True, lam=0.3, alpha=0.5)
    extreme = solve(replace(problem, objective=SoftRobust(1.0, 1.0)), SARect())
    solution = solve(problem, WorstModel())
    assert solution.model_value == extreme.model_value
    np.testing.assert_array_equal(solution.policy.probs, extreme.policy.probs)
    assert solution.objective == problem.objective
    v = by_hand(problem, lambda z, f: float(z[f > 0].min()))
    assert solution.v is not None
    np.testing.assert_allclose(solution.v, v, rtol=1e-8, atol=1e-9)
    with pytest.raises(InputError, match="tol"):
        WorstModel(tol=np.nan)
