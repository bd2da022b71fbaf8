"""Data objects copy and pickle, and their arrays are read-only afterwards, at any depth."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Iterator
from dataclasses import fields, is_dataclass, replace
from typing import Any

import numpy as np
import pytest

from softrobust import (
    DirichletPosterior,
    LearnedPosterior,
    Policy,
    RegressionPosterior,
    Rewards,
    choose,
    policy_return,
)
from softrobust._core.arrays import Sealed
from softrobust._core.notes import Count, Level, Note
from softrobust.posterior import HierarchicalPosterior
from softrobust.solvers import Nominal
from tests.continuous_instances import linear_problem
from tests.instances import random_problem
from tests.report.builders import from_log, stock_log
from tests.report.vectors import vector_log


def objects() -> Iterator[Any]:
    log, vectors = stock_log(), vector_log()
    problem, _, _ = from_log(log)
    yield from (log, problem, problem.models, problem.rewards, problem.objective, vectors)
    yield Rewards.of_pairs(np.ones((2, 2)))
    yield problem.uniform_policy()
    yield Nominal().solve(replace(random_problem(0), horizon=3))
    for settings in (LearnedPosterior(), DirichletPosterior(), HierarchicalPosterior()):
        yield settings.fit(log)
    yield RegressionPosterior().fit(vectors)
    yield from (linear_problem(), linear_problem().models)
    run = choose(log, gamma=0.9, n_models=20, replications=0)
    yield from (run.solution, run.certificate, run.problem)


def arrays(value: Any, name: str = "") -> Iterator[tuple[str, np.ndarray]]:
    """Every array of an object, with its path."""
    if isinstance(value, np.ndarray):
        yield name, value
    elif isinstance(value, (tuple, list)):
        for i, part in enumerate(value):
            yield from arrays(part, f"{name}[{i}]")
    elif is_dataclass(value) and not isinstance(value, type):
        for f in fields(value):
            yield from arrays(getattr(value, f.name), f"{name}.{f.name}")


@pytest.mark.parametrize(
    "copied", [copy.copy, copy.deepcopy, lambda x: pickle.loads(pickle.dumps(x))]
)
def test_copies_are_equal_and_read_only(copied: Any) -> None:
    for given in objects():
        name = type(given).__name__
        before, after = dict(arrays(given, name)), dict(arrays(copied(given), name))
        assert before.keys() == after.keys()
        for path, array in before.items():
            np.testing.assert_array_equal(array, after[path], err_msg=path)
            assert after[path].flags.writeable <= array.flags.writeable, path


def test_a_copied_problem_is_the_same_problem() -> None:
    problem, _, _ = from_log(stock_log())
    again = pickle.loads(pickle.dumps(problem))
    policy = problem.uniform_policy()
    np.testing.assert_array_equal(policy_return(again, policy), policy_return(problem, policy))
    assert isinstance(copy.deepcopy(policy), Policy)


def test_a_note_keeps_its_facts() -> None:
    note = Note("rows_added", Level.CAUTION, {"n_rows": 3, "source": "a.csv"})
    for again in (copy.deepcopy(note), pickle.loads(pickle.dumps(note))):
        assert again == note
        assert isinstance(again["n_rows"], Count)


class Mine(Sealed):
    """A class of somebody else, which is no dataclass."""

    def __init__(self) -> None:
        self.held = np.ones(2)


def test_others_classes_copy_as_they_did() -> None:
    again = copy.deepcopy(Mine())
    assert again.held.tolist() == [1.0, 1.0]
    assert again.held.flags.writeable
