"""The clock is looked at between chunks: what is cut short is looser, and as true."""

from __future__ import annotations

import time
from dataclasses import replace

import numpy as np
import pytest

from softrobust._core import limits
from softrobust._core.limits import Deadline, OutOfTime, chunks
from softrobust.bounds import Covers, best_bound, clairvoyant_bound
from softrobust.bounds import advantage as advantage_module
from softrobust.bounds import best as best_module
from softrobust.bounds.advantage import occupancy_bounds, relax
from softrobust.bounds.best import CLASSES, dual_bound
from softrobust.bounds.reduction import reduce
from softrobust.errors import InputError
from softrobust.models import ModelSet, Policy
from softrobust.problem import Problem
from softrobust.returns import (
    evaluate_policy,
    evaluation,
    optimal_returns,
    static_return,
    uniform_value,
)
from softrobust.returns import reference as optimal_module
from softrobust.solvers import Exact, LocalSearch, Status
from softrobust.solvers.exact import local_search
from softrobust.solvers.exact.local_search import BlockClimber
from tests.agree.static_instances import brute_force
from tests.instances import random_policy, random_problem
from tests.laws.test_bounds import plain


class Looks(Deadline):
    """A clock that has passed from its n-th look on."""

    def __init__(self, n: int) -> None:
        super().__init__()
        self.looks = n

    @property
    def left(self) -> float:
        self.looks -= 1
        return 1.0 if self.looks >= 0 else 0.0


@pytest.fixture
def small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Chunks of one model, whatever their size."""
    for module in (advantage_module, optimal_module, evaluation):
        monkeypatch.setattr(module, "FIRST", 1)
    monkeypatch.setattr(limits, "CHUNK_SECONDS", 0.0)
    monkeypatch.setattr(advantage_module, "PARALLEL_WORK", 0)
    monkeypatch.setattr(optimal_module, "PARALLEL_WORK", 0)


def test_chunks_cover_everything_once_and_grow_when_fast() -> None:
    for n, first in ((0, 3), (1, 4), (10, 1), (1000, 4), (7, 7)):
        parts = list(chunks(n, first))
        seen = [i for part in parts for i in range(part.start, part.stop)]
        assert seen == list(range(n))
    assert len(list(chunks(10_000, 1))) < 20  # each at most twice the last


@pytest.mark.usefixtures("small_chunks")
@pytest.mark.parametrize("looks", range(5))
def test_optima_cut_short_still_bracket(looks: int) -> None:
    problem = random_problem(3, n_models=6, gamma=0.95)
    whole = optimal_returns(problem)
    cut = optimal_returns(problem, deadline=Looks(looks))
    assert (cut.lower <= whole.upper).all()
    assert (cut.upper >= whole.lower).all()
    width = cut.upper - cut.lower
    assert (width > 1e-3).any()
    assert width[0] < 1e-9 or looks == 0  # models solved before it passed are exact
    assert (
        clairvoyant_bound(problem, deadline=Looks(looks)).value >= clairvoyant_bound(problem).value
    )


@pytest.mark.parametrize("gamma", [1.0, 0.999])
@pytest.mark.parametrize("looks", [0, 1, 2])
def test_optima_of_a_long_horizon_cut_short_still_bracket(looks: int, gamma: float) -> None:
    problem = replace(random_problem(3, masks=True), gamma=gamma, horizon=2000)
    whole = optimal_returns(problem)
    cut = optimal_returns(problem, deadline=Looks(looks))
    assert (cut.lower <= whole.lower).all()
    assert (cut.upper >= whole.upper).all()
    assert (cut.upper - cut.lower > 1e-3 * np.abs(whole.upper)).all()
    assert (
        clairvoyant_bound(problem, deadline=Looks(looks)).value >= clairvoyant_bound(problem).value
    )


def test_a_bound_over_steps_that_do_not_fit_is_the_clairvoyant_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    problem = replace(random_problem(3), horizon=30)
    tight = best_bound(problem, Covers.TIMED)
    monkeypatch.setattr(best_module, "MOST_BYTES", 1.0)
    assert best_bound(problem, Covers.TIMED) == clairvoyant_bound(reduce(problem).problem)
    assert best_bound(problem, Covers.TIMED).value > tight.value


@pytest.mark.usefixtures("small_chunks")
@pytest.mark.parametrize("looks", [0, 3, 8, 9, 12, 40])
def test_a_relaxation_cut_short_is_late_or_true(looks: int) -> None:
    problem = random_problem(4, n_states=4, n_models=6)
    reduced = reduce(problem)
    n = reduced.problem.n_models
    try:
        relaxation = relax(reduced, reduced.allowed, deadline=Looks(looks))
    except OutOfTime:
        assert looks < n
        return
    assert looks >= n
    bound = dual_bound(reduced.problem, relaxation.allowed, plain(relaxation))
    assert bound.value >= brute_force(problem)
    whole = relax(reduced, reduced.allowed)
    assert (relaxation.m <= whole.m).all()


@pytest.mark.usefixtures("small_chunks")
def test_the_clock_is_looked_at_between_states_too(monkeypatch: pytest.MonkeyPatch) -> None:
    problem = random_problem(4, n_states=6, n_models=5, gamma=0.95)
    reduced = reduce(problem)
    p = reduced.problem
    S, n = p.n_states, p.n_models
    monkeypatch.setattr(limits, "CHUNK_SECONDS", 0.2)
    monkeypatch.setattr(advantage_module, "TARGET_WORK", 1e9)
    whole = relax(reduced, reduced.allowed)  # all states of a model in one chunk
    monkeypatch.setattr(limits, "CHUNK_SECONDS", 0.0)
    monkeypatch.setattr(advantage_module, "TARGET_WORK", 0.0)
    chunked = relax(reduced, reduced.allowed)
    np.testing.assert_allclose(chunked.m, whole.m, rtol=1e-12)
    cut = relax(reduced, reduced.allowed, deadline=Looks(n + 2 * S + 2))  # after the optima
    bounded = (cut.m > 0).any(axis=1)  # (S, N)
    np.testing.assert_array_equal(bounded.sum(axis=0), [S, S, 2] + [0] * (n - 3))
    np.testing.assert_allclose(cut.m[:, :, :2], whole.m[:, :, :2], rtol=1e-12)
    bound = dual_bound(p, cut.allowed, plain(cut))
    assert bound.value >= brute_force(problem)
    # A relaxation cut short is a parent as good as another.
    keep = reduced.allowed.copy()
    keep[0] = False
    keep[0, 0] = True
    child = relax(reduced, keep, cut)
    fresh = relax(reduced, keep)  # bounds no state without a choice
    assert (child.m[1:] <= fresh.m[1:] * (1 + 1e-12)).all()


@pytest.mark.slow
def test_a_limit_is_met_at_three_hundred_states() -> None:
    rng = np.random.default_rng(0)
    P = rng.dirichlet(np.full(300, 0.3), size=(10, 300, 2))
    models = ModelSet.from_dense(P)
    problem = Problem(models, rewards=rng.normal(size=(300, 2)), gamma=0.95)
    best_bound(random_problem(0), Covers.DETERMINISTIC)  # compiled
    for run in (
        lambda: best_bound(problem, Covers.DETERMINISTIC, 3.0),
        lambda: Exact(time_limit=3.0).solve(problem),
    ):
        began = time.monotonic()
        run()
        assert time.monotonic() - began < 3.0 + 4.0  # 2 s on a quiet machine


@pytest.mark.usefixtures("small_chunks")
def test_occupancies_cut_short_are_wider() -> None:
    problem = random_problem(4, n_states=4, n_models=6)
    whole, cut = occupancy_bounds(problem), occupancy_bounds(problem, deadline=Looks(3))
    assert (cut[0] <= whole[0]).all()
    assert (cut[1] >= whole[1]).all()
    assert np.isfinite(cut[1]).all()


@pytest.mark.parametrize("covers", list(CLASSES))
@pytest.mark.parametrize("limit", [1e-9, 0.005, 0.05, None])
def test_best_bound_in_any_time_covers(covers: Covers, limit: float | None) -> None:
    problem = random_problem(5, n_states=5, n_actions=2, n_models=20)
    bound = best_bound(problem, covers, limit)
    assert bound.value >= brute_force(problem)
    if covers is not Covers.DETERMINISTIC:
        for seed in range(10):
            value = problem.objective.value(
                evaluate_policy(problem, random_policy(problem, seed))[0] @ problem.p0,
                problem.models.f,
            )
            assert value <= bound.value


def test_no_time_for_the_program_leaves_the_first_weights() -> None:
    problem = random_problem(6, n_models=8)
    reduced = reduce(problem)
    relaxation = relax(reduced, reduced.allowed)
    p = reduced.problem
    none = dual_bound(p, relaxation.allowed, plain(relaxation), deadline=Looks(0))
    full = dual_bound(p, relaxation.allowed, plain(relaxation))
    assert full.value <= none.value
    assert none.value >= brute_force(problem)


def test_bounds_that_do_not_fit_fall_back_or_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    problem = random_problem(7)
    reduced = reduce(problem)
    told = clairvoyant_bound(problem).value
    monkeypatch.setattr(best_module, "fits", lambda size: False)
    assert best_bound(problem, Covers.DETERMINISTIC).value == pytest.approx(told, rel=1e-12)
    monkeypatch.setattr("softrobust._core.arrays.available_memory", lambda: 2000.0)
    with pytest.raises(InputError, match="bounds on what every model can earn"):
        relax(reduced, reduced.allowed)
    with pytest.raises(InputError, match="Bounds on every occupancy"):
        occupancy_bounds(problem)
    solution = Exact().solve(problem)  # still an answer, with the clairvoyant bound
    assert solution.status is Status.LOCAL_OPTIMUM
    assert "too large" in solution.stats["method"]
    assert solution.bound is not None
    assert solution.bound.value == pytest.approx(told, rel=1e-12)


# -- large problems: evaluations ------------------------------------------------------------------


def chain(S: int, N: int = 6) -> Problem:
    """Sparse: up or down a chain of S states."""
    from softrobust.data.labels import Labels

    rng = np.random.default_rng(0)
    s = np.repeat(np.arange(S), 2)
    low, high = np.maximum(s - 1, 0), np.minimum(s + 1, S - 1)
    p = rng.uniform(0.1, 0.9, size=(2 * S, N))
    prob = np.stack([p, 1 - p], axis=2)
    models = ModelSet(
        indptr=2 * np.arange(2 * S + 1),
        next_states=np.stack([low, high], axis=1).reshape(-1).astype(np.int32),
        prob=prob.reshape(-1),
        f=np.full(N, 1 / N),
        states=Labels(tuple(map(str, range(S))), noun="state"),
        actions=Labels(("left", "right"), noun="action"),
    )
    return Problem(models, rewards=rng.normal(size=(S, 2)), gamma=0.9)


@pytest.mark.usefixtures("small_chunks")
@pytest.mark.parametrize("S", [120, 700])
def test_evaluations_look_at_the_clock(S: int) -> None:
    problem = chain(S)
    policy = random_policy(problem, 0)
    V, h = evaluate_policy(problem, policy)
    np.testing.assert_array_equal(evaluate_policy(problem, policy, deadline=Looks(100))[0], V)
    with pytest.raises(OutOfTime):
        evaluate_policy(problem, policy, deadline=Looks(3))
    assert h.shape == V.shape


@pytest.mark.usefixtures("small_chunks")
def test_a_climb_cut_within_an_evaluation_keeps_what_it_had(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(local_search, "EXCHANGE_WORK", 0.0)
    problem = chain(120)
    solution = LocalSearch(time_limit=1e-9).solve(problem)
    assert solution.status is Status.TIME_LIMIT
    assert solution.stats["neighbourhood"] == "blocks of states"
    climber = BlockClimber(reduce(problem))
    start = np.zeros(120, np.int64)
    value = climber.neighbours(start)
    # Six models are evaluated, then two looks on.
    end, reached, settled = climber.climb(start, Looks(8))
    assert not settled
    np.testing.assert_array_equal(end, start)
    assert reached == value


def test_returns_of_large_problems_are_kept_with_what_they_depend_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    problem = chain(700)
    policy = random_policy(problem, 0)
    x = evaluation.policy_return(problem, policy)
    with monkeypatch.context() as patch:
        patch.delattr(evaluation, "_evaluate")  # nothing is evaluated again
        again = evaluation.policy_return(problem, policy)
    np.testing.assert_array_equal(again, x)
    again[:] = 0.0  # a caller's own copy
    np.testing.assert_array_equal(evaluation.policy_return(problem, policy), x)
    other = replace(
        problem, rewards=problem.rewards.of_pairs(2 * np.asarray(problem.rewards.pairs))
    )
    np.testing.assert_allclose(evaluation.policy_return(other, policy), 2 * x, rtol=1e-8)
    less = replace(problem, gamma=0.5)
    assert not np.allclose(evaluation.policy_return(less, policy), x)
    first = Policy.from_decision(
        np.zeros(700, np.int64), problem.models.states, problem.models.actions
    )
    assert not np.allclose(evaluation.policy_return(problem, first), x)


def test_the_uniform_value_follows_the_rewards() -> None:
    """Many rewards on one set of models, made and dropped: none may answer for another."""
    base = random_problem(1)
    for k in range(1, 30):
        p = replace(base, rewards=base.rewards.of_pairs(k * np.asarray(base.rewards.pairs)))
        expected = k * static_return(base, base.uniform_policy())
        assert uniform_value(p) == pytest.approx(expected, rel=1e-9)
        del p


def test_a_limit_of_work_does_not_count_waiting() -> None:
    waiting, working = Deadline(0.05), Deadline(0.05, of_work=True)
    time.sleep(0.1)
    assert waiting.passed
    assert not working.passed
    until = time.thread_time() + 0.06
    while time.thread_time() < until:
        pass
    assert working.passed


@pytest.mark.parametrize(("seed", "lam", "alpha"), [(0, 0.5, 0.7), (1, 1.0, 0.9), (2, 0.3, 1.0)])
def test_a_program_of_few_models_finds_the_bound_of_all(
    seed: int, lam: float, alpha: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Models at a bound of ξ are left out of the program until reduced costs call for them."""
    problem = random_problem(seed, n_models=60, lam=lam, alpha=alpha)
    whole = [best_bound(problem, covers).value for covers in CLASSES]
    monkeypatch.setattr(best_module, "OPEN", 2)  # far too few: the others must come in
    assert [best_bound(problem, covers).value for covers in CLASSES] == pytest.approx(
        whole, rel=1e-9
    )


def test_a_first_call_that_compiles_is_no_measure_of_the_others() -> None:
    clock, calls = Deadline(60.0), []

    def run(n: int) -> None:
        calls.append(n)
        time.sleep(0.2 * (len(calls) == 1) + 0.001 * n)

    assert clock.seconds_each(run, 4, 1000) < 0.01  # and not 0.05, as the first call says
    assert calls[:2] == [4, 4]
    assert sum(calls) <= 1000


def test_a_first_call_that_takes_much_of_the_time_left_is_enough() -> None:
    calls: list[int] = []

    def run(n: int) -> None:
        calls.append(n)
        time.sleep(0.1)

    assert Deadline(1.0).seconds_each(run, 4, 1000) >= 0.02
    assert calls == [4]
    Deadline(60.0).seconds_each(calls.append, 4, 2)
    assert calls[1:] == [2, 2]  # there are no more
