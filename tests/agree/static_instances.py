"""Small random static problems and their optimum by brute force with LAPACK."""

from __future__ import annotations

import itertools

import numpy as np
from numpy.typing import NDArray

from softrobust.problem import Problem
from tests.instances import random_problem


def static_instance(seed: int) -> Problem:
    """Up to 6 states × 3 actions; uneven weights, some masks, α and λ at their ends too."""
    rng = np.random.default_rng([7, seed])
    S, A, N = int(rng.integers(2, 7)), int(rng.integers(2, 4)), int(rng.integers(1, 10))
    return random_problem(
        seed,
        n_states=S,
        n_actions=A,
        n_models=N,
        gamma=float(rng.choice([0.5, 0.9, 0.97])),
        lam=float(rng.choice([0.0, 0.3, 0.5, 1.0])),
        alpha=float(rng.choice([0.0, 0.5, 0.7, 0.93, 1.0])),
        masks=bool(rng.integers(2)),
        reward_form=str(rng.choice(["pair", "transition"])),
    )


def all_decisions(problem: Problem) -> NDArray[np.int64]:
    """(n_rules, n_states)."""
    rows = [np.flatnonzero(row) for row in problem.allowed]
    return np.array(list(itertools.product(*rows)), dtype=np.int64)


def all_returns(problem: Problem, decisions: NDArray[np.int64]) -> NDArray[np.float64]:
    """(n_rules, n_models), each by a linear solve of its own."""
    P = np.asarray(problem.models.P)
    s = np.arange(problem.n_states)
    rows = P[:, s, decisions].transpose(1, 0, 2, 3)  # rules, models, states, next states
    R = problem.R[s, decisions].transpose(0, 2, 1)
    v = np.linalg.solve(np.eye(problem.n_states) - problem.gamma * rows, R[..., None])[..., 0]
    return np.asarray(v @ problem.p0)


def brute_force(problem: Problem) -> float:
    """The best static value over all decision rules."""
    returns = all_returns(problem, all_decisions(problem))
    return max(problem.objective.value(x, problem.models.f) for x in returns)
