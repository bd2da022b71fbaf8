"""Exact draws: Dirichlet rows, and densities on a line.

Rows are normalised gamma variates, safe where a variate would underflow. A density on a line is
evaluated on a grid in a coordinate where it is smooth, refined to where the mass lies, and treated
as piecewise linear between nodes; draws invert its distribution function.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import final

import numpy as np

from softrobust._core.arrays import FloatArray

NODES = 2001
NEGLIGIBLE = 40.0  # e^−40 of the mode's density


def dirichlet_rows(rng: np.random.Generator, shape: FloatArray, n: int) -> FloatArray:
    """(n_pairs, n, width) Dirichlet rows; concentrations (n_pairs, 1 or n, width)."""
    size = (shape.shape[0], n, shape.shape[2])
    if shape.min() >= 0.1:
        g = rng.standard_gamma(shape, size=size)
    else:
        # Gamma(a) = Gamma(a + 1)·U^(1/a): in logarithms nothing underflows before normalising.
        log_g = np.log(rng.standard_gamma(shape + 1.0, size=size))
        log_g -= rng.standard_exponential(size) / shape
        g = np.exp(log_g - log_g.max(axis=2, keepdims=True))
    g /= g.sum(axis=2, keepdims=True)
    return g


@final
@dataclass(frozen=True, slots=True, eq=False)
class GridDensity:
    """A density on nodes x (n,), with its distribution function."""

    x: FloatArray
    density: FloatArray
    cdf: FloatArray

    @classmethod
    def of(
        cls, log_density: Callable[[FloatArray], FloatArray], low: float, high: float
    ) -> GridDensity:
        """Zoom in on the region that holds all but e^−40 of the mode's density, then tabulate."""
        for _ in range(30):
            x = np.linspace(low, high, NODES)
            level = log_density(x)
            level = np.where(np.isfinite(level), level, -np.inf)
            held = np.flatnonzero(level > level.max() - NEGLIGIBLE)
            narrow = max(held[0] - 1, 0), min(held[-1] + 1, NODES - 1)
            if narrow[1] - narrow[0] > NODES // 2:
                break
            low, high = float(x[narrow[0]]), float(x[narrow[1]])
        density = np.exp(level - level.max())
        steps = 0.5 * (density[1:] + density[:-1]) * np.diff(x)
        cdf = np.concatenate([[0.0], np.cumsum(steps)])
        return cls(x, density / cdf[-1], cdf / cdf[-1])

    def sample(self, rng: np.random.Generator, n: int) -> FloatArray:
        """`n` draws by inversion; within a cell the density is linear, its inverse a root."""
        u = rng.random(n)
        i = np.clip(np.searchsorted(self.cdf, u, side="right") - 1, 0, self.x.size - 2)
        width = self.x[i + 1] - self.x[i]
        d0, d1 = self.density[i], self.density[i + 1]
        rest = (u - self.cdf[i]) / width
        # d0·t + (d1 − d0)·t²/2 = rest, in the form that stays stable when d1 ≈ d0.
        root = np.sqrt(np.maximum(d0**2 + 2.0 * (d1 - d0) * rest, 0.0))
        t = np.clip(2.0 * rest / np.maximum(d0 + root, np.finfo(float).tiny), 0.0, 1.0)
        return np.asarray(self.x[i] + t * width)

    def mean(self) -> float:
        """E[x], by the trapezoidal rule."""
        return float(np.trapezoid(self.x * self.density, self.x))
