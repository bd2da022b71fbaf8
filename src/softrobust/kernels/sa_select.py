"""The SA-rectangular Bellman update of one state: max_a (1 − λ)·mean + λ·CVaR over models (app. A).

value(a) ≤ mean(a), as CVaR is at most the mean. So the best action of the last sweep is tried
first, and an action whose mean is no better than the best value so far is skipped without looking
at its tail: late in a solve most states need one selection.
"""

from __future__ import annotations

import numpy as np

from softrobust._core.arrays import FloatArray, IntArray
from softrobust.kernels._jit import EPS, keep_alive, kernel, unowned
from softrobust.kernels.s_game import row_range
from softrobust.kernels.tail import dot, tail_of


@kernel(inner=True)
def rounding_of_sums(n, size):
    """A bound on the rounding of (1 − λ)·mean + λ·CVaR over n models with |z| ≤ size.

    The sums vectorise into at least four chains, so that n/4 additions follow one another.
    """
    return EPS * (16.0 + 0.25 * n) * size


@kernel(inner=True)
def tail_bounds(z, f, u, total, lam, error, scratch):
    """(b, lb, ub, finite): the boundary of the tail, and (1 − λ)·mean + λ·CVaR ∓ error.

    z, f, u (L,); total = Σu; scratch (4, L).
    """
    mean = dot(z, f)
    if not np.isfinite(mean):
        return 0.0, mean, mean, False
    if lam == 0.0:
        return np.inf, mean - error, mean + error, True
    b, cvar = tail_of(z, u, total, scratch)
    value = (1.0 - lam) * mean + lam * cvar
    return b, value - error, value + error, True


@kernel(inner=True)
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
        mean = dot(Z[a], f)
        if not np.isfinite(mean):
            return a, 0.0, np.nan, np.nan, False
        if mean <= lb:  # its value is at most mean + error ≤ ub
            continue
        b, low, high, _ = tail_bounds(Z[a], f, u, total, lam, error, scratch)
        ub = max(ub, high)
        if low > lb:
            best, boundary, lb = a, b, low
    return best, boundary, lb, ub, True


@kernel
def _largest_value(Z):
    """The largest |z| of the finite rows of Z (n, N)."""
    size = 0.0
    for a in range(Z.shape[0]):
        low, high = row_range(Z, a)
        if np.isfinite(low) and np.isfinite(high):
            size = max(size, max(abs(low), abs(high)))
    return size


@kernel(entry=True)
def _all_selections(Z, f, u, lam, first, best, lb, ub):
    own, total = np.empty((4, f.size)), u.sum()
    Z, scratch, f, u = unowned(Z), unowned(own), unowned(f), unowned(u)
    for s in range(Z.shape[0]):
        error = rounding_of_sums(f.size, _largest_value(Z[s]))
        a, _, lb[s], ub[s], _ = best_action(
            Z[s], Z.shape[1], f, u, total, lam, error, first[s], scratch
        )
        best[s] = a
    keep_alive(own)


def best_actions(
    Z: FloatArray, f: FloatArray, u: FloatArray, lam: float, first: IntArray | None = None
) -> tuple[IntArray, FloatArray, FloatArray]:
    """SA updates on given values Z (sweeps fuse them with Z): best actions, lb and ub, each (S,).

    In Z (n_states, n_actions, n_models) all actions are allowed; NaN or infinity gives NaN bounds.
    f, u (n_models,) are the weights of the models and the bounds of q (`SoftRobust.q_bounds`);
    `first` (n_states,) actions are tried first.

    Examples
    --------
    >>> Z = np.array([[[1.0, 3.0], [0.0, 10.0]]])
    >>> best, lb, ub = best_actions(Z, np.full(2, 0.5), np.ones(2), lam=0.9)
    >>> int(best[0]), float(lb[0].round(12))
    (0, 1.1)
    """
    S = Z.shape[0]
    start = np.full(S, -1) if first is None else np.asarray(first, dtype=np.int64)
    best, lb, ub = np.empty(S, np.int64), np.empty(S), np.empty(S)
    _all_selections(np.ascontiguousarray(Z, np.float64), f, u, float(lam), start, best, lb, ub)
    return best, lb, ub
