"""SRVI on small continuous problems: settings, seeds, limits, features, draws, bad input."""

from __future__ import annotations

from dataclasses import FrozenInstanceError, replace
from typing import Any

import numpy as np
import pytest

from softrobust.errors import InputError, SolverError
from softrobust.models import (
    CallableModels,
    ConstantPolicy,
    FourierFeatures,
    LinearReward,
    PolynomialFeatures,
    RBFFeatures,
)
from softrobust.models.lookahead import LinearPolicy, LookaheadPolicy
from softrobust.objective import Percentile, SoftRobust
from softrobust.returns import simulate
from softrobust.solvers import RPVI, SRVI, SRVISA, SARect, Status, WorstModelVI, solve
from softrobust.solvers.continuous.srvi import Projected, regress
from softrobust.solvers.registry import CONTINUOUS_SOLVERS, make_solver
from tests.continuous_instances import FloatArray, linear_problem
from tests.instances import random_problem

SMALL: dict[str, Any] = {"iterations": 6, "episodes": 6, "batch": 30}
KINDS = [SRVI, SRVISA, WorstModelVI]


@pytest.mark.parametrize("kind", KINDS)
def test_the_protocol(kind: type[Projected]) -> None:
    problem = linear_problem()
    solution = solve(problem, kind(**SMALL))
    assert solution.solver == kind.name
    assert isinstance(solution.status, Status)
    assert isinstance(solution.policy, LookaheadPolicy)
    assert solution.v is not None
    s = problem.sample_start(3, np.random.default_rng(0))
    assert solution.v(s).shape == (3,)
    again = solve(problem, kind(**SMALL))
    np.testing.assert_array_equal(again.v.w, solution.v.w)
    other = solve(problem, kind(**SMALL, seed=1))
    assert not np.array_equal(other.v.w, solution.v.w)
    with pytest.raises((FrozenInstanceError, AttributeError)):
        kind().ridge = 1.0  # type: ignore[misc]


def test_damped_steps_average_the_regressions() -> None:
    """From states drawn anew in every iteration: plain steps go on, damped ones settle."""
    problem = linear_problem()
    plain = SRVI(**SMALL | {"iterations": 150}, tol=1e-3).solve(problem)
    damped = SRVI(**SMALL | {"iterations": 150}, tol=1e-3, damp_after=20).solve(problem)
    assert damped.stats["last_change_share"] < plain.stats["last_change_share"]
    assert damped.status is Status.TOLERANCE_REACHED
    s = problem.sample_start(20, np.random.default_rng(0))
    np.testing.assert_allclose(damped.v(s), plain.v(s), atol=0.1 * np.abs(plain.v(s)).max())
    late = SRVI(**SMALL, damp_after=50).solve(problem)  # never gets there
    np.testing.assert_array_equal(late.v.w, SRVI(**SMALL).solve(problem).v.w)


def test_fixed_states_settle_and_say_so() -> None:
    problem = linear_problem()
    s = np.random.default_rng(0).random((60, 2)) * 2
    settled = SRVI(states=s, iterations=300, tol=1e-8).solve(problem)
    assert settled.status is Status.TOLERANCE_REACHED
    assert settled.stats["last_change_share"] <= 1e-8
    assert settled.stats["fit_r2"] > 0.99
    short = SRVI(states=s, iterations=3, tol=1e-8).solve(problem)
    assert short.status is Status.ITERATION_LIMIT
    assert short.stats["last_change"] > 0
    late = SRVI(states=s, iterations=10**6, tol=0.0, time_limit=1e-3).solve(problem)
    assert late.status is Status.TIME_LIMIT


def test_without_uncertainty_it_is_the_linear_quadratic_truth() -> None:
    """One model, one action, no products: v is linear and known."""
    base = linear_problem(n=1, noise=0.1)
    W = np.array(base.models.weights)  # type: ignore[attr-defined]
    W[:, 5] = 0.0
    models = replace(base.models, weights=W)  # type: ignore[type-var]
    problem = replace(base, models=models, allowed=np.array([False, True]))
    s = np.random.default_rng(0).random((50, 2))
    found = SRVI(states=s, ridge=0.0, tol=1e-12, iterations=500).solve(problem)
    # v = E[x′ − y′] + γ·E v(s′) with s′ = diag(r)s + b: slopes r/(1 − γr), an offset.
    r, b, gamma = np.array([W[0, 1, 0], W[0, 2, 1]]), W[0, 3], 0.8
    slope = np.array([1.0, -1.0]) * r / (1 - gamma * r)
    offset = (b @ (np.array([1.0, -1.0]) + gamma * slope)) / (1 - gamma)
    assert found.v is not None
    np.testing.assert_allclose(found.v(s), s @ slope + offset, rtol=1e-9)
    assert (found.policy.act(s) == 1).all()


@pytest.mark.parametrize(
    "features", [RBFFeatures(10), FourierFeatures(2), PolynomialFeatures(3)], ids=lambda f: f.kind
)
def test_other_features_see_the_same_world(features: Any) -> None:
    problem = linear_problem()
    s = np.random.default_rng(0).random((80, 2)) * 1.5
    base = SRVI(states=s, iterations=100, tol=1e-6).solve(problem)
    other = SRVI(features, states=s, iterations=100, tol=1e-6).solve(problem)
    assert base.v is not None
    assert other.v is not None
    spread = np.ptp(base.v(s))
    assert np.abs(other.v(s) - base.v(s)).max() < 0.2 * spread
    assert np.corrcoef(other.v(s), base.v(s))[0, 1] > 0.98


def test_a_policy_beats_doing_the_same_always() -> None:
    base = linear_problem(lam=0.5, n=20)
    # Pay for distance from 1 in x: push when low, wait when high.
    reward = LinearReward([0.0, 0.0], [2.0, 0.0], None, [-1.0, 0.0])
    problem = replace(base, reward=reward, start=np.array([[0.0, 0.0], [2.5, 0.0]]))
    found = SRVI(iterations=20, episodes=10).solve(problem)
    own = simulate(problem, found.policy, episodes=200).means
    for a in problem.actions:
        policy = ConstantPolicy(a, problem.variables, problem.actions)
        constant = simulate(problem, policy, episodes=200).means
        assert problem.objective.value(own) > problem.objective.value(constant)


# -- draws instead of closed forms ---------------------------------------------------------------


def test_drawn_next_states_have_a_bias_that_is_reported() -> None:
    problem = linear_problem(lam=1.0, alpha=0.9, n=30, noise=0.5)
    few = SRVI(**SMALL, samples=4).solve(problem).stats
    many = SRVI(**SMALL, samples=200).solve(problem).stats
    assert few["sampling_bias_against"] == "exact expectations"
    assert few["sampling_bias"] < -5 * few["sampling_bias_se"]  # CVaR picks the unlucky
    assert abs(many["sampling_bias"]) < 0.3 * abs(few["sampling_bias"])
    assert SRVI(**SMALL, samples=4).solve(problem).stats["policy"] == "exact lookahead"


def as_functions(problem: Any) -> Any:
    models = problem.models

    def step(s: FloatArray, a: Any, omega: Any, rng: np.random.Generator) -> FloatArray:
        return np.asarray(models.draw(s, a, rng, omega).s_next)

    called = CallableModels(step, models.n_models, models.variables, models.actions, models.f)
    return replace(problem, models=called)


def test_models_that_are_functions_get_a_fitted_policy() -> None:
    problem = as_functions(linear_problem(lam=1.0, alpha=0.9, n=20, noise=0.5))
    with pytest.raises(InputError, match=r"no closed form here: CallableModels.*samples=100"):
        SRVI(**SMALL).solve(problem)
    solution = SRVISA(**SMALL, samples=4).solve(problem)
    assert isinstance(solution.policy, LinearPolicy)
    assert 0 <= solution.stats["policy_disagreement"] < 0.3
    assert solution.stats["sampling_bias_against"] == "halves of the draws"
    assert solution.stats["sampling_bias"] < 0


def test_rewards_that_are_functions_need_draws() -> None:
    problem = replace(linear_problem(), reward=lambda s, a, to: np.minimum(to[..., 0], 1.0))
    with pytest.raises(InputError, match="not a LinearReward"):
        SRVI(**SMALL).solve(problem)
    assert SRVI(**SMALL, samples=20).solve(problem).stats["policy"].startswith("linear fit")


# -- evaluation and control against the worst model ----------------------------------------------


def test_rpvi_is_below_the_value_of_the_policy() -> None:
    problem = linear_problem(n=10)
    policy = ConstantPolicy("on", problem.variables, problem.actions)
    found = RPVI(policy=policy, iterations=60, episodes=10).solve(problem)
    assert found.policy is policy
    mean = simulate(problem, policy, episodes=100).means
    long = problem.gamma**problem.horizon / (1 - problem.gamma)  # what lies beyond the horizon
    assert found.model_value is not None
    assert found.model_value < mean.mean() + long
    with pytest.raises(InputError, match="policy must be a ContinuousPolicy"):
        RPVI()


# -- bad input -----------------------------------------------------------------------------------


class Doubled:
    """Every feature twice."""

    def fit(self, s: FloatArray) -> Doubled:
        return self

    def transform(self, s: FloatArray) -> FloatArray:
        return np.concatenate([s, s, np.ones((len(s), 1))], axis=1)


def test_rank_deficient_features_suggest_a_ridge() -> None:
    s = np.random.default_rng(0).random((40, 2))
    with pytest.raises(InputError, match=r"5 features span 3 dimensions.*ridge=0.1"):
        SRVI(Doubled(), states=s, samples=5).solve(linear_problem())
    with pytest.raises(InputError, match="rank-deficient"):
        SRVI(Doubled(), ridge=0.0, states=s, samples=5).solve(linear_problem())
    ok = SRVI(Doubled(), ridge=0.1, states=s, samples=5, iterations=3).solve(linear_problem())
    assert ok.stats["n_features"] == 5


def test_the_normal_equations_with_a_ridge() -> None:
    rng = np.random.default_rng(0)
    Phi, y = rng.normal(size=(30, 4)), rng.normal(size=30)
    w = np.linalg.solve(Phi.T @ Phi + 0.7 * np.eye(4), Phi.T @ y)
    np.testing.assert_allclose(regress(Phi, y, 0.7, "here"), w)
    np.testing.assert_allclose(
        regress(Phi, y, 0.0, "here"), np.linalg.solve(Phi.T @ Phi, Phi.T @ y)
    )


def test_divergence_is_an_error_with_advice() -> None:
    problem = linear_problem()
    models = replace(problem.models, weights=3.0 * problem.models.weights)  # type: ignore[type-var,attr-defined]
    s = np.random.default_rng(0).random((40, 2))
    with pytest.raises(SolverError, match="grows without bound"):
        SRVI(states=s, ridge=0.0).solve(replace(problem, models=models))


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"ridge": -1.0}, "ridge"), ({"iterations": 0}, "iterations"), ({"samples": 1}, "samples"),
        ({"features": 3}, "no fit"), ({"tol": -1}, "tol"), ({"time_limit": 0}, "time_limit"),
        ({"states": [[1.0]]}, "shape"), ({"features": RBFFeatures}, "an object, not a class"),
    ],
)  # fmt: skip
def test_bad_settings(settings: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError, match=words):
        SRVI(**settings).solve(linear_problem())


def test_solvers_and_problems_must_fit() -> None:
    with pytest.raises(InputError, match="has continuous states, and 'sa-rect' is not"):
        solve(linear_problem(), SARect())
    with pytest.raises(InputError, match="a table of states, and 'srvi' is not"):
        solve(random_problem(0), SRVI())
    with pytest.raises(InputError, match="soft-robust objective"):
        SRVI().solve(replace(linear_problem(), objective=Percentile(0.9)))


def test_the_registry() -> None:
    for name in ("srvi", "srvi-sa", "rpvi-control"):
        assert make_solver(name, continuous=True).name == name
    cubic = make_solver("srvi", continuous=True, seed=3, settings={"degree": 3, "ridge": 1})
    assert (cubic.seed, cubic.features.degree) == (3, 3)  # type: ignore[attr-defined]
    with pytest.raises(InputError, match="Did you mean 'srvi-sa'"):
        make_solver("srvisa", continuous=True)
    with pytest.raises(InputError, match="no setting 'rigde'"):
        make_solver("srvi", continuous=True, settings={"rigde": 1})
    with pytest.raises(InputError, match="for solvers of continuous states"):
        make_solver("exact", settings={"gap": 1})
    assert set(CONTINUOUS_SOLVERS) >= {"sr-sac", "r-sac", "sac"}


def test_worst_model_ignores_the_objective() -> None:
    s = np.random.default_rng(0).random((40, 2))
    first, second = (
        WorstModelVI(states=s, iterations=5).solve(linear_problem(lam, alpha))
        for lam, alpha in ((0.0, 0.0), (1.0, 0.9))
    )
    np.testing.assert_array_equal(first.v.w, second.v.w)
    same = SRVI(states=s, iterations=5).solve(
        replace(linear_problem(), objective=SoftRobust(1.0, 1.0))
    )
    np.testing.assert_allclose(first.v.w, same.v.w, rtol=1e-9)
