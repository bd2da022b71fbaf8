"""Z against a plain einsum, in every storage and on any number of threads."""

from __future__ import annotations

import numpy as np
import pytest

from softrobust.kernels.expected import expected_rounding, expected_values, mean_rows
from softrobust.models.model_set import ModelSet
from tests.instances import random_problem


def dense_truth(models: ModelSet, R: np.ndarray, v: np.ndarray, gamma: float) -> np.ndarray:
    return np.asarray(R + gamma * np.einsum("nsaj,j->san", models.P, v))


@pytest.mark.parametrize("threads", [False, True])
@pytest.mark.parametrize("n_states", [5, 40])  # short and long rows
def test_dense(n_states: int, threads: bool) -> None:
    p = random_problem(0, n_states=n_states, n_models=11)
    v = np.random.default_rng(0).normal(size=n_states) * 100
    m = p.models
    Z = expected_values(m.prob, m.indptr, m.next_states, p.R, v, p.gamma, threads)
    truth = dense_truth(m, p.R, v, p.gamma)
    bound = expected_rounding(n_states, v, float(np.abs(p.R).max()), False, p.gamma)
    assert np.abs(Z - truth).max() <= 2 * bound


def sparse_models(rng: np.random.Generator) -> ModelSet:
    P = rng.dirichlet(np.full(9, 0.1), size=(6, 9, 3))
    keep = rng.random((9, 3, 9)) < 0.4
    keep[:, :, 4] = True
    P = P * keep + 1e-3 * keep
    P /= P.sum(axis=-1, keepdims=True)
    lists = [np.flatnonzero(keep[s, a]) for s in range(9) for a in range(3)]
    return ModelSet(
        indptr=np.concatenate([[0], np.cumsum([len(x) for x in lists])]),
        next_states=np.concatenate(lists).astype(np.int32),
        prob=np.concatenate([P[:, k // 3, k % 3, x].reshape(-1) for k, x in enumerate(lists)]),
        f=np.full(6, 1 / 6),
        states=random_problem(0, n_states=9).models.states,
        actions=random_problem(0).models.actions,
    )


def test_shared_lists_and_float32() -> None:
    rng = np.random.default_rng(1)
    models = sparse_models(rng)
    R, v = rng.normal(size=(9, 3, 6)), 1000 + rng.normal(size=9)
    truth = dense_truth(models, R, v, 0.99)
    Z = expected_values(models.prob, models.indptr, models.next_states, R, v, 0.99)
    np.testing.assert_allclose(Z, truth, rtol=1e-13)
    single = models.prob.astype(np.float32)
    Z = expected_values(single, models.indptr, models.next_states, R, v, 0.99)
    # Rounded rows stand for themselves over their sum: off by the spread of v, not by its size.
    assert np.abs(Z - truth).max() <= 2**-23 * np.ptp(v)


def test_mean_rows_and_row_sums() -> None:
    models = sparse_models(np.random.default_rng(2))
    for threads in (False, True):
        rows = np.zeros(models.next_states.size)
        worst = mean_rows(models.prob, models.indptr, models.f, rows, threads)
        assert worst < 1e-15 * 20
        for k in range(27):
            lo, hi = models.indptr[k], models.indptr[k + 1]
            np.testing.assert_allclose(
                rows[lo:hi], models.block(k // 3, k % 3)[1].mean(axis=0), rtol=1e-13
            )


@pytest.mark.parametrize("single", [False, True])
@pytest.mark.parametrize("n_models", [1, 3, 4, 5, 11])
def test_rows_of_every_short_width(n_models: int, single: bool) -> None:
    """Vectors of four: rows that fill them or not, models that fill them or not, none at all."""
    rng = np.random.default_rng(n_models)
    widths = [*range(28), 40]  # 4 to 24 go by vectors
    lists = [np.sort(rng.choice(40, size=w, replace=False)) for w in widths]
    blocks = [rng.dirichlet(np.ones(w), size=n_models) if w else np.zeros((1, 0)) for w in widths]
    prob = np.concatenate([x.reshape(-1) for x in blocks]).astype("f4" if single else "f8")
    indptr = np.concatenate([[0], np.cumsum(widths)])
    R, v = rng.normal(size=(len(widths), 1, n_models)), 10 + rng.normal(size=40)
    out = np.full(R.shape, np.nan)
    Z = expected_values(prob, indptr, np.concatenate(lists).astype(np.int32), R, v, 0.9, False, out)
    assert np.shares_memory(Z, out)
    np.testing.assert_array_equal(Z, out)
    for k, (states, block) in enumerate(zip(lists, blocks, strict=True)):
        truth = R[k, 0] + 0.9 * block @ v[states] if widths[k] else np.zeros(n_models)
        np.testing.assert_allclose(Z[k, 0], truth, atol=2e-7 * np.ptp(v) if single else 1e-14)
