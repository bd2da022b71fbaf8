"""Simulation-based calibration (Talts et al. 2018): ranks of true parameters must be uniform."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike
from scipy import stats


def uniform_p(ranks: ArrayLike, n_draws: int, bins: int = 10) -> float:
    """p-value of a chi-square test that ranks in 0 … n_draws are uniform; n_draws + 1 = k·bins."""
    ranks = np.asarray(ranks)
    if (n_draws + 1) % bins:
        raise ValueError("n_draws + 1 must be a multiple of the number of bins")
    counts = np.bincount(ranks * bins // (n_draws + 1), minlength=bins)
    return float(stats.chisquare(counts).pvalue)


def rank(draws: ArrayLike, truth: float) -> int:
    """How many draws lie below the truth."""
    return int(np.sum(np.asarray(draws) < truth))
