"""Expectations under a normal distribution whose values may be kept in an interval [l, h].

For X ~ N(μ, σ²) the raw moments follow m₀ = 1, m₁ = μ, m_k = μ·m_{k−1} + (k − 1)σ²·m_{k−2}.
For Y = min(max(X, l), h), with a = (l − μ)/σ, b = (h − μ)/σ, density ϕ and distribution function Φ,

    E[Y^k] = l^k·Φ(a) + h^k·Φ(−b) + T_k,      T_k = ∫_l^h x^k dN(μ, σ²)
    T₀ = Φ(b) − Φ(a),   T_k = μ·T_{k−1} + (k − 1)σ²·T_{k−2} − σ(h^{k−1}ϕ(b) − l^{k−1}ϕ(a))

and the same splitting gives E[exp(−(Y − c)²/2ℓ²)] and E[exp(iωY)]. The recursion cancels where σ
is large against the box, and the more the higher k: there, and from the third moment on, T_k is
computed by Gauss and Legendre's quadrature in (x − μ)/σ, which is exact to rounding.

With z = (x − μ − iωσ²)/√2σ, E[exp(iωX)]·erf(z) is 0·∞ once ωσ passes 38. Since
E[exp(iωX)]·exp(−z²) = exp(iωx − (x − μ)²/2σ²), it is written with Faddeeva's function
w(ζ) = exp(−ζ²)erfc(−iζ), which stays small in the upper half plane.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr, wofz

FloatArray = NDArray[np.float64]
Interval = tuple[FloatArray, FloatArray]
FAR = 9.0  # standard deviations beyond which an edge holds less than 1e-18 of the mass
WIDE = 4.0  # widths of the box: wider distributions are integrated by quadrature
NODES, WEIGHTS = np.polynomial.legendre.leggauss(64)
TINY = 1e-150  # stands for a deviation of 0: its square is still a number


def normal_moments(
    mean: FloatArray, variance: FloatArray, degree: int, box: Interval | None = None
) -> list[FloatArray]:
    """[E[Y], E[Y²], …] up to `degree`, each like `mean` (…, d); `box` is (low, high), each (d,)."""
    out = _free_moments(mean, variance, degree)
    if box is None:
        return out
    low, high = (np.broadcast_to(side, mean.shape) for side in box)
    near = near_edges(mean, variance, low, high)
    if near.any():
        sd = np.maximum(np.sqrt(variance[near]), TINY)
        for k, m in enumerate(_kept_moments(mean[near], sd, degree, low[near], high[near])):
            out[k][near] = m
    return out


def near_edges(
    mean: FloatArray, variance: FloatArray, low: FloatArray, high: FloatArray
) -> NDArray[np.bool_]:
    """Where an edge holds mass that counts."""
    return np.asarray(np.minimum(mean - low, high - mean) < FAR * np.sqrt(variance))


def _free_moments(mean: FloatArray, variance: FloatArray, degree: int) -> list[FloatArray]:
    out = [np.array(mean)]
    before: FloatArray | float = 1.0
    for k in range(2, degree + 1):
        out.append(mean * out[-1] + (k - 1) * variance * before)
        before = out[-2]
    return out[:degree]


def _kept_moments(
    mean: FloatArray, sd: FloatArray, degree: int, low: FloatArray, high: FloatArray
) -> list[FloatArray]:
    a, b = (low - mean) / sd, (high - mean) / sd
    below, above = ndtr(a), ndtr(-b)
    if degree > 2 or bool((sd > WIDE * (high - low)).any()):
        inside = _quadrature(mean, sd, np.maximum(a, -FAR), np.minimum(b, FAR), degree)
        return [low**k * below + high**k * above + t for k, t in enumerate(inside, 1)]
    at_a, at_b = (np.exp(-0.5 * x * x) / np.sqrt(2 * np.pi) for x in (a, b))
    T: list[FloatArray] = [1.0 - below - above]
    out = []
    for k in range(1, degree + 1):
        t = mean * T[k - 1] - sd * (high ** (k - 1) * at_b - low ** (k - 1) * at_a)
        if k > 1:
            t = t + (k - 1) * sd**2 * T[k - 2]
        T.append(t)
        out.append(low**k * below + high**k * above + t)
    return out


def _quadrature(
    mean: FloatArray, sd: FloatArray, a: FloatArray, b: FloatArray, degree: int
) -> list[FloatArray]:
    """[∫_a^b (mean + sd·t)^k dN(0, 1)] for k = 1, …, degree."""
    half, middle = np.maximum(0.5 * (b - a), 0.0), 0.5 * (a + b)
    t = middle[..., None] + half[..., None] * NODES
    part = half[..., None] * WEIGHTS * np.exp(-0.5 * t * t) / np.sqrt(2 * np.pi)
    x, out = mean[..., None] + sd[..., None] * t, []
    for _ in range(degree):
        part = part * x
        out.append(part.sum(axis=-1))
    return out


def bump_mean(
    mean: FloatArray, variance: FloatArray, centre: FloatArray, width: FloatArray,
    box: Interval | None = None,
) -> FloatArray:  # fmt: skip
    """E[exp(−(Y − c)²/2ℓ²)] for every entry; all arguments broadcast, `box` is (low, high)."""
    wide = width**2 + variance
    value = width / np.sqrt(wide) * np.exp(-0.5 * (mean - centre) ** 2 / wide)
    if box is None:
        return np.asarray(value)
    low, high = box
    sd = np.maximum(np.sqrt(variance), TINY)
    # The product of the bump and the density is a normal density about m with deviation s.
    m, s = (mean * width**2 + centre * variance) / wide, width * sd / np.sqrt(wide)
    inside = value * (ndtr((high - m) / s) - ndtr((low - m) / s))
    at_low, at_high = (np.exp(-0.5 * ((x - centre) / width) ** 2) for x in (low, high))
    edges = at_low * ndtr((low - mean) / sd) + at_high * ndtr((mean - high) / sd)
    return np.asarray(inside + edges)


def wave_mean(
    mean: FloatArray, variance: FloatArray, omega: FloatArray, box: Interval | None = None
) -> NDArray[np.complex128]:
    """E[exp(iωY)] for every entry; all arguments broadcast, `box` is (low, high)."""
    value = np.exp(1j * omega * mean - 0.5 * omega**2 * variance)
    if box is None:
        return np.asarray(value)
    low, high = box
    sd = np.maximum(np.sqrt(variance), TINY)

    def part(x: FloatArray) -> NDArray[np.complex128]:
        """value·erf(z)"""
        u, side = (x - mean) / (np.sqrt(2.0) * sd), np.where(x >= mean, 1.0, -1.0)
        rest = np.exp(1j * omega * x - u**2) * wofz(side * (1j * u + omega * sd / np.sqrt(2.0)))
        return np.asarray(side * (value - rest))

    inside = 0.5 * (part(high) - part(low))
    edges = np.exp(1j * omega * low) * ndtr((low - mean) / sd)
    edges = edges + np.exp(1j * omega * high) * ndtr((mean - high) / sd)
    return np.asarray(inside + edges)
