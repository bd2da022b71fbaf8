"""Finite horizons: brute force over timed and stationary policies, limits, bounds by class."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest

from softrobust._core.limits import Deadline
from softrobust.bounds import Covers, best_bound, clairvoyant_bound, reduction
from softrobust.certificate import certify
from softrobust.errors import InputError
from softrobust.kernels.evaluate import (
    horizon_flows,
    horizon_optima,
    horizon_values,
    horizon_values_dense,
    least_flows,
)
from softrobust.models.policy import Policy, TimedPolicy
from softrobust.objective import Percentile, SoftRobust
from softrobust.problem import Problem, load_problem, save_problem
from softrobust.returns import (
    ModelOptima,
    evaluate_policy,
    evaluation,
    optimal_returns,
    pair_occupancies,
    policy_return,
    reference,
    reference_returns,
    return_gradients,
    static_return,
)
from softrobust.solvers import solve
from softrobust.solvers.base import KNOW_HORIZONS, Status
from softrobust.solvers.baselines.multi_model import CADP
from softrobust.solvers.baselines.nominal import Nominal
from softrobust.solvers.exact import horizon as horizon_module
from softrobust.solvers.exact.exact import Exact
from softrobust.solvers.exact.local_search import LocalSearch
from softrobust.solvers.rectangular.rectangular import SRect
from tests.instances import random_problem


def small(seed: int, horizon: int = 3, gamma: float = 1.0, **more: int) -> Problem:
    sizes = {"n_states": 2, "n_actions": 2, "n_models": 5} | more
    goal = [SoftRobust(0.6, 0.7), Percentile(0.7), SoftRobust(1.0, 0.5), SoftRobust(0.0, 0.5)]
    problem = random_problem(seed, masks=seed % 3 == 0, **sizes)  # type: ignore[arg-type]
    return replace(problem, horizon=horizon, gamma=gamma, objective=goal[seed % 4])


def rolled(problem: Problem, rules: np.ndarray) -> np.ndarray:
    """Returns of rules (horizon, S, A) by pushing the state distribution forward, dense."""
    out = np.zeros(problem.n_models)
    for omega in range(problem.n_models):
        b, P = np.asarray(problem.p0), problem.models[omega].P
        for t, rule in enumerate(rules):
            pair = b[:, None] * rule
            out[omega] += problem.gamma**t * (pair * problem.R[:, :, omega]).sum()
            b = np.einsum("sa,sap->p", pair, P)
    return out


def rules_of(problem: Problem) -> list[tuple[int, ...]]:
    options = [np.flatnonzero(row).tolist() for row in problem.allowed]
    return list(itertools.product(*options))


def best_stationary(problem: Problem) -> float:
    found = (problem.policy(np.array(rule)) for rule in rules_of(problem))
    return max(static_return(problem, policy) for policy in found)


def best_timed(problem: Problem) -> float:
    eye, f = np.eye(problem.n_actions), problem.models.f
    plans = itertools.product(rules_of(problem), repeat=problem.horizon or 0)
    return max(problem.objective.value(rolled(problem, eye[np.array(p)]), f) for p in plans)


@pytest.mark.parametrize("seed", range(8))
def test_randomized_rules_by_two_routes(seed: int) -> None:
    problem = replace(random_problem(seed, masks=True), horizon=6, gamma=[1.0, 0.9][seed % 2])
    rng = np.random.default_rng(seed)
    probs = rng.random((6, *problem.allowed.shape)) * problem.allowed
    probs /= probs.sum(axis=2, keepdims=True)
    timed = problem.timed_policy(probs)
    np.testing.assert_allclose(policy_return(problem, timed), rolled(problem, probs), rtol=1e-12)
    one = problem.policy(probs[0])
    same = np.repeat(probs[:1], 6, axis=0)
    np.testing.assert_allclose(policy_return(problem, one), rolled(problem, same), rtol=1e-12)
    v, h = evaluate_policy(problem, one)
    np.testing.assert_allclose(v @ problem.p0, rolled(problem, same), rtol=1e-12)
    paid = np.einsum("ns,sa,san->n", h, probs[0], problem.R)
    np.testing.assert_allclose(paid, rolled(problem, same), rtol=1e-12)


@pytest.mark.slow  # compiles every kernel again
def test_one_thread_and_many_agree() -> None:
    problem = replace(random_problem(0, n_models=130, masks=True), horizon=4, gamma=0.9)
    m, S, N = problem.models, problem.n_states, 130
    where = (m.indptr, m.next_states, m.prob)
    rules = np.ascontiguousarray(problem.uniform_policy().probs[None])
    found: list[list[np.ndarray]] = []
    for threads in (False, True):
        V, dense, B = np.zeros((5, N, S)), np.zeros((5, N, S)), np.zeros((4, N, S))
        best, least, slack = np.zeros((5, N, S)), np.zeros((4, N, S)), np.zeros(N)
        decisions = np.zeros((4, N, S), np.int64)
        B[0] = least[0] = problem.p0
        horizon_values(threads, 0, N, *where, rules, problem.R, 0.9, 4, V)
        horizon_values_dense(threads, 0, N, *where, rules, problem.R, 0.9, 4, dense)
        horizon_flows(threads, 0, N, *where, rules, B)
        horizon_optima(
            threads, 0, N, *where, problem.R, problem.allowed, 0.9, best, decisions, slack
        )
        least_flows(threads, 0, N, *where, problem.allowed, problem.p0, least)
        found.append([V, dense, B, best, least, slack])
    for one, many in zip(*found, strict=True):
        np.testing.assert_allclose(one, many, rtol=1e-14)
    V, dense, B, best, least, _ = found[0]
    np.testing.assert_allclose(V, dense, rtol=1e-13, atol=1e-13)
    assert (least <= B + 1e-14).all()
    assert (best >= V - 1e-13).all()


def test_long_horizons_are_done_in_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    problem = small(4, horizon=11, gamma=0.9, n_states=4, n_models=7)
    timed = Nominal().solve(problem).policy
    whole = optimal_returns(problem, every=True)
    spent = [evaluate_policy(problem, p)[1] for p in (problem.uniform_policy(), timed)]
    pairs, reached = pair_occupancies(problem, timed), reduction.reach(problem)
    monkeypatch.setattr(evaluation, "BLOCK", 4)
    monkeypatch.setattr(reference, "BLOCK", 4)
    few = optimal_returns(problem)
    assert few.steps is None
    for name in ("V", "decisions", "lower", "upper"):
        np.testing.assert_array_equal(getattr(few, name), getattr(whole, name))
    for policy, h in zip((problem.uniform_policy(), timed), spent, strict=True):
        np.testing.assert_allclose(evaluate_policy(problem, policy)[1], h, rtol=1e-14)
    np.testing.assert_allclose(pair_occupancies(problem, timed), pairs, rtol=1e-14)
    assert whole.steps is not None
    sigma = reduction.pair_sums(problem).max(axis=(0, 1))
    steps = (problem.gamma * sigma[:, None]) ** np.arange(11)
    np.testing.assert_allclose(reached, problem.p0.sum() * steps.sum(axis=1), rtol=2e-8)
    # Steps whose γ^t is 0 are none.
    long = replace(problem, horizon=20_000, gamma=0.5)
    assert np.allclose(evaluate_policy(long, long.uniform_policy())[1].sum(axis=1), 2.0)


def test_a_timed_policy_of_many_steps_is_checked_at_each() -> None:
    problem = small(1)
    rules = np.full((50_000, 2, 2), 0.5)
    policy = TimedPolicy(rules, problem.models.states, problem.models.actions)
    assert policy.at(49_999).probs.tolist() == [[0.5, 0.5]] * 2
    rules[40_000, 1] = 0.6
    with pytest.raises(InputError, match="sum to 1"):
        TimedPolicy(rules, problem.models.states, problem.models.actions)
    with pytest.raises(InputError, match="shape"):
        TimedPolicy(rules[:, :, :1], problem.models.states, problem.models.actions)


def test_gradients_are_differences_of_returns() -> None:
    problem = replace(random_problem(1), horizon=5, gamma=1.0)
    uniform = problem.uniform_policy()
    base, gradient = return_gradients(problem, uniform)
    toward = np.zeros_like(uniform.probs)
    toward[2] = [1.0, -1.0, 0.0]
    step = 1e-6
    moved = Policy(uniform.probs + step * toward, uniform.states, uniform.actions)
    found = (policy_return(problem, moved) - base) / step
    np.testing.assert_allclose(found, (gradient * toward).sum(axis=(1, 2)), rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("seed", range(60))
def test_brute_force_over_timed_and_stationary_policies(seed: int) -> None:
    """Searches find no more than the best, bounds are never below it, for the class they name."""
    problem = small(seed, horizon=2 + seed % 3, gamma=[1.0, 0.8][seed % 2])
    timed, fixed = best_timed(problem), best_stationary(problem)
    assert timed >= fixed - 1e-12
    for covers, best in ((Covers.TIMED, timed), (Covers.STATIONARY, fixed), (Covers.ALL, timed)):
        bound = best_bound(problem, covers)
        assert bound.value >= best - 1e-12
        assert list(Covers).index(bound.covers) >= list(Covers).index(covers)
    found = solve(problem, LocalSearch(starts=12))
    assert isinstance(found.policy, TimedPolicy)
    assert timed - 1e-9 * abs(timed) <= found.static_value <= timed + 1e-9 * abs(timed)
    one = solve(problem, LocalSearch(starts=6, stationary=True))
    assert isinstance(one.policy, Policy)
    assert fixed - 1e-9 * abs(fixed) <= one.static_value <= fixed + 1e-9 * abs(fixed)
    for solver in (Nominal(), CADP(robust=True)):
        assert solve(problem, solver).static_value <= timed + 1e-9 * abs(timed)


@pytest.mark.parametrize("seed", range(8))
def test_brute_force_against_a_reference(seed: int) -> None:
    reference = ["optimum", "policy"][seed % 2]
    plain = small(4 * (seed // 2), horizon=3, gamma=[1.0, 0.9][seed % 2])
    given: object = plain.uniform_policy() if reference == "policy" else reference
    problem = replace(plain, objective=SoftRobust(0.6, 0.7, given))
    c, f, eye = reference_returns(problem), problem.models.f, np.eye(2)
    every = [
        rolled(problem, eye[np.array(plan)]) - c
        for plan in itertools.product(rules_of(problem), repeat=3)
    ]
    best = max(problem.objective.value(x, f) for x in every)
    if reference == "optimum":
        assert max(float(x.max()) for x in every) <= 0.0
    found = solve(problem, LocalSearch(starts=12))
    assert found.static_value == pytest.approx(best, rel=1e-9, abs=1e-11)
    assert best_bound(problem, Covers.TIMED).value >= best - 1e-12
    assert certify(problem, found).bound.value >= best - 1e-12


@pytest.mark.parametrize("seed", range(12))
def test_single_exchanges_do_not_help_a_local_optimum(seed: int) -> None:
    problem = replace(random_problem(seed, masks=seed % 2 == 0), horizon=5, gamma=1.0)
    found = solve(problem, LocalSearch(starts=1))
    value = found.static_value
    for t, s, a in itertools.product(range(5), range(5), range(3)):
        if problem.allowed[s, a]:
            plan = found.policy.decisions.copy()  # type: ignore[attr-defined]
            plan[t, s] = a
            assert static_return(problem, problem.timed_policy(plan)) <= value + 1e-10


@pytest.mark.parametrize("seed", range(6))
def test_optima_of_the_models_and_of_the_mean_model(seed: int) -> None:
    problem = small(seed, gamma=0.9)
    optima, eye = optimal_returns(problem), np.eye(2)
    plans = itertools.product(rules_of(problem), repeat=3)
    each = np.array([rolled(problem, eye[np.array(plan)]) for plan in plans])
    best = each.max(axis=0)
    assert (optima.lower <= best + 1e-13).all()
    assert (optima.upper >= best - 1e-13).all()
    np.testing.assert_allclose(optima.upper, best, rtol=1e-12)
    mean = problem.mean_problem()
    nominal = solve(problem, Nominal())
    assert static_return(mean, nominal.policy) == pytest.approx(
        float(optimal_returns(mean).upper[0]), rel=1e-12
    )


@pytest.mark.parametrize("seed", range(4))
def test_long_horizons_tend_to_the_endless_problem(seed: int) -> None:
    endless = random_problem(seed, gamma=0.8)
    uniform = endless.uniform_policy()
    limit, best = policy_return(endless, uniform), clairvoyant_bound(endless).value
    before = np.inf
    for horizon in (5, 20, 80, 320):
        problem = replace(endless, horizon=horizon)
        off = float(np.abs(policy_return(problem, uniform) - limit).max())
        most = 0.8**horizon * float(np.abs(endless.R).max()) / 0.2
        assert off <= most + 1e-12
        assert off <= before
        before = off
    np.testing.assert_allclose(policy_return(problem, uniform), limit, rtol=1e-12)
    assert clairvoyant_bound(problem).value == pytest.approx(best, rel=1e-9)
    local = solve(problem, LocalSearch(stationary=True)).static_value
    assert local == pytest.approx(solve(endless, Exact()).static_value, rel=1e-6)


def test_certificates_name_their_class() -> None:
    problem = replace(random_problem(2), horizon=4, gamma=1.0)
    timed = solve(problem, LocalSearch(starts=3))
    one = solve(problem, LocalSearch(starts=3, stationary=True))
    found, fixed = certify(problem, timed), certify(problem, one)
    assert found.bound.covers in (Covers.TIMED, Covers.ALL)
    assert fixed.bound.covers in (Covers.STATIONARY, Covers.TIMED, Covers.ALL)
    assert found.bound.value >= timed.static_value
    assert fixed.bound.value >= one.static_value
    # A bound on stationary policies says nothing of a timed one.
    low = replace(fixed.bound, value=one.static_value, covers=Covers.STATIONARY)
    assert certify(problem, timed.policy, bounds=[low]).bound.value > low.value
    draws = random_problem(5, n_models=40).models

    def fresh(n: int, rng: np.random.Generator) -> object:
        return replace(draws.select(rng.integers(0, 40, n)), f=np.full(n, 1 / n))

    under = certify(problem, timed.policy, posterior=fresh).posterior  # type: ignore[arg-type]
    assert under is not None
    assert under.covers in (Covers.TIMED, Covers.ALL)
    assert under.upper is not None
    assert under.lower is None or under.upper >= under.lower


def test_what_is_refused() -> None:
    problem = random_problem(0)
    with pytest.raises(InputError, match="Without discounting only a sum over a horizon"):
        replace(problem, gamma=1.0)
    ends = replace(problem, gamma=1.0, horizon=3)
    for solver in (SRect(), Exact()):
        with pytest.raises(InputError, match="problems without end"):
            solve(ends, solver)
        assert solver.name not in KNOW_HORIZONS
    timed = solve(ends, Nominal()).policy
    with pytest.raises(InputError, match="never ends"):
        policy_return(problem, timed)
    with pytest.raises(InputError, match="ends after 4"):
        policy_return(replace(ends, horizon=4), timed)
    assert best_bound(problem, Covers.TIMED).covers is Covers.ALL


def test_problems_keep_their_horizon(tmp_path: pytest.TempPathFactory) -> None:
    problem = replace(random_problem(3), horizon=7, gamma=1.0)
    save_problem(f"{tmp_path}/problem.npz", problem)
    again = load_problem(f"{tmp_path}/problem.npz")
    assert (again.horizon, again.gamma) == (7, 1.0)
    assert "horizon=7" in repr(again)


def test_a_plan_whose_time_is_over_is_the_nominal_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """A sweep looks at the clock, and the models' own optima are not found for a first start."""
    problem = replace(random_problem(4), horizon=3 * horizon_module.LOOK, gamma=1.0)
    sizes: list[int] = []

    def counted(p: Problem, **how: bool) -> ModelOptima:
        sizes.append(p.n_models)
        return optimal_returns(p, **how)  # type: ignore[arg-type]

    monkeypatch.setattr(horizon_module, "optimal_returns", counted)
    found = horizon_module.search_timed(problem, 5, 0, Deadline(1e-9), "local-search")
    assert found.status is Status.TIME_LIMIT
    assert set(sizes) == {1}
    nominal = solve(problem, Nominal()).static_value
    assert found.static_value == pytest.approx(nominal, rel=1e-12)
