"""Regression: exact draws against quadrature and against other units; refusals."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import stats

from softrobust.data.continuous import ContinuousLog
from softrobust.domains import CancerGrowth
from softrobust.errors import InputError
from softrobust.models.gaussian import GaussianFrame
from softrobust.posterior import RegressionPosterior
from softrobust.posterior.regression import Design, draw_weights


def small_log(n: int = 60, seed: int = 0) -> ContinuousLog:
    """Two variables, two actions, noise of constant size."""
    rng = np.random.default_rng(seed)
    s, a = rng.uniform(1, 3, size=(n, 2)), rng.integers(0, 2, size=n)
    s_next = np.stack([0.8 * s[:, 0] + 0.3 * a, s[:, 1] - 0.1 * s[:, 0] * s[:, 1]], axis=1)
    return ContinuousLog.from_arrays(s, a, s_next + 0.05 * rng.standard_normal((n, 2)))


def test_variance_by_quadrature() -> None:
    """p(v | D) from the full covariance zzᵀ + v·I, without any linear algebra of ours."""
    fitted = RegressionPosterior(noise_scale=0.05).fit(small_log(30))
    z, y = fitted.design.z, fitted.design.y[:, 0]
    v = np.exp(np.linspace(-9, -1, 400))
    level = np.array(
        [stats.multivariate_normal(np.zeros(30), z @ z.T + x * np.eye(30)).logpdf(y) for x in v]
    )
    weight = np.exp(level - level.max()) * np.exp(-0.5 * (v / 0.05) ** 2) * v
    cdf = np.cumsum(weight) / weight.sum()
    draws = fitted.sample(20_000, seed=1).noise[:, 0, 0]
    assert stats.kstest(draws, lambda x: np.interp(x, v, cdf)).pvalue > 1e-4


def test_weights_given_the_variance() -> None:
    """E[w | v] = (zᵀz + v)⁻¹zᵀy and its covariance, averaged over v."""
    fitted = RegressionPosterior().fit(small_log())
    models = fitted.sample(40_000, seed=2)
    z, y, v = fitted.design.z, fitted.design.y[:, 1], models.noise[:, 0, 1]
    grid = np.quantile(v, np.linspace(0.005, 0.995, 100))
    inverse = [np.linalg.inv(z.T @ z + x * np.eye(z.shape[1])) for x in grid]
    means = np.array([m @ z.T @ y for m in inverse])
    spread = np.mean([x * m for x, m in zip(grid, inverse, strict=True)], axis=0)
    total = spread + np.cov(means.T)
    w = models.weights[:, :, 1]
    error = np.sqrt(np.diag(total) / 40_000)
    assert (np.abs(w.mean(axis=0) - means.mean(axis=0)) < 6 * error).all()
    np.testing.assert_allclose(np.cov(w.T), total, atol=0.05 * np.abs(total).max())


def test_the_two_ways_to_draw_weights_agree() -> None:
    fitted = RegressionPosterior().fit(small_log())
    rng = np.random.default_rng(0)
    u = np.full((20_000, 1), 0.002)
    w = draw_weights(fitted.design, 0, u, rng)
    z, y = fitted.design.z, fitted.design.y[:, 0]
    inverse = np.linalg.inv(z.T @ z + 0.002 * np.eye(z.shape[1]))
    np.testing.assert_allclose(w.mean(axis=0), inverse @ z.T @ y, atol=5e-3)
    np.testing.assert_allclose(np.cov(w.T), 0.002 * inverse, atol=0.05 * 0.002 * inverse.max())


def test_models_predict_and_carry_the_world() -> None:
    domain = CancerGrowth()
    log = domain.collect(0)
    models = domain.posterior().fit(log).sample(30, seed=0)
    mean, var = models.mean(log.s, log.a), models.variance(log.s, log.a)
    assert mean.shape == (30, 600, 4)
    residual = (log.s_next - mean) / np.sqrt(var)
    assert residual.std(axis=(0, 1))[:3] == pytest.approx(1.0, abs=0.1)
    drawn = models.sample_next(log.s[:50], log.a[:50], seed=1)
    assert drawn.shape == (30, 50, 4)
    omega = np.arange(50) % 30
    one = models.mean(log.s[:50], log.a[:50], omega)
    np.testing.assert_allclose(one, mean[omega, np.arange(50)], rtol=1e-10)
    assert models.frame.gamma == 0.9


def test_a_wrong_noise_model_is_noticed() -> None:
    """Noise of the cancer data is a share of the value; a constant one misses Qp."""
    domain = CancerGrowth()
    problems = domain.posterior().fit(domain.collect(0)).diagnostics().problems
    assert any("'Qp'" in note["statistic"] for note in problems)


@pytest.mark.parametrize("value", ["0", "1", "3"])
def test_one_action_is_in_no_feature(value: str) -> None:
    """The same models as of a log of (1, s) alone, whatever the action is called."""
    log = small_log()
    ends = np.arange(60) % 20 == 19
    only = ContinuousLog.from_arrays(log.s, [value] * 60, log.s_next, terminal=ends)
    models = RegressionPosterior().fit(only).sample(300, seed=0)
    named = models.frame.feature_names
    with_action = [k for k, name in enumerate(named) if "action" in name]
    assert (models.weights[:, with_action] == 0).all()
    at = np.zeros(60, int)
    X = np.column_stack([np.ones(60), log.s, log.s**2, log.s[:, 0] * log.s[:, 1]])
    fit = X @ np.linalg.lstsq(X, log.s_next, rcond=None)[0]
    np.testing.assert_allclose(models.mean(log.s, at).mean(axis=0), fit, atol=0.05)
    over = models.ends(log.s, at)
    assert over is not None
    assert 0 < over.mean() < 0.2
    varying = Design.of(only, models.frame, varying=True)
    assert varying.psi.shape == varying.z.shape == X.shape
    assert (varying.of_all(varying.psi)[:, with_action] == 0).all()


def test_degenerate_data_are_refused() -> None:
    log = small_log()
    still = ContinuousLog.from_arrays(log.s, np.zeros(60, int), log.s_next, action_names=["0", "1"])
    with pytest.raises(InputError, match="only '0' occurs in the log"):
        RegressionPosterior().fit(still)
    twin = ContinuousLog.from_arrays(
        np.column_stack([log.s[:, 0], 2 * log.s[:, 0]]), log.a, log.s_next
    )
    with pytest.raises(InputError, match="rank-deficient"):
        RegressionPosterior().fit(twin)
    with pytest.raises(InputError, match="at least as many transitions"):
        RegressionPosterior().fit(small_log(5))
    fixed = ContinuousLog.from_arrays(log.s, log.a, np.column_stack([log.s[:, 0], np.ones(60)]))
    with pytest.raises(InputError, match="next value of 'x1'"):
        RegressionPosterior().fit(fixed)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"noise": "odd"}, "constant or varying"),
        ({"noise_scale": 0.0}, "noise_scale"),
    ],
)
def test_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        RegressionPosterior(**settings)


def test_frames_must_fit_the_log() -> None:
    frame = CancerGrowth().frame()
    with pytest.raises(InputError, match="action_values must have shape"):
        GaussianFrame(frame.variables, frame.actions, np.arange(3.0))
    with pytest.raises(InputError, match="must have the variables"):
        RegressionPosterior(frame=frame).fit(small_log())
    words = ContinuousLog.from_arrays(small_log().s, ["no", "yes"] * 30, small_log().s_next)
    with pytest.raises(InputError, match="no numbers"):
        RegressionPosterior().fit(words)
    assert isinstance(
        Design.of(small_log(), RegressionPosterior()._frame(small_log()), True), Design
    )


@pytest.mark.parametrize("deviation", [0.05, 0.3, 1.0])
def test_the_noise_of_a_log_is_told_by_the_log(deviation: float) -> None:
    said = []
    for seed in range(60):
        rng = np.random.default_rng(seed)
        s, a = np.empty(200), rng.integers(2, size=200)
        s_next = np.empty(200)
        for i in range(200):
            s[i] = rng.normal() if i % 10 == 0 else s_next[i - 1]
            s_next[i] = 0.8 * s[i] + 0.5 * a[i] + deviation * rng.normal()
        log = ContinuousLog.from_arrays(s[:, None], a, s_next[:, None])
        models = RegressionPosterior().fit(log).sample(100, 0)
        variance = models.noise[:, 0, 0] * models.scaling.out_scale[0] ** 2
        said.append(np.quantile(variance, [0.05, 0.95]))
    low, high = np.array(said).T
    assert np.mean((low <= deviation**2) & (deviation**2 <= high)) >= 0.8


def test_one_value_of_another_size_is_fitted() -> None:
    """Squares of features lose what rows of usual size show: once an IndexError."""
    rng = np.random.default_rng(0)
    s, a = rng.uniform(1, 3, size=(60, 1)), rng.integers(0, 2, size=60)
    s[16] = 1e9
    s_next = 0.8 * rng.uniform(1, 3, size=(60, 1)) + 0.3 * a[:, None]
    fitted = RegressionPosterior().fit(ContinuousLog.from_arrays(s, a, s_next))
    assert np.isfinite(fitted.sample(50, seed=1).noise).all()
