"""Enumeration: every return within its proven error, every bound above the exact optimum."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from softrobust.bounds.reduction import reduce
from softrobust.models.model_set import ModelSet
from softrobust.models.policy import Policy
from softrobust.objective import SoftRobust
from softrobust.problem import Problem
from softrobust.returns import static_return
from softrobust.solvers.base import Deadline
from softrobust.solvers.exact import enumeration
from softrobust.solvers.exact.enumeration import _Walker, enumerate_rules
from tests.agree.static_instances import all_decisions
from tests.instances import random_problem
from tests.solvers.exact_fractions import exact_objective, exact_returns


def sticky(gamma: float, offset: float, seed: int = 0, stay: float = 1.0) -> Problem:
    """Each state stays for ever or leaves at once: one exchange changes N(s,s) by 1/(1 − γ).

    That is the nearest to singular that an exchange of stochastic rows can be.
    """
    rng = np.random.default_rng(seed)
    S, N = 4, 3
    P = np.zeros((N, S, 2, S))
    stays = stay * np.array([1.0, 1 - 1e-3, 0.5])  # one model moves on anyway
    for s in range(S):
        P[:, s, 0, s] += stays
        P[:, s, 0, (s + 1) % S] += 1 - stays
        P[:, s, 1, (s + 1) % S] = 1.0
    rewards = rng.normal(size=(S, 2)) + offset
    models = ModelSet.from_dense(P, rng.dirichlet(np.ones(N)))
    return Problem(models, rewards=rewards, gamma=gamma, objective=SoftRobust(0.5, 0.6))


def offset_problem(seed: int, gamma: float, offset: float) -> Problem:
    p = random_problem(seed, n_states=3, n_actions=2, n_models=3, gamma=gamma)
    return replace(p, rewards=p.rewards.of_pairs(np.asarray(p.rewards.pairs) + offset))


def instances() -> list[Problem]:
    out = [
        offset_problem(seed, gamma, offset)
        for seed, (gamma, offset) in enumerate(
            [(0.9, 0.0), (0.9, 1e6), (0.999, 0.0), (0.999, 1e6), (0.99999, -1e6), (0.5, 1e12)]
        )
    ]
    out += [sticky(0.999, 0.0), sticky(0.999, 1e6), sticky(0.9999, -1e6, 1, 1 - 1e-9)]
    return out


@pytest.mark.parametrize("problem", instances())
@pytest.mark.parametrize("numbers", [4e6, 12])
def test_the_bound_is_above_the_optimum_in_exact_fractions(
    problem: Problem, numbers: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(enumeration, "NUMBERS", numbers)
    reduced = reduce(problem)
    p = reduced.problem
    seen = enumerate_rules(reduced, reduced.allowed, -np.inf, Deadline(None))
    values = {
        tuple(d): exact_objective(p, exact_returns(p, d))
        for d in all_decisions(replace(p, allowed=reduced.allowed))
    }
    best = max(values.values())
    assert seen.complete
    assert Fraction(seen.bound) >= best
    assert seen.decision is not None
    # The rule found is the best one but for rounding, and its value is what it says.
    assert abs(Fraction(seen.value) - values[tuple(seen.decision)]) <= Fraction(seen.error)
    assert best - values[tuple(seen.decision)] <= 2 * Fraction(seen.error)
    # A bound that is true because it is useless would not be one.
    size = float(np.abs(p.R).max()) / (1 - p.gamma)
    assert seen.error <= 1e-13 * size / (1 - p.gamma) + 1e-10 * size


@pytest.mark.parametrize("problem", instances())
def test_every_return_is_within_its_error(problem: Problem) -> None:
    reduced = reduce(problem)
    p = reduced.problem
    walker = _Walker(reduced, reduced.allowed, -np.inf)
    error, n = Fraction(walker.error()), int(walker.sizes[-1])
    for k in range(walker.left * n):
        if k == 0:
            X = walker.X.reshape(-1, p.n_models)
            first = walker.digits
            walker.walk()
            walker.digits = first  # `_after` counts from where the walk began
        digits = walker._after(k // n)
        digits[-1] = k % n
        rule = np.empty(digits.size, np.int64)
        rule[walker.order] = walker.pairs[walker.begin + digits] % p.n_actions
        for omega, exact in enumerate(exact_returns(p, rule)):
            assert abs(Fraction(float(X[k, omega])) - exact) <= error


def test_uneven_choices_and_many_models(monkeypatch: pytest.MonkeyPatch) -> None:
    """States with one, two and three actions, blocks that are not full, stops in small parts."""
    p = random_problem(4, n_states=6, n_actions=3, n_models=11, gamma=0.99)
    allowed = p.allowed.copy()
    allowed[0, 1:], allowed[3, 2] = False, False
    reduced = reduce(replace(p, allowed=allowed))
    whole = enumerate_rules(reduced, reduced.allowed, -np.inf, Deadline(None))
    every = [Policy.from_decision(d, p.models.states, p.models.actions)
             for d in all_decisions(replace(p, allowed=allowed))]  # fmt: skip
    assert whole.value == pytest.approx(max(static_return(p, x) for x in every), rel=1e-11)
    monkeypatch.setattr(enumeration, "NUMBERS", 50.0)
    parts = enumerate_rules(reduced, reduced.allowed, -np.inf, Deadline(None))
    np.testing.assert_array_equal(parts.decision, whole.decision)
    assert parts.value == whole.value


def test_nothing_above_the_floor_leaves_the_floor_as_the_bound() -> None:
    problem = random_problem(0, n_states=3, n_actions=2)
    reduced = reduce(problem)
    best = enumerate_rules(reduced, reduced.allowed, -np.inf, Deadline(None))
    floor = best.value + 1.0
    seen = enumerate_rules(reduced, reduced.allowed, floor, Deadline(None))
    assert seen.decision is None
    assert floor <= seen.bound <= floor + best.error + 1e-9
