"""Replications: covering where the truth is known, tighter with a tighter bound, repeatable."""

from __future__ import annotations

import numpy as np
import pytest

from softrobust.bounds import Bound, Covers, clairvoyant_bound
from softrobust.bounds.best import CLASSES, best_bound, replication_bound
from softrobust.errors import InputError
from softrobust.models.model_set import ModelSet
from softrobust.objective import SoftRobust
from softrobust.problem import Problem
from softrobust.solvers.exact.exact import Exact


def population() -> Problem:
    """4000 models: the stand-in for the posterior itself."""
    rng = np.random.default_rng(0)
    P = rng.dirichlet(np.ones(3), size=(4000, 3, 2))
    return Problem(
        ModelSet.from_dense(P),
        rewards=rng.normal(size=(3, 2)),
        gamma=0.8,
        objective=SoftRobust(0.5, 0.8),
    )


POPULATION = population()
OPTIMUM = Exact().solve(POPULATION).static_value


def sample(rng: np.random.Generator) -> Problem:
    return POPULATION.with_models(POPULATION.models.select(rng.choice(4000, 20, replace=True)))


def proven(problem: Problem) -> Bound:
    bound = Exact().solve(problem).bound
    assert bound is not None
    return bound


def test_covers_the_true_optimum_as_often_as_promised() -> None:
    """20 experiments at 95 %: fewer than 16 hits would have probability below 3e-4."""
    hits = sum(
        replication_bound(sample, replications=8, bound=proven, seed=seed).value >= OPTIMUM
        for seed in range(20)
    )
    assert hits >= 16


def test_tighter_bounds_give_a_tighter_result_and_the_class_is_the_narrowest() -> None:
    exact = replication_bound(sample, replications=6, bound=proven, seed=1)
    dual = replication_bound(sample, replications=6, seed=1)
    told = replication_bound(sample, replications=6, bound=clairvoyant_bound, seed=1)
    assert exact.mean <= dual.mean <= told.mean
    assert told.covers is Covers.ALL
    assert exact.covers is Covers.DETERMINISTIC
    assert len(exact.values) == 6
    assert exact.value > exact.mean
    again = replication_bound(sample, replications=6, bound=proven, seed=1)
    assert again.values == exact.values


def test_a_time_limit_still_gives_a_bound() -> None:
    problem = sample(np.random.default_rng(0))
    for covers in CLASSES:
        bound = best_bound(problem, covers, time_limit=1e-9)
        assert bound.value == clairvoyant_bound(problem).value
        assert bound.covers is Covers.ALL


def test_settings_are_checked() -> None:
    with pytest.raises(InputError, match="At least 2"):
        replication_bound(sample, replications=1)
    with pytest.raises(InputError, match="confidence"):
        replication_bound(sample, confidence=1.0)
