"""Every solver on one small problem: shapes, status, masks, repeatability, save and load."""

from __future__ import annotations

from dataclasses import FrozenInstanceError, replace
from pathlib import Path

import numpy as np
import pytest

from softrobust.certificate import certify, load_solution, save_solution
from softrobust.data import TransitionLog
from softrobust.errors import InputError
from softrobust.objective import SoftRobust
from softrobust.posterior import DirichletPosterior
from softrobust.problem import Problem
from softrobust.returns import static_return
from softrobust.solvers import Solver, Status, solve, solve_grid
from softrobust.solvers.registry import SOLVERS, make_solver

NAMES = sorted(SOLVERS)


def small_log() -> TransitionLog:
    rng = np.random.default_rng(0)
    s, a = rng.integers(0, 4, 120), rng.integers(0, 3, 120)
    keep = ~((s == 2) & (a == 1))  # a pair never seen: a mask that solvers must honour
    s_next = (s + a + (rng.random(120) < 0.3)) % 4
    return TransitionLog.from_arrays(s[keep], a[keep], s_next[keep], (s - 0.5 * a)[keep])


LOG = small_log()
POSTERIOR = DirichletPosterior().fit(LOG)
# At α = 1 no number of draws shows the quantile that some sets are built from, and they say so.
pytestmark = pytest.mark.filterwarnings(
    "ignore::softrobust.solvers.baselines.draws.SaturationWarning"
)


def small_problem(lam: float = 0.5, alpha: float = 0.8) -> Problem:
    models = POSTERIOR.sample(12, seed=1)
    return Problem(
        models, rewards=LOG.rewards, p0=LOG.p0, gamma=0.9, objective=SoftRobust(lam, alpha)
    )


def make(name: str) -> Solver:
    return make_solver(name, log=LOG, time_limit=20.0, seed=0, posterior=POSTERIOR)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(("lam", "alpha"), [(0.5, 0.8), (0.0, 0.8), (1.0, 1.0), (1.0, 0.0)])
def test_solution(name: str, lam: float, alpha: float) -> None:
    problem = small_problem(lam, alpha)
    solution = solve(problem, make(name))
    assert solution.solver == name
    assert isinstance(solution.status, Status)
    assert solution.policy.probs.shape == (4, 3)
    assert solution.policy.probs[2, 1] == 0  # never seen, never taken
    assert solution.static_value == pytest.approx(
        static_return(problem, solution.policy), abs=1e-12
    )
    if solution.v is not None:
        assert solution.v.shape == (4,)
        assert solution.model_value == pytest.approx(float(problem.p0 @ solution.v))
    if solution.bound is not None:
        assert solution.gap_abs is not None
        assert solution.gap_abs >= -1e-9 * max(1.0, abs(solution.static_value))
    certificate = certify(
        problem, solution.policy, bounds=[solution.bound] if solution.bound else []
    )
    assert certificate.gap_abs >= 0


@pytest.mark.parametrize("name", NAMES)
def test_same_answer_twice(name: str) -> None:
    first, second = (solve(small_problem(), make(name)) for _ in range(2))
    np.testing.assert_array_equal(first.policy.probs, second.policy.probs)
    assert first.static_value == second.static_value


@pytest.mark.parametrize("name", NAMES)
def test_solvers_are_frozen(name: str) -> None:
    with pytest.raises((FrozenInstanceError, AttributeError, TypeError)):
        make(name).name = "other"  # type: ignore[misc]


@pytest.mark.parametrize("name", NAMES)
def test_save_and_load_without_log_or_models(name: str, tmp_path: Path) -> None:
    problem = small_problem()
    solution = solve(problem, make(name))
    certificate = certify(problem, solution.policy)
    save_solution(tmp_path / "solution.json", solution, certificate)
    again = load_solution(tmp_path)
    np.testing.assert_array_equal(again.policy.probs, solution.policy.probs)
    assert again.policy.states == solution.policy.states
    assert again.status is solution.status
    assert again.static_value == solution.static_value
    assert again.objective == solution.objective
    assert again.bound == certificate.bound


@pytest.mark.parametrize("name", NAMES)
def test_a_user_mask_is_honoured(name: str) -> None:
    problem = small_problem()
    chosen = solve(problem, make(name)).policy.decision
    allowed = problem.allowed.copy()
    allowed[0, chosen[0]] = False
    masked = replace(problem, allowed=allowed)
    solution = solve(masked, make(name))
    assert solution.policy.probs[0, chosen[0]] == 0


@pytest.mark.parametrize("name", NAMES)
def test_grid(name: str) -> None:
    grid = solve_grid(small_problem(), make(name), [0.0, 1.0], [0.5, 0.9])
    assert [[s.objective for s in row] for row in grid] == [
        [SoftRobust(0.0, 0.5), SoftRobust(0.0, 0.9)],
        [SoftRobust(1.0, 0.5), SoftRobust(1.0, 0.9)],
    ]
    alone = solve(small_problem(1.0, 0.9), make(name))
    assert grid[1][1].static_value == pytest.approx(alone.static_value, rel=1e-6)


def test_unknown_names_and_wrong_things() -> None:
    with pytest.raises(InputError, match="Did you mean 'sa-rect'"):
        make_solver("sarect")
    with pytest.raises(InputError, match="counts transitions in a log"):
        make_solver("empirical")
    with pytest.raises(InputError, match="improves the policy that made a log"):
        make_solver("spibb")
    with pytest.raises(InputError, match="needs a solver object"):
        solve(small_problem(), "exact")  # type: ignore[call-overload]
