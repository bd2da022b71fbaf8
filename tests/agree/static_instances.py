"""Small random static problems and their optimum by brute force with LAPACK, refined."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from softrobust.problem import Problem
from tests.instances import random_policy, random_problem

FloatArray = NDArray[np.float64]


def static_instance(seed: int) -> Problem:
    """Up to 6 states × 3 actions; uneven weights, some masks, α and λ at their ends too.

    One in five has a discount of .999, one in four rewards that are far from 0.
    """
    rng = np.random.default_rng([7, seed])
    S, A, N = int(rng.integers(2, 7)), int(rng.integers(2, 4)), int(rng.integers(1, 10))
    problem = random_problem(
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
    if rng.random() < 0.2:
        problem = replace(problem, gamma=0.999)
    if rng.random() < 0.25:
        offset = float(rng.choice([1e3, -1e3, 1e6, -1e6]))
        rewards = problem.rewards
        if rewards.triples is None:
            rewards = rewards.of_pairs(np.asarray(rewards.pairs) + offset)
        else:
            triples = np.asarray(rewards.triples).reshape(S, A, S)
            rewards = rewards.of_transitions(triples + offset)
        problem = replace(problem, rewards=rewards)
    return problem


def spread(problem: Problem) -> float:
    """How far returns can lie apart, about: what tolerances are shares of; at least 1."""
    R = problem.R[problem.allowed]
    return max(float(np.ptp(R)) / (1 - problem.gamma), 1.0)


def all_decisions(problem: Problem) -> NDArray[np.int64]:
    """(n_rules, n_states)."""
    rows = [np.flatnonzero(row) for row in problem.allowed]
    return np.array(list(itertools.product(*rows)), dtype=np.int64)


def all_returns(problem: Problem, decisions: NDArray[np.int64]) -> FloatArray:
    """(n_rules, n_models), each by a linear solve of its own.

    Solved once more for the residual in extended precision: LAPACK alone is off by 1e-6 where
    rewards are of size 1e6 and γ = .999.
    """
    P = np.asarray(problem.models.P)
    s = np.arange(problem.n_states)
    rows = P[:, s, decisions].transpose(1, 0, 2, 3)  # rules, models, states, next states
    R = problem.R[s, decisions].transpose(0, 2, 1)[..., None]
    M = np.eye(problem.n_states) - problem.gamma * rows
    v = np.linalg.solve(M, R).astype(np.longdouble)
    wide, g = rows.astype(np.longdouble), np.longdouble(problem.gamma)
    for _ in range(2):
        residual = R - v + g * (wide @ v)
        v = v + np.linalg.solve(M, residual.astype(np.float64))
    return np.asarray((v[..., 0] @ problem.p0.astype(np.longdouble)).astype(np.float64))


def brute_force(problem: Problem) -> float:
    """The best static value over all decision rules."""
    returns = all_returns(problem, all_decisions(problem))
    return max(problem.objective.value(x, problem.models.f) for x in returns)


def learning_value(problem: Problem, seed: int, n_policies: int = 4) -> float:
    """ρ^S of a policy that learns: it looks at the first step and goes on accordingly.

    After s, a, s' the models have weights f·P̂^ω(s'|s,a), and the one of some random stationary
    policies is followed from s' on whose value under these weights is best.
    """
    from softrobust.returns import policy_values

    rng = np.random.default_rng(seed)
    m, P, p0 = problem.models, np.asarray(problem.models.P), problem.p0
    V = np.stack(
        [policy_values(problem, random_policy(problem, seed * 100 + k)) for k in range(n_policies)]
    )  # policies, models, states
    first = np.array([rng.choice(np.flatnonzero(row)) for row in problem.allowed])
    value = np.zeros(m.n_models)
    for s in range(problem.n_states):
        row = P[:, s, first[s]]  # models, next states
        weighted = m.f[:, None] * row
        best = np.argmax(np.einsum("kns,ns->ks", V, weighted), axis=0)
        onward = V[best, :, np.arange(problem.n_states)].T  # models, next states
        ahead = problem.R[s, first[s]] + problem.gamma * (row * onward).sum(axis=1)
        value += p0[s] * ahead
    return problem.objective.value(value, m.f)
