"""The tipping point of hidden confounding, by hand, against linear programs, and at its ends."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from scipy.optimize import linprog

from softrobust.data.labels import Labels
from softrobust.models.model_set import ModelSet
from softrobust.models.policy import Policy
from softrobust.problem import Problem
from softrobust.returns import policy_return
from softrobust.study.confounding import _Rows, tipping_point

ACTIONS = Labels(("old", "new"), noun="action")


def random_problem(seed: int, n_states: int = 4) -> tuple[Problem, np.ndarray]:
    rng = np.random.default_rng(seed)
    P = rng.dirichlet(np.ones(n_states), size=(1, n_states, 2))
    states = Labels(tuple(str(s) for s in range(n_states)), noun="state")
    models = ModelSet.from_dense(P, states=states, actions=ACTIONS)
    r = rng.normal(size=(n_states, 2, n_states))
    return Problem(models, rewards=r, gamma=0.8), rng.dirichlet([2, 2], size=n_states)


def policy_of(problem: Problem, a: int) -> Policy:
    decision = np.full(problem.n_states, a)
    return Policy.from_decision(decision, problem.models.states, problem.models.actions)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("odds", [1.0, 1.7, 5.0])
def test_worst_rows_are_the_linear_program(seed: int, odds: float) -> None:
    problem, behaviour = random_problem(seed)
    rows = _Rows.of(problem, problem.mean_problem(), behaviour)
    z = np.random.default_rng(seed + 9).normal(size=rows.p.shape)
    low, high = rows.e + (1 - rows.e) / odds, rows.e + (1 - rows.e) * odds
    q = rows._worst(z, low, high)
    for k in range(8):
        p = rows.p[k]
        lp = linprog(z[k], A_eq=np.ones((1, 4)), b_eq=[1.0],
                     bounds=list(zip(low[k] * p, high[k] * p, strict=True)))  # fmt: skip
        assert float(q[k] @ z[k]) == pytest.approx(lp.fun, abs=1e-9)
        assert float(q[k].sum()) == pytest.approx(1.0)


@pytest.mark.parametrize("timed", [False, True])
def test_with_a_horizon_nature_chooses_at_every_step(timed: bool) -> None:
    """Against linear programs, step by step; without confounding it is the return."""
    base, behaviour = random_problem(3)
    problem = replace(base, horizon=3, gamma=1.0)
    rng = np.random.default_rng(4)
    rules = rng.dirichlet([1, 1], size=(3, 4) if timed else 4)
    policy = problem.timed_policy(rules) if timed else problem.policy(rules)
    rows = _Rows.of(problem, problem.mean_problem(), behaviour)
    assert rows.least_value(policy, 1.0) == pytest.approx(policy_return(problem, policy)[0])
    v, odds = np.zeros(4), 2.5
    low, high = rows.e + (1 - rows.e) / odds, rows.e + (1 - rows.e) * odds
    for t in (2, 1, 0):
        z = rows.r + v[rows.next_states]
        q = [
            linprog(z[k], A_eq=np.ones((1, 4)), b_eq=[1.0],
                    bounds=list(zip(low[k] * p, high[k] * p, strict=True))).fun or 0.0
            for k, p in enumerate(rows.p)
        ]  # fmt: skip
        v = ((rules[t] if timed else rules) * np.reshape(q, (4, 2))).sum(axis=1)
    assert rows.least_value(policy, odds) == pytest.approx(float(problem.p0 @ v), abs=1e-9)
    if not timed:  # practice and policy are compared over the same steps, and far away as without
        far = replace(base, horizon=200)
        one, two = policy_of(base, 1), policy_of(base, 0)
        found = tipping_point(far, one, two, behaviour)
        endless = tipping_point(base, one, two, behaviour)
        assert found.value == pytest.approx(endless.value, rel=1e-9)
        assert found.at_two == pytest.approx(endless.at_two, rel=1e-9)
        assert found.tipping == pytest.approx(endless.tipping, rel=1e-3)


def test_by_hand() -> None:
    """One pair, two outcomes 0 and 1 at even odds, e = 1/2, Λ = 2: weights in [3/4, 3/2]."""
    states = Labels(("here", "there"), noun="state")
    P = np.full((1, 2, 2, 2), 0.5)
    problem = Problem(
        ModelSet.from_dense(P, states=states, actions=ACTIONS),
        rewards=np.broadcast_to([0.0, 1.0], (2, 2, 2)).copy(), gamma=0.5,
    )  # fmt: skip
    rows = _Rows.of(problem, problem.mean_problem(), np.full((2, 2), 0.5))
    assert rows.least_value(policy_of(problem, 0), 2.0) == pytest.approx(0.375 / 0.5)


@pytest.mark.parametrize("seed", range(6))
def test_no_confounding_is_the_plain_value_and_more_is_worse(seed: int) -> None:
    problem, behaviour = random_problem(seed)
    rows = _Rows.of(problem, problem.mean_problem(), behaviour)
    policy = policy_of(problem, 1)
    values = [rows.least_value(policy, odds) for odds in (1.0, 1.5, 3.0, 50.0)]
    assert values[0] == pytest.approx(policy_return(problem, policy)[0], abs=1e-9)
    assert all(a >= b - 1e-9 for a, b in pairwise(values))


def test_hidden_causes_may_drive_rewards() -> None:
    """The action does nothing; who would fare well was treated: rewards alone are confounded."""
    from softrobust.data import TransitionLog
    from softrobust.posterior import DirichletPosterior

    rng = np.random.default_rng(0)
    well = rng.random(2000) < 0.5
    act = (rng.random(2000) < np.where(well, 0.8, 0.2)).astype(int)
    reward = 10.0 * well + rng.normal(0, 0.1, 2000)
    log = TransitionLog.from_arrays(np.zeros(2000, int), act, np.zeros(2000, int), reward)
    models = DirichletPosterior().fit(log).sample(5, seed=0)
    problem = Problem(models, rewards=log.rewards, p0=log.p0, gamma=0.5)
    treat = Policy.from_decision([1], log.states, log.actions)
    practice = Policy(np.asarray(log.behaviour), log.states, log.actions)
    blind = tipping_point(problem, treat, practice, np.asarray(log.behaviour))
    assert blind.tipping is None  # with means alone nature has nothing to reweight
    found = tipping_point(problem, treat, practice, np.asarray(log.behaviour), log)
    assert found.tipping is not None
    assert found.value == pytest.approx(blind.value, rel=1e-9)
    assert found.tipping == pytest.approx(
        4.0, rel=0.15
    )  # odds 4:1 for who fares well, 1:1 on average


def test_the_tipping_point_tips() -> None:
    for seed in range(20):
        problem, behaviour = random_problem(seed)
        new, old = policy_of(problem, 1), policy_of(problem, 0)
        found = tipping_point(problem, new, old, behaviour)
        rows = _Rows.of(problem, problem.mean_problem(), behaviour)
        if found.value <= found.practice:
            assert found.tipping == 1.0
        elif found.tipping is None:
            assert rows.least_value(new, 100.0) > found.practice
        else:
            assert rows.least_value(new, found.tipping) >= found.practice - 1e-9
            assert rows.least_value(new, found.tipping * 1.01) <= found.practice + 1e-9
