"""The matrix of an S-rectangular game, M = (1 − λ)(Zf)1ᵀ + λZ, centred and divided by its spread.

Centring comes first (on any entry): Z − c is exact where Z hardly varies, and then every later
rounding error is small against the spread of Z and not against its size. `build_game` returns what
is needed to speak of the game in the units of Z again, and a bound on the error of its entries.
"""

from __future__ import annotations

import numpy as np
from llvmlite import ir  # type: ignore[import-untyped]
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from softrobust.kernels._jit import FINITE, REORDER, kernel

MEANS, SCALE = 1, 8  # row of Y, as in `s_pivot`
EPS = 2.220446049250313e-16
NOISE = 1e-10  # perturbation of a degenerate game, in units of the spread


@intrinsic
def _vector_range(context, Z, a):
    """(min, max) of row a of Z (n, N), N ≥ 4, in vectors: LLVM leaves a loop of minima as it is."""
    if Z.layout != "C" or Z.ndim != 2:
        return None

    def codegen(target, b, signature, values):
        array = target.make_array(signature.args[0])(target, b, values[0])
        n = cgutils.unpack_tuple(b, array.shape)[1]
        row = b.gep(array.data, [b.mul(values[1], n)])
        kind, long = ir.VectorType(ir.DoubleType(), 4), ir.IntType(64)

        def pick(sign, x, y):
            return b.select(b.fcmp_ordered(sign, x, y), x, y)

        def load(at):
            found = b.load(b.bitcast(b.gep(row, [at]), kind.as_pointer()))
            found.align = 8
            return found

        ends = [(s, cgutils.alloca_once_value(b, load(long(0)))) for s in "<><>"]
        last = b.sub(n, long(4))  # the last vectors overlap those before
        with cgutils.for_range(b, b.sdiv(b.add(n, long(7)), long(8))) as loop:
            for half in (0, 1):
                at = b.add(b.mul(loop.index, long(8)), long(4 * half))
                x = load(b.select(b.icmp_signed("<", at, last), at, last))
                for sign, cell in ends[2 * half : 2 * half + 2]:
                    b.store(pick(sign, x, b.load(cell)), cell)
        answer = []
        for (sign, one), (_, two) in zip(ends[:2], ends[2:], strict=True):
            x = pick(sign, b.load(one), b.load(two))
            lanes = [b.extract_element(x, ir.IntType(32)(i)) for i in range(4)]
            pairs = pick(sign, lanes[0], lanes[1]), pick(sign, lanes[2], lanes[3])
            answer.append(pick(sign, *pairs))
        return target.make_tuple(b, signature.return_type, answer)

    return types.UniTuple(types.float64, 2)(Z, types.int64), codegen


@kernel
def row_range(Z, a):
    """(min, max) of row a of Z (n, N)."""
    if Z.shape[1] >= 4:
        return _vector_range(Z, a)
    low, high = Z[a, 0], Z[a, 0]
    for i in range(1, Z.shape[1]):
        low, high = min(low, Z[a, i]), max(high, Z[a, i])
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


@kernel(fastmath=FINITE)
def _fill(row, z, centre, base, slope):
    for i in range(z.size):
        row[i] = base + slope * (z[i] - centre)


@kernel
def build_game(Z, n, f, lam, M, Y):
    """Fill M[:n] with ((1 − λ)·mean + λZ − centre)/unit for Z (n, N), Y[MEANS, :n] with its means.

    Y[SCALE, :n] gets one over a quarter of the range of each row, about its standard deviation:
    how far a step towards this action changes reduced costs. A row that hardly varies takes the
    place of one that does, hence the floor.

    Returns (finite, centre, unit, spread of M, largest |M|, error of M): the middle four in the
    units of Z, the last in units of `unit`, the spread of Z.
    """
    centre, N = Z[0, 0], Z.shape[1]
    compensate = lam < 0.01
    low, high, m_low, m_high, widest = np.inf, -np.inf, np.inf, -np.inf, 0.0
    for a in range(n):
        z = Z[a]
        mean = _compensated_mean(z, f, centre) if compensate else _centred_mean(z, f, centre)
        if not np.isfinite(mean):
            return False, 0.0, 0.0, 0.0, 0.0, 0.0
        Y[MEANS, a] = mean
        z_low, z_high = row_range(Z, a)
        z_low, z_high = z_low - centre, z_high - centre
        low, high = min(low, z_low), max(high, z_high)
        Y[SCALE, a] = z_high - z_low
        widest = max(widest, z_high - z_low)
        m_low = min(m_low, (1.0 - lam) * mean + lam * z_low)
        m_high = max(m_high, (1.0 - lam) * mean + lam * z_high)
    unit = high - low
    inverse = 1.0 / unit if unit > 0.0 else 0.0
    floor, scale = max(0.3 * widest * inverse, 1e-300), 4.0 / lam if lam > 0.0 else 1.0
    for a in range(n):
        Y[SCALE, a] = scale / max(Y[SCALE, a] * inverse, floor)
        Y[MEANS, a] *= inverse
        _fill(M[a], Z[a], centre, (1.0 - lam) * Y[MEANS, a], lam * inverse)
    # |Z − centre| ≤ unit; the mean adds one rounding per addition of a chain, of which there are 4.
    error = EPS * ((4.0 if compensate else 8.0 + 0.25 * N) * (1.0 - lam) + 4.0 * lam)
    size = max(abs(centre + m_low), abs(centre + m_high))
    return True, centre, unit, m_high - m_low, size, error


@kernel
def perturb(M, n, size):
    """Add size·random to every column of M[:n], the same numbers every time.

    One number for a whole column is a cost of that model to nature: it breaks ties of reduced costs
    and leaves bases as regular as they were.
    """
    state = np.uint64(88172645463325252)
    for i in range(M.shape[1]):
        state ^= state << np.uint64(13)
        state ^= state >> np.uint64(7)
        state ^= state << np.uint64(17)
        noise = size * (float(state >> np.uint64(11)) / 9007199254740992.0)
        for a in range(n):
            M[a, i] += noise
