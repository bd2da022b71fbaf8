"""Several value functions at once against one at a time: Z, sweeps, points that sit out."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from softrobust.kernels.expected import expected_values
from softrobust.kernels.group import group_values
from softrobust.kernels.sweeps import S_GAME, SA_GAME
from softrobust.objective import SoftRobust
from softrobust.problem import Problem
from softrobust.returns.rectangular_sweeps import SweepBatch, Sweeps
from tests.instances import random_problem

LEVELS = [(0.5, 0.7), (1.0, 0.9), (0.0, 0.5), (1e-6, 0.8), (1.0, 1.0), (0.3, 0.0), (0.7, 1.0)]


@pytest.mark.parametrize("single", [False, True])
@pytest.mark.parametrize(("width", "n_models"), [(60, 9), (33, 100), (26, 3), (10, 8), (3, 6)])
def test_values(width: int, n_models: int, single: bool) -> None:
    rng = np.random.default_rng(width)
    lists = [np.sort(rng.choice(60, size=width, replace=False)) for _ in range(4)]
    prob = rng.dirichlet(np.ones(width), size=(4, n_models)).reshape(-1)
    if single:
        prob = prob.astype(np.float32)
    indptr = np.arange(5) * width
    next_states = np.concatenate(lists).astype(np.int32)
    R, V = rng.normal(size=(2, 2, n_models)), rng.normal(size=(8, 60))
    Z = np.empty((8, 4, n_models))
    scratch, shifts = np.empty((8, 60)), np.zeros(8)
    for k in range(4):
        group_values(prob, indptr, next_states, k, V, shifts, single, 0.9, R, scratch, Z, k)
    for v, z in zip(V, Z, strict=True):
        truth = expected_values(prob, indptr, next_states, R, v, 0.9)
        np.testing.assert_allclose(z.reshape(2, 2, n_models), truth, rtol=0, atol=1e-14)


def points(p: Problem) -> list[Problem]:
    return [replace(p, objective=SoftRobust(lam, alpha)) for lam, alpha in LEVELS]


@pytest.mark.parametrize("kind", [S_GAME, SA_GAME])
@pytest.mark.parametrize(("n_states", "masks"), [(5, True), (30, True), (70, False)])
def test_points_sweep_as_alone(kind: int, n_states: int, masks: bool) -> None:
    p = random_problem(1, n_states=n_states, n_models=9, masks=masks)
    rng = np.random.default_rng(0)
    for threads in (False, True) if n_states == 70 else (False,):
        first = Sweeps(p)
        first.threads = threads
        together = SweepBatch(first, len(LEVELS))
        for x, point in zip(together.sweeps, points(p), strict=True):
            x.reset(point)
        for slots in (range(7), (0, 2, 5), (6,), range(1, 7)):  # warm from the second on
            values = [rng.normal(size=n_states) for _ in slots]
            before = [x.passes for x in together.sweeps]
            together.run(kind, list(slots), values)
            for j, v in zip(slots, values, strict=True):
                alone, mine = Sweeps(points(p)[j]), together.sweeps[j]
                alone.run(kind, v)
                # Both bracket the same number.
                assert (mine.out.lb <= alone.out.ub).all()
                assert (alone.out.lb <= mine.out.ub).all()
                assert (mine.out.ub - mine.out.lb).max() < 1e-8
                np.testing.assert_allclose(mine.step(v), alone.step(v), rtol=1e-6)
                assert mine.passes - before[j] < 2 * p.allowed.mean() / len(slots) + 1
            for j in set(range(7)) - set(slots):
                assert together.sweeps[j].passes == before[j]


def test_passes_are_shared() -> None:
    p = random_problem(2, n_states=30, lam=0.0)
    first = Sweeps(p)
    together = SweepBatch(first, 8)
    for x in together.sweeps:
        x.reset(p)  # λ = 0: no tail to read again
    together.run(S_GAME, range(8), [np.zeros(30)] * 8)
    assert sum(x.passes for x in together.sweeps) == pytest.approx(1.0)


def test_mixed_rows_read_the_tail_only() -> None:
    rng = np.random.default_rng(0)
    base = random_problem(3, n_states=12, n_models=10)
    models = replace(base.models, f=np.full(10, 0.1))
    p = Problem(models, rewards=base.rewards, gamma=0.9, objective=SoftRobust(0.4, 0.8))
    sweeps = Sweeps(p)
    v = rng.normal(size=12)
    sweeps.run(SA_GAME, v)
    assert (sweeps.out.read == 2 * 12).all()  # two of ten models, each a row of 12
    for s, a in np.argwhere(sweeps.out.d > 0):
        k = s * 3 + a
        row = sweeps.out.mixed[models.indptr[k] : models.indptr[k + 1]]
        columns, block = models.block(int(s), int(a))
        xi = p.objective.worst_case(p.R[s, a] + p.gamma * block @ v[columns], models.f)
        truth = xi @ block
        np.testing.assert_allclose(row, truth, atol=1e-15)
