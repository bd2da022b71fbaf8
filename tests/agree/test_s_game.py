"""The S game against exact fractions, and against the paper's LP (eq. 4.8)."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.optimize import linprog

from softrobust.kernels.s_game import NOT_FINITE, SOLVED, Games, solve_games
from softrobust.objective import SoftRobust
from tests.kernels.referee import exact_bounds, exact_game, proven_lower, proven_upper, scale

FloatArray = NDArray[np.float64]
BoolArray = NDArray[np.bool_]


def referee(
    Z: FloatArray, f: FloatArray, lam: float, alpha: float, allowed: BoolArray, games: Games
) -> int:
    """Check every game exactly; returns how many were left unsettled."""
    u = SoftRobust(lam, alpha).q_bounds(f)
    bounds = exact_bounds(u)
    unsettled = 0
    for s in range(Z.shape[0]):
        assert games.status[s] != NOT_FINITE
        M = exact_game(Z[s, allowed[s]], f, lam)
        low = proven_lower(M, bounds, games.d[s, allowed[s]])
        high = proven_upper(M, bounds, games.q[s])
        assert games.d[s, ~allowed[s]].sum() == 0
        assert low <= high
        # lb and ub may claim no more than their own d and q prove.
        assert Fraction(float(games.lb[s])) <= low
        assert Fraction(float(games.ub[s])) >= high
        gap = Fraction(float(games.ub[s])) - Fraction(float(games.lb[s]))
        if games.status[s] == SOLVED:
            spread = Fraction(float(np.ptp(Z[s][allowed[s]][:, f > 0])))
            rounding = (40 + f.size) * spread + abs(low)
            assert gap <= scale(M, f > 0) / 10**9 + rounding * Fraction(1, 2**51)
        else:
            unsettled += 1
    return unsettled


def check(
    Z: FloatArray, f: FloatArray, lam: float, alpha: float, allowed: BoolArray | None = None
) -> int:
    mask = np.ones(Z.shape[:2], bool) if allowed is None else allowed
    u = SoftRobust(lam, alpha).q_bounds(f)
    cold = solve_games(Z, f, u, lam, mask)
    unsettled = referee(Z, f, lam, alpha, mask, cold)
    warm = solve_games(Z, f, u, lam, mask, start=cold)
    referee(Z, f, lam, alpha, mask, warm)
    return unsettled


def uniform(N: int) -> FloatArray:
    return np.full(N, 1.0 / N)


LEVELS = [(0.5, 0.7), (1.0, 0.9), (0.0, 0.5), (1e-6, 0.8), (1.0, 1.0), (0.3, 0.0), (0.7, 1.0)]


@pytest.mark.parametrize(("lam", "alpha"), LEVELS)
@pytest.mark.parametrize(("A", "N"), [(5, 20), (1, 20), (4, 1), (1, 1), (8, 10), (2, 3)])
def test_random_games(lam: float, alpha: float, A: int, N: int) -> None:
    rng = np.random.default_rng(A * 1000 + N)
    assert check(rng.normal(size=(6, A, N)), uniform(N), lam, alpha) == 0
    assert check(rng.normal(size=(6, A, N)), rng.dirichlet(np.ones(N)), lam, alpha) == 0


@pytest.mark.parametrize(("lam", "alpha"), LEVELS)
def test_degenerate_games(lam: float, alpha: float) -> None:
    rng = np.random.default_rng(0)
    A, N = 5, 20
    base = rng.normal(size=(4, A, N))
    ties = np.round(base, 1)
    duplicates = base[:, :, rng.integers(5, size=N)]
    twins = base[:, rng.integers(2, size=A)]
    binary = (base > 0).astype(float)
    constant = np.full((4, A, N), 12345.678)
    rows = np.broadcast_to(base[:, :, :1], base.shape)
    columns = np.broadcast_to(base[:, :1], base.shape)
    for Z in (ties, duplicates, twins, binary, constant, rows, columns):
        assert check(np.ascontiguousarray(Z), uniform(N), lam, alpha) == 0


@pytest.mark.parametrize(("lam", "alpha"), LEVELS)
def test_zero_weights_and_forbidden_actions(lam: float, alpha: float) -> None:
    rng = np.random.default_rng(1)
    S, A, N = 8, 4, 15
    f = rng.dirichlet(np.ones(N))
    f[rng.random(N) < 0.4] = 0.0
    f /= f.sum()
    Z = rng.normal(size=(S, A, N))
    Z[:, :, f == 0] *= 1e6  # a model of weight 0 has no say, however large
    allowed = rng.random((S, A)) < 0.5
    allowed[:, 2] = True
    assert check(Z, f, lam, alpha, allowed) == 0


@pytest.mark.parametrize(("lam", "alpha"), [(1.0, 1.0), (1.0, 0.95), (0.5, 0.9), (1.0, 0.5)])
def test_wide_binary_games_settle(lam: float, alpha: float) -> None:
    """Many ties at every pivot: the perturbed game has to find a basis that the true one shares."""
    rng = np.random.default_rng(11)
    for A, N in ((17, 100), (34, 100), (50, 40)):
        Z = (rng.random(size=(40, A, N)) < 0.3).astype(float)
        games = solve_games(Z, uniform(N), SoftRobust(lam, alpha).q_bounds(uniform(N)), lam)
        assert not games.status.any()
        assert (games.ub - games.lb).max() <= 1e-9
        assert check(Z[:1], uniform(N), lam, alpha) == 0  # exact fractions take their time


def test_constant_rows_settle_at_rounding() -> None:
    """λ = 0 leaves one number per action: no gap but rounding, and no case for an LP."""
    rng = np.random.default_rng(12)
    Z = rng.normal(size=(40, 1, 200)) @ np.eye(200)
    assert check(Z, rng.dirichlet(np.ones(200)), 0.0, 0.95) == 0


def test_integer_tail_is_the_worst_models() -> None:
    # (1 − .7)·10 = 3.0000000000000004 in floats: CVaR is the mean of exactly three models.
    z = np.arange(10.0)[None, None]
    games = solve_games(z, uniform(10), SoftRobust(1.0, 0.7).q_bounds(uniform(10)), 1.0)
    assert games.lb[0] <= 1.0 <= games.ub[0] <= games.lb[0] + 2e-13
    assert check(z, uniform(10), 1.0, 0.7) == 0


def test_wide_values() -> None:
    rng = np.random.default_rng(2)
    Z = np.exp(rng.uniform(-24, 24, size=(10, 5, 20))) * rng.choice([-1, 1], size=(10, 5, 20))
    for lam, alpha in LEVELS:
        assert check(Z, uniform(20), lam, alpha) == 0


def test_large_offset() -> None:
    Z = 1e9 + np.random.default_rng(3).normal(size=(10, 5, 20))
    for lam, alpha in LEVELS:
        assert check(Z, uniform(20), lam, alpha) == 0


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_not_finite_is_flagged(bad: float) -> None:
    Z = np.zeros((3, 2, 4))
    Z[1, 1, 2] = bad
    games = solve_games(Z, uniform(4), np.ones(4), 0.5)
    assert games.status.tolist() == [SOLVED, NOT_FINITE, SOLVED]


def test_a_warm_start_at_the_answer_needs_no_pivot() -> None:
    rng = np.random.default_rng(7)
    Z, f = rng.normal(size=(50, 5, 40)), uniform(40)
    u = SoftRobust(0.5, 0.7).q_bounds(f)
    cold = solve_games(Z, f, u, 0.5)
    assert cold.pivots.sum() > 50
    assert solve_games(Z, f, u, 0.5, start=cold).pivots.sum() == 0


def paper_lp(Z: FloatArray, f: FloatArray, lam: float, alpha: float) -> float:
    """Eq. (4.8) as printed, over (d, b, y)."""
    A, N = Z.shape
    c = -np.r_[(1 - lam) * Z @ f, lam, -lam * f / (1 - alpha)]
    rows = np.c_[-Z.T, np.ones(N), -np.eye(N)]
    answer = linprog(
        c,
        A_ub=rows,
        b_ub=np.zeros(N),
        A_eq=np.r_[np.ones(A), np.zeros(1 + N)][None],
        b_eq=[1.0],
        bounds=[(0, None)] * A + [(None, None)] + [(0, None)] * N,
    )
    assert answer.fun is not None
    return -float(answer.fun)


def test_agrees_with_the_papers_lp() -> None:
    rng = np.random.default_rng(5)
    for lam, alpha in [(0.5, 0.7), (1.0, 0.9), (0.2, 0.0)]:
        Z, f = rng.normal(size=(10, 4, 30)), rng.dirichlet(np.ones(30))
        games = solve_games(Z, f, SoftRobust(lam, alpha).q_bounds(f), lam)
        for s in range(10):
            assert games.lb[s] == pytest.approx(paper_lp(Z[s], f, lam, alpha), abs=1e-6)


@pytest.mark.slow
def test_twenty_thousand_games() -> None:
    rng = np.random.default_rng(6)
    unsettled = games = 0
    while games < 20_000:
        A, N = int(rng.integers(1, 9)), int(rng.integers(1, 31))
        lam = float(rng.choice([0.0, 1e-6, 0.1, 0.5, 0.9, 1.0]))
        alpha = float(rng.choice([0.0, 0.3, 0.5, 0.7, 0.9, 0.95, 1.0]))
        f = uniform(N) if rng.random() < 0.5 else rng.dirichlet(np.ones(N))
        Z = rng.normal(size=(50, A, N))
        kind = rng.integers(5)
        if kind == 1:
            Z = np.round(Z)
        elif kind == 2:
            Z = (Z > 0.5).astype(float)
        elif kind == 3:
            Z = np.sign(Z) * np.exp(np.clip(8 * Z, -24, 24))
        elif kind == 4:
            Z = Z[:, :, rng.integers(N, size=N)]
        unsettled += check(Z, f, lam, alpha)
        games += 50
    assert unsettled <= 20  # one in a thousand may go to the LP
