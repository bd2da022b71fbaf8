"""Small problems with continuous states that tests share."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from softrobust.data import Labels
from softrobust.models.gaussian import GaussianFrame, GaussianModels, Scaling
from softrobust.objective import SoftRobust
from softrobust.problem import ContinuousProblem

FloatArray = NDArray[np.float64]


def linear_models(
    n: int = 8, noise: float = 0.05, clip: Any = None, seen: Any = None, seed: int = 0
) -> GaussianModels:
    """x′ = r·x + b·a + noise in two dimensions, with r and b uncertain: stable everywhere."""
    frame = GaussianFrame(
        Labels(("x", "y"), noun="variable"),
        Labels(("off", "on"), noun="action"),
        np.array([0.0, 1.0]),
        np.array([0.0, 0.0]),
        np.array([1.0, -1.0]),
        np.array([[1.0, 0.5], [0.2, 1.0]]),
        0.8,
        10,
    )
    rng = np.random.default_rng(seed)
    F = len(frame.feature_names)
    W = np.zeros((n, F, 2))
    W[:, 1, 0] = 0.7 + 0.1 * rng.standard_normal(n)
    W[:, 2, 1] = 0.6 + 0.1 * rng.standard_normal(n)
    W[:, 3, 0] = 0.3 + 0.2 * rng.standard_normal(n)
    W[:, 3, 1] = 0.2 + 0.1 * rng.standard_normal(n)
    W[:, 5, 0] = 0.05 * rng.standard_normal(n)  # x·y
    scaling = Scaling(np.zeros(F), np.ones(F), np.zeros(2), np.ones(2), np.ones(1))
    return GaussianModels(
        W, np.full((n, 1, 2), noise**2), np.full(n, 1 / n), scaling, frame, clip, seen
    )


def linear_problem(lam: float = 0.5, alpha: float = 0.75, **models: Any) -> ContinuousProblem:
    return ContinuousProblem(linear_models(**models), objective=SoftRobust(lam, alpha))


class OneHot:
    """Scikit-learn's protocol: every state index has a feature of its own."""

    def __init__(self, n: int) -> None:
        self.n = n

    def fit(self, s: FloatArray) -> OneHot:
        return self

    def transform(self, s: FloatArray) -> FloatArray:
        return np.asarray(np.eye(self.n)[np.asarray(s)[:, 0].astype(int)])
