"""Gain, regret and gain over a given policy: every route against brute force over all rules."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from itertools import product
from pathlib import Path

import numpy as np
import pytest

from softrobust.bounds import Covers, best_bound, clairvoyant_bound
from softrobust.certificate import certify
from softrobust.data.labels import Labels
from softrobust.errors import InputError
from softrobust.models.model_set import ModelSet
from softrobust.models.policy import Policy
from softrobust.objective import Objective, Percentile, Reference, SoftRobust
from softrobust.problem import Problem, load_problem, save_problem
from softrobust.returns import reference_returns, returns_of, static_return
from softrobust.solvers import Exact, LocalSearch, RandomizedAscent, Solver, SRect, solve
from softrobust.solvers.exact.milp import MILP
from softrobust.solvers.exact.milp_program import Formulation
from tests.agree.adversary import exact_value

REFERENCES = ("practice", "optimum", "policy")
EACH = 300


def instance(seed: int, reference: str) -> Problem:
    """A small problem, weighted in every second case, masked in every third."""
    rng = np.random.default_rng(seed)
    S, A, N = (int(rng.integers(2, high)) for high in (5, 4, 7))
    f = rng.dirichlet(np.ones(N)) if seed % 2 else np.full(N, 1.0 / N)
    if seed % 4 == 1 and N > 2:
        f[rng.integers(N)] = 0.0
        f /= f.sum()
    allowed = np.ones((S, A), bool)
    if seed % 3 == 0:
        allowed = rng.random((S, A)) < 0.7
        allowed[np.arange(S), rng.integers(A, size=S)] = True
    models = ModelSet.from_dense(
        rng.dirichlet(np.full(S, 0.5), size=(N, S, A)), f, taken=rng.integers(0, 5, size=(S, A))
    )
    given: object = reference
    if reference == "policy":
        given = Policy(rng.dirichlet(np.ones(A), size=S), models.states, models.actions)
    lam, alpha = float(rng.choice([0.0, 0.3, 1.0])), float(rng.choice([0.0, 0.5, 0.7, 1.0]))
    goal: Objective = SoftRobust(lam, alpha, given)
    if seed % 5 == 4:
        goal = Percentile(alpha, given)
    gamma = float(rng.choice([0.5, 0.9, 0.99]))
    return Problem(models, rng.normal(size=(S, A)), rng.dirichlet(np.ones(S)), gamma, goal, allowed)


def every_rule(problem: Problem) -> np.ndarray:
    """(n_rules, n_models): returns of all deterministic policies, by dense linear algebra."""
    P, R, S = problem.models.P, problem.R, problem.n_states
    found = []
    for rule in product(*(np.flatnonzero(row) for row in problem.allowed)):
        at = (np.arange(S), np.array(rule))
        found.append(
            [
                problem.p0 @ np.linalg.solve(np.eye(S) - problem.gamma * P[w][at], R[*at, w])
                for w in range(problem.n_models)
            ]
        )
    return np.array(found)


def constants(problem: Problem, X: np.ndarray, reference: str) -> np.ndarray:
    """(n_models,): what the reference earns, without `returns.reference`."""
    if reference == "optimum":
        return np.asarray(X.max(axis=0))
    m, S, A = problem.models, problem.n_states, problem.n_actions
    if reference == "practice":
        assert m.taken is not None
        total = m.taken.sum(axis=1, keepdims=True)
        probs = np.where(total > 0, m.taken / np.maximum(total, 1), 1.0 / A)
    else:
        probs = problem.objective.reference.policy.probs
    R = replace(problem, allowed=np.ones((S, A), bool)).R
    return np.array(
        [
            problem.p0
            @ np.linalg.solve(
                np.eye(S) - problem.gamma * np.einsum("sa,sat->st", probs, m.P[w]),
                (probs * R[:, :, w]).sum(axis=1),
            )
            for w in range(problem.n_models)
        ]
    )


@pytest.mark.parametrize("reference", REFERENCES)
def test_best_rule(reference: str) -> None:
    for seed in range(EACH):
        problem = instance(seed, reference)
        X = every_rule(problem)
        c = constants(problem, X, reference)
        size = max(float(np.abs(X).max()), float(np.abs(c).max()))
        np.testing.assert_allclose(reference_returns(problem), c, atol=1e-9 * size)
        f, goal = problem.models.f, problem.objective
        best = max(goal.value(x - c, f) for x in X)
        exact = isinstance(goal, SoftRobust)
        # With a limit of nodes rules are branched on, not enumerated.
        found = solve(problem, Exact(node_limit=[None, 10_000][seed % 2]) if exact else MILP())
        assert found.static_value == pytest.approx(best, abs=1e-8 * size), (reference, seed)
        assert found.bound is not None
        assert found.bound.value >= best - 1e-12 * size
        assert clairvoyant_bound(problem).value >= best - 1e-12 * size
        if exact:
            assert found.bound.value <= best + 1e-5 * size
            for covers in (Covers.DETERMINISTIC, Covers.STATIONARY):
                assert best_bound(problem, covers).value >= best - 1e-12 * size
        if reference == "optimum":
            assert (returns_of(problem, found.policy).x <= 0).all()
            assert (X - reference_returns(problem) <= 0).all()
        if seed % 10 == 0:
            other_routes(problem, best, size)


def other_routes(problem: Problem, best: float, size: float) -> None:
    """MILP in both forms agrees; a search never beats the proof, a mixture may."""
    formulations: tuple[Formulation, ...] = ("strengthened", "paper")
    for formulation in formulations:
        found = solve(problem, MILP(formulation)).static_value
        assert found == pytest.approx(best, abs=1e-6 * size)
    assert solve(problem, LocalSearch()).static_value <= best + 1e-9 * size
    mixed = solve(problem, RandomizedAscent(starts=1))
    assert mixed.static_value >= best - 1e-7 * size
    assert mixed.bound is not None
    assert mixed.bound.value >= mixed.static_value - 1e-9 * size
    candidate = solve(problem, SRect())
    assert candidate.static_value == static_return(problem, candidate.policy)
    assert candidate.static_value <= mixed.bound.value
    plain = solve(replace(problem, objective=problem.objective.measured_against(None)), SRect())
    assert candidate.model_value == plain.model_value  # of the return, as its program is


@pytest.mark.parametrize("seed", range(20))
def test_reference_of_return_0_is_no_reference(seed: int) -> None:
    plain = instance(seed, "optimum")
    rewards = np.array(plain.rewards.pairs)
    rewards[:, 0] = 0.0
    idle = Policy.from_decision(np.zeros(plain.n_states), plain.models.states, plain.models.actions)
    goal, models = plain.objective.measured_against(None), plain.models
    plain = Problem(models, rewards, plain.p0, plain.gamma, goal, plain.allowed)
    same = replace(plain, objective=goal.measured_against(idle))
    assert (reference_returns(same) == 0).all()
    routes: list[Solver] = [LocalSearch(), MILP()]
    if isinstance(goal, SoftRobust):
        routes += [Exact(), Exact(node_limit=10_000), RandomizedAscent(starts=1)]
    for solver in routes:
        a, b = solve(plain, solver), solve(same, solver)
        np.testing.assert_array_equal(a.policy.probs, b.policy.probs)
        assert (a.value, a.status, a.uniform_value) == (b.value, b.status, b.uniform_value)
        assert a.bound == b.bound
        first, second = certify(plain, a, models), certify(same, b, models)
        assert first.to_dict() == second.to_dict()


def test_the_reference_goes_with_the_problem(tmp_path: Path) -> None:
    for reference in REFERENCES:
        problem = instance(3, reference)  # with a mask
        save_problem(tmp_path / "problem.npz", problem)
        again = load_problem(tmp_path / "problem.npz")
        assert again.objective == problem.objective
        np.testing.assert_array_equal(reference_returns(again), reference_returns(problem))
        # Nothing that is measured later moves the constants: not a wider mask, not other weights.
        wide = replace(problem, allowed=np.ones_like(problem.allowed))
        np.testing.assert_allclose(reference_returns(wide), reference_returns(problem), rtol=1e-12)
        some = problem.with_models(problem.models.select([0, 1]))
        np.testing.assert_allclose(reference_returns(some), reference_returns(problem)[:2])


def test_references_that_cannot_be() -> None:
    problem = instance(0, "optimum")
    models = replace(problem.models, taken=None)
    with pytest.raises(InputError, match="do not come from a log"):
        Problem(models, problem.rewards, problem.p0, 0.9, SoftRobust(reference="practice"))
    for wrong in ("habit", 3.0):
        with pytest.raises(InputError, match="A reference is none, practice, optimum or a policy"):
            SoftRobust(reference=wrong)
    assert SoftRobust(reference="none") == SoftRobust()
    assert repr(SoftRobust(0.5, 0.9, "practice")) == (
        "SoftRobust(lam=0.5, alpha=0.9, reference='practice')"
    )


@pytest.mark.parametrize("seed", range(20))
def test_bounds_of_the_regret_allow_for_what_optima_are_known_to(seed: int) -> None:
    """Of one model the best regret is 0, however large the values that it is a difference of."""
    rng = np.random.default_rng(seed)
    models = ModelSet.from_dense(rng.dirichlet(np.full(4, 0.5), size=(1, 4, 3)))
    paid, goal = 50 * rng.normal(size=(4, 3)), SoftRobust(1.0, 0.9, "optimum")
    problem = Problem(models, paid, rng.dirichlet(np.ones(4)), 0.9999, goal)
    found = solve(problem, Exact())
    assert found.bound is not None
    assert clairvoyant_bound(problem).value >= 0.0
    assert found.bound.value >= 0.0
    assert certify(problem, found).bound.value >= 0.0


@pytest.mark.parametrize("reference", ["optimum", "policy"])
def test_a_gain_of_nothing_is_proven_as_returns_are(reference: str) -> None:
    """A gain of 0 is a difference of returns, and no better known; one policy is the best."""
    rng, labels = np.random.default_rng(3), (Labels.range(2), Labels.range(2))
    models = ModelSet.from_dense(rng.dirichlet(np.ones(2), size=(3, 2, 2)))
    goal = SoftRobust(0.5, 0.7, "optimum")
    if reference == "policy":
        goal = SoftRobust(0.5, 0.7, Policy.from_decision(np.zeros(2, int), *labels))
    paid, few = np.array([[1.0, 0.0], [2.0, 0.0]]), np.array([[True, False]] * 2)
    for gamma, allowed in ((0.99999, None), (0.999999, few)):
        found = solve(Problem(models, paid, [0.5, 0.5], gamma, goal, allowed), Exact())
        assert found.status == "optimal"


@pytest.mark.parametrize("covers", [Covers.DETERMINISTIC, Covers.STATIONARY, Covers.TIMED])
def test_what_is_rounded_beside_a_reference_is_allowed_for_with_a_horizon(covers: Covers) -> None:
    """Returns of 0 less what the reference earns: rounded at the size of both, once of one."""
    for seed in range(100):
        rng = np.random.default_rng(seed)
        models = ModelSet.from_dense(np.ones((5, 1, 1, 1)), rng.dirichlet(np.full(5, 0.2)))
        earned = rng.uniform(1, 2, size=5) * 1e-8
        goal = SoftRobust(1e-9, 1.0, Reference("own", returns=earned))
        problem = Problem(models, np.zeros((1, 1)), [1.0], 0.9, goal, horizon=3)
        assert best_bound(problem, covers).value >= exact_value(problem, [Fraction(0)] * 5)


def test_where_optima_cannot_be_told_apart_no_rule_is_called_the_best() -> None:
    """Regrets of 6 among returns of 1e10: the optimum's own error is all that is at stake."""
    rng = np.random.default_rng(0)
    P = rng.dirichlet(np.ones(3), size=(4, 3, 2))
    P[:, :, 1] = P[:, :, 0] + 1e-10 * (P[:, :, 1] - P[:, :, 0])
    paid = 1e6 + np.array([[1.0, 1.0], [0.0, 0.0], [2.0, 2.0]])
    goal = SoftRobust(1.0, 0.9, "optimum")
    found = solve(Problem(ModelSet.from_dense(P), paid, np.ones(3) / 3, 0.9999, goal), Exact())
    assert found.status == "local_optimum"
    assert found.bound is not None
    assert found.bound.value == 0.0
    assert all(entry[2] <= 0.0 for entry in found.stats["trace"])
