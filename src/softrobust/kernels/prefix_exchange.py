"""Returns when the states of a sequence change their action one after another.

Let B = I − γ(P_a − P_π)N on the states changed so far, N = (I − γP_π)⁻¹, d = R_a + γP_a v − v and
h = Nᵀp₀. By Woodbury's identity the return is then

    ρ' = ρ + h_Kᵀ B⁻¹ d_K.

B grows by a row and a column with every state, and so does its LU factorisation: with y = L⁻¹d and
zᵀ = hᵀU⁻¹ each further state adds z_k·y_k. Leading minors of B are ratios of determinants of
M-matrices, hence positive: no pivots are exchanged.

Shapes: S states, N models; rho (N,), h, d (N, S), G (N, S, S) = γ(P_a − P_π)N; order (n,) the
states of all sequences, starts (m + 1,) where each begins; out (n, N).
"""

from __future__ import annotations

import numpy as np
from numba import prange

from softrobust.kernels._jit import kernel


@kernel(parallel=True)
def prefix_returns(rho, h, d, G, order, starts, out):
    """out[i] ← returns after the state order[i] and those before it in its sequence."""
    for w in prange(rho.size):
        longest = 0
        for q in range(starts.size - 1):
            longest = max(longest, starts[q + 1] - starts[q])
        factor = np.empty((longest, longest))  # L below the diagonal, U on and above it
        y = np.empty(longest)
        z = np.empty(longest)
        for q in range(starts.size - 1):
            part = order[starts[q] : starts[q + 1]]
            _sequence(rho[w], h[w], d[w], G[w], part, factor, y, z, out[starts[q] :, w])


@kernel
def _sequence(rho, h, d, G, part, factor, y, z, out):
    total = rho
    for k in range(part.size):
        s = part[k]
        for j in range(k):
            low, up = -G[s, part[j]], -G[part[j], s]
            for m in range(j):
                low -= factor[k, m] * factor[m, j]
                up -= factor[j, m] * factor[m, k]
            factor[k, j] = low / factor[j, j]
            factor[j, k] = up
        pivot, right, left = 1.0 - G[s, s], d[s], h[s]
        for m in range(k):
            pivot -= factor[k, m] * factor[m, k]
            right -= factor[k, m] * y[m]
            left -= z[m] * factor[m, k]
        factor[k, k] = pivot
        y[k] = right
        z[k] = left / pivot
        total += y[k] * z[k]
        out[k] = total
