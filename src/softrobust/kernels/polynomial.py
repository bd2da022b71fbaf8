"""E[p(Y)] of a polynomial p for many normal Y with independent entries in a box (section 4.3).

A product of entries is a shorter product times a power of its last variable:

    φ_i = φ_parent(i) · Y_last(i)^power(i),     E[φ_i] = E[φ_parent(i)] · E[Y_last(i)^power(i)]

so that all expectations follow from the moments of single entries (`models.features` computes the
same in NumPy). Where the box is more than nine deviations away its edges hold less than 1e-18 of
the mass, and the moments are those of the normal distribution.
"""

from __future__ import annotations

import math

import numpy as np

from softrobust.kernels._jit import keep_alive, kernel, unowned

FAR_BOX = 9.0  # deviations
TINY = 1e-150
ROOT_HALF = math.sqrt(0.5)
DENSITY = 1.0 / math.sqrt(2.0 * math.pi)
WIDE = 4.0  # widths of the box: for wider distributions, and from the third moment on, recursions
NODES, WEIGHTS = np.polynomial.legendre.leggauss(64)  # cancel, and quadrature does not


@kernel
def _moments(mean, variance, low, high, boxed, degree, out, j):
    """E[Y], …, E[Y^degree] into row j of out (d, degree)."""
    sd = max(math.sqrt(variance), TINY)
    if not boxed or min(mean - low, high - mean) >= FAR_BOX * sd:
        out[j, 0] = mean
        before = 1.0
        for k in range(1, degree):
            out[j, k] = mean * out[j, k - 1] + k * variance * before
            before = out[j, k - 1]
        return
    a, b = (low - mean) / sd, (high - mean) / sd
    below, above = 0.5 * math.erfc(-a * ROOT_HALF), 0.5 * math.erfc(b * ROOT_HALF)
    at_low, at_high = DENSITY * math.exp(-0.5 * a * a), DENSITY * math.exp(-0.5 * b * b)
    if degree > 2 or sd > WIDE * (high - low):
        _quadrature(mean, sd, max(a, -FAR_BOX), min(b, FAR_BOX), degree, out, j)
        for k in range(degree):
            out[j, k] += low ** (k + 1) * below + high ** (k + 1) * above
        return
    before, inside = 0.0, 1.0 - below - above
    low_power, high_power = 1.0, 1.0
    for k in range(degree):
        new = mean * inside + k * variance * before
        new -= sd * (high_power * at_high - low_power * at_low)
        low_power *= low
        high_power *= high
        out[j, k] = low_power * below + high_power * above + new
        before, inside = inside, new


@kernel
def _quadrature(mean, sd, a, b, degree, out, j):
    """∫_a^b (mean + sd·t)^k dN(0, 1) for k = 1, …, degree into row j of out (d, degree)."""
    for k in range(degree):
        out[j, k] = 0.0
    half, middle = 0.5 * (b - a), 0.5 * (a + b)
    if half <= 0.0:
        return
    for i in range(NODES.size):
        t = middle + half * NODES[i]
        part = half * WEIGHTS[i] * DENSITY * math.exp(-0.5 * t * t)
        for k in range(degree):
            part *= mean + sd * t
            out[j, k] += part


@kernel
def polynomial_means(y, offset, variance, low, high, boxed, parent, last, power, degree, coef, out):
    """out (n_rows, n_models) ← Σ_i coef_i·E[φ_i] for every row and model.

    y (n_rows, n_models, d) are means less `offset` (d,); variance (n_rows or 1, n_models, d); the
    box low, high (d,) is read only if `boxed`; parent, last, power, coef (n_products,) as above,
    φ₀ = 1 first.
    """
    d = offset.size
    own_single, own_phi = np.empty((d, degree)), np.empty(coef.size)
    single, phi = unowned(own_single), unowned(own_phi)
    phi[0] = 1.0
    varies = variance.shape[0] > 1
    for r in range(y.shape[0]):
        for w in range(y.shape[1]):
            for j in range(d):
                var = variance[r if varies else 0, w, j]
                _moments(offset[j] + y[r, w, j], var, low[j], high[j], boxed, degree, single, j)
            total = coef[0]
            for i in range(1, coef.size):
                phi[i] = phi[parent[i]] * single[last[i], power[i] - 1]
                total += coef[i] * phi[i]
            out[r, w] = total
    keep_alive((own_single, own_phi))
