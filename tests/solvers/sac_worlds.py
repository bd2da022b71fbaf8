"""Small problems for soft actor-critic: a tabular environment with one-hot states, a linear one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from softrobust.data.labels import Labels
from softrobust.models.continuous import CallableModels
from softrobust.models.gaussian import GaussianFrame, GaussianModels, Scaling
from softrobust.problem import ContinuousProblem

FloatArray = NDArray[np.float64]
TINY: dict[str, Any] = {
    "iterations": 6, "episodes": 3, "updates": 2, "batch": 8, "next_states": 5, "hidden": (8,),
    "memory": 3, "block": 2,
}  # fmt: skip


@dataclass(frozen=True)
class Tabular:
    """P (N, S, A, S), r (S, A), γ, and exact values."""

    P: FloatArray
    r: FloatArray
    gamma: float

    def problem(self, horizon: int = 8, **settings: Any) -> ContinuousProblem:
        """One-hot states; every state may be the first."""
        import jax.numpy as jnp

        N, S, A, _ = self.P.shape

        def step(s: Any, a: Any, omega: Any, rng: Any) -> Any:
            rows = jnp.asarray(self.P)[omega, jnp.argmax(s, axis=-1), a]
            u = rng.random(rows.shape[0])
            return jnp.eye(S)[(u[:, None] >= jnp.cumsum(rows, axis=1)[:, :-1]).sum(axis=1)]

        def reward(s: Any, a: Any, s_next: Any) -> Any:
            return jnp.asarray(self.r)[jnp.argmax(s, axis=-1), a]

        models = CallableModels(
            step, N, [f"x{i}" for i in range(S)], [str(a) for a in range(A)], **settings
        )
        return ContinuousProblem(models, np.eye(S), reward, self.gamma, horizon)

    def value(self, probs: FloatArray) -> FloatArray:
        """(S,) exact value of a policy under the first model."""
        P = np.einsum("sa,sat->st", probs, self.P[0])
        r = (probs * self.r).sum(axis=1)
        return np.asarray(np.linalg.solve(np.eye(len(P)) - self.gamma * P, r))

    def soft_policy(self, c: float) -> FloatArray:
        """(S, A) soft-optimal policy: v(s) = c·log Σ_a exp(Q(s, a)/c), by iteration."""
        v = np.zeros(len(self.r))
        for _ in range(2000):
            q = self.r + self.gamma * self.P[0] @ v
            top = q.max(axis=1)
            v = top + c * np.log(np.exp((q - top[:, None]) / c).sum(axis=1))
        return np.asarray(np.exp((q - v[:, None]) / c))

    def best(self) -> FloatArray:
        """(S,) optimal values under the first model."""
        v = np.zeros(len(self.r))
        for _ in range(2000):
            v = (self.r + self.gamma * self.P[0] @ v).max(axis=1)
        return v


def random_table(N: int = 1, S: int = 3, A: int = 2, seed: int = 0) -> Tabular:
    """Dirichlet rows and normal rewards."""
    rng = np.random.default_rng(seed)
    P = rng.dirichlet(np.full(S, 0.7), size=(N, S, A))
    return Tabular(P, rng.standard_normal((S, A)), 0.8)


def gaussian_problem(N: int = 5, f: Any = None, seed: int = 0) -> ContinuousProblem:
    """Two variables, three actions, N nearby models in a box; r = now·s + next·s′."""
    frame = GaussianFrame(
        Labels(("x", "y"), noun="variable"),
        Labels(("0", "1", "2"), noun="action"),
        np.array([0.0, 1.0, 2.0]),
        np.array([0.3, -0.2]),
        np.array([-1.0, 0.5]),
        np.array([[0.5, 1.0], [1.0, -0.5]]),
        0.9,
        6,
    )
    rng = np.random.default_rng(seed)
    F = len(frame.feature_names)
    W = 0.2 * rng.standard_normal((F, 2)) + 0.1 * rng.standard_normal((N, F, 2))
    U = 0.05 * rng.random((N, 1, 2))
    scaling = Scaling(
        np.r_[0.0, rng.standard_normal(F - 1)], 1 + rng.random(F), np.array([0.2, -0.1]),
        np.array([1.5, 0.5]), np.ones(1),
    )  # fmt: skip
    models = GaussianModels(
        W, U, np.full(N, 1 / N) if f is None else np.asarray(f), scaling, frame,
        clip=(np.array([-3.0, -3.0]), np.array([3.0, 3.0])),
    )  # fmt: skip
    return ContinuousProblem(models)
