"""Rules: columns from labels, trees that reproduce simple policies, an exact loss."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations, product
from pathlib import Path

import numpy as np
import pytest

import softrobust.study.rule_tree as searching
from softrobust.data import read_log
from softrobust.data.labels import Labels
from softrobust.domains import make_domain
from softrobust.errors import InputError
from softrobust.models.model_set import ModelSet
from softrobust.models.policy import Policy
from softrobust.objective import SoftRobust
from softrobust.posterior import DirichletPosterior
from softrobust.problem import Problem
from softrobust.report.study_words import rules_sentence
from softrobust.returns import static_return
from softrobust.solvers import LocalSearch, solve
from softrobust.solvers.baselines.behaviour import behaviour_policy
from softrobust.study.rule_tree import Leaf, Search, grow, leaf_of, leaves, state_columns
from softrobust.study.rules import NOW, simplify

ROOT = Path(__file__).resolve().parents[2]


def grid_problem(seed: int = 0) -> Problem:
    """Two columns, "a=0..3|b=low/high"; which action is right depends on both."""
    labels = tuple(f"a={i}|b={b}" for i, b in product(range(4), ("low", "high")))
    rng = np.random.default_rng(seed)
    P = rng.dirichlet(np.ones(8), size=(6, 8, 3))
    r = rng.normal(0, 0.01, size=(8, 3))
    for s, (i, b) in enumerate(product(range(4), ("low", "high"))):
        r[s, 0 if i < 2 else 1 if b == "low" else 2] += 5.0
    states, actions = Labels(labels, noun="state"), Labels(("x", "y", "z"), noun="action")
    models = ModelSet.from_dense(P, states=states, actions=actions)
    return Problem(models, rewards=r, gamma=0.8, objective=SoftRobust(0.5, 0.5))


def test_columns_from_labels() -> None:
    columns = state_columns(Labels(("a=1|b=low", "a=10|b=high"), noun="state"))
    np.testing.assert_array_equal(columns.numbers["a"], [1, 10])
    assert columns.words["b"] == ("low", "high")
    assert state_columns(Labels(("3", "1"), noun="state")).names == ("state",)
    assert state_columns(Labels(("dry", "wet"), noun="state")).words["state"] == ("dry", "wet")
    ended = state_columns(Labels(("a=1", "a=2", "(end)"), noun="state"))
    assert ended.words["state"] == ("", "", "(end)")
    assert ended.numbers["a"][2] == -np.inf
    binned = state_columns(Labels(("x=<7|y=a", "x=7–8.5|y=b", "x=≥8.5|y=a"), noun="state"))
    np.testing.assert_array_equal(binned.numbers["x"], [-np.inf, 7, 8.5])
    assert binned.words["y"] == ("a", "b", "a")
    with pytest.raises(InputError, match="one value per state"):
        state_columns(Labels(("x",), noun="state"), {"c": [1, 2]})


def test_a_policy_made_of_three_rules_is_found_again() -> None:
    problem = grid_problem()
    policy = solve(problem, LocalSearch(seed=0)).policy
    rules = simplify(problem, policy, most_leaves=6)
    assert rules.n_leaves == 3
    assert rules.loss == pytest.approx(0.0, abs=1e-9)
    np.testing.assert_array_equal(rules.policy.probs, policy.probs)
    text = "\n".join(rules.lines())
    assert "a ≥ 2" in text
    assert "b = " in text


@pytest.mark.parametrize("seed", range(4))
def test_the_loss_is_exact_and_falls_with_leaves(seed: int) -> None:
    rng = np.random.default_rng(seed)
    problem = grid_problem(seed)
    decision = rng.integers(0, 3, 8)
    policy = Policy.from_decision(decision, problem.models.states, problem.models.actions)
    rules = simplify(problem, policy, most_leaves=4)
    assert rules.value == static_return(problem, rules.policy)
    assert rules.full_value == static_return(problem, policy)
    assert rules.loss == rules.full_value - rules.value
    values = [value for _, value in rules.steps]
    assert values == sorted(values)


def test_the_best_single_leaf_is_the_best_constant_policy() -> None:
    """Two routes: the exchange search with one leaf, and trying every constant policy."""
    problem = grid_problem()
    policy = solve(problem, LocalSearch(seed=0)).policy
    constant = [
        Policy.from_decision(np.full(8, a), problem.models.states, problem.models.actions)
        for a in range(3)
    ]
    best = max(static_return(problem, p) for p in constant)
    assert simplify(problem, policy, most_leaves=1).value == pytest.approx(best, abs=1e-12)


def test_rules_over_a_horizon_are_exact() -> None:
    """Their value is that of the horizon; the best single rule is the best constant policy."""
    problem = replace(grid_problem(1), horizon=6, gamma=1.0)
    full = solve(problem, LocalSearch(stationary=True)).policy
    found = simplify(problem, full, most_leaves=1)
    constants = [static_return(problem, problem.policy(np.full(problem.n_states, a))) for a in
                 range(problem.n_actions)]  # fmt: skip
    assert found.value == pytest.approx(max(constants), rel=1e-12)
    for most in (4, 64):
        found = simplify(problem, full, most_leaves=most)
        assert found.value == pytest.approx(static_return(problem, found.policy), rel=1e-12)
        assert found.full_value == pytest.approx(static_return(problem, full), rel=1e-12)
    assert found.loss <= 1e-9
    with pytest.raises(InputError, match="same at all steps"):
        simplify(problem, solve(problem, LocalSearch(starts=1)).policy)


def test_masks_give_exceptions_not_forbidden_actions() -> None:
    from dataclasses import replace

    problem = grid_problem()
    allowed = np.ones((8, 3), dtype=bool)
    allowed[0, 0] = False
    problem = replace(problem, allowed=allowed)
    policy = solve(problem, LocalSearch(seed=0)).policy
    rules = simplify(problem, policy, most_leaves=3)
    assert (rules.policy.probs[~allowed] == 0).all()
    assert rules.value == static_return(problem, rules.policy)
    for s in rules.exceptions:
        np.testing.assert_array_equal(rules.policy.probs[s], policy.probs[s])


def test_max_loss_stops_early() -> None:
    problem = grid_problem()
    policy = solve(problem, LocalSearch(seed=0)).policy
    assert simplify(problem, policy, max_loss=1e9).n_leaves == 1
    assert simplify(problem, policy, max_loss=1e-9).loss <= 1e-9


def test_pest_control_in_a_few_rules() -> None:
    domain = make_domain("pest-control")
    problem = domain.problem(n_models=10, seed=0)
    policy = solve(problem, LocalSearch(seed=0)).policy
    rules = simplify(problem, policy, most_leaves=5)
    assert rules.n_leaves <= 5
    assert rules.value == static_return(problem, rules.policy)
    assert rules.lines()


def test_trees_partition_the_states() -> None:
    columns = state_columns(Labels(("1", "2", "3", "4"), noun="state"))
    cost = np.array([[0, 1.0], [1, 0], [0, 1], [1, 0]])
    for n, tree in enumerate(grow(cost, columns, 4), start=1):
        assert len(leaves(tree)) == n
        where = leaf_of(tree, columns, 4)
        assert set(where) == set(range(n))
    assert isinstance(next(grow(cost, columns, 1)), Leaf)


def test_rules_are_not_made_of_exceptions() -> None:
    """Where masks differ from state to state, questions separate the states."""
    from dataclasses import replace

    problem = grid_problem()
    allowed = np.zeros((8, 3), dtype=bool)
    allowed[:4, :2] = True
    allowed[4:, 1:] = True
    problem = replace(problem, allowed=allowed)
    policy = solve(problem, LocalSearch(seed=0)).policy
    rules = simplify(problem, policy, most_leaves=4)
    assert rules.exceptions == ()
    assert rules.loss == pytest.approx(0.0, abs=1e-9)


@pytest.fixture(scope="module")
def pest() -> tuple[Problem, Policy]:
    """The bundled log: twelve states on a line, where the best policy changes its mind often."""
    log = read_log(ROOT / "examples" / "pest_log.csv")
    models = DirichletPosterior().fit(log).sample(30, seed=0)
    problem = Problem(models, rewards=log.rewards, p0=log.p0, gamma=0.9)
    return problem, solve(problem, LocalSearch(seed=0)).policy


@pytest.mark.parametrize("n", [1, 2, 3])
def test_no_shorter_rules_are_better(pest: tuple[Problem, Policy], n: int) -> None:
    """Two routes: the search, and every way to cut the line into n parts with an action each."""
    problem, policy = pest
    S, best = problem.n_states, -np.inf
    for cuts in combinations(range(1, S), n - 1):
        for actions in product(range(problem.n_actions), repeat=n):
            decision = np.repeat(actions, np.diff([0, *cuts, S]))
            if problem.allowed[np.arange(S), decision].all():
                tried = Policy.from_decision(decision, policy.states, policy.actions)
                best = max(best, static_return(problem, tried))
    found = simplify(problem, policy, most_leaves=n)
    assert not found.exceptions
    assert found.value == pytest.approx(best, rel=1e-12)


def test_no_loss_is_reached_by_as_many_rules_as_it_takes(pest: tuple[Problem, Policy]) -> None:
    problem, policy = pest
    rules = simplify(problem, policy, max_loss=0.0)
    assert rules.met
    assert rules.loss == 0.0
    runs = 1 + int(np.count_nonzero(np.diff(np.argmax(policy.probs, axis=1))))
    assert rules.n_leaves <= runs


def test_a_loss_that_is_not_met_is_said(pest: tuple[Problem, Policy]) -> None:
    problem, policy = pest
    rules = simplify(problem, policy, most_leaves=1, max_loss=0.5)
    assert rules.loss > 0.5
    assert rules.met is False
    assert "0.5" in rules_sentence(rules)
    assert rules.to_dict()["met"] is False
    with pytest.raises(InputError, match="max_loss must be"):
        simplify(problem, policy, max_loss=-1.0)
    with pytest.raises(InputError, match="max_loss must be"):
        simplify(problem, policy, max_loss=float("nan"))


@pytest.mark.parametrize("seed", range(3))
def test_values_of_moves_are_exact(seed: int) -> None:
    """Two routes: Woodbury's identity on growing sets of states, and a fresh evaluation."""
    problem = grid_problem(seed)
    rng = np.random.default_rng(seed)
    labels = problem.models.states, problem.models.actions
    policy = Policy.from_decision(rng.integers(0, 3, 8), *labels)
    search = Search(problem, policy, state_columns(problem.models.states))
    tree = search.grown(np.argmax(policy.probs, axis=1))
    assert tree is not None
    at = search.started(tree)
    moves = search._moves(at)
    assert len(moves) > 20
    for move in moves:
        decision = at.labels.copy()
        decision[move.part] = move.action
        value = static_return(problem, Policy.from_decision(decision, *labels))
        assert move.value == pytest.approx(value, rel=1e-10)
    assert [m.value for m in moves] == sorted((m.value for m in moves), reverse=True)


def test_large_problems_take_first_order_costs(
    pest: tuple[Problem, Policy], monkeypatch: pytest.MonkeyPatch
) -> None:
    problem, policy = pest
    best = simplify(problem, policy, most_leaves=3)
    monkeypatch.setattr(searching, "WORK", 0.0)
    rules = simplify(problem, policy, most_leaves=3)
    assert rules.value == static_return(problem, rules.policy)
    assert rules.value <= best.value + 1e-9
    assert rules.n_leaves <= 3


def test_rules_of_a_policy_near_practice_stay_within_what_it_changes() -> None:
    log = read_log(ROOT / "examples" / "pest_log.csv")
    models = DirichletPosterior().fit(log).sample(20, seed=0)
    problem = Problem(models, log.rewards, log.p0, 0.9, SoftRobust(0.5, 0.9))
    usual = behaviour_policy(problem, log)[0]
    probs = usual.probs.copy()
    for name in ("n=8", "n=9"):
        probs[log.states.index(name)] = np.eye(3)[log.actions.index("spray")]
    policy = Policy(probs, usual.states, usual.actions, usual.decided)
    rules = simplify(problem, policy, practice=usual)
    ruled, free = rules.policy.probs, simplify(problem, policy, most_leaves=1)
    moved = (np.abs(ruled - usual.probs) > 1e-9).any(axis=1)
    np.testing.assert_allclose(ruled[moved], probs[moved], atol=1e-12)  # its own changes alone
    assert rules.value == pytest.approx(static_return(problem, rules.policy))
    assert any(NOW in line for line in rules.lines())
    assert rules.kept
    assert rules.same == bool((np.abs(ruled - probs)[problem.decided] < 1e-9).all())
    # Without practice a rule may name what no promise knows of: then the words say whose it is.
    assert not free.kept
    assert "The promise is the full policy's" in rules_sentence(free, promised=True)
    assert ("promise" in rules_sentence(rules, promised=True)) == (not rules.same)
