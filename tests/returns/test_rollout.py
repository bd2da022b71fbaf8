"""Simulated episodes: frequencies, sinks, seeds."""

from __future__ import annotations

import numpy as np
import pytest

from softrobust.data.labels import Labels
from softrobust.errors import InputError
from softrobust.models.model_set import ModelSet
from softrobust.models.policy import Policy
from softrobust.problem import Problem
from softrobust.returns.simulation import simulate_table

STATES, ACTIONS = Labels(("x", "y", "end"), noun="state"), Labels(("a", "b"), noun="action")


def problem() -> Problem:
    rng = np.random.default_rng(0)
    P = rng.dirichlet(np.ones(3), size=(2, 3, 2))
    P[:, 2, :, :] = [0, 0, 1]
    models = ModelSet.from_dense(
        P, states=STATES, actions=ACTIONS, sinks=np.array([False, False, True])
    )
    return Problem(models, rewards=np.ones((3, 2)), gamma=0.9)


def test_first_steps_have_the_models_frequencies() -> None:
    p = problem()
    policy = Policy(np.array([[0.3, 0.7], [1, 0], [1, 0]]), STATES, ACTIONS)
    n = 40_000
    omega = np.arange(n) % 2
    got = simulate_table(p, policy, np.zeros(n), np.ones(n), omega, seed=1)
    assert np.mean(got.a[:, 0] == 1) == pytest.approx(0.7, abs=4 * np.sqrt(0.21 / n))
    for w in (0, 1):
        for a in (0, 1):
            rows = (omega == w) & (got.a[:, 0] == a)
            P = np.array([p.models[w].P[0, a, t] for t in range(3)])
            share = np.bincount(got.s_next[rows, 0], minlength=3) / rows.sum()
            np.testing.assert_allclose(share, P, atol=4 * np.sqrt(0.25 / rows.sum()))


def test_episodes_end_in_sinks_and_repeat_with_the_seed() -> None:
    p = problem()
    policy = p.uniform_policy()
    a, b = (
        simulate_table(p, policy, np.zeros(50), np.full(50, 200), np.zeros(50), 3) for _ in "ab"
    )
    np.testing.assert_array_equal(a.s_next, b.s_next)
    last = a.s_next[np.arange(50), a.length - 1]
    assert ((last == 2) | (a.length == 200)).all()
    assert (a.s[a.live] != 2).all()
    chained = a.live[:, 1:]
    assert (a.s[:, 1:][chained] == a.s_next[:, :-1][chained]).all()


def test_actions_without_models_are_refused() -> None:
    models = ModelSet.from_dense(np.full((1, 1, 2, 1), 1.0), states=Labels(("x",), noun="state"),
                                 actions=ACTIONS, available=np.array([[True, False]]))  # fmt: skip
    p = Problem(models, rewards=np.ones((1, 2)), gamma=0.5)
    policy = Policy(np.array([[0.0, 1.0]]), models.states, ACTIONS)
    with pytest.raises(InputError, match="no model"):
        simulate_table(p, policy, [0], [1], [0])
