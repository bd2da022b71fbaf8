"""Search without inverses: the same values, nearly always the same end, and no wrong claims."""

from __future__ import annotations

import numpy as np
import pytest

from softrobust.bounds import clairvoyant_bound, reduction
from softrobust.bounds.reduction import reduce
from softrobust.returns import static_return
from softrobust.solvers import Status
from softrobust.solvers.base import Deadline
from softrobust.solvers.exact import exact, local_search
from softrobust.solvers.exact.exact import Exact
from softrobust.solvers.exact.local_search import (
    BlockClimber,
    ExchangeClimber,
    LocalSearch,
    policy_of,
)
from tests.agree.static_instances import static_instance
from tests.instances import random_problem


@pytest.mark.parametrize("seed", range(10))
def test_climbs_to_the_exact_value_of_its_rule(seed: int) -> None:
    problem = static_instance(seed)
    reduced = reduce(problem)
    start = np.argmax(reduced.allowed, axis=1)
    climber = BlockClimber(reduced)
    first = climber.neighbours(start)
    end, value, settled = climber.climb(start, Deadline(None))
    assert settled
    assert value >= first
    policy = policy_of(problem, reduced, end)
    assert value == pytest.approx(static_return(problem, policy), rel=1e-9, abs=1e-9)


@pytest.mark.parametrize("seed", range(10))
def test_neighbours_by_one_inverse_are_exact(seed: int) -> None:
    """Sherman–Morrison against an evaluation of each neighbour of its own."""
    problem = static_instance(seed)
    reduced = reduce(problem)
    p = reduced.problem
    decision = np.argmax(reduced.allowed, axis=1)
    climber = ExchangeClimber(reduced)
    climber.neighbours(decision)
    X = climber.X.reshape(*reduced.allowed.shape, p.n_models).copy()
    for s, a in np.argwhere(reduced.allowed):
        other = decision.copy()
        other[s] = a
        climber.neighbours(other)
        np.testing.assert_allclose(X[s, a], climber.x, rtol=1e-11, atol=1e-11)


def test_large_problems_take_the_block_route(monkeypatch: pytest.MonkeyPatch) -> None:
    problem = random_problem(11)
    exactly = Exact(gap=1e-9).solve(problem).static_value
    monkeypatch.setattr(local_search, "EXCHANGE_WORK", 0.0)
    monkeypatch.setattr(exact, "TREE_NUMBERS", 0.0)
    monkeypatch.setattr(reduction, "PAIRS", 0)
    found = LocalSearch().solve(problem)
    assert found.stats["neighbourhood"] == "blocks of states"
    assert found.static_value == pytest.approx(exactly, rel=1e-6)
    solution = Exact().solve(problem)
    assert solution.status is Status.LOCAL_OPTIMUM
    assert solution.bound is not None
    assert solution.bound.value == pytest.approx(clairvoyant_bound(problem).value)
