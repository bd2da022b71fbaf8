"""The soft-robust value of many return vectors, inside compiled loops (eqs. 3.1 and 3.2).

The same arithmetic as `objective.measures`, on vectors that share weights f. Most candidates of a
search are worse than the incumbent, and any ξ ∈ Ξ proves it with one dot product: value ≤ ξ·x.
The sort is paid for by the others only.
"""

from __future__ import annotations

import numpy as np

from softrobust.kernels._jit import REORDER, kernel

EDGE = 1e-12


@kernel
def soft_robust_value(x, f, lam, alpha):
    """(1 − λ)·mean + λ·CVaR^α of x (N,) with positive weights f (N,) that sum to 1."""
    N = x.size
    mean = 0.0
    for i in range(N):
        mean += f[i] * x[i]
    if lam == 0.0:
        return mean
    tail = 1.0 - alpha
    if tail <= EDGE:
        return (1.0 - lam) * mean + lam * x.min()
    order = np.argsort(x)
    left = 1.0
    total = 0.0
    for i in range(N):
        omega = order[i]
        weight = f[omega] / tail
        if weight >= left * (1.0 - EDGE) or i == N - 1:
            total += left * x[omega]
            break
        total += weight * x[omega]
        left -= weight
    return (1.0 - lam) * mean + lam * total


@kernel(fastmath=REORDER)
def dot(a, b):
    """Σ a·b."""
    total = 0.0
    for i in range(a.size):
        total += a[i] * b[i]
    return total


@kernel
def best_row(X, live, f, lam, alpha, xi, floor):
    """The row of X (n, N) of greatest soft-robust value above `floor`, among live (n,) ones.

    Returns (row, value), or (−1, floor) if none is above. xi (N,) ∈ Ξ screens.
    """
    best, best_k = floor, -1
    for k in range(X.shape[0]):
        if live[k] and dot(X[k], xi) > best:
            value = soft_robust_value(X[k], f, lam, alpha)
            if value > best:
                best, best_k = value, k
    return best_k, best
