"""Projected value iteration with one feature per state is value iteration on the table."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Self, final

import numpy as np
import pytest

from softrobust.data import Labels
from softrobust.models import ContinuousPolicy, Policy
from softrobust.models.continuous_policy import Arrays, Words
from softrobust.objective import SoftRobust
from softrobust.problem import ContinuousProblem, Problem
from softrobust.returns import s_rect_return, sa_rect_return
from softrobust.solvers import RPVI, SRVI, SRVISA, SARect, SRect, Status, WorstModelVI
from softrobust.solvers.continuous.srvi import Projected
from tests.continuous_instances import FloatArray, OneHot, TableAsContinuous
from tests.instances import random_policy, random_problem

LEVELS = [(0.5, 0.7), (1.0, 0.9), (0.0, 0.5), (1.0, 1.0), (0.3, 0.0)]


def as_vectors(p: Problem, r: FloatArray) -> ContinuousProblem:
    """The table as a problem of vectors, with r (S, A, S)."""
    models = TableAsContinuous(p.models)

    def reward(s: Any, a: Any, to: Any) -> FloatArray:
        index = s[..., 0].astype(int), a.astype(int), to[..., 0].astype(int)
        return np.asarray(r[index])

    def start(rng: np.random.Generator, n: int) -> FloatArray:
        return np.asarray(rng.choice(p.n_states, size=(n, 1), p=p.p0), dtype=float)

    return ContinuousProblem(models, start, reward, p.gamma, 10, p.objective)


def instance(lam: float, alpha: float, seed: int = 3) -> tuple[Problem, ContinuousProblem]:
    base = random_problem(seed, lam=lam, alpha=alpha, reward_form="transition")
    r = np.random.default_rng(seed).normal(size=(5, 3, 5))
    p = replace(base, rewards=r)  # type: ignore[arg-type]
    return p, as_vectors(p, r)


def exact(solver: type[Projected], p: ContinuousProblem, **more: Any) -> FloatArray:
    models = p.models
    assert isinstance(models, TableAsContinuous)
    solution = solver(
        features=OneHot(5), ridge=0.0, states=models.states, tol=1e-13, iterations=1000, **more
    ).solve(p)
    assert solution.status is Status.TOLERANCE_REACHED
    assert solution.v is not None
    return np.asarray(solution.v(models.states))


def close(found: FloatArray, wanted: FloatArray | None) -> None:
    assert wanted is not None
    np.testing.assert_allclose(found, wanted, rtol=1e-8)


@pytest.mark.parametrize(("lam", "alpha"), LEVELS)
def test_s_rectangular(lam: float, alpha: float) -> None:
    table, vectors = instance(lam, alpha)
    close(exact(SRVI, vectors), SRect(tol=1e-12).solve(table).v)


@pytest.mark.parametrize(("lam", "alpha"), LEVELS)
def test_sa_rectangular(lam: float, alpha: float) -> None:
    table, vectors = instance(lam, alpha)
    solved = SARect(tol=1e-12).solve(table)
    close(exact(SRVISA, vectors), solved.v)
    models = vectors.models
    assert isinstance(models, TableAsContinuous)
    policy = (
        SRVISA(OneHot(5), ridge=0.0, states=models.states, tol=1e-13, iterations=1000)
        .solve(vectors)
        .policy
    )
    np.testing.assert_array_equal(policy.act(models.states), solved.policy.decision)


def test_the_worst_model_is_lambda_and_alpha_1() -> None:
    table, vectors = instance(0.2, 0.3)
    worst = replace(table, objective=SoftRobust(1.0, 1.0))
    close(exact(WorstModelVI, vectors), SRect(tol=1e-12).solve(worst).v)
    close(exact(WorstModelVI, vectors, s_rectangular=False), SARect(tol=1e-12).solve(worst).v)


@final
@dataclass(frozen=True, slots=True, eq=False)
class TablePolicy(ContinuousPolicy):
    """A policy of a table, on indices as vectors."""

    kind: ClassVar[str] = "table"
    table: Policy
    variables: Labels = field()
    actions: Labels = field()

    def _probs(self, s: FloatArray) -> FloatArray:
        return np.asarray(self.table.probs[s[:, 0].astype(int)])

    def to_arrays(self) -> tuple[Arrays, Words]:
        raise NotImplementedError

    @classmethod
    def from_arrays(cls, arrays: Arrays, words: Words, variables: Labels, actions: Labels) -> Self:
        raise NotImplementedError


def test_robust_evaluation_of_a_given_policy() -> None:
    table, vectors = instance(0.2, 0.3)
    worst = replace(table, objective=SoftRobust(1.0, 1.0))
    policy = random_policy(table, 0)
    own = TablePolicy(policy, vectors.variables, vectors.actions)
    v = exact(RPVI, vectors, policy=own)
    assert table.p0 @ v == pytest.approx(sa_rect_return(worst, policy, 1e-12), rel=1e-8)
    v = exact(RPVI, vectors, policy=own, s_rectangular=True)
    assert table.p0 @ v == pytest.approx(s_rect_return(worst, policy, 1e-12), rel=1e-8)
