"""Dirichlet rows from gamma variates, safe where a variate would underflow."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]


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
