"""Rewards far from 0 or of odd size: moved and scaled for HiGHS, and moved back."""

from __future__ import annotations

import itertools
import json
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from softrobust.bounds.reduction import least_reach, pair_sums, reach
from softrobust.errors import InputError
from softrobust.models.model_set import ModelSet
from softrobust.objective import Percentile, SoftRobust
from softrobust.problem import Problem
from softrobust.returns import occupancies, policy_return
from softrobust.solvers import MILP, Status, write_milp
from softrobust.solvers.exact.milp import load_highs
from softrobust.solvers.exact.milp_program import _few, build_milp, condition
from tests.agree.static_instances import all_decisions, brute_force
from tests.instances import random_policy, random_problem
from tests.solvers.exact_fractions import exact_returns


def moved(seed: int, offset: float, factor: float, gamma: float = 0.99) -> Problem:
    p = random_problem(seed, 4, 2, 4, gamma=gamma, masks=seed % 2 == 0)
    return replace(p, rewards=p.rewards.of_pairs(factor * np.asarray(p.rewards.pairs) + offset))


def off_one(seed: int, miss: float, offset: float = 0.0) -> Problem:
    """Rows whose sums miss 1 by `miss`, as far as a set of models may."""
    p = random_problem(seed, 4, 2, 3, gamma=0.9)
    P = np.asarray(p.models.P) * (1 + miss)
    models = ModelSet.from_dense(P, p.models.f)
    rewards = np.asarray(p.rewards.pairs) + offset
    return Problem(models, rewards=rewards, p0=p.p0, gamma=0.9, objective=p.objective)


SIZES = [(0.0, 1.0), (1e6, 1.0), (-1e6, 1.0), (0.0, 1e6), (0.0, 1e-6), (1e9, 1e3), (7.0, 0.0)]


@pytest.mark.parametrize(("offset", "factor"), SIZES)
def test_the_way_there_and_back_is_exact(offset: float, factor: float) -> None:
    """ρ = unit·ρ' + shift within `error`, in fractions, for rows that miss 1 too."""
    for problem in (moved(1, offset, factor), off_one(1, 9e-9, offset), off_one(2, -9e-9, offset)):
        terms = condition(problem, problem.allowed)
        there = object.__new__(Problem)
        for name in ("models", "rewards", "p0", "gamma", "horizon", "objective", "allowed"):
            object.__setattr__(there, name, getattr(problem, name))
        object.__setattr__(there, "R", terms.R)
        for decision in all_decisions(problem)[:4]:
            for old, new in zip(
                exact_returns(problem, decision), exact_returns(there, decision), strict=True
            ):
                back = Fraction(terms.unit) * new + Fraction(terms.shift)
                assert abs(back - old) <= Fraction(terms.error)
        size = float(np.abs(problem.R).max()) / (1 - problem.gamma)
        assert terms.error <= 1e-11 * size
        if factor > 0:
            assert 1e-4 <= float(np.abs(terms.R[problem.allowed]).max()) <= 1e4


def test_most_problems_are_left_alone() -> None:
    problem = random_problem(0)
    terms = condition(problem, problem.allowed)
    assert terms.R is problem.R
    assert (terms.unit, terms.shift, terms.error) == (1.0, 0.0, 0.0)
    solution = MILP().solve(problem)
    assert "rewards_shift" not in solution.stats


@pytest.mark.parametrize("form", ["strengthened", "paper"])
@pytest.mark.parametrize(("offset", "factor"), SIZES)
def test_highs_solves_what_it_could_not(form: str, offset: float, factor: float) -> None:
    """About a third of these failed or were proven loosely before rewards were moved."""
    for seed in range(3):
        problem = moved(seed, offset, factor)
        optimum = brute_force(problem)
        # A gap is a share of the value: with an offset of a million, a smaller one is meant.
        solution = MILP(formulation=form, gap=1e-11).solve(problem)  # type: ignore[arg-type]
        assert solution.status is Status.OPTIMAL
        assert solution.stats["highs_status"] == "Optimal"
        assert solution.stats["milp_value"] == pytest.approx(optimum, rel=1e-6)
        assert solution.bound is not None
        assert solution.bound.value >= optimum
        assert solution.gap_abs is not None
        assert solution.gap_abs >= 0
        assert solution.gap_abs <= 1e-6 * factor / (1 - problem.gamma) + 1e-10 * abs(optimum)
        assert solution.static_value == pytest.approx(optimum, rel=1e-7)


@pytest.mark.parametrize("form", ["strengthened", "paper"])
@pytest.mark.parametrize("miss", [9e-9, -9e-9])
@pytest.mark.parametrize("offset", [0.0, 1e6])
def test_rows_that_miss_one_do_not_make_the_program_infeasible(
    form: str, miss: float, offset: float
) -> None:
    for seed in range(3):
        problem = off_one(seed, miss, offset)
        solution = MILP(formulation=form).solve(problem)  # type: ignore[arg-type]
        assert solution.stats["highs_status"] == "Optimal"
        assert solution.bound is not None
        assert solution.bound.value >= brute_force(problem)


def test_the_printed_big_m_is_printed_where_it_holds() -> None:
    problem = random_problem(2, 3, 2, 3)
    problem = problem.with_models(problem.models.select(problem.models.f > 0))
    f, n = problem.models.f, int(problem.allowed.sum())
    model = build_milp(problem, problem.allowed, "paper")
    entries = -model.matrix[:, :n].toarray()
    printed = f / (1 - problem.gamma)
    big = entries[(entries > 0) & (np.abs(entries - 1.0) > 1e-12)]
    assert np.isin(big, printed).all()


def test_percentile_is_moved_too() -> None:
    for seed in range(4):
        problem = replace(moved(seed, 1e6, 1.0), objective=Percentile(0.6))
        solution = MILP().solve(problem)
        optimum = brute_force(problem)
        assert solution.static_value == pytest.approx(optimum, rel=1e-9)
        assert solution.bound is not None
        assert solution.bound.value >= optimum


@pytest.mark.parametrize("offset", [0.0, 1e6])
def test_what_is_written_is_solved_with_stock_settings(offset: float, tmp_path: Path) -> None:
    highspy = pytest.importorskip("highspy")
    for seed in range(6):
        problem = moved(seed, offset, 1.0, gamma=[0.9, 0.99, 0.999][seed % 3])
        write_milp(problem, tmp_path / "program.mps")
        highs = highspy.Highs()
        highs.setOptionValue("output_flag", False)
        highs.readModel(str(tmp_path / "program.mps"))
        highs.run()
        how = json.loads((tmp_path / "program.mps.json").read_text())
        found = how["unit"] * highs.getInfo().objective_function_value + how["shift"]
        size = 1 / (1 - problem.gamma)  # of what rewards of 1 can earn
        assert found == pytest.approx(brute_force(problem), rel=1e-9, abs=1e-3 * size)
        assert (how["unit"], how["shift"]) == (1.0, 0.0) or offset
        assert how["times"]["u"] == 1 - problem.gamma


def test_the_printed_program_is_written_as_it_is(tmp_path: Path) -> None:
    problem = moved(0, 1e6, 1.0, gamma=0.9)
    problem = problem.with_models(problem.models.select(problem.models.f > 0))
    write_milp(problem, tmp_path / "program.mps", "paper")
    highs = pytest.importorskip("highspy").Highs()
    highs.setOptionValue("output_flag", False)
    highs.readModel(str(tmp_path / "program.mps"))
    plain = load_highs(build_milp(problem, problem.allowed, "paper"))
    assert max(np.abs(highs.getLp().col_cost_)) == pytest.approx(
        max(np.abs(plain.getLp().col_cost_)), rel=1e-9
    )
    how = json.loads((tmp_path / "program.mps.json").read_text())
    assert (how["unit"], how["shift"], how["times"]["u"]) == (1.0, 0.0, 1.0)


@pytest.mark.parametrize("miss", [9e-9, -9e-9, 0.0])
def test_occupancies_lie_within_the_reach_of_row_sums(miss: float) -> None:
    problem = off_one(0, miss)
    np.testing.assert_allclose(pair_sums(problem), 1 + miss, rtol=1e-14)
    for seed in range(5):
        total = occupancies(problem, random_policy(problem, seed)).sum(axis=1)
        assert (total <= reach(problem)).all()
        assert (total >= least_reach(problem)).all()
    assert (reach(problem) <= least_reach(problem) * (1 + 3e-7)).all()


def test_a_matrix_that_does_not_fit_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("softrobust._core.arrays.available_memory", lambda: 1e4)
    problem = random_problem(0)
    with pytest.raises(InputError, match=r"mixed-integer program .* use|Use the solver 'exact'"):
        build_milp(problem, problem.allowed, "paper")


def test_shifted_returns_of_a_policy() -> None:
    problem = moved(3, 1e6, 1.0)
    terms = condition(problem, problem.allowed)
    x = policy_return(problem, random_policy(problem, 0))
    assert terms.back(terms.there(float(x[0]))) == pytest.approx(float(x[0]), rel=1e-15)
    objective = SoftRobust(0.5, 0.7)
    there = (x - terms.shift) / terms.unit
    value = terms.back(objective.value(there, problem.models.f))
    assert value == pytest.approx(objective.value(x, problem.models.f), rel=1e-12)


def test_models_below_a_percentile_are_counted_in_whole_numbers() -> None:
    rng = np.random.default_rng(4)
    for _ in range(200):
        N = int(rng.integers(1, 8))
        f = np.full(N, 1 / N) if rng.random() < 0.3 else rng.dirichlet(np.ones(N))
        f = np.where(rng.random(N) < 0.3, rng.choice([1e-12, 1e-9]), f)
        budget = float(rng.choice([rng.random(), f.min(), f[:2].sum(), 1.0])) * (1 + 1e-12)
        rows, few = _few(f, budget)
        assert set(np.unique(rows)) <= {0.0, 1.0}
        for z in itertools.product([0, 1], repeat=N):
            own = np.array(z)
            wanted = f @ own <= budget and not own.all()
            heavy = bool((own[f > budget] == 1).any())  # these columns are fixed at 0
            assert bool((rows @ own <= few).all() and not heavy) == wanted, (f, budget, z)


def test_a_reference_is_moved_with_the_rewards() -> None:
    plain, far = (moved(1, offset, 1.0, gamma=0.999) for offset in (0.0, 1e9))
    for problem in (plain, far):
        goal = SoftRobust(0.5, 0.8, reference="optimum")
        terms = condition(replace(problem, objective=goal), problem.allowed)
        assert terms.shift == 0.0
        assert np.abs(terms.c).max() * terms.unit < 1e5  # not 1e12
