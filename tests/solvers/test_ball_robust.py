"""L1- and L∞-robust MDPs against value iteration written by hand, and what they accept."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray

from softrobust.data import Rewards, TransitionLog
from softrobust.errors import InputError
from softrobust.models.model_set import ModelSet
from softrobust.posterior import DirichletPosterior
from softrobust.problem import Problem
from softrobust.solvers import L1Robust, LInfRobust, Nominal, Status, solve
from softrobust.solvers.baselines.ball_robust import pair_rows
from tests.instances import random_problem
from tests.kernels.balls import l1_worst_case, linf_worst_case

FloatArray = NDArray[np.float64]


def robust_values(
    problem: Problem, r: FloatArray, budgets: FloatArray, norm: str, w: FloatArray | None = None
) -> FloatArray:
    """Plain value iteration on dense rows; r (S, A, S), budgets (S, A)."""
    worst = l1_worst_case if norm == "l1" else linf_worst_case
    P = np.einsum("n,nsat->sat", problem.models.f, problem.models.P)
    S, A = problem.allowed.shape
    v = np.zeros(S)
    for _ in range(4000):
        z = (r + problem.gamma * v).reshape(S * A, S)
        Q = worst(P.reshape(S * A, S), z, budgets.reshape(-1), w)[0].reshape(S, A)
        new = np.where(problem.allowed, Q, -np.inf).max(axis=1)
        if np.abs(new - v).max() < 1e-13:
            break
        v = new
    return v


@pytest.mark.parametrize("solver", [L1Robust, LInfRobust])
@pytest.mark.parametrize("form", ["pair", "transition"])
@pytest.mark.parametrize("weighted", [False, True])
def test_value_iteration_by_hand(
    solver: type[L1Robust] | type[LInfRobust], form: str, weighted: bool
) -> None:
    for seed in range(4):
        problem = random_problem(seed, masks=True, reward_form=form)
        rng = np.random.default_rng(seed)
        budgets = rng.uniform(0, 0.8, size=(5, 3))
        w = rng.uniform(0.3, 2.0, size=5) if weighted else None
        solution = solve(problem, solver(budgets, weights=w))
        r = np.broadcast_to(_dense_rewards(problem), (5, 3, 5))
        v = robust_values(problem, r, budgets, "l1" if solver is L1Robust else "linf", w)
        assert solution.v is not None
        np.testing.assert_allclose(solution.v, v, rtol=1e-8, atol=1e-9)
        assert solution.status is Status.TOLERANCE_REACHED
        assert solution.stats["tol_achieved"] <= 1e-8
        own = float(problem.p0 @ v)
        assert solution.stats["model_value_lower"] - 1e-10 <= own
        assert own <= solution.stats["model_value_upper"] + 1e-10
        assert (solution.policy.probs[~problem.allowed] == 0).all()


def _dense_rewards(problem: Problem) -> FloatArray:
    S, A = problem.allowed.shape
    keys = np.arange(S * A * S)
    return problem.rewards.lookup(keys // S, keys % S)[0].reshape(S, A, S)


@pytest.mark.parametrize("gamma", [0.05, 0.9, 0.999])
def test_few_sweeps_and_a_certificate_at_any_discount(gamma: float) -> None:
    for seed in range(6):
        problem = random_problem(seed, 12, 4, gamma=gamma, masks=True)
        solution = solve(problem, L1Robust(0.4))
        assert solution.status is Status.TOLERANCE_REACHED
        assert solution.stats["sweeps"] <= 25


def test_no_budget_is_nominal_and_all_of_it_the_worst_next_state() -> None:
    problem = random_problem(3, masks=True, reward_form="transition")
    nominal = solve(problem, Nominal())
    for solver in (L1Robust(0.0), LInfRobust(0.0), L1Robust(np.zeros((5, 3)))):
        same = solve(problem, solver)
        assert same.model_value == pytest.approx(nominal.model_value, rel=1e-9)
        np.testing.assert_array_equal(same.policy.probs, nominal.policy.probs)
    v = solve(problem, L1Robust(2.0)).v
    assert v is not None
    z = _dense_rewards(problem) + problem.gamma * v
    worst = np.where(problem.allowed, z.min(axis=2), -np.inf).max(axis=1)
    np.testing.assert_allclose(v, worst, rtol=1e-8)
    box = solve(problem, LInfRobust(1.0)).v
    assert box is not None
    np.testing.assert_allclose(box, v, rtol=1e-8)


def test_larger_balls_promise_less() -> None:
    problem = random_problem(5)
    values = [solve(problem, L1Robust(b)).model_value for b in (0.0, 0.2, 0.5, 1.0, 2.0)]
    assert (np.diff(np.array(values, dtype=float)) <= 1e-9).all()


def reachable() -> Problem:
    """Nothing leads to state 2, where it is worst; both models move between 0 and 1."""
    P = np.zeros((2, 3, 1, 3))
    P[0, :, 0, :2] = [[0.5, 0.5], [0.5, 0.5], [0.5, 0.5]]
    P[1, :, 0, :2] = [[0.7, 0.3], [0.5, 0.5], [0.5, 0.5]]
    return Problem(ModelSet.from_dense(P), rewards=[[1.0], [0.0], [-9.0]], gamma=0.5)


def test_support_is_a_choice() -> None:
    problem = reachable()
    near, far = (solve(problem, L1Robust(0.5, support=s)) for s in ("models", "all"))
    # Of 0's row (.6, .4) a quarter moves to 1; of 1's (.5, .5) as well.
    v = np.linalg.solve(np.eye(2) - 0.5 * np.array([[0.35, 0.65], [0.25, 0.75]]), [1.0, 0.0])
    assert near.v is not None
    np.testing.assert_allclose(near.v[:2], v, rtol=1e-9)
    assert far.v is not None
    assert far.v[0] < near.v[0] - 0.5
    with pytest.raises(InputError, match="support must be"):
        solve(problem, L1Robust(0.5, support="some"))  # type: ignore[arg-type]


def test_rewards_of_unlisted_transitions_are_needed_for_all_states_only() -> None:
    problem = reachable()
    keys = [(s, 0, t) for s in range(3) for t in range(2)]
    s, a, t = np.array(keys).T
    partly = replace(problem, rewards=Rewards.of_triples(s, a, t, np.ones(6), 3, 1))
    assert solve(partly, L1Robust(0.5)).model_value == pytest.approx(2.0)
    with pytest.raises(InputError, match="next state '2' has none"):
        solve(partly, L1Robust(0.5, support="all"))


def test_rewards_by_model_keep_the_mean_reward() -> None:
    problem = random_problem(7)
    m = problem.models
    r = np.random.default_rng(7).normal(size=m.prob.size)
    by_model = replace(problem, rewards=Rewards.of_models(r, 5, 3))
    rows = pair_rows(by_model)
    expected = np.add.reduceat(rows.p * rows.r, rows.indptr[:-1])
    np.testing.assert_allclose(expected, (by_model.R @ m.f).reshape(-1), atol=1e-12)
    assert solve(by_model, L1Robust(0.0)).model_value == pytest.approx(
        solve(by_model, Nominal()).model_value, rel=1e-9
    )


def test_states_that_were_never_left_stay() -> None:
    log = TransitionLog.from_arrays(["a", "a", "b"], ["x", "y", "x"], ["b", "end", "a"], [1, 5, 0])
    models = DirichletPosterior().fit(log).sample(20, seed=0)
    problem = Problem(models, rewards=log.rewards, p0=log.p0, gamma=0.9)
    for solver in (L1Robust(1.0), L1Robust(1.0, support="all"), LInfRobust(0.5)):
        solution = solve(problem, solver)
        assert solution.v is not None
        end = solution.v[log.states.index("end")]
        assert end == pytest.approx(0.0, abs=1e-8 * np.abs(solution.v).max())


def test_another_centre() -> None:
    problem = random_problem(2)
    own = problem.models.mean_model()
    other = problem.models.select([0, 1]).mean_model()
    here = solve(problem, L1Robust(0.3, centre=own)).model_value
    assert here == pytest.approx(solve(problem, L1Robust(0.3)).model_value, rel=1e-9)
    there = solve(problem.with_models(other), L1Robust(0.3)).model_value
    moved = solve(problem, L1Robust(0.3, centre=other)).model_value
    assert moved == pytest.approx(there, rel=1e-9)
    several = solve(problem, L1Robust(0.3, centre=problem.models.select([0, 1]))).model_value
    assert several == pytest.approx(moved, rel=1e-9)
    with pytest.raises(InputError, match="states and actions of the problem"):
        solve(problem, L1Robust(0.3, centre=random_problem(2, 4).models))
    lacking = ModelSet.from_dense(
        own.P, states=own.states, actions=own.actions, available=np.eye(5, 3) == 0
    )
    with pytest.raises(InputError, match="must know every allowed pair"):
        solve(problem, L1Robust(0.3, centre=lacking))


def test_a_limit_returns_bounds() -> None:
    problem = random_problem(1, 12, 4, gamma=0.99)
    exact = solve(problem, L1Robust(0.4))
    rough = solve(problem, L1Robust(0.4, max_rounds=1))
    assert rough.status is Status.ITERATION_LIMIT
    assert exact.model_value is not None
    low, high = rough.stats["model_value_lower"], rough.stats["model_value_upper"]
    assert low <= exact.model_value <= high
    assert solve(problem, L1Robust(0.4, time_limit=1e-9)).status is Status.TIME_LIMIT


@pytest.mark.parametrize("budgets", [-0.1, np.nan, np.inf, np.array([0.1, 0.2]), -np.ones((5, 3))])
def test_budgets_are_checked(budgets: float) -> None:
    with pytest.raises(InputError, match="budgets is one radius"):
        L1Robust(budgets)


def test_settings_are_checked() -> None:
    problem = random_problem(0)
    with pytest.raises(InputError, match=r"shape \(n_states, n_actions\)"):
        solve(problem, L1Robust(np.ones((5, 2))))
    with pytest.raises(InputError, match="weights of a norm"):
        solve(problem, L1Robust(0.1, weights=np.zeros(5)))
    with pytest.raises(InputError, match="tol"):
        L1Robust(0.1, tol=-1.0)
    with pytest.raises(InputError, match="max_rounds"):
        L1Robust(0.1, max_rounds=0)
    given = np.full((5, 3), 0.1)
    solver = L1Robust(given)
    given[:] = 1.0
    assert np.max(solver.budgets) == 0.1
