"""The matrix of an S-rectangular game, M = (1 − λ)(Zf)1ᵀ + λZ, centred and divided by its spread.

Centring comes first: Z − c is exact where Z hardly varies, and then every later rounding error is
small against the spread of Z and not against its size. `build_game` returns what is needed to speak
of the game in the units of Z again, and a bound on the error of its entries.
"""

from __future__ import annotations

import numpy as np

from softrobust.kernels._jit import FINITE, REORDER, kernel

EPS = 2.220446049250313e-16
NOISE = 1e-10  # perturbation of a degenerate game, in units of the spread


@kernel(fastmath=REORDER)
def not_finite(Z, n):
    """Whether Z[:n] holds NaN or infinity."""
    bad = 0.0
    for a in range(n):
        for i in range(Z.shape[1]):
            bad += 0.0 * Z[a, i]  # NaN for NaN and infinities
    return bad != 0.0


@kernel(fastmath=FINITE)
def _range(z):
    low, high = z[0], z[0]
    for i in range(1, z.size):
        low = min(low, z[i])
        high = max(high, z[i])
    return low, high


@kernel(fastmath=REORDER)
def _centred_mean(z, f, centre):
    total = 0.0
    for i in range(z.size):
        total += f[i] * (z[i] - centre)
    return total


@kernel
def _compensated_mean(z, f, centre):
    """Neumaier's sum: where λ is tiny, the error of the mean must be tiny against λ·spread."""
    total = lost = 0.0
    for i in range(z.size):
        term = f[i] * (z[i] - centre)
        new = total + term
        lost += (total - new) + term if abs(total) >= abs(term) else (term - new) + total
        total = new
    return total + lost


@kernel
def build_game(Z, n, f, lam, M):
    """M[:n] ← ((1 − λ)·mean + λZ − centre)/unit for Z (n, N); f (N,).

    Returns (centre, unit, spread of M, largest |M|, error of M), the middle two in the units of Z.
    """
    low, high = np.inf, -np.inf
    for a in range(n):
        row_low, row_high = _range(Z[a])
        low, high = min(low, row_low), max(high, row_high)
    centre = 0.5 * low + 0.5 * high
    unit = high - low
    if not unit > 0.0:
        M[:n] = 0.0
        return centre, 0.0, 0.0, abs(centre), 0.0
    inverse = 1.0 / unit
    m_low, m_high, N = np.inf, -np.inf, Z.shape[1]
    compensate = lam < 0.01
    for a in range(n):
        z, row = Z[a], M[a]
        mean = _compensated_mean(z, f, centre) if compensate else _centred_mean(z, f, centre)
        base, slope = (1.0 - lam) * mean * inverse, lam * inverse
        for i in range(N):
            row[i] = base + slope * (z[i] - centre)
        row_low, row_high = _range(row)
        m_low, m_high = min(m_low, row_low), max(m_high, row_high)
    error = EPS * ((3.0 if compensate else 6.0 + 0.125 * N) * (1.0 - lam) + 3.0 * lam)
    size = max(abs(centre + unit * m_low), abs(centre + unit * m_high))
    return centre, unit, unit * (m_high - m_low), size, error


@kernel
def perturb(M, n):
    """M ← M + NOISE·random, the same numbers every time."""
    state = np.uint64(88172645463325252)
    for a in range(n):
        for i in range(M.shape[1]):
            state ^= state << np.uint64(13)
            state ^= state >> np.uint64(7)
            state ^= state << np.uint64(17)
            M[a, i] += NOISE * (float(state >> np.uint64(11)) / 9007199254740992.0 - 0.5)
