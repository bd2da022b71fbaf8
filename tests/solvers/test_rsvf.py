"""RSVF: its sets, its centre against the program as written, the end of the iteration."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.optimize import linprog

from softrobust.data import Rewards
from softrobust.errors import InputError
from softrobust.kernels.balls import l1_reach
from softrobust.models.model_set import ModelSet
from softrobust.objective import SoftRobust, value_at_risk
from softrobust.problem import Problem
from softrobust.returns import policy_return
from softrobust.solvers import BCR, RSVF, Nominal, SaturationWarning, Status, solve
from softrobust.solvers.baselines.draws import tail_mass
from softrobust.solvers.baselines.rsvf import centre, distance
from tests.instances import random_problem

FloatArray = NDArray[np.float64]


def as_written(Z: FloatArray, b: FloatArray) -> float:
    """min_θ max_v dist₁(θ, K(v)) with a point p_v of every K(v) and |θ − p_v| in full."""
    m, n = Z.shape
    # columns: θ, then p_v and d_v ≥ |θ − p_v| for every v, then ψ
    width = n + 2 * m * n + 1
    A, right, equal = [], [], [np.r_[np.ones(n), np.zeros(width - n)]]
    for i in range(m):
        p, d = n + 2 * i * n, n + (2 * i + 1) * n
        row = np.zeros(width)
        row[p : p + n] = Z[i]
        A.append(row)
        right.append(b[i])
        row = np.zeros(width)
        row[d : d + n], row[-1] = 1.0, -1.0
        A.append(row)
        right.append(0.0)
        row = np.zeros(width)
        row[p : p + n] = 1.0
        equal.append(row)
        for j in range(n):
            for sign in (1.0, -1.0):
                row = np.zeros(width)
                row[j], row[p + j], row[d + j] = sign, -sign, -1.0
                A.append(row)
                right.append(0.0)
    cost = np.r_[np.zeros(width - 1), 1.0]
    found = linprog(
        cost,
        A_ub=np.array(A),
        b_ub=np.array(right),
        A_eq=np.array(equal),
        b_eq=np.ones(m + 1),
        options={"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10},
    )
    assert found.fun is not None
    return float(found.fun)


def sets(seed: int) -> tuple[FloatArray, FloatArray, FloatArray]:
    """A row, and half-spaces near the least of each z, so that they often have no common point."""
    rng = np.random.default_rng(seed)
    m, n = int(rng.integers(2, 5)), int(rng.integers(2, 7))
    Z = rng.normal(size=(m, n)) * rng.uniform(0.1, 100)
    low = Z.min(axis=1)
    return rng.dirichlet(np.ones(n)), Z, low + rng.uniform(0, 0.4) * np.ptp(Z, axis=1)


def test_the_centre_is_that_of_the_program_as_written() -> None:
    seen = set()
    for seed in range(40):
        p, Z, b = sets(seed)
        theta, psi, programs = centre(p, Z, b)
        assert psi == pytest.approx(as_written(Z, b), abs=2e-8)
        assert theta.min() >= 0
        assert theta.sum() == pytest.approx(1.0, abs=1e-12)
        assert distance(theta, Z, b) <= psi + 1e-15
        seen.add(programs)
    assert seen == {0, 1, 3}  # one set decides, a common point, no common point


def test_among_centres_the_nearest_to_the_mean_row_is_taken() -> None:
    for seed in range(20):
        p, Z, b = sets(seed)
        theta, psi, _ = centre(p, Z, b)
        rng = np.random.default_rng(seed)
        for _ in range(200):  # no other point of that radius is nearer
            other = rng.dirichlet(np.ones(p.size))
            mixed = theta + rng.uniform(0, 0.3) * (other - theta)
            if distance(mixed, Z, b) <= psi:
                assert np.abs(mixed - p).sum() >= np.abs(theta - p).sum() - 1e-7


def test_two_opposite_sets_meet_in_the_middle() -> None:
    # K₁ is the first vertex alone, K₂ the second: the centre is between them, at distance 1.
    Z = np.array([[0.0, 1.0], [1.0, 0.0]])
    theta, psi, _ = centre(np.array([0.5, 0.5]), Z, np.zeros(2))
    np.testing.assert_allclose(theta, [0.5, 0.5], atol=1e-9)
    assert psi == pytest.approx(1.0, abs=1e-9)


def opposed() -> Problem:
    """Models that disagree on where an action leads."""
    return random_problem(3, n_states=6, n_actions=2, n_models=40, lam=1.0, alpha=0.3)


def test_at_the_end_every_ball_meets_the_set_of_its_own_value() -> None:
    for seed in range(5):
        problem = random_problem(seed, 6, 2, 200, lam=1.0, alpha=0.3, masks=True)
        equal = problem.with_models(ModelSet.from_dense(problem.models.P))
        solution = solve(equal, RSVF())
        assert solution.status is Status.TOLERANCE_REACHED
        assert solution.v is not None
        # In K(v), value iteration's threshold: the action taken is worth no more than VaR.
        tail, _, _ = tail_mass(equal)
        Z = equal.R + equal.gamma * np.einsum("nsat,t->san", equal.models.P, solution.v)
        d = solution.policy.decision
        for s in range(6):
            level = value_at_risk(Z[s, d[s]], equal.models.f, 1 - tail)
            assert solution.v[s] <= level + 1e-5 * np.abs(solution.v).max()


def test_the_promise_holds_on_most_models() -> None:
    problem = random_problem(2, 6, 2, 300, lam=1.0, alpha=0.6)
    equal = problem.with_models(ModelSet.from_dense(problem.models.P))
    solution = solve(equal, RSVF())
    assert solution.model_value is not None
    assert (policy_return(equal, solution.policy) >= solution.model_value).mean() >= 0.6


def test_less_cautious_than_bcr_here() -> None:  # not a theorem
    problem = random_problem(2, 6, 2, 300, lam=1.0, alpha=0.6)
    equal = problem.with_models(ModelSet.from_dense(problem.models.P))
    ours, theirs = solve(equal, RSVF()).model_value, solve(equal, BCR()).model_value
    nominal = solve(equal, Nominal()).model_value
    assert ours is not None
    assert theirs is not None
    assert nominal is not None
    assert theirs < ours < nominal


def test_masks_weights_and_few_draws() -> None:
    problem = random_problem(4, masks=True, lam=0.7)
    with pytest.warns(SaturationWarning, match="RSVF"):
        solution = solve(problem, RSVF())
    assert (solution.policy.probs[~problem.allowed] == 0).all()
    out = int(np.flatnonzero(problem.models.f == 0)[0])
    rest = problem.with_models(problem.models.select(np.arange(7) != out))
    with pytest.warns(SaturationWarning):
        assert solve(rest, RSVF()).model_value == pytest.approx(solution.model_value, rel=1e-6)


def test_limits_return_what_there_is() -> None:
    problem = opposed()
    equal = problem.with_models(ModelSet.from_dense(problem.models.P))
    full = solve(equal, RSVF())
    assert full.stats["value_functions"] > 1
    cut = solve(equal, RSVF(max_sets=1))
    assert cut.status is Status.ITERATION_LIMIT
    assert cut.stats["value_functions"] == 1
    assert solve(equal, RSVF(time_limit=1e-9)).status is Status.TIME_LIMIT
    with pytest.raises(InputError, match="max_sets"):
        RSVF(max_sets=0)


def test_thresholds_below_all_rewards_are_counted() -> None:
    # Rewards by model: a model can be worse than the mean reward of every next state.
    problem = random_problem(5, alpha=0.0, lam=1.0, n_models=30)
    m = problem.models
    r = np.repeat(np.random.default_rng(1).normal(size=(15, 30)) * 5, 5)
    own = replace(m, rewards=Rewards.of_models(r, 5, 3), f=np.full(30, 1 / 30))
    by_model = Problem(own, p0=problem.p0, gamma=0.5, objective=SoftRobust(1.0, 0.0))
    solution = solve(by_model, RSVF())
    assert solution.stats["thresholds_lifted"] > 0
    assert solution.status is Status.TOLERANCE_REACHED


def test_a_set_out_of_reach_is_infinitely_far() -> None:
    assert distance(np.array([1.0]), np.array([[1.0]]), np.array([0.5])) == np.inf
    assert l1_reach(np.array([1.0]), np.array([1.0]), 1.0, np.empty(1)) == 0.0


def test_lambda_moves_the_thresholds_from_the_mean_to_the_quantile() -> None:
    problem = random_problem(2, 6, 2, 300, alpha=0.6)
    values = []
    for lam in (0.0, 0.5, 1.0):
        point = replace(problem, objective=SoftRobust(lam, 0.6))
        found = solve(point, RSVF())
        assert found.model_value is not None
        values.append(found.model_value)
    nominal = solve(problem, Nominal()).model_value
    assert values[0] == pytest.approx(nominal, rel=1e-8)
    assert values[0] > values[1] > values[2]  # the sets grow with λ
