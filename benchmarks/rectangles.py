"""Frozen instances for the rectangular solvers: random, pest-like, slow rings, large and sparse."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from benchmarks.instances import pest_rows
from softrobust.data import Labels
from softrobust.models.model_set import ModelSet
from softrobust.objective import SoftRobust
from softrobust.problem import Problem

FloatArray = NDArray[np.float64]
TWIST = (0.27, 0.40, 0.034, 0.00086)  # standard deviations of the growth parameters


def random_dense(
    S: int = 51, A: int = 5, N: int = 100, gamma: float = 0.9, lam: float = 0.5, alpha: float = 0.7
) -> Problem:
    """Dirichlet rows around a common mean, normal rewards."""
    rng = np.random.default_rng(0)
    P = rng.dirichlet(np.full(S, 0.2), size=(1, S, A)) + 0.3 * rng.dirichlet(
        np.full(S, 0.2), size=(N, S, A)
    )
    models = ModelSet.from_dense(P / P.sum(axis=-1, keepdims=True))
    return Problem(
        models, rewards=rng.normal(size=(S, A)), gamma=gamma, objective=SoftRobust(lam, alpha)
    )


def pest_like(N: int = 100, gamma: float = 0.9, lam: float = 0.5, alpha: float = 0.7) -> Problem:
    """Pest control, 51 × 5, its growth parameters drawn independently about the published means."""
    rng = np.random.default_rng(1)
    theta = np.array([1.90, 0.99, -0.044, 0.00109]) + 0.3 * rng.normal(size=(N, 4)) * TWIST
    n = np.arange(51.0)
    rewards = 1000.0 - n[:, None] ** 2 - np.array([0.0, 800.0, 840.0, 880.0, 920.0])
    models = ModelSet.from_dense(pest_rows(theta), normalise=True)
    return Problem(models, rewards=rewards, gamma=gamma, objective=SoftRobust(lam, alpha))


def sparse_problem(
    next_states: NDArray[np.int64], N: int, rewards: FloatArray, gamma: float, sharp: float
) -> Problem:
    """Models on given lists of next states (S, A, width), Dirichlet around a mean per pair."""
    rng = np.random.default_rng(2)
    S, A, width = next_states.shape
    lists = np.sort(next_states.reshape(S * A, width), axis=1).astype(np.int32)
    prob = np.empty((S * A, N, width))
    step = max(1, 2_000_000 // (N * width))
    for lo in range(0, S * A, step):  # in parts, to keep the random numbers' memory small
        part = prob[lo : lo + step]
        mean = rng.gamma(sharp, size=(len(part), 1, width))
        part[:] = rng.gamma(0.5, size=part.shape) + 3.0 * mean
        part /= part.sum(axis=2, keepdims=True)
    models = ModelSet(
        indptr=np.arange(S * A + 1, dtype=np.int64) * width,
        next_states=lists.reshape(-1),
        prob=prob.reshape(-1),
        f=np.full(N, 1.0 / N),
        states=Labels.range(S),
        actions=Labels.range(A),
    )
    return Problem(models, rewards=rewards, gamma=gamma, objective=SoftRobust(0.5, 0.7))


def ring(S: int = 200, A: int = 3, N: int = 50, gamma: float = 0.99) -> Problem:
    """Steps of at most two along a ring, drift by action: mixing takes of the order of S² steps."""
    rng = np.random.default_rng(3)
    steps = np.arange(-2, 3)
    lists = (np.arange(S)[:, None, None] + steps + np.zeros((1, A, 1), np.int64)) % S
    rewards = np.sin(2 * np.pi * np.arange(S) / S)[:, None] + 0.1 * rng.normal(size=(S, A))
    return sparse_problem(lists, N, rewards, gamma, sharp=1.0)


def scattered(S: int, A: int = 4, N: int = 50, width: int = 10, gamma: float = 0.95) -> Problem:
    """Ten next states anywhere: 1.6 GB of probabilities at S = 100 000."""
    rng = np.random.default_rng(4)
    start = rng.integers(S, size=(S, A, 1))
    gaps = (1 + rng.integers(max(1, S // width - 1), size=(S, A, width))).cumsum(axis=2)
    lists = (start + gaps) % S
    rewards = rng.normal(size=(S, A))
    return sparse_problem(lists, N, rewards, gamma, sharp=0.3)
