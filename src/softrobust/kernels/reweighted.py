"""The objective of many policies under many weightings of the same models.

Shapes: Z (K, N) returns of K policies; order (K, N) their models in ascending order of return;
W (R, N) weights, rows summing to 1; out (R,).
"""

from __future__ import annotations

from softrobust.kernels._jit import kernel


@kernel
def best_reweighted(Z, order, W, lam, tail, out, which):
    """out[r] = max_k (1 − λ)·E_W[Z_k] + λ·CVaR of the worst `tail` of mass, and its k."""
    n_policies, n_models = Z.shape
    for r in range(W.shape[0]):
        best, at = -1e308, 0
        for k in range(n_policies):
            mean, left, low = 0.0, tail, 0.0
            for j in range(n_models):
                omega = order[k, j]
                w, z = W[r, omega], Z[k, omega]
                mean += w * z
                if left > 0.0 and w > 0.0:
                    take = min(w, left)
                    low += take * z
                    left -= take
            value = (1.0 - lam) * mean + lam * (low / tail)
            if value > best:
                best, at = value, k
        out[r] = best
        which[r] = at
