"""Reduced sets of models: the identity at k = N, weights kept, and an error that is measured."""

from __future__ import annotations

import numpy as np
import pytest

from softrobust.errors import InputError
from softrobust.models import ModelSet
from softrobust.problem import Problem
from softrobust.returns import static_return
from softrobust.returns.clusters import reduce_models
from tests.instances import random_problem


def test_all_models_is_the_identity() -> None:
    problem = random_problem(0)
    reduced = reduce_models(problem, problem.n_models)
    assert reduced.problem is problem
    assert reduced.error == 0.0


def duplicates(copies: int = 40) -> Problem:
    """Three distinct models, many copies of each with uneven weights."""
    base = random_problem(1, n_models=3)
    rng = np.random.default_rng(0)
    which = np.repeat(np.arange(3), copies)
    models = ModelSet.from_dense(base.models.P[which], rng.dirichlet(np.ones(3 * copies)))
    return Problem(models, rewards=base.rewards, gamma=0.9, objective=base.objective)


def test_copies_collapse_without_error() -> None:
    problem = duplicates()
    reduced = reduce_models(problem, 3)
    assert reduced.problem.n_models == 3
    assert reduced.error <= 1e-9
    for j, representative in enumerate(reduced.representatives):
        np.testing.assert_array_equal(
            reduced.problem.models[j].P, problem.models[int(representative)].P
        )
        mine = reduced.cluster == j
        assert reduced.problem.models.f[j] == pytest.approx(problem.models.f[mine].sum())


def test_more_clusters_than_distinct_models() -> None:
    reduced = reduce_models(duplicates(), 10)
    assert reduced.problem.n_models <= 10
    assert reduced.error <= 1e-9


def test_error_shrinks_and_is_what_it_says() -> None:
    base = random_problem(3, n_models=2)
    x = np.random.default_rng(0).random((200, 1, 1, 1))  # one shared parameter, as domains have
    models = ModelSet.from_dense(x * base.models.P[0] + (1 - x) * base.models.P[1])
    problem = Problem(models, rewards=base.rewards, gamma=0.9, objective=base.objective)
    errors = [reduce_models(problem, k).error for k in (3, 20, 100)]
    assert errors[2] < 0.2 * errors[0]
    reduced = reduce_models(problem, 20)
    uniform = problem.uniform_policy()
    gap = abs(static_return(problem, uniform) - static_return(reduced.problem, uniform))
    assert gap <= reduced.error + 1e-12


def test_models_of_no_weight_represent_nothing() -> None:
    problem = random_problem(0, n_models=12)
    reduced = reduce_models(problem, 5)
    assert (problem.models.f[reduced.representatives] > 0).all()
    assert reduced.problem.models.f.sum() == pytest.approx(1.0)


@pytest.mark.parametrize("k", [0, 8, 2.5])
def test_bad_k(k: float) -> None:
    with pytest.raises(InputError, match="whole number in 1…7"):
        reduce_models(random_problem(0), k)  # type: ignore[arg-type]
