"""Rectangular solves against independent ones: a saddle point in numpy, sorts, LPs, one model."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from numpy.typing import NDArray

from softrobust.kernels.s_game import solve_games
from softrobust.kernels.sweeps import S_GAME, SA_GAME
from softrobust.objective import SoftRobust
from softrobust.problem import Problem
from softrobust.returns.dynamic import s_rect_return, sa_rect_return
from softrobust.returns.rectangular_sweeps import Sweeps
from softrobust.solvers.base import Deadline, Solution, Status
from softrobust.solvers.rectangular.rectangular import SARect, SRect, iterate, nominal_start
from tests.agree.test_s_game import paper_lp
from tests.agree.value_iteration import rectangular_value_iteration
from tests.instances import random_problem

FloatArray = NDArray[np.float64]

LEVELS = [(0.5, 0.7), (1.0, 0.9), (0.0, 0.5), (1e-6, 0.8), (1.0, 1.0), (0.3, 0.0), (0.7, 1.0)]


def values(p: Problem, v: FloatArray) -> FloatArray:
    """Z (S, A, N) by einsum."""
    return np.asarray(p.R + p.gamma * np.einsum("nsaj,j->san", p.models.P, v))


def soft_robust(p: Problem, z: FloatArray) -> FloatArray:
    """The objective over the last axis, by sorting."""
    f, lam, tail = p.models.f, p.objective.lam, 1 - p.objective.alpha
    if tail == 0:
        worst = z[..., f > 0].min(axis=-1)
    else:
        order = z.argsort(axis=-1)
        mass = f[order]
        taken = np.clip(tail - (mass.cumsum(axis=-1) - mass), 0, mass)
        worst = (taken * np.take_along_axis(z, order, -1)).sum(axis=-1) / taken.sum(axis=-1)
    return np.asarray((1 - lam) * z @ f + lam * worst)


def fixed_point(
    p: Problem, update: Callable[[FloatArray], FloatArray], start: FloatArray
) -> FloatArray:
    """Value iteration until only rounding is left."""
    v = start
    for _ in range(int(np.log(1e-15) / np.log(p.gamma)) + 10):
        v = update(v)
    return v


def sa_truth(p: Problem) -> FloatArray:
    def update(v: FloatArray) -> FloatArray:
        value = soft_robust(p, values(p, v))
        return np.asarray(np.where(p.allowed, value, -np.inf).max(axis=1))

    return fixed_point(p, update, np.zeros(p.n_states))


def _answered(p: Problem, probs: FloatArray, v: FloatArray) -> FloatArray:
    """Nature's answer to a decision."""
    return soft_robust(p, np.einsum("sa,san->sn", probs, values(p, v)))


def _against(p: Problem, xi: FloatArray, v: FloatArray) -> FloatArray:
    """The best decision against a fixed ξ per state."""
    mixed = np.einsum("sn,san->sa", xi, values(p, v))
    return np.asarray(np.where(p.allowed, mixed, -np.inf).max(axis=1))


def interval(p: Problem, solution: Solution) -> tuple[float, float]:
    stats = solution.stats
    low, high = stats["model_value_lower"], stats["model_value_upper"]
    assert low <= solution.model_value <= high
    assert solution.v is not None
    width = stats["tol_achieved"] * float(np.abs(solution.v).max())
    assert high - low <= 2 * width + 1e-14 * abs(high)  # p₀ᵀv rounds too
    if solution.status == Status.TOLERANCE_REACHED:
        assert stats["tol_achieved"] <= stats["tol"]
    return low, high


@pytest.mark.parametrize(("lam", "alpha"), LEVELS)
def test_sa_rect_is_value_iteration_with_sorts(lam: float, alpha: float) -> None:
    for seed in range(3):
        p = random_problem(seed, lam=lam, alpha=alpha, masks=seed == 1)
        solution = SARect().solve(p)
        low, high = interval(p, solution)
        truth = float(p.p0 @ sa_truth(p))
        noise = 1e-13 * abs(truth) / (1 - p.gamma)  # of the plain iteration
        assert low - noise <= truth <= high + noise
        assert sa_rect_return(p, solution.policy) == pytest.approx(
            truth, abs=3 * noise + high - low
        )


@pytest.mark.parametrize(("lam", "alpha"), LEVELS)
@pytest.mark.parametrize("gamma", [0.9, 0.98])
def test_s_rect_is_a_saddle_point(lam: float, alpha: float, gamma: float) -> None:
    """The decision's worst case from below, the best answer to nature's ξ from above, in numpy."""
    for seed in range(3):
        p = random_problem(seed, lam=lam, alpha=alpha, gamma=gamma, masks=seed == 1)
        solution = SRect().solve(p)
        low, high = interval(p, solution)
        assert solution.v is not None
        probs = solution.policy.probs
        below = fixed_point(p, partial(_answered, p, probs), solution.v)
        f, u = p.models.f, SoftRobust(lam, alpha).q_bounds(p.models.f)
        games = solve_games(values(p, solution.v), f, u, lam, p.allowed)
        xi = (1 - lam) * f + lam * games.q
        np.testing.assert_allclose(xi.sum(axis=1), 1.0, atol=1e-12)
        above = fixed_point(p, partial(_against, p, xi), solution.v)
        size = float(np.abs(solution.v).max())
        noise = 1e-13 * size / (1 - gamma)
        width = high - low
        assert float(p.p0 @ below) == pytest.approx(solution.model_value, abs=2 * width + noise)
        # ξ comes from the games at v, and is as good as v is: 1e-8 of the size over 1 − γ.
        assert float(p.p0 @ above) == pytest.approx(
            solution.model_value, abs=2 * width + 2e-8 * size / (1 - gamma)
        )


def test_s_rect_is_value_iteration_with_the_papers_lp() -> None:
    p = random_problem(0, n_states=3, n_models=5, gamma=0.6)
    v = np.zeros(3)
    for _ in range(45):
        Z = values(p, v)
        v = np.array([paper_lp(Z[s], p.models.f, 0.5, 0.7) for s in range(3)])
    assert SRect().solve(p).model_value == pytest.approx(float(p.p0 @ v), abs=1e-6)


@pytest.mark.parametrize("solver", [SRect(), SARect()])
@pytest.mark.parametrize(("lam", "alpha"), LEVELS)
def test_value_iteration_agrees(solver: SRect | SARect, lam: float, alpha: float) -> None:
    """Two certified routes to one value: their bounds meet, in every state."""
    for seed, gamma in ((0, 0.9), (1, 0.99)):
        p = random_problem(seed, lam=lam, alpha=alpha, gamma=gamma, masks=seed == 1)
        solution = solver.solve(p)
        answer, status, sweeps = rectangular_value_iteration(p, solver.kind, 1e-9)
        assert status == Status.TOLERANCE_REACHED
        assert answer.tol <= 1e-9
        assert sweeps > 3
        assert solution.v is not None
        size = float(np.abs(answer.v).max())
        reached = solution.stats["tol_achieved"] + answer.tol
        assert np.abs(solution.v - answer.v).max() <= 1.000001 * reached * size
        low, high = interval(p, solution)
        assert low <= p.p0 @ answer.upper
        assert high >= p.p0 @ answer.lower


def test_value_iteration_has_bounds_from_the_start() -> None:
    p = random_problem(4, gamma=0.99)
    truth = SRect().solve(p).v
    assert truth is not None
    for limit in (1, 2, 10):
        answer, status, sweeps = rectangular_value_iteration(p, S_GAME, 1e-9, max_sweeps=limit)
        assert sweeps == limit
        assert status == Status.ITERATION_LIMIT
        assert (answer.lower <= truth + 1e-7).all()
        assert (answer.upper >= truth - 1e-7).all()
    stuck, status, _ = rectangular_value_iteration(p, S_GAME, 0.0)
    assert status == Status.ITERATION_LIMIT
    assert 0 < stuck.tol < 1e-9


@pytest.mark.parametrize("solver", [SRect(), SARect()])
def test_no_risk_and_one_model_are_ordinary(solver: SRect | SARect) -> None:
    for p in (
        random_problem(0, lam=0.0),
        random_problem(1, alpha=0.0),
        random_problem(2, n_models=1),
    ):
        mean = np.einsum("n,nsaj->saj", p.models.f, p.models.P)
        R = p.R @ p.models.f

        def update(
            v: FloatArray, p: Problem = p, R: FloatArray = R, mean: FloatArray = mean
        ) -> FloatArray:
            return np.asarray((R + p.gamma * mean @ v).max(axis=1))

        truth = float(p.p0 @ fixed_point(p, update, np.zeros(p.n_states)))
        assert solver.solve(p).model_value == pytest.approx(truth, abs=1e-8 * abs(truth) + 1e-11)


def test_order_of_the_returns() -> None:
    for seed in range(20):
        p = random_problem(seed)
        s, sa = SRect().solve(p), SARect().solve(p)
        assert s.model_value is not None
        assert sa.model_value is not None
        assert sa.model_value <= s.model_value + 1e-8
        assert s_rect_return(p, s.policy) == pytest.approx(s.model_value, rel=2e-8)
        assert s_rect_return(p, sa.policy) <= s.model_value + 1e-8


@pytest.mark.parametrize("gamma", [0.9, 0.999])
def test_row_sums_off_one(gamma: float) -> None:
    """The certificate is about the rows as stored, also where they sum to 1 − 9e-9."""
    p = random_problem(3, gamma=gamma)
    prob = np.array(p.models.prob)
    off = replace(p.models, prob=prob * (1 - 9e-9))
    q = Problem(off, rewards=p.rewards, p0=p.p0, gamma=gamma, objective=p.objective)
    solution = SARect().solve(q)
    low, high = interval(q, solution)
    assert solution.v is not None
    truth = float(q.p0 @ fixed_point(q, lambda v: _sa_step(q, v), solution.v))
    noise = 1e-13 * abs(truth) / (1 - gamma)
    assert low - noise <= truth <= high + noise


@pytest.mark.parametrize("solver", [SRect(), SARect()])
def test_unavailable_pairs_are_forbidden_actions(solver: SRect | SARect) -> None:
    for seed in range(3):
        p = random_problem(seed, masks=True)
        blocks = [p.models.block(*pair) for pair in np.argwhere(p.allowed)]
        widths = np.where(p.allowed.reshape(-1), p.n_states, 0)
        fewer = replace(
            p.models,
            indptr=np.concatenate([[0], np.cumsum(widths)]),
            next_states=np.concatenate([columns for columns, _ in blocks]),
            prob=np.concatenate([block.reshape(-1) for _, block in blocks]),
        )
        q = Problem(fewer, rewards=p.rewards, p0=p.p0, gamma=p.gamma, objective=p.objective)
        assert solver.solve(q).model_value == solver.solve(p).model_value


@pytest.mark.parametrize("kind", [S_GAME, SA_GAME])
def test_many_problems_within_fifteen_passes(kind: int) -> None:
    for seed in range(60):
        rng = np.random.default_rng(seed)
        p = random_problem(
            seed,
            n_states=int(rng.integers(2, 15)),
            n_actions=int(rng.integers(1, 6)),
            n_models=int(rng.integers(1, 12)),
            gamma=float(rng.choice([0.9, 0.99, 0.999])),
            lam=float(rng.choice([0.3, 1.0])),
            alpha=float(rng.choice([0.5, 0.9, 1.0])),
            masks=bool(seed % 2),
        )
        sweeps = Sweeps(p)
        _, status = iterate(sweeps, kind, nominal_start(sweeps), 1e-8, Deadline(None), 100)
        assert status == Status.TOLERANCE_REACHED
        assert sweeps.passes <= 15


def _sa_step(p: Problem, v: FloatArray) -> FloatArray:
    return np.asarray(np.where(p.allowed, soft_robust(p, values(p, v)), -np.inf).max(axis=1))


def test_public_models(shared_data: object) -> None:
    from pathlib import Path

    from softrobust.models import read_models

    folder = Path(str(shared_data))

    def public(name: str, lam: float) -> Problem:
        p0 = np.loadtxt(folder / name / "initial.csv", delimiter=",", skiprows=1)[:, 1]
        models = read_models(folder / name / "training.csv")
        return Problem(models, p0=p0, gamma=0.9, objective=SoftRobust(lam, 0.7))

    river, hiv = public("riverswim", 0.5), public("hiv", 0.5)
    assert SARect().solve(river).model_value == pytest.approx(115.829723, abs=1e-6)
    assert SARect().solve(public("riverswim", 1.0)).model_value == pytest.approx(
        77.132109, abs=1e-6
    )
    assert SARect().solve(hiv).model_value == pytest.approx(31033.2512, abs=1e-4)
    solution = SRect().solve(hiv)
    assert solution.model_value == pytest.approx(31320.2499, abs=1e-4)
    assert solution.stats["randomized_states"] > 0
