"""The course of simulated episodes against what is known of it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray

from softrobust.models.continuous_policy import ConstantPolicy
from softrobust.returns.simulation import follow
from tests.continuous_instances import linear_models, linear_problem


def test_without_noise_every_band_is_the_models_own_course() -> None:
    problem = replace(linear_problem(n=1, noise=0.0), start=np.array([[1.0, 0.5]]))
    on = ConstantPolicy("on", problem.variables, problem.actions)
    paths = follow(problem, on, episodes=7)
    s = np.array([[1.0, 0.5]])
    for t in range(problem.horizon):
        assert paths.bands[t] == pytest.approx(np.repeat(s.T, 3, axis=1))
        s, _ = problem.models.draw(s, np.array([1]), np.random.default_rng(0), np.array([0]))
    assert paths.shares == pytest.approx(np.array([[0.0, 1.0]] * problem.horizon))
    assert (paths.actions == 1).all()
    assert len(paths.states) == 7 * problem.horizon


def threshold(s: NDArray[np.float64], rng: np.random.Generator) -> NDArray[np.int64]:
    return (s[:, 0] > 0.6).astype(np.int64)


def test_models_count_by_their_weights() -> None:
    """Two models at weights ¼ and ¾: shares are mixed so, and a model of weight 0 is not seen."""
    models = replace(linear_models(3, noise=0.0), f=np.array([0.25, 0.0, 0.75]))
    start = np.array([[1.0, 0.5]])
    problem = replace(linear_problem(n=3, noise=0.0), models=models, start=start)
    alone = [
        follow(replace(problem, models=linear_models(3, noise=0.0).select([i])), threshold)
        for i in (0, 2)
    ]
    both = follow(problem, threshold, sample=10**6)
    mixed = 0.25 * alone[0].shares + 0.75 * alone[1].shares
    assert both.shares == pytest.approx(mixed)
    low = np.minimum(alone[0].bands[:, :, 1], alone[1].bands[:, :, 1])
    assert both.bands[:, :, 0] == pytest.approx(low)  # the 10 % edge is the lower model's
    assert len(both.states) == 2 * 10 * problem.horizon


def test_states_are_kept_with_what_was_decided_there() -> None:
    problem = linear_problem(n=4)
    paths = follow(problem, threshold, episodes=20, sample=150)
    assert len(paths.states) == len(paths.actions) == 150
    assert (paths.actions == threshold(paths.states, np.random.default_rng(0))).all()
    assert (np.diff(paths.bands, axis=2) >= 0).all()
