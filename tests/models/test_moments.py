"""Closed-form moments against quadrature and Monte Carlo; the kernel against NumPy."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.integrate import quad
from scipy.stats import norm

from softrobust.models.continuous_rewards import LinearReward
from softrobust.models.expectation import ClosedForm
from softrobust.models.features import (
    Features,
    FourierFeatures,
    PolynomialFeatures,
    RBFFeatures,
    bump_mean,
    normal_moments,
    wave_mean,
)
from tests.continuous_instances import linear_models

FloatArray = NDArray[np.float64]
CASES = [
    (0.3, 0.7, -0.5, 1.0),
    (2.0, 0.4, -0.5, 1.0),
    (-4.0, 1.0, -0.5, 1.0),
    (0.2, 1e-3, 0.0, 9.0),
]


def clipped_mean(
    g: Callable[[float], Any], mean: float, sd: float, low: float, high: float
) -> complex:
    """E[g(min(max(X, low), high))] by adaptive quadrature and the mass of the two edges."""
    low_part, high_part = max(low, mean - 12 * sd), min(high, mean + 12 * sd)
    if low_part >= high_part:
        low_part = high_part = low
    inside = quad(
        lambda x: g(x) * norm.pdf(x, mean, sd), low_part, high_part, epsabs=1e-13, limit=400,
        complex_func=True, points=[p for p in (mean,) if low < p < high] or None,
    )[0]  # fmt: skip
    return complex(inside + g(low) * norm.cdf(low, mean, sd) + g(high) * norm.sf(high, mean, sd))


@pytest.mark.parametrize(("mean", "sd", "low", "high"), CASES)
def test_moments_of_a_clipped_normal(mean: float, sd: float, low: float, high: float) -> None:
    box = np.array([low]), np.array([high])
    found = normal_moments(np.array([[mean]]), np.array([[sd**2]]), 5, box)
    for k, m in enumerate(found, 1):
        wanted = clipped_mean(lambda x, k=k: x**k, mean, sd, low, high).real  # type: ignore[misc]
        assert m.item() == pytest.approx(wanted, abs=1e-10)


def test_moments_of_a_normal() -> None:
    found = normal_moments(np.array([1.5]), np.array([4.0]), 4)
    wanted = [1.5, 1.5**2 + 4, 1.5**3 + 3 * 1.5 * 4, 1.5**4 + 6 * 1.5**2 * 4 + 3 * 16]
    np.testing.assert_allclose(np.ravel(found), wanted, rtol=1e-14)


def test_no_noise_is_the_point_itself() -> None:
    box = np.array([0.0]), np.array([1.0])
    for x, y in ((0.4, 0.4), (-2.0, 0.0), (3.0, 1.0), (0.0, 0.0)):
        m = normal_moments(np.array([[x]]), np.zeros((1, 1)), 3, box)
        np.testing.assert_allclose(np.ravel(m), [y, y**2, y**3], atol=1e-15)


@pytest.mark.parametrize(("mean", "sd", "low", "high"), CASES)
def test_bumps_and_waves_of_a_clipped_normal(
    mean: float, sd: float, low: float, high: float
) -> None:
    at = np.array([mean]), np.array([sd**2])
    box = np.array([low]), np.array([high])
    bump = bump_mean(*at, np.array([0.4]), np.array([0.6]), box)
    wanted = clipped_mean(lambda x: np.exp(-0.5 * ((x - 0.4) / 0.6) ** 2), mean, sd, low, high)
    assert bump.item() == pytest.approx(wanted.real, abs=1e-10)
    wave = wave_mean(*at, np.array([2.0]), box)
    wanted = clipped_mean(lambda x: np.exp(2j * x), mean, sd, low, high)
    assert abs(wave.item() - wanted) < 1e-10


FEATURES: list[Features] = [
    PolynomialFeatures(3), RBFFeatures(6), FourierFeatures(3),
]  # fmt: skip
BOX = (np.array([-0.2, -1.0]), np.array([1.2, 1.5]))


@pytest.mark.parametrize("features", FEATURES, ids=lambda f: f.kind)
@pytest.mark.parametrize("box", [None, BOX], ids=["free", "boxed"])
def test_expected_features_are_means_of_features(features: Features, box: Any) -> None:
    rng = np.random.default_rng(0)
    fitted = features.fit(rng.normal(size=(200, 2)))
    # Edges hold a good share of the mass, so that a Monte Carlo error can be told.
    mean, variance = rng.uniform(-0.3, 1.3, size=(5, 2)), 0.1 + 0.4 * rng.random((5, 2))
    x = mean + np.sqrt(variance) * rng.standard_normal((50_000, 5, 2))
    if box is not None:
        x = np.clip(x, *box)
    phi = np.stack([fitted.transform(x[:, i]) for i in range(5)], axis=1)
    se = phi.std(axis=0) / np.sqrt(len(x))
    assert (np.abs(phi.mean(axis=0) - fitted.expected(mean, variance, box)) <= 6 * se + 1e-12).all()


@pytest.mark.parametrize("degree", [1, 2, 3, 4])
@pytest.mark.parametrize("boxed", [False, True])
def test_the_kernel_computes_what_numpy_does(degree: int, boxed: bool) -> None:
    rng = np.random.default_rng(degree)
    models = linear_models(6, noise=0.3, clip=BOX if boxed else None)
    reward = LinearReward(
        rng.normal(size=2), rng.normal(size=2), rng.normal(size=2), rng.normal(size=(2, 2)), 0.7
    )
    features = PolynomialFeatures(degree).fit(rng.normal(size=(50, 2)))
    s = rng.normal(size=(9, 2))
    w = rng.normal(size=(features.transform(s).shape[1],))
    Z = ClosedForm(models, reward, features).values(s, w, 0.9)
    pairs, a = np.repeat(s, 2, axis=0), np.tile([0, 1], 9)
    mean, variance = models.mean(pairs, a), models.variance(pairs, a)
    first, second = normal_moments(mean, variance, 2, models.clip)
    slow = reward.expected(pairs, a, first, second)
    slow = slow + 0.9 * features.expected(mean, variance, models.clip) @ w
    np.testing.assert_allclose(Z, slow.reshape(6, 9, 2).transpose(1, 2, 0), rtol=1e-10, atol=1e-11)


def test_the_kernel_with_noise_that_varies() -> None:
    base = linear_models(4)
    F = len(base.frame.feature_names)
    noise = np.abs(np.random.default_rng(0).normal(size=(4, F, 2))) * 0.01
    scaling = replace(base.scaling, noise_scale=np.full(F, 2.0))
    models = replace(base, noise=noise, scaling=scaling, clip=BOX)
    reward, features = LinearReward([1.0, 0], [0, 2.0]), PolynomialFeatures().fit(np.eye(2))
    s, w = np.array([[0.3, -0.8], [1.0, 2.0], [0.1, 0.1]]), np.arange(6.0)
    Z = ClosedForm(models, reward, features).values(s, w, 0.9)
    pairs, a = np.repeat(s, 2, axis=0), np.tile([0, 1], 3)
    mean, variance = models.mean(pairs, a), models.variance(pairs, a)
    (first,) = normal_moments(mean, variance, 1, models.clip)
    slow = reward.expected(pairs, a, first, first)
    slow = slow + 0.9 * features.expected(mean, variance, models.clip) @ w
    np.testing.assert_allclose(Z, slow.reshape(4, 3, 2).transpose(1, 2, 0), rtol=1e-12)
