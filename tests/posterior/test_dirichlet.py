"""Dirichlet posteriors: closed forms, supports, masks, and what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import stats

from softrobust.data import TransitionLog
from softrobust.errors import InputError
from softrobust.posterior import DirichletPosterior
from softrobust.problem import Problem
from softrobust.returns import policy_return


def small_log() -> TransitionLog:
    """Three states; b is never left; action 1 is seen in state a only."""
    return TransitionLog.from_arrays(
        ["a", "a", "a", "a", "c"], [0, 0, 0, 1, 0], ["a", "b", "b", "c", "a"],
        [0.0, 1.0, 1.0, 2.0, 0.0],
    )  # fmt: skip


def test_support_is_the_neighbours_and_oneself() -> None:
    models = DirichletPosterior().fit(small_log()).sample(5, seed=1)
    assert models.block(0, 0)[0].tolist() == [0, 1, 2]
    assert models.block(0, 1)[0].tolist() == [0, 1, 2]
    assert models.block(2, 0)[0].tolist() == [0, 2]
    assert models.block(2, 1)[0].size == 0


def test_a_state_never_left_stays_with_reward_zero() -> None:
    log = small_log()
    models = DirichletPosterior().fit(log).sample(5, seed=1)
    assert models.sinks is not None
    assert models.sinks.tolist() == [False, True, False]
    assert models.block(1, 0)[0].tolist() == [1]
    problem = Problem(models, rewards=log.rewards, gamma=0.9, p0=[0, 1, 0])
    assert (policy_return(problem, problem.uniform_policy()) == 0).all()
    with pytest.raises(InputError, match="'b' was never left"):
        problem.uniform_policy().action("b")


@pytest.mark.parametrize(
    ("settings", "prior"),
    [
        ({"strength": 1.0}, [1 / 3, 1 / 3, 1 / 3]),
        ({"strength": 6.0}, [2, 2, 2]),
        ({"per_cell": 1.0}, [1, 1, 1]),
    ],
)
def test_moments_equal_the_closed_form(settings: dict[str, Any], prior: list[float]) -> None:
    fitted = DirichletPosterior(**settings).fit(small_log())
    a = np.array(prior) + np.array([1, 2, 0])
    models = fitted.sample(40_000, seed=3)
    rows = models.block(0, 0)[1]
    mean = a / a.sum()
    variance = mean * (1 - mean) / (a.sum() + 1)
    # Five standard errors of 40 000 draws.
    assert np.abs(rows.mean(axis=0) - mean).max() < 5 * np.sqrt(variance.max() / 40_000)
    np.testing.assert_allclose(rows.var(axis=0), variance, rtol=0.05)
    np.testing.assert_allclose(fitted.mean().block(0, 0)[1][0], mean)


@pytest.mark.parametrize("concentration", [1e-4, 0.05, 0.5, 30.0])
def test_marginals_are_beta(concentration: float) -> None:
    """Also where a gamma variate underflows: no NaN, and the marginal law is exact."""
    log = TransitionLog.from_arrays(["a"] * 2, [0] * 2, ["b", "c"], [0.0, 0.0])
    fitted = DirichletPosterior(per_cell=concentration).fit(log)
    rows = fitted.sample(4000, seed=0).block(0, 0)[1]
    assert np.isfinite(rows).all()
    np.testing.assert_allclose(rows.sum(axis=1), 1, atol=1e-12)
    beta = stats.beta(1 + concentration, 1 + 2 * concentration)
    assert stats.kstest(rows[:, 1], beta.cdf).pvalue > 1e-4


def test_same_seed_same_models_other_seed_others() -> None:
    fitted = DirichletPosterior().fit(small_log())
    np.testing.assert_array_equal(fitted.sample(4, seed=5).prob, fitted.sample(4, seed=5).prob)
    assert not np.array_equal(fitted.sample(4, seed=5).prob, fitted.sample(4, seed=6).prob)


def test_supports() -> None:
    log = TransitionLog.from_arrays([0, 0], [0, 1], [0, 1], [0.0, 1.0], state_names=[0, 1, 2, 3])
    wide = {
        name: DirichletPosterior(support=name).fit(log).sample(2) for name in ("visited", "all")
    }
    assert wide["visited"].block(0, 0)[0].tolist() == [0, 1]
    assert wide["all"].block(0, 0)[0].tolist() == [0, 1, 2, 3]
    mask = np.zeros((4, 2, 4), bool)
    mask[0, 0, [0, 3]] = mask[0, 1, 1] = True
    masked = DirichletPosterior(support=mask).fit(log).sample(2)
    assert masked.block(0, 0)[0].tolist() == [0, 3]
    assert masked.block(0, 1)[1].tolist() == [[1.0], [1.0]]


def test_min_count_zero_keeps_unseen_pairs_with_the_prior() -> None:
    log = small_log()
    models = DirichletPosterior(min_count=0).fit(log).sample(3)
    assert models.available.all()
    with pytest.raises(InputError, match="reward"):
        Problem(models, rewards=log.rewards, gamma=0.9)


def test_terminal_rows_lead_to_the_end() -> None:
    log = TransitionLog.from_arrays(
        ["a", "a"], [0, 0], ["a", "a"], [1.0, 1.0], terminals=[False, True]
    )
    models = DirichletPosterior().fit(log).sample(3)
    assert list(models.states) == ["a", "(end)"]
    problem = Problem(models, rewards=log.rewards, gamma=0.9, p0=log.p0)
    returns = policy_return(problem, problem.uniform_policy())
    expected = 1 / (1 - 0.9 * models.P[:, 0, 0, 0])
    np.testing.assert_allclose(returns, expected, rtol=1e-12)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"strength": 0.0}, "strength must be a positive"),
        ({"per_cell": -1.0}, "per_cell must be a positive"),
        ({"support": "near"}, "neighbours, visited, all"),
        ({"min_count": 3}, r"state 'c': none was seen 3 times or more \(the most is 1"),
        ({"support": np.eye(3, dtype=bool)}, "state 'a', action '0', next state 'b'"),
        ({"support": np.ones((2, 2), bool)}, "mask has shape"),
    ],
)
def test_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        DirichletPosterior(**settings).fit(small_log())


def test_number_of_models() -> None:
    with pytest.raises(InputError, match="whole number"):
        DirichletPosterior().fit(small_log()).sample(0)
