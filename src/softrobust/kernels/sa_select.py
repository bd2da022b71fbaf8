"""The SA-rectangular Bellman update of one state: max_a (1 − λ)·mean + λ·CVaR over models (app. B).

value(a) ≤ mean(a), as CVaR is at most the mean. So the best action of the last sweep is tried
first, and an action whose mean is no better than the best value so far is skipped without looking
at its tail: late in a solve most states need one selection.
"""

from __future__ import annotations

import numpy as np

from softrobust.kernels._jit import kernel
from softrobust.kernels.tail import tail_of, weighted_sum

EPS = 2.220446049250313e-16


@kernel
def rounding_of_sums(n, size):
    """A bound on the rounding of (1 − λ)·mean + λ·CVaR over n models with |z| ≤ size.

    The sums vectorise into at least four chains, so that n/4 additions follow one another.
    """
    return EPS * (16.0 + 0.25 * n) * size


@kernel
def tail_bounds(z, f, u, total, lam, error, scratch):
    """(b, lb, ub, finite): the boundary of the tail, and (1 − λ)·mean + λ·CVaR ∓ error.

    z, f, u (L,); total = Σu; scratch (4, L).
    """
    mean = weighted_sum(z, f)
    if not np.isfinite(mean):
        return 0.0, mean, mean, False
    if lam == 0.0:
        return np.inf, mean - error, mean + error, True
    b, cvar = tail_of(z, u, total, scratch)
    value = (1.0 - lam) * mean + lam * cvar
    return b, value - error, value + error, True


@kernel
def best_action(Z, n, f, u, total, lam, error, first, scratch):
    """(row, b, lb, ub, finite) of the best of the rows Z[:n] (n, L), trying row `first` first.

    `first` is −1 where nothing is known; then rows are tried in order. Ties keep the earlier find.
    """
    best, boundary, lb, ub = -1, 0.0, -np.inf, -np.inf
    if first >= 0:
        boundary, lb, ub, finite = tail_bounds(Z[first], f, u, total, lam, error, scratch)
        if not finite:
            return first, 0.0, np.nan, np.nan, False
        best = first
    for a in range(n):
        if a == first:
            continue
        mean = weighted_sum(Z[a], f)
        if not np.isfinite(mean):
            return a, 0.0, np.nan, np.nan, False
        if mean <= lb:  # its value is at most mean + error ≤ ub
            continue
        b, low, high, _ = tail_bounds(Z[a], f, u, total, lam, error, scratch)
        ub = max(ub, high)
        if low > lb:
            best, boundary, lb = a, b, low
    return best, boundary, lb, ub, True
