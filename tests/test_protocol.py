"""Every solver on one small problem: shapes, status, masks, repeatability, save and load.

Those for tables first, by the names of the command line and a few more; then those for vectors.
"""

from __future__ import annotations

from dataclasses import FrozenInstanceError, replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from softrobust.certificate import certify, load_solution, save_solution
from softrobust.data import TransitionLog
from softrobust.errors import InputError
from softrobust.models.continuous_policy import ConstantPolicy
from softrobust.objective import SoftRobust
from softrobust.posterior import DirichletPosterior
from softrobust.problem import ContinuousProblem, Problem
from softrobust.returns import static_return
from softrobust.solvers import (
    CADP,
    RPVI,
    Behaviour,
    Deterministic,
    L1Robust,
    LInfRobust,
    Solver,
    SRect,
    Status,
    solve,
    solve_grid,
)
from softrobust.solvers.registry import CONTINUOUS_SOLVERS, SOLVERS, make_solver
from tests.continuous_instances import linear_problem
from tests.solvers.sac_worlds import TINY


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
    if name in OTHERS:
        return OTHERS[name]
    return make_solver(name, log=LOG, time_limit=20.0, seed=0, posterior=POSTERIOR)


# Solvers that the command line does not name, or not with these settings.
OTHERS: dict[str, Solver] = {
    "behaviour": Behaviour(LOG),
    "l1-robust": L1Robust(0.3),
    "linf-robust": LInfRobust(0.1),
    "deterministic": Deterministic(SRect().solve(small_problem())),
    "cadp of the mean": CADP(),
}
NAMES = sorted(SOLVERS) + list(OTHERS)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(("lam", "alpha"), [(0.5, 0.8), (0.0, 0.8), (1.0, 1.0), (1.0, 0.0)])
def test_solution(name: str, lam: float, alpha: float) -> None:
    problem = small_problem(lam, alpha)
    solution = solve(problem, make(name))
    assert solution.solver == make(name).name
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


@pytest.mark.parametrize("name", [n for n in NAMES if n not in ("behaviour", "improve")])
def test_a_user_mask_is_honoured(name: str) -> None:
    """Practice has no mask, and `improve`, which starts from it, refuses one."""
    problem = small_problem()
    chosen = solve(problem, make(name)).policy.decision
    allowed = problem.allowed.copy()
    allowed[0, chosen[0]] = False
    masked = replace(problem, allowed=allowed)
    solver = make(name)
    if isinstance(solver, Deterministic):
        solver = replace(solver, solution=SRect().solve(masked))
    solution = solve(masked, solver)
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


# -- vectors --------------------------------------------------------------------------------------

VALUES = {"iterations": 4, "episodes": 3, "batch": 20}
VECTORS = [*sorted(CONTINUOUS_SOLVERS), "rpvi"]


def make_for_vectors(name: str, problem: ContinuousProblem) -> Solver:
    if name == "rpvi":
        policy = ConstantPolicy("on", problem.variables, problem.actions)
        return RPVI(policy=policy, **VALUES)  # type: ignore[arg-type]
    deep = name.endswith("sac")
    if deep and (find_spec("jax") is None or find_spec("optax") is None):
        pytest.skip("soft actor-critic needs JAX and optax")
    settings: dict[str, Any] = TINY if deep else VALUES
    return make_solver(name, continuous=True, seed=0, settings=settings)


@pytest.mark.parametrize("name", VECTORS)
def test_vectors_have_the_same_protocol(name: str, tmp_path: Path) -> None:
    problem = linear_problem()
    solver = make_for_vectors(name, problem)
    assert solver.continuous
    first: Any = solve(problem, solver)
    second = solve(problem, solver)
    assert first.solver == name == solver.name
    assert isinstance(first.status, Status)
    assert (first.gamma, first.objective) == (problem.gamma, problem.objective)
    assert first.n_models in (problem.n_models, 1)  # plain SAC trains in the mean model alone
    s = np.array([[0.0, 0.0], [1.0, -0.5], [3.0, 3.0]])
    probs = first.policy.probs(s)
    assert probs.shape == (3, 2)
    np.testing.assert_allclose(probs.sum(axis=1), 1.0, atol=1e-6)
    np.testing.assert_array_equal(probs, second.policy.probs(s))  # the same seed, the same answer
    assert first.value is None  # returns are simulated, never exact
    with pytest.raises(InputError, match="simulated"):
        _ = first.static_value
    if first.v is not None:
        assert first.v(s).shape == (3,)
    certificate = certify(problem, first.policy, episodes=5)
    save_solution(tmp_path / "solution.json", first, certificate)
    first.policy.save(tmp_path / "policy.npz")
    again = load_solution(tmp_path)
    np.testing.assert_allclose(again.policy.probs(s), probs, atol=1e-6)
    assert (again.solver, again.status, again.objective) == (name, first.status, first.objective)
    with pytest.raises((FrozenInstanceError, AttributeError, TypeError)):
        solver.name = "other"  # type: ignore[misc]


# The three actor-critics share what they do with a mask, and take long to compile.
@pytest.mark.parametrize("name", ["srvi", "srvi-sa", "rpvi-control", "sac"])
def test_vectors_honour_a_mask(name: str) -> None:
    problem = linear_problem()
    masked = ContinuousProblem(
        problem.models, objective=problem.objective, allowed=np.array([True, False])
    )
    solution = solve(masked, make_for_vectors(name, masked))
    assert (solution.policy.probs(np.random.default_rng(0).normal(size=(20, 2)))[:, 1] == 0).all()


def test_solvers_refuse_the_other_kind_of_states() -> None:
    for problem, solver in ((small_problem(), "srvi"), (linear_problem(), "nominal")):
        with pytest.raises(InputError, match="is not for those"):
            solve(problem, make_solver(solver, continuous=solver == "srvi"))
