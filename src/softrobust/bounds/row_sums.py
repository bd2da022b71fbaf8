"""Sums of transition rows, which may miss 1 by 1e-8, and what follows for returns.

With σ the largest row sum, Σ_s h_π(s) ≤ Σp₀/(1 − γσ) =: reach for every policy: an error e in every
reward moves a return by at most reach·e. With the least row sum it is a lower bound of Σ_s h_π(s).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from softrobust.problem import Problem

FloatArray = NDArray[np.float64]
EPS = float(np.finfo(np.float64).eps)


def row_sums(problem: Problem) -> FloatArray:
    """(n_states, n_actions, n_models): Σ_s' P̂^ω(s'|s,a), each off by at most `sum_error`."""
    m = problem.models
    widths = np.diff(m.indptr)
    out = np.zeros((widths.size, m.n_models))
    some = np.flatnonzero(widths)
    if some.size:
        starts = m.indptr[some][:, None] * m.n_models
        rows = starts + np.arange(m.n_models) * widths[some][:, None]
        out[some] = np.add.reduceat(m.prob, rows.reshape(-1)).reshape(some.size, m.n_models)
    return out.reshape(problem.R.shape)


def widest_row(problem: Problem) -> int:
    """The number of entries of the longest row."""
    return int(np.diff(problem.models.indptr).max(initial=0))


def sum_error(problem: Problem) -> float:
    """What rounding can have done to a row sum."""
    return (widest_row(problem) + 2) * EPS


def reach(problem: Problem, sums: FloatArray | None = None) -> FloatArray:
    """(n_models,): at least Σp₀/(1 − γσ_ω), rounding included."""
    sums = row_sums(problem) if sums is None else sums
    sigma = sums.max(axis=(0, 1)) + sum_error(problem)
    # γσ ≤ 1 − 9e-8 (`Problem` refuses greater γ): 1 − γσ is off by 5e-9 of itself at most.
    start = float(problem.p0.sum()) * (1 + problem.n_states * EPS)
    return np.asarray(start / (1 - problem.gamma * sigma) * (1 + 1e-8))


def least_reach(problem: Problem, sums: FloatArray | None = None) -> FloatArray:
    """(n_models,): at most Σp₀/(1 − γσ_ω) for the least row sum of an allowed pair."""
    sums = row_sums(problem) if sums is None else sums
    sigma = sums[problem.allowed].min(axis=0) - sum_error(problem)
    start = float(problem.p0.sum()) * (1 - problem.n_states * EPS)
    return np.asarray(start / (1 - problem.gamma * sigma) * (1 - 1e-8))
