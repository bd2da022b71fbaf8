"""Returns of policies when one row of every model is exchanged for a row of another draw.

Shapes: rho, h (K, N) returns and visits to the state; z, g (K, N, n) values r + γv and discounted
visits to the state, at the n next states of the pair; q (K,) probability of the action; p (N, n)
the rows; rows (R, N) which draw's row each model gets; out, which, mean_of (R,).
"""

from __future__ import annotations

import numpy as np
from numba import prange

from softrobust.kernels._jit import kernel


@kernel(parallel=True)
def best_exchanged(rho, h, z, g, q, p, rows, gamma, lam, tail, known, out, which, mean_of):
    """out[r] = max_k (1 − λ)·mean + λ·CVaR of the worst `tail` of the N exchanged returns.

    `mean_of` is the mean return of policy `known`, a control variate.
    """
    K, N, n = z.shape
    for r in prange(rows.shape[0]):
        values = np.empty(N)
        best, at = -1e308, 0
        for k in range(K):
            mean = 0.0
            for w in range(N):
                value = rho[k, w]
                if q[k] > 0.0 and h[k, w] > 0.0:
                    j = rows[r, w]
                    gain, turn = 0.0, 0.0
                    for i in range(n):
                        d = p[j, i] - p[w, i]
                        gain += d * z[k, w, i]
                        turn += d * g[k, w, i]
                    value += h[k, w] * q[k] * gain / (1.0 - gamma * q[k] * turn)
                values[w] = value
                mean += value
            if k == known:
                mean_of[r] = mean / N
            value = (1.0 - lam) * mean / N
            if lam > 0.0:
                value += lam * _worst(values, tail)
            if value > best:
                best, at = value, k
        out[r] = best
        which[r] = at


@kernel
def _worst(values, tail):
    """CVaR of equally weighted values: the average of the worst `tail` of them."""
    ordered = np.sort(values)
    left, low = tail * ordered.size, 0.0
    for j in range(ordered.size):
        take = min(1.0, left)
        low += take * ordered[j]
        left -= take
        if left <= 0.0:
            break
    return low / (tail * ordered.size)
