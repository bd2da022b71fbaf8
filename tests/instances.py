"""Problems and small files that tests share."""

from __future__ import annotations

import numpy as np

from softrobust.models.model_set import ModelSet
from softrobust.models.policy import Policy
from softrobust.objective import SoftRobust
from softrobust.problem import Problem

LOG = """state,action,next_state,reward
dry,wait,dry,0
dry,wait,wet,0
wet,wait,wet,1
wet,drain,dry,0.5
dry,drain,dry,-0.5
"""
MODELS = """idstatefrom,idaction,idstateto,idoutcome,probability,reward
0,0,0,0,0.5,1
0,0,1,0,0.5,0
1,0,0,0,1,0
0,0,0,1,0.25,1
0,0,1,1,0.75,0
1,0,0,1,1,0
"""


def random_problem(
    seed: int,
    n_states: int = 5,
    n_actions: int = 3,
    n_models: int = 7,
    gamma: float = 0.9,
    lam: float = 0.5,
    alpha: float = 0.7,
    masks: bool = False,
    reward_form: str = "pair",
) -> Problem:
    """A random problem with uneven weights (one of them zero) and, if asked, forbidden actions."""
    rng = np.random.default_rng(seed)
    S, A, N = n_states, n_actions, n_models
    f = rng.dirichlet(np.ones(N))
    if N > 2:
        f[rng.integers(N)] = 0.0
        f /= f.sum()
    allowed = np.ones((S, A), bool)
    if masks:
        allowed = rng.random((S, A)) < 0.7
        allowed[np.arange(S), rng.integers(A, size=S)] = True
    shape = {"pair": (S, A), "transition": (S, A, S)}[reward_form]
    models = ModelSet.from_dense(rng.dirichlet(np.full(S, 0.5), size=(N, S, A)), f)
    return Problem(
        models,
        rewards=rng.normal(size=shape),
        p0=rng.dirichlet(np.ones(S)),
        gamma=gamma,
        objective=SoftRobust(lam, alpha),
        allowed=allowed,
    )


def random_policy(problem: Problem, seed: int) -> Policy:
    """A policy that randomizes over some of the allowed actions of each state."""
    rng = np.random.default_rng(seed)
    probs = rng.random(problem.allowed.shape) * problem.allowed
    probs *= rng.random(probs.shape) < 0.7
    empty = probs.sum(axis=1) == 0
    probs[empty] = problem.allowed[empty]
    return Policy(
        probs / probs.sum(axis=1, keepdims=True), problem.models.states, problem.models.actions
    )
