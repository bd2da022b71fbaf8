"""BCR: budgets by hand, λ = 0, saturation, draws in parts, the global form."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray

from softrobust.data import Rewards, TransitionLog
from softrobust.errors import InputError
from softrobust.models.model_set import ModelSet
from softrobust.objective import SoftRobust
from softrobust.posterior import DirichletPosterior, FittedPosterior
from softrobust.problem import Problem
from softrobust.returns import policy_return
from softrobust.solvers import (
    BCR,
    L1Robust,
    LInfRobust,
    Nominal,
    PosteriorDraws,
    SaturationWarning,
    solve,
    solve_grid,
)
from softrobust.solvers.baselines.bcr import CredibleSets
from tests.instances import random_problem

FloatArray = NDArray[np.float64]


def fitted() -> FittedPosterior:
    rng = np.random.default_rng(0)
    s, a = rng.integers(0, 4, 150), rng.integers(0, 2, 150)
    s_next = (s + a + (rng.random(150) < 0.3)) % 4
    log = TransitionLog.from_arrays(s, a, s_next, s - 0.5 * a)
    return DirichletPosterior().fit(log)


POSTERIOR = fitted()
LOG: TransitionLog = POSTERIOR.log  # type: ignore[attr-defined]


def problem_of(n: int = 60, lam: float = 1.0, alpha: float = 0.8) -> Problem:
    models = POSTERIOR.sample(n, seed=3)
    objective = SoftRobust(lam, alpha)
    return Problem(models, rewards=LOG.rewards, p0=LOG.p0, gamma=0.9, objective=objective)


def by_hand(problem: Problem, draws: ModelSet, norm: str = "l1") -> FloatArray:
    """The quantile at 1 − δ/(SA) of the distances of equally likely draws, (S, A)."""
    P = np.einsum("n,nsat->sat", problem.models.f, problem.models.P)
    away = np.abs(draws.P - P)
    d = np.sort(away.sum(axis=3) if norm == "l1" else away.max(axis=3), axis=0)
    level = 1 - (1 - problem.objective.alpha) / problem.allowed.sum()
    at = math.ceil(round(level * draws.n_models, 9)) - 1
    return np.asarray(d[at])


@pytest.mark.parametrize("norm", ["l1", "linf"])
@pytest.mark.parametrize("lam", [1.0, 0.3])
def test_budgets_by_hand(norm: str, lam: float) -> None:
    problem, draws = problem_of(lam=lam), POSTERIOR.sample(400, seed=9)
    radii = by_hand(problem, draws, norm)
    solution = solve(problem, BCR(draws, norm=norm))  # type: ignore[arg-type]
    robust = L1Robust if norm == "l1" else LInfRobust
    expected = solve(problem, robust(lam * radii))
    assert solution.model_value == pytest.approx(expected.model_value, rel=1e-9)
    np.testing.assert_array_equal(solution.policy.probs, expected.policy.probs)
    assert solution.stats["budget_max"] == pytest.approx(lam * radii.max(), abs=1e-12)
    assert not solution.stats["quantile_saturated"]
    assert solution.stats["set_draws_needed"] == 40  # 4 states × 2 actions / 0.2


def test_without_caution_it_is_nominal() -> None:
    problem = problem_of(lam=0.0)
    nominal = solve(problem, Nominal())
    for solver in (BCR(), BCR(POSTERIOR.sample(50, 1)), BCR(norm="linf"), BCR(scope="global")):
        solution = solve(problem, solver)
        assert solution.model_value == nominal.model_value
        assert solution.solver == "bcr"
        np.testing.assert_array_equal(solution.policy.probs, nominal.policy.probs)


def test_alpha_matters_when_draws_suffice_and_not_when_they_do_not() -> None:
    enough = POSTERIOR.sample(1000, seed=5)
    budgets = [
        solve(problem_of(alpha=alpha), BCR(enough)).stats["budget_mean"]
        for alpha in (0.2, 0.7, 0.95)
    ]
    assert budgets[0] < budgets[1] < budgets[2]
    few = POSTERIOR.sample(10, seed=5)  # 8/δ = 10 … 160 are needed
    saturated = []
    for alpha in (0.3, 0.7, 0.95):
        with pytest.warns(SaturationWarning, match="has 10 draws"):
            saturated.append(solve(problem_of(alpha=alpha), BCR(few)))
    assert len({s.stats["budget_mean"] for s in saturated}) == 1
    assert all(s.stats["quantile_saturated"] for s in saturated)
    assert saturated[0].stats["notes"][0]["code"] == "quantile_saturated"


def test_the_paper_form_takes_the_sample_as_it_is() -> None:
    problem = problem_of(n=20)
    paper = solve(problem, BCR(POSTERIOR.sample(400, 1), variant="paper"))
    with pytest.warns(SaturationWarning):
        own = solve(problem, BCR())
    assert paper.model_value == own.model_value
    assert paper.stats["quantile_saturated"]
    assert paper.stats["set_draws"] == 20


def test_the_full_set_at_every_lambda() -> None:
    draws = POSTERIOR.sample(400, seed=9)
    full = solve(problem_of(lam=1.0), BCR(draws)).model_value
    for lam in (0.0, 0.5):
        kept = solve(problem_of(lam=lam), BCR(draws, shrink=False))
        assert kept.model_value == pytest.approx(full, rel=1e-12)


def test_draws_come_in_parts_and_are_the_same_each_time(monkeypatch: pytest.MonkeyPatch) -> None:
    problem = problem_of(alpha=0.9)
    source = PosteriorDraws(POSTERIOR, seed=4)
    whole = solve(problem, BCR(source))
    assert whole.stats["set_draws"] == 80
    assert solve(problem, BCR(source)).model_value == whole.model_value
    size = problem.models.next_states.size
    monkeypatch.setattr("softrobust.solvers.baselines.draws.PART_BYTES", 8 * size * 7)
    parts = list(source.parts(80, size))
    assert [m.n_models for m in parts] == [7] * 11 + [3]
    assert not np.array_equal(parts[0].prob, parts[1].prob)
    in_parts = solve(problem, BCR(source))
    # The same draws as one set of models.
    P = np.concatenate([m.P for m in parts])
    joined = ModelSet.from_dense(P, states=LOG.states, actions=LOG.actions)
    assert in_parts.model_value == pytest.approx(solve(problem, BCR(joined)).model_value, rel=1e-9)
    assert PosteriorDraws(POSTERIOR, most=30).count(1e9, 1) == 30
    assert PosteriorDraws(POSTERIOR, most_numbers=1e3).count(1e9, 100) == 10


def test_a_credible_region_holds_as_often_as_it_says() -> None:
    # At λ = 1 the promise is a lower bound in a share α of the posterior at least.
    problem = problem_of(n=200, alpha=0.7)
    solution = solve(problem, BCR(PosteriorDraws(POSTERIOR, seed=1)))
    fresh = problem.with_models(POSTERIOR.sample(500, seed=77))
    returns = policy_return(fresh, solution.policy)
    assert solution.model_value is not None
    assert (returns >= solution.model_value).mean() >= 0.7


@pytest.mark.parametrize("alpha", [0.0, 0.5, 0.9])
def test_the_global_form_keeps_the_nearest_models(alpha: float) -> None:
    problem = problem_of(n=30, alpha=alpha)
    P = problem.models.P
    d = np.abs(P - P.mean(axis=0)).sum(axis=3)  # (N, S, A)
    nearest = np.argsort(d.max(axis=(1, 2)))[: max(math.ceil(alpha * 30), 1)]
    expected = solve(problem, L1Robust(d[nearest].max(axis=0)))
    solution = solve(problem, BCR(scope="global"))
    assert solution.model_value == pytest.approx(expected.model_value, rel=1e-9)
    assert solution.stats["budget_max"] == pytest.approx(d[nearest].max(), abs=1e-12)


def test_weights_of_models_count() -> None:
    problem = random_problem(4, masks=True)  # one model weighs nothing
    out = int(np.flatnonzero(problem.models.f == 0)[0])
    rest = problem.with_models(problem.models.select(np.arange(7) != out))
    for scope in ("local", "global"):
        solver = BCR(variant="paper", scope=scope)
        a, b = (solve(replace(p, objective=SoftRobust(1, 0.7)), solver) for p in (problem, rest))
        assert a.model_value == pytest.approx(b.model_value, rel=1e-9)
        assert a.stats["budget_mean"] == pytest.approx(b.stats["budget_mean"], abs=1e-12)


@pytest.mark.parametrize("norm", ["l1", "linf"])
def test_value_weights_narrow_the_set_where_it_matters(norm: str) -> None:
    problem, draws = problem_of(), POSTERIOR.sample(400, seed=9)
    plain = solve(problem, BCR(draws, norm=norm))  # type: ignore[arg-type]
    weighted = solve(problem, BCR(draws, norm=norm, weighting="value"))  # type: ignore[arg-type]
    assert plain.model_value is not None
    assert weighted.model_value is not None
    assert weighted.model_value > plain.model_value  # on this problem; not a theorem
    flat = replace(
        problem, rewards=Rewards.of_pairs(np.ones((4, 2)))
    )  # z is constant: every weight is 1
    ten = solve(flat, BCR(draws, norm=norm, weighting="value"))  # type: ignore[arg-type]
    assert ten.model_value == pytest.approx(10.0)


def test_draws_may_reach_further_than_the_models() -> None:
    near = np.array([[[[0.5, 0.5, 0.0]], [[0.5, 0.5, 0.0]], [[0.0, 0.0, 1.0]]]])
    far = np.array([[[[0.5, 0.4, 0.1]], [[0.5, 0.5, 0.0]], [[0.0, 0.0, 1.0]]]])
    problem = Problem(
        ModelSet.from_dense(np.concatenate([near, near])),
        rewards=[[1.0], [0.0], [-5.0]], gamma=0.5, objective=SoftRobust(1.0, 0.0),
    )  # fmt: skip
    draws = ModelSet.from_dense(np.concatenate([near, far, far, far]))
    solution = solve(problem, BCR(draws))
    # Of 0's row .1 goes to 2, worth −10: v0 = 1 + .5(.5 v0 + .4 v1 − 1) less what 1 allows.
    assert solution.v is not None
    assert solution.v[2] == pytest.approx(-10.0)
    v1 = solution.v[1]
    assert solution.v[0] == pytest.approx(
        1 + 0.5 * (0.4 * solution.v[0] + 0.5 * v1 - 1.0), rel=1e-8
    )


def test_the_grid_builds_the_sets_of_an_alpha_once(monkeypatch: pytest.MonkeyPatch) -> None:
    built: list[float] = []
    original = BCR.sets

    def counted(self: BCR, problem: Problem) -> CredibleSets:
        built.append(problem.objective.alpha)
        return original(self, problem)

    monkeypatch.setattr(BCR, "sets", counted)
    draws = POSTERIOR.sample(400, seed=9)
    grid = solve_grid(problem_of(), BCR(draws), [0.0, 0.5, 1.0], [0.5, 0.8])
    assert built == [0.5, 0.8]
    alone = solve(problem_of(lam=0.5, alpha=0.8), BCR(draws))
    assert grid[1][1].model_value == alone.model_value


def test_settings_are_checked() -> None:
    for wrong in ({"norm": "l2"}, {"scope": "all"}, {"variant": "x"}, {"weighting": "x"},
                  {"support": "x"}, {"shrink": 1}, {"tol": -1.0}):  # fmt: skip
        with pytest.raises(InputError):
            BCR(**wrong)
    with pytest.raises(InputError, match="draws is a ModelSet or"):
        solve(problem_of(), BCR(draws=[1, 2]))  # type: ignore[arg-type]
    with pytest.raises(InputError, match="states and actions of the problem"):
        solve(problem_of(), BCR(draws=random_problem(0).models))
    with pytest.raises(InputError, match="needs a fitted posterior"):
        PosteriorDraws(DirichletPosterior())  # type: ignore[arg-type]
