"""What `SRect` and `SARect` promise: tolerances, limits, storage, grids, errors."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from softrobust.errors import InputError
from softrobust.kernels.sweeps import S_GAME, S_NATURE, SA_GAME
from softrobust.objective import SoftRobust
from softrobust.returns._game_lp import game_lp, settle
from softrobust.returns._rectangle import Sweeps
from softrobust.returns.rectangular import rectangular_value
from softrobust.solvers.base import Status, solve_grid
from softrobust.solvers.s_rect import SRect
from softrobust.solvers.sa_rect import SARect
from tests.instances import random_problem

Solvers = pytest.mark.parametrize("solver", [SRect(), SARect()])


@Solvers
def test_tolerance_is_kept(solver: SRect | SARect) -> None:
    p = random_problem(0, gamma=0.99)
    exact = solver.solve(p)
    for tol in (1e-2, 1e-5, 1e-10):
        loose = replace(solver, tol=tol).solve(p)
        assert loose.status == Status.TOLERANCE_REACHED
        assert loose.v is not None
        assert exact.v is not None
        assert np.abs(loose.v - exact.v).max() <= 1.01 * tol * np.abs(exact.v).max() + 1e-7


@Solvers
def test_a_tolerance_beyond_rounding_is_reported(solver: SRect | SARect) -> None:
    solution = replace(solver, tol=0.0).solve(random_problem(0, gamma=0.999))
    assert solution.status == Status.ITERATION_LIMIT
    assert 0 < solution.stats["tol_achieved"] < 1e-9


@Solvers
def test_limits_bring_bounds_back(solver: SRect | SARect) -> None:
    p = random_problem(0, gamma=0.999)
    truth = solver.solve(p)
    for limited in (
        replace(solver, max_rounds=1),
        replace(solver, time_limit=1e-9),
    ):
        solution = limited.solve(p)
        assert solution.status in (Status.ITERATION_LIMIT, Status.TIME_LIMIT)
        assert solution.stats["model_value_lower"] <= truth.stats["model_value_upper"]
        assert solution.stats["model_value_upper"] >= truth.stats["model_value_lower"]


# The S kernel for float32 takes long to compile, hence slow.
@pytest.mark.parametrize("solver", [pytest.param(SRect(), marks=pytest.mark.slow), SARect()])
def test_float32_speaks_of_rounded_models(solver: SRect | SARect) -> None:
    p = random_problem(0, n_states=8, gamma=0.999)
    full, half = solver.solve(p), replace(solver, float32=True).solve(p)
    assert half.status == Status.TOLERANCE_REACHED
    assert half.stats["certificate_of"] == "models rounded to float32"
    assert half.v is not None
    rounded = p.models.prob.astype(np.float32).astype(np.float64).reshape(-1, p.n_states)
    models = replace(p.models, prob=rounded / rounded.sum(axis=1, keepdims=True))
    truth = solver.solve(replace(p, models=models))
    assert half.model_value == pytest.approx(truth.model_value, rel=1e-7)
    assert half.model_value != full.model_value


@Solvers
def test_threads_change_nothing(solver: SRect | SARect) -> None:
    p = random_problem(4, n_states=70, n_models=5)
    v = np.random.default_rng(0).normal(size=70)
    answers = []
    for threads in (False, True):
        sweeps = Sweeps(p)
        sweeps.threads = threads
        sweeps.run(solver.kind, v)
        answers.append(sweeps.out)
    for one, two in zip(*answers, strict=True):
        np.testing.assert_array_equal(one, two)


@Solvers
def test_grid_is_the_points_one_by_one(solver: SRect | SARect) -> None:
    p = random_problem(5)
    lams, alphas = [0.0, 0.4, 1.0], [0.0, 0.7, 1.0]
    grid = solve_grid(p, solver, lams, alphas)
    for i, lam in enumerate(lams):
        for j, alpha in enumerate(alphas):
            alone = solver.solve(replace(p, objective=SoftRobust(lam, alpha)))
            point = grid[i][j]
            assert point.objective == SoftRobust(lam, alpha)
            assert point.stats["tol_achieved"] <= 1e-8
            assert point.model_value == pytest.approx(alone.model_value, rel=2e-8, abs=1e-8)
            assert point.uniform_value == alone.uniform_value  # None: no bound, no gap


def test_randomization_pays() -> None:
    gains = [
        float(SRect().solve(p).model_value or 0) - float(SARect().solve(p).model_value or 0)
        for p in (random_problem(seed, lam=1.0, alpha=0.9) for seed in range(5))
    ]
    assert max(gains) > 1e-3
    solution = SRect().solve(random_problem(int(np.argmax(gains)), lam=1.0, alpha=0.9))
    assert solution.stats["randomized_states"] > 0
    assert not solution.policy.deterministic


def test_lp_fallback_improves_or_keeps() -> None:
    p = random_problem(6, masks=True)
    sweeps, v = Sweeps(p), np.zeros(p.n_states)
    sweeps.run(S_GAME, v)
    lb, ub = sweeps.out.lb.copy(), sweeps.out.ub.copy()
    settle(sweeps.rect, v, 0.0, 0, sweeps.out)  # nothing to gain: kept
    assert sweeps.out.ub[0] - sweeps.out.lb[0] <= ub[0] - lb[0]
    sweeps.out.lb[0], sweeps.out.ub[0] = -np.inf, np.inf
    settle(sweeps.rect, v, 0.0, 0, sweeps.out)
    assert sweeps.out.lb[0] == pytest.approx(lb[0], abs=1e-8)
    assert sweeps.out.ub[0] == pytest.approx(ub[0], abs=1e-8)
    assert sweeps.out.d[0].sum() == pytest.approx(1.0, abs=1e-12)


def test_lp_of_a_game() -> None:
    d, q = game_lp(np.eye(3), np.full(3, 1 / 3), np.ones(3), 1.0)
    np.testing.assert_allclose(d, 1 / 3, atol=1e-9)
    np.testing.assert_allclose(q, 1 / 3, atol=1e-9)


@pytest.mark.parametrize("kind", [S_GAME, SA_GAME, S_NATURE])
@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_not_finite_is_an_input_error(kind: int, bad: float) -> None:
    p = random_problem(7)
    sweeps = Sweeps(p)
    sweeps.out.d[:] = p.uniform_policy().probs
    v = np.zeros(p.n_states)
    v[2] = bad
    with pytest.raises(InputError, match="must be finite"):
        sweeps.run(kind, v)


def test_a_policys_value_is_bracketed() -> None:
    p = random_problem(8, gamma=0.99)
    value = rectangular_value(p, p.uniform_policy())
    assert (value.lower <= value.v).all()
    assert (value.v <= value.upper).all()
    assert value.tol <= 1e-10


@pytest.mark.parametrize("settings", [{"tol": -1.0}, {"tol": float("nan")}, {"max_rounds": 0}])
def test_settings_are_checked(settings: dict[str, float]) -> None:
    with pytest.raises(InputError):
        SRect(**settings)  # type: ignore[arg-type]


def test_what_cannot_fit_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    p = random_problem(9)
    monkeypatch.setattr("softrobust.data.memory.available_memory", lambda: 1000.0)
    with pytest.raises(InputError, match="working memory of a rectangular solve"):
        SRect().solve(p)
