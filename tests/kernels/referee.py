"""Exact-fraction referees: what a feasible (d, q) proves about a game, without rounding."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]


def exact(x: FloatArray) -> list[Fraction]:
    return [Fraction(float(y)) for y in x]


def exact_game(Z: FloatArray, f: FloatArray, lam: float) -> list[list[Fraction]]:
    """M = (1 − λ)(Zf)1ᵀ + λZ, with f divided by its exact sum."""
    weights = exact(f)
    total = sum(weights, Fraction(0))
    share = Fraction(float(lam))
    rows = []
    for row in Z:
        z = exact(row)
        mean = sum((w * x for w, x in zip(weights, z, strict=True)), Fraction(0)) / total
        rows.append([(1 - share) * mean + share * x for x in z])
    return rows


def exact_bounds(u: FloatArray) -> list[Fraction]:
    """u, stretched to mass 1 where rounding left Σu short of it."""
    bounds = exact(u)
    total = sum(bounds, Fraction(0))
    return bounds if total >= 1 else [x / total for x in bounds]


def exact_tail(values: list[Fraction], u: list[Fraction]) -> Fraction:
    """min {qᵀz : 0 ≤ q ≤ u, Σq = 1}."""
    left, total = Fraction(1), Fraction(0)
    for i in sorted(range(len(values)), key=values.__getitem__):
        take = min(left, u[i])
        total += take * values[i]
        left -= take
    assert left == 0
    return total


def proven_lower(M: list[list[Fraction]], u: list[Fraction], d: FloatArray) -> Fraction:
    """What the decision d earns against nature's best answer."""
    weights = exact(d)
    total = sum(weights, Fraction(0))
    assert min(weights) >= 0
    assert total > 0
    mixed = [
        sum((w * row[i] for w, row in zip(weights, M, strict=True)), Fraction(0)) / total
        for i in range(len(u))
    ]
    return exact_tail(mixed, u)


def proven_upper(M: list[list[Fraction]], u: list[Fraction], q: FloatArray) -> Fraction:
    """What nature's q allows at most, after making it exactly feasible."""
    weights = [min(max(x, Fraction(0)), top) for x, top in zip(exact(q), u, strict=True)]
    missing = 1 - sum(weights, Fraction(0))
    assert abs(missing) < Fraction(1, 10**12)
    for i, top in enumerate(u):
        new = min(max(weights[i] + missing, Fraction(0)), top)
        missing -= new - weights[i]
        weights[i] = new
    assert missing == 0
    return max(sum((w * x for w, x in zip(weights, row, strict=True)), Fraction(0)) for row in M)


def scale(M: list[list[Fraction]], live: NDArray[np.bool_]) -> Fraction:
    """max(spread(M), 1e-6·max|M|) over the models with f > 0 (algorithms, section 3)."""
    entries = [x for row in M for x, on in zip(row, live, strict=True) if on]
    return max(max(entries) - min(entries), max(abs(x) for x in entries) / 10**6)
