"""The class of policies that keep to practice, and its problem in composite actions."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from itertools import product

import numpy as np
import pytest

from softrobust.bounds import Covers, best_bound
from softrobust.certificate.posterior import certify_posterior
from softrobust.data import TransitionLog
from softrobust.errors import InputError
from softrobust.models.model_set import ModelSet
from softrobust.models.policy import Policy
from softrobust.objective import SoftRobust
from softrobust.problem import Problem
from softrobust.returns import policy_return, returns_of, static_return
from softrobust.solvers.base import Solver, solve
from softrobust.solvers.baselines.nominal import Nominal
from softrobust.solvers.baselines.safe_improvement import SPIBB
from softrobust.solvers.exact.exact import Exact
from softrobust.solvers.exact.local_search import LocalSearch
from softrobust.solvers.exact.milp import MILP
from softrobust.solvers.exact.randomized import RandomizedAscent
from softrobust.solvers.practice_class import MOST_RARE, PracticeClass, solve_within
from softrobust.solvers.rectangular.rectangular import SRect


def instance(
    seed: int, S: int = 4, A: int = 3, N: int = 5
) -> tuple[Problem, PracticeClass, np.random.Generator]:
    rng = np.random.default_rng(seed)
    P = rng.dirichlet(np.ones(S), size=(N, S, A))
    problem = Problem(
        ModelSet.from_dense(P),
        rng.normal(size=(S, A, S)),
        gamma=0.9,
        objective=SoftRobust(0.5, 0.7),
    )
    practice = rng.dirichlet(np.ones(A), size=S)
    practice[0] = np.eye(A)[1]
    free = rng.random((S, A)) < 0.5
    free[1] = False
    return problem, PracticeClass(practice, free), rng


@pytest.mark.parametrize("seed", range(6))
def test_lift_keeps_returns(seed: int) -> None:
    problem, policies, rng = instance(seed)
    composite = policies.composite(problem)
    m = composite.problem.models
    probs = rng.random((m.n_states, m.n_actions)) * m.available
    probs /= probs.sum(axis=1, keepdims=True)
    mixed = Policy(probs, m.states, m.actions)
    lifted = composite.lift(mixed)
    assert policies.contains(lifted.probs)
    np.testing.assert_allclose(
        policy_return(composite.problem, mixed), policy_return(problem, lifted), atol=1e-10
    )


@pytest.mark.parametrize("seed", range(4))
def test_practice_is_in_the_class(seed: int) -> None:
    problem, policies, _ = instance(seed)
    composite = policies.composite(problem)
    np.testing.assert_allclose(
        composite.lift(composite.practice()).probs, policies.practice, atol=1e-12
    )
    assert policies.contains(policies.practice)


@pytest.mark.parametrize("seed", range(4))
def test_optimum_over_vertices(seed: int) -> None:
    """The exact solver on the composite problem finds the best vertex policy, by brute force."""
    problem, policies, _ = instance(seed, S=3, A=3, N=4)
    composite = policies.composite(problem)
    found = solve(composite.problem, Exact(time_limit=20))
    rows = [policies.vertices(s) for s in range(3)]
    best = max(
        problem.objective.value(
            policy_return(
                problem, Policy(np.array(pick), problem.models.states, problem.models.actions)
            )
        )
        for pick in product(*rows)
    )
    lifted = composite.lift(found.policy)
    reached = problem.objective.value(policy_return(problem, lifted))
    assert reached == pytest.approx(best, abs=1e-6)


@pytest.mark.parametrize("seed", range(4))
def test_returns_count_from_a_reference(seed: int) -> None:
    problem, policies, rng = instance(seed)
    practice = Policy(np.array(policies.practice), problem.models.states, problem.models.actions)
    reference = policy_return(problem, practice)
    problem = replace(problem, objective=problem.objective.measured_against(practice))
    composite = policies.composite(problem)
    np.testing.assert_allclose(
        returns_of(composite.problem, composite.practice()).x, 0.0, atol=1e-10
    )
    m = composite.problem.models
    other = Policy.from_decision(
        [rng.choice(np.flatnonzero(row)) for row in m.available], m.states, m.actions
    )
    np.testing.assert_allclose(
        returns_of(composite.problem, other).x,
        policy_return(problem, composite.lift(other)) - reference,
        atol=1e-10,
    )


def test_reference_counts_in_sinks_too() -> None:
    log = TransitionLog.from_arrays(
        [0, 0, 1, 1], ["a", "b", "a", "b"], [1, 1, 0, 0], [1.0, 2.0, 3.0, 4.0],
        terminals=[False, True, False, True],
    )  # fmt: skip
    from softrobust.posterior.learned import LearnedPosterior

    models = LearnedPosterior().fit(log).sample(20, seed=0)
    problem = Problem(models, log.rewards, log.p0, 0.9)
    policies = PracticeClass.of(log, np.where(np.arange(3)[:, None] < 2, 0.5, [1.0, 0.0]), 1)
    practice = Policy(policies.practice, models.states, models.actions, problem.decided)
    problem = replace(problem, objective=problem.objective.measured_against(practice))
    composite = policies.composite(problem)
    np.testing.assert_allclose(
        returns_of(composite.problem, composite.practice()).x, 0.0, atol=1e-10
    )


def test_greedy_is_the_best_vertex() -> None:
    rng = np.random.default_rng(1)
    _, policies, _ = instance(1)
    q = rng.normal(size=policies.practice.shape)
    best = (policies.greedy(q) * q).sum(axis=1)
    for s in range(4):
        assert best[s] == pytest.approx((policies.vertices(s) @ q[s]).max())


def test_a_start_is_one_of_the_class() -> None:
    problem, policies, _ = instance(0)
    first = solve_within(problem, Exact(), policies)
    again = solve_within(problem, Exact(start=first.policy), policies)
    assert again.static_value == pytest.approx(first.static_value, abs=1e-12)
    outside = Policy.from_decision(np.zeros(4), problem.models.states, problem.models.actions)
    assert not policies.contains(outside.probs)
    assert solve_within(problem, Exact(start=outside), policies).static_value == again.static_value


def test_many_rare_actions_stay_bounded() -> None:
    A = 12
    practice = np.full((1, A), 1 / A)
    free = np.zeros((1, A), dtype=bool)
    free[0, :2] = True
    policies = PracticeClass(practice, free)
    vertices = policies.vertices(0)
    assert len(vertices) == 1 + 2 * 2**MOST_RARE
    assert all(policies.contains(v[None]) for v in vertices)


def test_a_bound_where_rare_actions_go_together_is_none_of_the_whole_class() -> None:
    practice, free = np.array([[0.3] + [0.1] * 7]), np.eye(1, 8, dtype=bool)
    models = ModelSet.from_dense(np.ones((1, 1, 8, 1)))
    rewards = np.array([[0.0, 1, 1, 1, 1, 1, 1, -10]])
    problem = Problem(models, rewards, gamma=0.5)
    policies = PracticeClass(practice, free)
    better = np.array([[0.4, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.0]])
    found = solve_within(problem, Exact(), policies)
    assert policies.contains(better)
    assert policies.grouped
    assert not policies.reaches(better)
    assert found.bound is not None
    assert found.bound.value < static_return(problem, Policy(better, models.states, models.actions))
    assert found.bound.covers is Covers.PRACTICE_GROUPS

    def draw(n: int, rng: np.random.Generator) -> ModelSet:
        return ModelSet.from_dense(np.ones((n, 1, 8, 1)))

    chosen = Policy(better, models.states, models.actions)
    clear = PracticeClass(practice, free, clear=True)
    under = certify_posterior(problem, chosen, draw, replications=4, among=clear)
    assert under.upper is not None
    assert under.upper >= static_return(problem, chosen)


def test_bad_shapes_are_refused() -> None:
    with pytest.raises(InputError, match="shape"):
        PracticeClass(np.ones((2, 2)) / 2, np.ones((2, 3), dtype=bool))
    with pytest.raises(InputError, match="sum to 1"):
        PracticeClass(np.ones((2, 2)), np.ones((2, 2), dtype=bool))


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize(
    ("solver", "covers"),
    [
        (Exact(), Covers.PRACTICE_CORNERS),
        (MILP(), Covers.PRACTICE_CORNERS),
        (RandomizedAscent(), Covers.PRACTICE_CLASS),
        (LocalSearch(), None),
        (Nominal(), None),
        (SRect(), None),
    ],
    ids=lambda x: getattr(x, "name", ""),
)
def test_static_solvers_keep_to_the_class(seed: int, solver: Solver, covers: Covers | None) -> None:
    problem, policies, rng = instance(seed)
    found = solve_within(problem, solver, policies)
    assert policies.contains(found.policy.probs)
    assert found.value == pytest.approx(static_return(problem, found.policy))
    if covers is None or found.bound is None:
        return
    assert found.bound.covers in (covers, Covers.PRACTICE_CLASS)
    composite = policies.composite(problem)
    m = composite.problem.models
    for _ in range(200):  # corners for the one, any mixture for the other
        weights = rng.random((m.n_states, m.n_actions)) * m.available
        if found.bound.covers is Covers.PRACTICE_CORNERS:
            weights = np.eye(m.n_actions)[weights.argmax(axis=1)]
        probs = weights / weights.sum(axis=1, keepdims=True)
        other = composite.lift(Policy(probs, m.states, m.actions))
        assert static_return(problem, other) <= found.bound.value + 1e-9


def test_solvers_that_read_the_log_cannot_keep_to_the_class() -> None:
    problem, policies, _ = instance(0)
    log = TransitionLog.from_arrays([0, 1], ["a", "b"], [1, 0], [0.0, 1.0])
    with pytest.raises(InputError, match="reads the log"):
        solve_within(problem, SPIBB(log), policies)


def test_bounds_allow_for_the_rounding_of_mixtures() -> None:
    """Rewards of millions that nearly cancel: the practice of one state, whose return is exact."""
    models = ModelSet.from_dense(np.full((1, 1, 3, 1), 1.000000009))
    problem = Problem(models, np.array([[300000.0027, -2510000.02259, 0.0]]), gamma=0.5)
    practice = np.array([[0.8938701060038543, 0.10612989399614568, 0.0]])
    within = PracticeClass(practice, np.zeros((1, 3), dtype=bool))
    shares = [Fraction(share) for share in within.practice[0]]
    earned = sum(b * Fraction(r) for b, r in zip(shares, problem.R[0, :, 0], strict=True))
    exact = earned / (1 - sum(shares) * Fraction(float(models.prob[0])) / 2)
    inside = within.composite(problem).problem
    for covers in (Covers.DETERMINISTIC, Covers.STATIONARY):
        bound = within.named(problem, best_bound(inside, covers))
        assert Fraction(bound.value) >= exact
        assert bound.value == pytest.approx(float(exact), abs=1e-7)
