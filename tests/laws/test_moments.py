"""Laws of clipped normal variables: inside the box, Jensen, monotone in the mean."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.integrate import quad
from scipy.stats import norm

from softrobust.kernels.polynomial import polynomial_means
from softrobust.models.features import normal_moments, wave_mean


def power(k: int) -> Callable[[float], float]:
    return lambda x: x**k


def wave_part(omega: float, of: Callable[[float], float]) -> Callable[[float], float]:
    return lambda x: float(of(omega * x))


@pytest.mark.parametrize(
    ("mean", "sd", "low", "high"),
    [(0, 100, -1, 1), (300, 300, 0, 1), (1e4, 1e4, 0, 1), (0.3, 0.1, 0, 1), (-50, 3, 0, 1),
     (1.05, 0.01, 0, 1), (0.2, 0.0, 0, 1), (1.5, 0.0, 0, 1)],
)  # fmt: skip
def test_high_moments_and_waves_in_boxes_far_from_the_mean(
    mean: float, sd: float, low: float, high: float
) -> None:
    """Against adaptive quadrature; recursions would cancel to anything here."""

    def expected(g: Callable[[float], float]) -> float:
        if sd == 0:
            return g(min(max(mean, low), high))
        inside = [x for x in (mean - 3 * sd, mean, mean + 3 * sd) if low < x < high]
        middle, _ = quad(
            lambda x: g(x) * norm.pdf(x, mean, sd), low, high, points=inside or None, limit=400,
            epsabs=1e-14, epsrel=1e-12,
        )  # fmt: skip
        return float(middle + g(low) * norm.cdf(low, mean, sd) + g(high) * norm.sf(high, mean, sd))

    at, variance = np.array([[float(mean)]]), np.array([[float(sd) ** 2]])
    box = np.array([float(low)]), np.array([float(high)])
    for degree in (2, 8):
        found = normal_moments(at, variance, degree, box)
        for k in range(1, degree + 1):
            assert found[k - 1][0, 0] == pytest.approx(expected(power(k)), abs=1e-12)
    for omega in (1.0, 20.0, 60.0):
        wave = wave_mean(at, variance, np.array(omega), box)[0, 0]
        assert wave.real == pytest.approx(expected(wave_part(omega, np.cos)), abs=1e-11)
        assert wave.imag == pytest.approx(expected(wave_part(omega, np.sin)), abs=1e-11)


@pytest.mark.parametrize("degree", [2, 5])
@pytest.mark.parametrize(("mean", "sd"), [(0.3, 0.1), (300.0, 300.0), (0.5, 2.0), (9.0, 0.1)])
def test_the_compiled_moments_are_the_same(mean: float, sd: float, degree: int) -> None:
    """Σ_k c_k·E[Y^k] of one variable in the box [0, 1]."""
    coef = np.arange(1.0, degree + 2)
    k, out, one = np.arange(degree + 1), np.empty((1, 1)), np.ones(1)
    polynomial_means(
        np.full((1, 1, 1), mean), np.zeros(1), np.full((1, 1, 1), sd**2), 0 * one, one, True,
        np.zeros(degree + 1, np.int64), np.zeros(degree + 1, np.int64), k, degree, coef, out,
    )  # fmt: skip
    moments = normal_moments(
        np.array([[mean]]), np.array([[sd**2]]), degree, (np.zeros(1), np.ones(1))
    )
    expected = coef[0] + sum(c * float(m[0, 0]) for c, m in zip(coef[1:], moments, strict=True))
    assert out[0, 0] == pytest.approx(expected, abs=1e-12)


numbers = st.floats(-5, 5, allow_nan=False)


@given(numbers, st.floats(0, 3), numbers, st.floats(0.01, 5), st.floats(0, 1))
@settings(max_examples=200, deadline=None)
def test_clipped_moments(mean: float, sd: float, low: float, width: float, step: float) -> None:
    box = np.array([low]), np.array([low + width])
    size = (abs(low) + width) ** 2

    def of(m: float) -> tuple[float, float]:
        first, second = normal_moments(np.array([[m]]), np.array([[sd**2]]), 2, box)
        return float(first[0, 0]), float(second[0, 0])

    first, second = of(mean)
    assert low - 1e-9 <= first <= low + width + 1e-9
    assert second >= first**2 - 1e-9 * (1 + size)
    assert of(mean + step)[0] >= first - 1e-9
