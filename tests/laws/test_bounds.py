"""Bounds hold for the class they claim, whatever the problem; weights stay in Ξ."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from softrobust.bounds import Covers, clairvoyant_bound
from softrobust.bounds.advantage import Charges, Relaxation, relax
from softrobust.bounds.best import (
    CLASSES,
    best_bound,
    dual_bound,
    dual_value,
    into_xi,
    parts_by_turns,
)
from softrobust.bounds.paper_errors import eps1, eps2, paper_errors, reward_radius
from softrobust.bounds.reduction import reduce
from softrobust.objective import SoftRobust, soft_robust
from softrobust.problem import Problem
from softrobust.returns import occupancies, policy_return, static_return
from tests.agree.static_instances import all_decisions, all_returns, brute_force
from tests.instances import random_policy, random_problem


def plain(relaxation: Relaxation) -> Charges:
    """Least occupancies at any price."""
    return Charges(relaxation.x, relaxation.size, relaxation.terms)


SHARES = st.sampled_from([0.0, 0.2, 0.5, 0.9, 1.0])


@st.composite
def problems(draw: st.DrawFn) -> Problem:
    return random_problem(
        draw(st.integers(0, 10_000)),
        n_states=draw(st.integers(1, 4)),
        n_actions=draw(st.integers(1, 3)),
        n_models=draw(st.integers(1, 6)),
        gamma=draw(st.sampled_from([0.3, 0.9, 0.99])),
        lam=draw(SHARES),
        alpha=draw(SHARES),
        masks=draw(st.booleans()),
        reward_form=draw(st.sampled_from(["pair", "transition"])),
    )


@settings(max_examples=60, deadline=None)
@given(problems(), st.integers(0, 1000))
def test_every_bound_covers_its_class(problem: Problem, seed: int) -> None:
    classes = (covers for covers in CLASSES if covers is not Covers.TIMED)  # is for a horizon
    deterministic, stationary, everyone = (best_bound(problem, covers) for covers in classes)
    assert brute_force(problem) <= deterministic.value
    assert static_return(problem, random_policy(problem, seed)) <= stationary.value
    assert deterministic.value <= stationary.value <= everyone.value
    assert everyone.value == clairvoyant_bound(problem).value
    assert everyone.covers is Covers.ALL
    assert stationary.covers in (Covers.STATIONARY, Covers.ALL)


@settings(max_examples=40, deadline=None)
@given(problems(), st.integers(0, 1000))
def test_any_weights_give_a_bound_on_every_choice(problem: Problem, seed: int) -> None:
    """UB(s,a) ≥ the best rule that takes a in s, for the best ξ and for an arbitrary one."""
    reduced = reduce(problem)
    p = reduced.problem
    relaxation = relax(reduced, p.allowed)
    decisions = all_decisions(p)
    returns = all_returns(p, decisions)
    values = np.array([p.objective.value(x, p.models.f) for x in returns])
    lower, upper = soft_robust(p.objective, "test").xi_bounds(p.models.f)
    xi = into_xi(np.random.default_rng(seed).dirichlet(np.ones(p.n_models)), lower, upper)
    for bound in (
        dual_bound(p, relaxation.allowed, plain(relaxation)),
        dual_value(p, relaxation.allowed, plain(relaxation), xi),
    ):
        for s, a in np.argwhere(p.allowed):
            assert values[decisions[:, s] == a].max() <= bound.choice[s, a]
        assert bound.value == pytest.approx(bound.choice.max(), rel=1e-12)


@settings(max_examples=60, deadline=None)
@given(problems(), st.integers(0, 1000))
def test_priced_charges_hold_in_every_model_and_for_every_choice(p: Problem, seed: int) -> None:
    """ρ(π, P̂^ω) ≤ x_ω + Σ_s terms: fresh prices, in a child, made anew, and mixtures of them."""
    reduced, rng = reduce(p), np.random.default_rng(seed)
    p = reduced.problem
    lower, upper = soft_robust(p.objective, "test").xi_bounds(p.models.f)
    xi = into_xi(rng.dirichlet(np.ones(p.n_models)), lower, upper)
    priced = relax(reduced, reduced.allowed, relax(reduced, reduced.allowed), xi=xi)
    fewer = reduced.allowed & (rng.random(reduced.allowed.shape) < 0.7)
    fewer[~fewer.any(axis=1)] = reduced.allowed[~fewer.any(axis=1)]
    child = relax(reduced, fewer, priced, occupancies=False)
    decisions = all_decisions(p)
    likely = decisions[rng.integers(len(decisions))]
    again = relax(reduced, fewer, priced, xi=xi, likely=likely)
    paying = relax(reduced, fewer, priced, xi=xi, free=False)
    returns = all_returns(p, decisions)
    older = None
    for relaxation in (priced, child, again, paying):
        inside = relaxation.allowed[np.arange(p.n_states), decisions].all(axis=1)
        charges = relaxation.charges(xi)
        best = dual_bound(p, relaxation.allowed, charges, xi, older=older)
        floor = best.value - rng.random() * (1e-3 + abs(best.value))
        near = dual_bound(p, relaxation.allowed, charges, xi, floor, older=older)  # parts by turns
        if older is not None:
            charges = charges.mixed(older, rng.random(p.n_models))
        assert charges.terms.sum() <= 0
        bound = dual_value(p, relaxation.allowed, charges, xi)
        older = charges
        for decision, x in zip(decisions[inside], returns[inside], strict=True):
            paid = charges.terms[np.arange(p.n_states), decision].sum(axis=0)
            assert (x <= charges.x + paid + 1e-12 * np.abs(x).max()).all()
            choice = np.minimum(np.minimum(bound.choice, best.choice), near.choice)
            limit = choice[np.arange(p.n_states), decision].min()
            assert p.objective.value(x, p.models.f) <= limit


@settings(max_examples=40, deadline=None)
@given(problems(), st.integers(0, 1000))
def test_no_weights_and_parts_give_less_than_turns_say(p: Problem, seed: int) -> None:
    """What is said to be the least UB is no more than any mixture of charges has by any ξ."""
    reduced, rng = reduce(p), np.random.default_rng(seed)
    p = reduced.problem
    lower, upper = soft_robust(p.objective, "test").xi_bounds(p.models.f)
    random = [rng.dirichlet(np.ones(p.n_models)) for _ in range(5)]
    xi, *others = (into_xi(each, lower, upper) for each in random)
    first = relax(reduced, reduced.allowed)
    priced = relax(reduced, reduced.allowed, first, xi=xi)
    new, old = priced.charges(xi), first.charges(xi)
    part, least = parts_by_turns(p, reduced.allowed, new, old, xi)
    assert ((part >= 0) & (part <= 1)).all()
    mixtures = [new, old, new.mixed(old, part)]
    mixtures += [new.mixed(old, rng.random(p.n_models)) for _ in others]
    for charges in mixtures:
        for weights in (xi, *others):
            sums = np.where(reduced.allowed, charges.terms @ weights, -np.inf).max(axis=1)
            assert least <= charges.x @ weights + sums.sum() + 1e-12 * charges.size


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10_000), SHARES, SHARES)
def test_weights_are_moved_into_the_set(seed: int, lam: float, alpha: float) -> None:
    rng = np.random.default_rng(seed)
    f = rng.dirichlet(np.ones(6))
    lower, upper = SoftRobust(lam, alpha).xi_bounds(f)
    xi = into_xi(rng.normal(size=6), lower, upper)
    assert xi.sum() == pytest.approx(1.0, abs=4e-16 * 6)
    assert (xi >= lower).all()
    assert (xi <= upper).all()


@settings(max_examples=40, deadline=None)
@given(problems())
def test_occupancies_of_randomized_policies_lie_above_the_least(problem: Problem) -> None:
    reduced = reduce(problem)
    p = reduced.problem
    relaxation = relax(reduced, p.allowed)
    least = np.where(p.allowed[:, :, None], relaxation.m, np.inf).min(axis=1)
    for seed in range(3):
        h = occupancies(p, random_policy(p, seed)).T
        assert (least <= h * (1 + 1e-11) + 1e-15).all()


@settings(max_examples=40, deadline=None)
@given(problems(), st.integers(0, 1000))
def test_a_relaxation_tightened_is_one_computed_afresh(problem: Problem, seed: int) -> None:
    reduced = reduce(problem)
    rng = np.random.default_rng(seed)
    allowed = reduced.allowed & (rng.random(reduced.allowed.shape) < 0.6)
    stuck = ~allowed.any(axis=1)
    allowed[stuck] = reduced.allowed[stuck]
    warm = relax(reduced, allowed, relax(reduced, reduced.allowed))
    cold = relax(reduced, allowed)
    np.testing.assert_allclose(warm.x, cold.x, rtol=1e-9, atol=1e-9)
    choice = allowed & (allowed.sum(axis=1, keepdims=True) > 1) & reduced.reachable[:, None]
    np.testing.assert_allclose(warm.m[choice], cold.m[choice], rtol=1e-8, atol=1e-12)


@settings(max_examples=30, deadline=None)
@given(problems(), st.integers(0, 1000))
def test_corrected_theorem_on_static_and_mixed_returns(problem: Problem, seed: int) -> None:
    """|ρ(π, E_ξ[P̂]) − E_ξ[ρ(π, P̂)]| ≤ r_max·ε₁/(1 − γ) for every ξ ∈ Ξ, which is theorem 5.1."""
    policy = random_policy(problem, seed)
    rng = np.random.default_rng(seed)
    f, x = problem.models.f, policy_return(problem, policy)
    for _ in range(3):
        xi = problem.objective.worst_case(rng.normal(size=f.size), f)
        mixed = policy_return(problem.mean_problem(xi), policy)[0]
        error = reward_radius(problem) * eps1(problem, policy) / (1 - problem.gamma)  # thm. 5.1
        assert abs(mixed - xi @ x) <= error + 1e-9


def test_paper_errors_are_marked_indicative() -> None:
    problem = random_problem(0)
    policy = random_policy(problem, 0)
    errors = paper_errors(problem, [policy, problem.uniform_policy()], ["nominal", "uniform"])
    assert errors.eps1 >= eps1(problem, policy) > 0
    assert errors.eps2 == pytest.approx(eps2(problem, policy))
    expected = (2 * errors.r_max * errors.eps1 + errors.eps2) / (1 - problem.gamma)
    assert errors.error == pytest.approx(expected)
    alone = random_problem(0, n_models=1)
    assert eps1(alone, alone.uniform_policy()) == 0
    assert eps2(alone, alone.uniform_policy()) == pytest.approx(0, abs=1e-9)
