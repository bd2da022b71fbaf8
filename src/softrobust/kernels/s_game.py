"""The S-rectangular Bellman update of one state: the matrix game max_d min_ξ dᵀZξ (eq. 4.8, §4.2).

With ξ = (1 − λ)f + λq, 0 ≤ q ≤ u, Σq = 1 and M = (1 − λ)(Zf)1ᵀ + λZ it is the linear program

    nature:    min t                          s.t.  Mq ≤ t·1,  Σq = 1,  0 ≤ q ≤ u
    decision:  max b − Σ_ω u_ω·(b − dᵀM_ω)₊   s.t.  d ≥ 0,  Σd = 1

solved by the dual simplex method with bound flipping (`s_simplex`), from the basis (K, F) of the
last sweep where there is one: late in a solve most games need no pivot at all.

M is centred and divided by its spread. Centring comes first (on any entry): Z − c is exact where Z
hardly varies, and then every later rounding error is small against the spread of Z and not against
its size. `build_game` returns what is needed to speak of the game in the units of Z again, and a
bound on the error of its entries.

The bounds lb and ub are computed for the clipped, feasible d and q, and widened by the rounding
they can contain: lb ≤ true value ≤ ub whatever the pivots did. A game that stalls, or whose gap
exceeds 1e-9·max(spread of M, 1e-6·max|M|), is perturbed, solved, and taken up again from the basis
found; where that does not close the gap either, it is `UNSETTLED`, a case for an LP. The test is on
the gap before rounding is added, and half of that rounding is allowed, for no solver could lower
it: about (20 + N/4)·ε of the spread of Z, which counts where M varies a million times less than Z.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic
from numpy.typing import NDArray

from softrobust._core.arrays import FloatArray
from softrobust.kernels._jit import EPS, FINITE, REORDER, keep_alive, kernel, unowned
from softrobust.kernels.s_simplex import (  # fmt: skip
    BASIC,
    BINDING,
    MEANS,
    MODELS,
    RC,
    ROWS,
    SCALE,
    SCRATCH,
    SIDE,
    D,
    Q,
    clear,
    combine,
    factor_basis,
    game_work,
    largest_row,
    pivot,
    price_models,
    primal,
    refresh,
    set_sides,
)
from softrobust.kernels.tail import SLACK, select, shortfall

NOISE = 1e-10  # perturbation of a degenerate game, in units of the spread
GAP = 1e-9
TRACE = 1e-13  # probabilities of an action below this are rounding
REFRESH = 40  # pivots after which the inverse of the basis is computed afresh
STALL = 30  # pivots without progress before a game counts as degenerate
SOLVED, UNSETTLED, NOT_FINITE = 0, 1, 2
# Ways to solve a game: from the last basis; from the best mean; the true game from the basis of the
# perturbed one; perturbed, to be followed by BACK; perturbed for good.
WARM, COLD, BACK, NOISY, AGAIN, NO_MORE = 0, 1, 2, 3, 4, 5


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


@kernel(inner=True)
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


@kernel(inner=True)
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


@kernel(inner=True)
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


@kernel
def _start_warm(n, k, u, slack, M, X, Y, J, W):
    """Bounds for the basis (K, F) of an earlier game; returns whether its d is feasible here."""
    if k < 1:
        return False
    clear(Y)
    for i in range(k):
        Y[BINDING, J[ROWS, i]] = 1.0
    if not factor_basis(k, M, J, W) or price_models(k, M, X, Y, J, W) < -slack:
        return False
    set_sides(n, k, u, M, X, Y, J)
    return True


@kernel
def _start_cold(n, u, total, M, X, Y, J, W):
    """K = {best mean}, F = {the model at its tail's boundary}, those below it at their bounds.

    Returns k = 1, typed: a literal would compile what takes it a second time.
    """
    a = 0
    for i in range(1, n):
        if Y[MEANS, i] > Y[MEANS, a]:
            a = i
    row = M[a]
    b, mass = select(row, u, u.size, total, 1.0 - SLACK, X[SCRATCH:])
    boundary = -1
    for i in range(u.size):
        X[SIDE, i] = -1.0 if row[i] < b else 1.0
    for i in range(u.size):
        if row[i] == b and mass < 1.0 - SLACK:  # ties by index until the mass is there
            if boundary >= 0:
                X[SIDE, boundary] = -1.0
            boundary = i
            mass += u[i]
    clear(Y)
    J[ROWS, 0], J[MODELS, 0] = a, boundary
    Y[BINDING, a], X[SIDE, boundary] = 1.0, 0.0
    refresh(n, u, M, X, Y)
    one = np.int64(1)
    factor_basis(one, M, J, W)
    price_models(one, M, X, Y, J, W)
    return one


@kernel
def _run(way, n, k, u, total, noise, M, X, Y, J, W):
    """Start one `way` and pivot until nothing is violated; returns (k, settled, pivots).

    W, d and the reduced costs belong to the basis; after some pivots, and before the end, they are
    computed afresh.
    """
    if way in (WARM, BACK):
        if not _start_warm(n, k, u, 1e-13 if way == WARM else 1e-9, M, X, Y, J, W):
            return k, False, 0
    else:
        if way >= NOISY:
            perturb(M, n, noise)
        k = _start_cold(n, u, total, M, X, Y, J, W)
    best, stalled, age, done = -np.inf, 0, 0, 0
    for _ in range(100 + 4 * (n + u.size)):
        t, worst, code = primal(n, k, u, M, X, Y, J, W)
        if worst == 0.0 and age == 0:
            return k, True, done
        if worst == 0.0 or age == REFRESH:
            if not factor_basis(k, M, J, W) or price_models(k, M, X, Y, J, W) < -1e-9:
                return k, False, done
            age = 0
            continue
        stalled = 0 if t > best + 1e-15 else stalled + 1
        best = max(best, t)
        if stalled > STALL:
            return k, False, done
        k_new, least = pivot(n, k, code, worst, u, M, X, Y, J, W)
        done += 1
        if k_new < 0:  # K and F are as they were
            return k, False, done
        k, age = k_new, age + 1
        if least < -1e-9:
            return k, False, done
    return k, False, done


@kernel(fastmath=REORDER)
def _basic_q(u, X):
    total = 0.0
    for i in range(u.size):
        X[Q, i] = u[i] * max(-X[SIDE, i], 0.0)
        total += X[Q, i]
    return total


@kernel
def _feasible_q(k, u, X, Y, J):
    """Set q to the basic solution, clipped to its bounds and completed to mass 1."""
    missing = 1.0 - _basic_q(u, X)
    for j in range(k):
        i = J[MODELS, j]
        missing += X[Q, i]
        X[Q, i] = min(max(Y[BASIC, j + 1], 0.0), u[i])
        missing -= X[Q, i]
    for step in range(2):  # first the fractional models, then any
        for p in range(k if step == 0 else u.size):
            if abs(missing) <= EPS:
                return
            i = J[MODELS, p] if step == 0 else p
            new = min(max(X[Q, i] + missing, 0.0), u[i])
            missing -= new - X[Q, i]
            X[Q, i] = new


@kernel
def _feasible_d(k, u, total, settled, M, X, Y, J):
    """Make d feasible, clipped and of sum 1, with its reduced costs; returns its b."""
    mass, clipped = 0.0, False
    for i in range(1, k + 1):
        if Y[D, i] < TRACE and Y[D, i] != 0.0:
            Y[D, i] = 0.0
            clipped = True
        mass += Y[D, i]
    for i in range(1, k + 1):
        Y[D, i] = Y[D, i] / mass if mass > 0.0 else 1.0 / k
    if settled and not clipped:
        return -Y[D, 0]
    Y[D, 0] = 0.0
    combine(M, J, Y, D, k, X, RC)
    b, _ = select(X[RC], u, u.size, total, 1.0 - SLACK, X[SCRATCH:])
    for i in range(u.size):
        X[RC, i] -= b
    return b


@kernel
def _certify(n, k, n_F, settled, u, total, error, M, X, Y, J):
    """(lb, ub, rounding) of the clipped d and q, in units of the spread."""
    lb = _feasible_d(k, u, total, settled, M, X, Y, J) - shortfall(X[RC], u, 0.0)
    _feasible_q(n_F, u, X, Y, J)
    ub = largest_row(M, n, X)
    return lb, ub, error + EPS * (16.0 + 4.0 * k + 0.25 * u.size)


@kernel
def _outward(centre, unit, low, high):
    """Bounds in the units of Z."""
    lb, ub = centre + unit * low, centre + unit * high
    return lb - EPS * abs(lb), ub + EPS * abs(ub)


@kernel
def _next_way(way, settled):
    """What follows an attempt, or NO_MORE.

    The answer of a perturbed game is the start for the true one (BACK); where its basis is singular
    or infeasible there, the perturbed answer has to do (AGAIN, for BACK wrote over it).
    """
    if way == WARM:
        return NO_MORE if settled else COLD
    if way == NOISY:
        return BACK if settled else NO_MORE
    if way == BACK:
        return NO_MORE if settled else AGAIN
    return NO_MORE


@kernel(inner=True)
def solve_game(Z, n, f, u, total, lam, k, M, X, Y, J, W):
    """Status, size k of the basis, lb, ub and pivots of the game of one state.

    Z (n or more, N) has rows of the n allowed actions and columns of the models with f > 0; f, u
    (N,) are weights, and the bounds of q; total = Σu; k the size of the basis in J to start from, 0
    for a cold start. M, X, Y, J, W are the work arrays of `s_simplex.GameWork`: J[ROWS, :k] and
    Y[D, 1:] hold the decision, X[Q] nature's weights, J[MODELS, :k] the basis's models.
    """
    finite, centre, unit, spread, size, error = build_game(Z, n, f, lam, M, Y)
    if not finite:
        return NOT_FINITE, 0, np.nan, np.nan, 0
    noise, pivots, way = NOISE * spread / unit if unit > 0.0 else 0.0, 0, WARM
    # One loop with one call, not a call per way: the simplex method is compiled where it is called.
    while True:
        k, settled, more = _run(way, n, k, u, total, noise, M, X, Y, J, W)
        pivots += more
        if way >= NOISY:
            build_game(Z, n, f, lam, M, Y)  # the true game again
        follows = _next_way(way, settled)
        if follows != NO_MORE:
            way = follows
            continue
        true_game = settled and way < NOISY
        low, high, slack = _certify(n, k, k, true_game, u, total, error, M, X, Y, J)
        # No solver could close what rounding leaves open.
        tol = max(GAP * max(spread, 1e-6 * size), 0.5 * unit * slack)
        if way > COLD or unit * (high - low) <= (tol if settled else 1e-3 * tol):
            break
        way = NOISY
    lb, ub = _outward(centre, unit, low - slack, high + slack)
    return (SOLVED if unit * (high - low) <= tol else UNSETTLED), k, lb, ub, pivots


@kernel
def certify_pair(Z, f, u, lam, d, q):
    """(lb, ub) that d (n,) and q (L,) prove for the game Z (n, L); both are mended in place."""
    n, L = Z.shape
    M, X, Y, J, _ = game_work(n, L)
    _, centre, unit, _, _, error = build_game(Z, n, f, lam, M, Y)
    for a in range(n):
        J[ROWS, a], Y[D, a + 1] = a, d[a]
    for i in range(L):
        X[SIDE, i] = -q[i] / u[i] if u[i] > 0.0 else 0.0
    low, high, slack = _certify(n, n, 0, False, u, u.sum(), error, M, X, Y, J)
    d[:] = Y[D, 1 : n + 1]
    q[:] = X[Q]
    return _outward(centre, unit, low - slack, high + slack)


class Games(NamedTuple):
    """Answers of S games, and the bases to start the next ones from."""

    lb: FloatArray  # (S,)
    ub: FloatArray  # (S,)
    d: FloatArray  # (S, A)
    q: FloatArray  # (S, N)
    status: NDArray[np.int8]  # (S,) SOLVED, UNSETTLED or NOT_FINITE
    pivots: NDArray[np.int64]  # (S,)
    K: NDArray[np.int64]  # (S, A)
    F: NDArray[np.int64]  # (S, A)
    k: NDArray[np.int64]  # (S,)


@kernel(entry=True)
def _all_games(Z, f, u, lam, allowed, live, games):
    A, L, total = Z.shape[1], live.size, u.sum()
    own = game_work(A, L), np.empty((A, L))
    M, X, Y, J, W = unowned(own[0])
    actions = np.empty(A, np.int64)
    Z, f, u, rows, games = unowned(Z), unowned(f), unowned(u), unowned(own[1]), unowned(games)
    for s in range(Z.shape[0]):
        n, k = np.int64(0), games.k[s]  # a literal 0 would compile the whole game a second time
        for a in range(A):
            if allowed[s, a]:
                actions[n] = a
                n += 1
        for i in range(k):
            J[ROWS, i], J[MODELS, i] = games.K[s, i], games.F[s, i]
        if n < A or Z.shape[2] > L:
            for a in range(n):
                for i in range(L):
                    rows[a, i] = Z[s, actions[a], live[i]]
        game = Z[s] if n == A and Z.shape[2] == L else rows
        games.status[s], k, games.lb[s], games.ub[s], games.pivots[s] = solve_game(
            game, n, f, u, total, lam, k, M, X, Y, J, W
        )
        games.k[s] = k
        for a in range(A):
            games.d[s, a] = 0.0
        for i in range(k):
            games.K[s, i], games.F[s, i] = J[ROWS, i], J[MODELS, i]
            games.d[s, actions[J[ROWS, i]]] = Y[D, i + 1]
        for i in range(L):
            games.q[s, live[i]] = X[Q, i]
    keep_alive(own)


def solve_games(
    Z: FloatArray,
    f: FloatArray,
    u: FloatArray,
    lam: float,
    allowed: NDArray[np.bool_] | None = None,
    start: Games | None = None,
) -> Games:
    """max_d min_ξ dᵀZξ for every state, on given values Z (sweeps fuse the games with Z).

    Z (n_states, n_actions, n_models); f, u (n_models,) weights of the models, and the bounds of q
    (`SoftRobust.q_bounds`); `start` answers of similar games (same f > 0 and allowed), whose bases
    are the warm start.

    Examples
    --------
    >>> Z = np.array([[[1.0, 0.0], [0.0, 1.0]]])
    >>> games = solve_games(Z, np.full(2, 0.5), np.ones(2), lam=1.0)
    >>> games.d[0].round(12).tolist(), float(games.lb[0].round(12))
    ([0.5, 0.5], 0.5)
    """
    Z = np.ascontiguousarray(Z, dtype=np.float64)
    S, A, N = Z.shape
    live = np.flatnonzero(f > 0)
    K, F, k = (
        (np.zeros((S, A), np.int64), np.zeros((S, A), np.int64), np.zeros(S, np.int64))
        if start is None
        else (start.K.copy(), start.F.copy(), start.k.copy())
    )
    games = Games(
        np.empty(S), np.empty(S), np.empty((S, A)), np.zeros((S, N)),
        np.zeros(S, np.int8), np.zeros(S, np.int64), K, F, k,
    )  # fmt: skip
    mask = np.ones((S, A), bool) if allowed is None else np.ascontiguousarray(allowed)
    _all_games(Z, f[live], u[live], float(lam), mask, live, games)
    return games
