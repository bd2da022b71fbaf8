"""The percentile criterion: exact evaluation, local search, its MILP against brute force."""

from __future__ import annotations

import itertools
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from softrobust.bounds import Covers, best_bound, clairvoyant_bound
from softrobust.certificate import certify, load_solution, save_solution
from softrobust.errors import InputError
from softrobust.models import ModelSet, Policy
from softrobust.objective import Percentile, SoftRobust
from softrobust.problem import Problem, load_problem, save_problem
from softrobust.returns import Returns, policy_return, s_rect_return, static_return
from softrobust.solvers import (
    CADP,
    MILP,
    Exact,
    LocalSearch,
    Nominal,
    RandomizedAscent,
    SRect,
    Status,
)
from tests.instances import random_problem


def instance(seed: int) -> Problem:
    rng = np.random.default_rng(seed)
    problem = random_problem(
        seed,
        n_states=int(rng.integers(1, 5)),
        n_actions=int(rng.integers(1, 4)),
        n_models=int(rng.integers(1, 8)),
        masks=bool(rng.integers(2)),
        reward_form=str(rng.choice(["pair", "transition"])),
    )
    return replace(problem, objective=Percentile(float(rng.choice([0, 0.3, 0.7, 0.9, 1]))))


def brute_force(problem: Problem) -> float:
    m = problem.models
    rules = itertools.product(*[np.flatnonzero(row) for row in problem.allowed])
    return max(
        static_return(problem, Policy.from_decision(rule, m.states, m.actions)) for rule in rules
    )


@pytest.mark.parametrize("alpha", [0.0, 0.25, 0.5, 0.7, 0.9, 1.0])
def test_definition(alpha: float) -> None:
    """The greatest y among the returns with P[x ≥ y] ≥ α."""
    rng = np.random.default_rng(0)
    for _ in range(50):
        n = int(rng.integers(1, 9))
        x, f = rng.integers(0, 5, n).astype(float), rng.dirichlet(np.ones(n))
        expected = max(y for y in x if f[x >= y].sum() >= alpha - 1e-12)
        objective = Percentile(alpha)
        assert objective.value(x, f) == expected
        assert objective.values(np.stack([x, x]), f).tolist() == [expected, expected]
        assert float(objective.worst_case(x, f) @ x) == expected


@pytest.mark.parametrize("seed", range(30))
def test_milp_and_local_search_against_brute_force(seed: int) -> None:
    problem = instance(seed)
    best = brute_force(problem)
    scale = max(1.0, float(np.abs(problem.R).max()) / (1 - problem.gamma))
    for solver in (MILP(time_limit=60), Exact(), Exact(dual=False)):
        solution = solver.solve(problem)
        assert solution.status is Status.OPTIMAL
        assert solution.static_value == pytest.approx(best, abs=1e-7 * scale)
        assert solution.bound is not None
        assert solution.bound.value >= best
        bound = solution.bound
    found = LocalSearch().solve(problem)
    assert found.static_value <= best + 1e-9 * scale
    assert clairvoyant_bound(problem).value >= best
    certificate = certify(problem, found.policy, bounds=[bound])
    assert certificate.gap_abs >= 0


def test_the_single_state_bound_lies_between_optimum_and_clairvoyant() -> None:
    closed = 0.0
    for seed in range(20):
        problem = replace(
            random_problem(seed, n_states=4, n_actions=2, n_models=6), objective=Percentile(0.7)
        )
        best, bound = brute_force(problem), best_bound(problem, Covers.DETERMINISTIC)
        clairvoyant = clairvoyant_bound(problem).value
        assert best <= bound.value <= clairvoyant
        assert best_bound(problem, Covers.STATIONARY).value == clairvoyant
        closed += (clairvoyant - bound.value) / max(clairvoyant - best, 1e-9)
    assert closed > 0.1  # weak at the root; it is branching that closes the gap


def test_both_criteria_on_one_problem() -> None:
    """Each criterion's own optimum is at least as good by it as the other's."""
    base = random_problem(11, n_states=4, n_actions=3, n_models=9)
    soft = replace(base, objective=SoftRobust(1.0, 0.7))
    percentile = replace(base, objective=Percentile(0.7))
    by_soft = MILP().solve(soft).policy
    by_percentile = MILP().solve(percentile).policy
    assert static_return(soft, by_soft) >= static_return(soft, by_percentile) - 1e-9
    assert static_return(percentile, by_percentile) >= static_return(percentile, by_soft) - 1e-9
    # CVaR never exceeds the upper quantile of the same returns.
    returns = policy_return(base, by_soft)
    f = base.models.f
    assert soft.objective.value(returns, f) <= percentile.objective.value(returns, f) + 1e-12


@pytest.mark.parametrize("solver", [SRect(), RandomizedAscent()])
def test_methods_of_the_other_criterion_say_so(solver: object) -> None:
    problem = instance(0)
    with pytest.raises(InputError, match="is for the soft-robust objective"):
        solver.solve(problem)  # type: ignore[attr-defined]
    with pytest.raises(InputError, match="is for the soft-robust objective"):
        s_rect_return(problem, problem.uniform_policy())


def test_heuristics_work_with_any_objective() -> None:
    problem = instance(5)
    for solver in (Nominal(), CADP(robust=True), CADP()):
        assert np.isfinite(solver.solve(problem).static_value)


def test_files_keep_the_criterion(tmp_path: Path) -> None:
    problem = instance(3)
    save_problem(tmp_path / "problem.npz", problem)
    assert load_problem(tmp_path / "problem.npz").objective == problem.objective
    solution = LocalSearch().solve(problem)
    certificate = certify(problem, solution.policy)
    save_solution(tmp_path / "solution.json", solution, certificate)
    assert load_solution(tmp_path).objective == problem.objective
    assert load_solution(tmp_path).rounding == certificate.rounding > 0


def test_held_out_limit_of_a_quantile_covers() -> None:
    from softrobust.certificate import held_out

    rng = np.random.default_rng(0)
    objective, n, hits = Percentile(0.9), 300, 0
    train = rng.standard_normal(50)
    for _ in range(300):
        z = rng.standard_normal(n)
        result = held_out(
            Returns(train, np.full(50, 0.02)), Returns(z, np.full(n, 1 / n)), objective
        )
        assert result.lower_bound is not None
        assert result.lower_bound.low is not None
        hits += result.lower_bound.low <= -1.2815515655446004
    assert hits >= 270  # Binomial(300, 0.95) is that large with probability 0.9998


def test_the_printed_program_is_not_for_percentiles() -> None:
    with pytest.raises(InputError, match="The paper's program is for the soft-robust"):
        MILP(formulation="paper").solve(instance(0))


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("objective", [Percentile(0.7), SoftRobust(0.5, 0.7)])
def test_tiny_probabilities(seed: int, objective: Percentile | SoftRobust) -> None:
    """Probabilities near a solver's tolerances: still the optimum, or its incumbent and a bound."""
    rng = np.random.default_rng(seed)
    P = rng.dirichlet(np.full(3, 0.04), size=(3, 3, 2))
    models = ModelSet.from_dense(P, rng.dirichlet(np.ones(3)))
    problem = Problem(models, rewards=rng.normal(size=(3, 2)), gamma=0.9, objective=objective)
    best = brute_force(problem)
    solution = MILP(time_limit=20).solve(problem)
    assert solution.static_value == pytest.approx(best, abs=1e-7 * max(1, abs(best)))
    assert solution.bound is not None
    assert solution.bound.value >= best - 1e-9
