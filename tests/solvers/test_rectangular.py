"""What `SRect` and `SARect` promise: tolerances, limits, storage, grids, errors."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from softrobust.data import Rewards
from softrobust.errors import InputError
from softrobust.kernels.sweeps import S_GAME, S_NATURE, SA_GAME
from softrobust.objective import SoftRobust
from softrobust.problem import Problem
from softrobust.returns.dynamic import rectangular_value
from softrobust.returns.rectangular_sweeps import Sweeps, game_lp, improve_by_lp, slot_bytes
from softrobust.solvers.base import Status, solve_grid
from softrobust.solvers.rectangular import rectangular as rectangular_grid
from softrobust.solvers.rectangular.rectangular import SARect, SRect
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
@pytest.mark.parametrize("together", [0, 10**9])
def test_grid_is_the_points_one_by_one(
    solver: SRect | SARect, together: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rectangular_grid, "TOGETHER", together)
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


@Solvers
@pytest.mark.parametrize("n_states", [5, 40])
def test_chains_share_passes_and_answers(solver: SRect | SARect, n_states: int) -> None:
    p = random_problem(11, n_states=n_states, n_models=9, gamma=0.99, masks=True)
    lams, alphas = [0.0, 0.2, 0.4, 0.6, 0.8, 1.0], [0.3, 0.6, 0.9]
    together, alone = (
        {x.at: x for x in rectangular_grid.solve_points(solver, p, lams, alphas, count)}
        for count in (8, 1)
    )
    assert together.keys() == alone.keys() == set(rectangular_grid.neighbour_walk(6, 3))
    for at, x in together.items():
        point = replace(p, objective=SoftRobust(lams[at[0]], alphas[at[1]]))
        single = solver.solve(point)
        assert single.v is not None
        for v, reached in (
            (single.v, single.stats["tol_achieved"]),
            (alone[at].found.v, alone[at].found.tol),
        ):
            assert x.status == Status.TOLERANCE_REACHED
            size = max(float(np.abs(v).max()), float(np.abs(x.found.v).max()))
            assert np.abs(x.found.v - v).max() <= (x.found.tol + reached) * size * (1 + 1e-9)
    passes = [sum(x.stats["passes"] for x in grid.values()) for grid in (together, alone)]
    assert passes[0] < 0.45 * passes[1]


# As above: the S kernel for float32 takes long to compile.
@pytest.mark.parametrize("solver", [pytest.param(SRect(), marks=pytest.mark.slow), SARect()])
def test_chains_read_float32(solver: SRect | SARect) -> None:
    p = random_problem(16, n_states=30, gamma=0.99)
    half = replace(solver, float32=True)
    for x in rectangular_grid.solve_points(half, p, [0.2, 0.9], [0.5, 0.9], together=4):
        alone = half.solve(x.problem)
        assert alone.v is not None
        assert x.stats["certificate_of"] == "models rounded to float32"
        assert x.status == Status.TOLERANCE_REACHED
        assert np.abs(x.found.v - alone.v).max() <= 2e-8 * np.abs(alone.v).max()


@Solvers
@pytest.mark.parametrize("together", [0, 10**9])
def test_a_grid_keeps_its_limits(
    solver: SRect | SARect, together: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    p = random_problem(12, gamma=0.999)
    monkeypatch.setattr(rectangular_grid, "TOGETHER", together)
    for limited in (replace(solver, max_rounds=1), replace(solver, time_limit=1e-9)):
        for row in limited.solve_grid(p, [0.3, 0.9], [0.5, 0.9]):
            for x in row:
                assert x.status in (Status.ITERATION_LIMIT, Status.TIME_LIMIT)
                assert x.stats["sweeps"] == 1
    with pytest.raises(InputError, match="time_limit"):
        replace(solver, time_limit=-1.0)


def test_chains_are_as_many_as_memory_holds(monkeypatch: pytest.MonkeyPatch) -> None:
    sweeps = Sweeps(random_problem(13))
    assert rectangular_grid.chains_for(sweeps, 3) == 1  # too small to gain
    monkeypatch.setattr(rectangular_grid, "TOGETHER", 100)
    assert rectangular_grid.chains_for(sweeps, 3) == 3
    assert rectangular_grid.chains_for(sweeps, 100) == rectangular_grid.CHAINS
    free = 2.5 * slot_bytes(sweeps.models) / 0.9
    monkeypatch.setattr("softrobust._core.arrays.available_memory", lambda: free)
    assert rectangular_grid.chains_for(sweeps, 100) == 2
    monkeypatch.setattr("softrobust._core.arrays.available_memory", lambda: 1.0)
    assert rectangular_grid.chains_for(sweeps, 100) == 1


@Solvers
def test_a_value_of_zero_is_an_answer(solver: SRect | SARect) -> None:
    """Doing nothing costs nothing and all else does: v = 0, which has no size to be relative to."""
    base = random_problem(14, gamma=0.95)
    rewards = -np.abs(np.random.default_rng(0).normal(size=(5, 3))) - 1
    rewards[:, 1] = 0.0
    for scale in (1.0, 1e9, 0.0):
        p = Problem(
            base.models, rewards=scale * rewards, gamma=0.95, objective=SoftRobust(0.5, 0.7)
        )
        solution = solver.solve(p)
        assert solution.status == Status.TOLERANCE_REACHED
        assert solution.stats["tol_achieved"] <= solution.stats["tol"]
        assert solution.v is not None
        assert np.abs(solution.v).max() <= 1e-8 * scale
        assert solution.policy.probs[:, 1].min() == 1.0 or scale == 0.0


@Solvers
def test_rewards_of_models_without_weight_do_not_widen_bounds(solver: SRect | SARect) -> None:
    base = random_problem(15)
    lost = int(np.flatnonzero(base.models.f == 0)[0])
    R = np.broadcast_to(base.R[:, :, :1, None], (5, 3, 7, 5)).copy()  # as the blocks of models
    solutions = []
    for reward in (R[0, 0, 0, 0], 1e12):
        R[:, :, lost] = reward
        rewards = Rewards.of_models(R, 5, 3)
        p = Problem(base.models, rewards=rewards, gamma=0.9, objective=SoftRobust(0.5, 1.0))
        solutions.append(solver.solve(p))
    plain, huge = solutions
    assert huge.status == Status.TOLERANCE_REACHED
    assert huge.model_value == plain.model_value
    assert huge.stats["tol_achieved"] == plain.stats["tol_achieved"]


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
    improve_by_lp(sweeps.rect, v, 0.0, 0, sweeps.out)  # nothing to gain: kept
    assert sweeps.out.ub[0] - sweeps.out.lb[0] <= ub[0] - lb[0]
    sweeps.out.lb[0], sweeps.out.ub[0] = -np.inf, np.inf
    improve_by_lp(sweeps.rect, v, 0.0, 0, sweeps.out)
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
    monkeypatch.setattr("softrobust._core.arrays.available_memory", lambda: 1000.0)
    with pytest.raises(InputError, match="working memory of a rectangular solve"):
        SRect().solve(p)
