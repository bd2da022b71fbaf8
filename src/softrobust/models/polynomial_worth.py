"""E_ω[r(s, a, s′) + v(s′)] for Gaussian models where r and v are polynomials in s′, in one pass.

With x = (s′ − c)/d the standardised next state, the reward's part in s′ is a polynomial in x as v
is: next·s′ = next·c + Σ_j next_j·d_j·x_j, and so on for squares. So the coefficients add up, and
one expectation of one polynomial is left.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple, final

import numpy as np
from numpy.typing import NDArray

from softrobust.kernels.polynomial import polynomial_means
from softrobust.models.continuous_rewards import LinearReward
from softrobust.models.features import PolynomialFeatures
from softrobust.models.gaussian import GaussianModels

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]


@final
class Products(NamedTuple):
    """Every product as a shorter one times a power of one variable (`kernels.polynomial`)."""

    factors: tuple[tuple[int, ...], ...]
    place: dict[tuple[int, ...], int]
    parent: IntArray
    last: IntArray
    power: IntArray


@lru_cache(maxsize=64)
def products(degree: int, n_variables: int) -> Products:
    """All products of at most `degree` of the variables, shorter ones first."""
    factors = tuple(PolynomialFeatures(degree).exponents(n_variables))
    place = {f: i for i, f in enumerate(factors)}
    power = [f.count(f[-1]) if f else 0 for f in factors]
    parent = [place[f[: len(f) - k]] for f, k in zip(factors, power, strict=True)]
    last = [f[-1] if f else 0 for f in factors]
    arrays = (np.array(x, dtype=np.int64) for x in (parent, last, power))
    return Products(factors, place, *arrays)


def polynomial_worth(
    models: GaussianModels,
    reward: LinearReward,
    features: PolynomialFeatures,
    s: FloatArray,
    a: IntArray,
    w: FloatArray,
) -> FloatArray:
    """(n_rows, n_models) E_ω[r(s, a, s′) + φ(s′)ᵀw] of pairs s (n_rows, d), a (n_rows,)."""
    d, N, R = models.n_variables, models.n_models, s.shape[0]
    centre, scale = features.standards()
    degree = max(features.degree, reward.degree)
    basis = products(degree, d)
    coef = reward_coefficients(reward, centre, scale, basis)
    coef[: w.size] += w  # shorter products come first, so those of φ are a beginning
    frame, own = models.frame, models.scaling
    phi = frame.features(s, a)
    unit = own.out_scale / scale
    # One product of matrices for all models: (R, F) by (F, N·d).
    W = (models.weights * unit).transpose(1, 0, 2).reshape(phi.shape[1], N * d)
    y = ((phi - own.centre) / own.scale) @ W
    if models.noise.shape[1] == 1:
        variance = models.noise[None, :, 0] * (unit**2 / own.noise_scale)
    else:
        U = (models.noise * unit**2).transpose(1, 0, 2).reshape(phi.shape[1], N * d)
        variance = ((np.abs(phi) / own.noise_scale) @ U).reshape(R, N, d)
    low, high = centre, centre
    if models.clip is not None:
        low, high = ((side - centre) / scale for side in models.clip)
    out = np.empty((R, N))
    polynomial_means(
        y.reshape(R, N, d), (own.out_centre - centre) / scale, np.ascontiguousarray(variance),
        low, high, models.clip is not None, basis.parent, basis.last, basis.power,
        max(degree, 1), coef, out,
    )  # fmt: skip
    # What does not depend on s′ is the reward at s′ = 0.
    out += np.asarray(reward(s, a, np.zeros_like(s)))[:, None]
    return out


def reward_coefficients(
    reward: LinearReward, centre: FloatArray, scale: FloatArray, basis: Products
) -> FloatArray:
    """The part of r that depends on s′ = centre + scale·x, as coefficients of products of x."""
    coef = np.zeros(len(basis.factors))
    square = np.zeros((centre.size, centre.size)) if reward.square is None else reward.square
    coef[0] = reward.next @ centre + centre @ square @ centre
    linear = scale * (reward.next + (square + square.T) @ centre)
    for j in range(centre.size):
        coef[basis.place[(j,)]] += linear[j]
    if reward.square is not None:
        for i in range(centre.size):
            for j in range(centre.size):
                pair = (min(i, j), max(i, j))
                coef[basis.place[pair]] += square[i, j] * scale[i] * scale[j]
    return coef
