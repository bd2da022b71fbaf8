"""Newton's step of a rectangular solve: v + x with (I − γP_d)x = Tv − v, for mixed rows P.

Solving for the correction and not for the value makes every step a refinement: an error in P_d or
in the solution shrinks the next residual less, and never enters the answer: a sweep certifies it.
"""

from __future__ import annotations

from copy import copy
from typing import TYPE_CHECKING, Any, final
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from softrobust._core.arrays import FloatArray, refuse_if_too_large
from softrobust.errors import InputError, SolverError
from softrobust.kernels.ball_sweeps import mean_rows
from softrobust.kernels.evaluate import fill_policy_rows, lu_inplace, lu_solve, policy_matrix
from softrobust.kernels.expected import PARALLEL_READ, centred, rounding
from softrobust.kernels.s_game import NOT_FINITE, UNSETTLED, certify_pair
from softrobust.kernels.sweeps import (  # fmt: skip
    S_GAME,
    SA_GAME,
    Memory,
    Rectangle,
    Update,
    batch_rows,
    record_pair,
    rows_work,
    sweep,
)
from softrobust.kernels.tail import SLACK
from softrobust.objective import soft_robust

if TYPE_CHECKING:
    from softrobust.models.model_set import ModelSet
    from softrobust.problem import Problem


KERNEL_STATES = 128  # above this LAPACK's blocked factorisation wins
DENSE_STATES = 300  # up to here, or where rows are full, a dense factorisation
FILL = 0.1  # rows fuller than this count as full


def is_dense(n_states: int, nnz: int, n_actions: int) -> bool:
    """Whether a step factors a dense matrix."""
    return n_states <= DENSE_STATES or nnz > FILL * n_states**2 * n_actions


def newton_step(
    indptr: NDArray[np.int64],
    next_states: NDArray[np.int32],
    mixed: FloatArray,
    d: FloatArray,
    gamma: float,
    v: FloatArray,
    residual: FloatArray,
) -> FloatArray:
    """Return v + (I − γP_d)⁻¹·residual.

    Parameters
    ----------
    indptr, next_states, mixed
        One transition row per pair (s, a), in the models' own lists; those with d > 0 are read.
    d : (n_states, n_actions)
    v, residual : (n_states,)

    Returns
    -------
    (n_states,)
    """
    S = v.size
    if is_dense(S, next_states.size, d.shape[1]):
        M = np.empty((S, S))
        policy_matrix(indptr, next_states, mixed, 1, 0, d, M)
        M *= -gamma
        M.flat[:: S + 1] += 1.0
        if S > KERNEL_STATES:
            return np.asarray(v + np.linalg.solve(M, residual))
        lu_inplace(M)
        x = residual.copy()
        lu_solve(M, x)
        return v + x
    return v + _sparse(_rows(indptr, next_states, mixed, d), gamma, residual)


def _rows(
    indptr: NDArray[np.int64], next_states: NDArray[np.int32], mixed: FloatArray, d: FloatArray
) -> Any:
    import scipy.sparse as sp

    S = d.shape[0]
    widths = np.diff(indptr)
    taken = d.reshape(-1) > 0
    data = np.empty(int(widths[taken].sum()))
    fill_policy_rows(indptr, mixed, 1, 0, d, data)
    columns = next_states[np.repeat(taken, widths)]
    starts = np.concatenate([[0], np.cumsum(np.where(taken, widths, 0).reshape(S, -1).sum(axis=1))])
    return sp.csr_array((data, columns, starts), shape=(S, S))


def _sparse(P: Any, gamma: float, residual: FloatArray) -> FloatArray:
    """Krylov on what is left after the constant part, which a shift solves exactly.

    Where it does not converge (slow mixing), a direct factorisation, cheap for narrow bands.
    """
    import scipy.sparse as sp
    from scipy.sparse.linalg import gmres, splu

    S = residual.size
    M = sp.eye_array(S, format="csr") - gamma * P
    shift = 0.5 * float(residual.max() + residual.min()) / (1 - gamma)
    rest = residual - (1 - gamma) * shift
    x, info = gmres(M, rest, rtol=1e-5, restart=30, maxiter=4)
    if info == 0:
        return np.asarray(x + shift)
    return np.asarray(splu(M.tocsc()).solve(residual))


# --------------------------------------------------------------------------------------------------
# The S game as a linear program, for the rare state that the dual simplex kernel left unsettled.
#
# The LP's answer is only a proposal: d and q are made feasible and certified by the same bounds as
# any other, so a sloppy tolerance widens the interval and never breaks it. If the proposal is no
# better than what the kernel had, the kernel's stays.


def game_lp(
    Z: FloatArray, f: FloatArray, u: FloatArray, lam: float
) -> tuple[FloatArray, FloatArray]:
    """(d, q) of max_d min_q dᵀMq by HiGHS at its tightest tolerances; Z (n, N)."""
    from scipy.optimize import linprog

    n, N = Z.shape
    centre, unit = 0.5 * (Z.min() + Z.max()), max(float(np.ptp(Z)), np.finfo(float).tiny)
    M = (Z - centre) / unit
    M = (1 - lam) * (M @ f)[:, None] + lam * M
    # min t over (q, t): Mq − t ≤ 0, Σq = 1, 0 ≤ q ≤ u; d are the multipliers of the rows.
    answer = linprog(
        np.r_[np.zeros(N), 1.0],
        A_ub=np.c_[M, -np.ones(n)],
        b_ub=np.zeros(n),
        A_eq=np.r_[np.ones(N), 0.0][None],
        b_eq=[1.0],
        bounds=[*((0.0, float(x)) for x in u), (None, None)],
        method="highs",
        options={"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10},
    )
    if answer.x is None:
        raise SolverError(f"The linear program of a state's game failed: {answer.message}")
    return np.maximum(-answer.ineqlin.marginals, 0.0), np.clip(answer.x[:N], 0.0, u)


def settle(g: Rectangle, v: FloatArray, centre: float, s: int, out: Update) -> None:
    """Improve state s of `out` by the LP where that narrows its bounds."""
    work = rows_work(g, 1)
    batch_rows(g, v, centre, s, s + 1, out.d, False, work)
    n, Z, actions, L = int(work.n[0]), work.Z[0], work.actions[0], g.live.size
    d, q = game_lp(Z[:n], g.f, g.u, g.lam)
    lb, ub = certify_pair(Z[:n], g.f, g.u, g.lam, d, q)
    if ub - lb < out.ub[s] - out.lb[s]:
        out.lb[s], out.ub[s] = lb, ub
        out.d[s] = 0.0
        out.d[s, actions[:n]] = d
        for i in np.flatnonzero(d > 0):
            record_pair(g, s, int(actions[i]), q, np.empty(L, np.int64), out)


# --------------------------------------------------------------------------------------------------
# Sweeps over the states of one problem, with bounds on the fixed point they lead to (section 4).
#
# Each rectangular operator T (see `kernels.sweeps`) is monotone, and T(v + c) lies between Tv + γσc
# for the least and the largest row sum σ. So from lb ≤ Tv ≤ ub, m = min(lb − v) and w = max(ub −
# v),
#
#     lb + γσ·m/(1 − γσ)  ≤  v*  ≤  ub + γσ·w/(1 − γσ)
#
# with the σ that makes each side safe (MacQueen's bounds where σ = 1). lb and ub hold the rounding
# of the games and of Z, so the interval is a certificate in floating point, and its half-width,
# relative to max|v|, the achieved tolerance. The fixed point is that of the models as stored; with
# float32 storage, of the rounded models.
#
# The step between sweeps is Newton's, v + (I − γP_{d,ξ})⁻¹(Tv − v), with the rows mixed in the
# sweep.

# The mean model and the row sums take a pass of their own: once per set of models.
_MEANS: WeakKeyDictionary[ModelSet, tuple[FloatArray, float]] = WeakKeyDictionary()


def working_bytes(models: ModelSet, float32: bool = False) -> float:
    """What a solve allocates besides the models and R, in bytes."""
    S, pairs, nnz = models.n_states, models.n_states * models.n_actions, models.next_states.size
    square = 16.0 * S**2 if is_dense(S, nnz, models.n_actions) else 48.0 * nnz / models.n_actions
    return 16.0 * nnz + 40.0 * pairs + square + (4.0 * models.prob.size if float32 else 0.0)


def reward_range(
    R: FloatArray, allowed: NDArray[np.bool_], live: NDArray[np.int64]
) -> tuple[float, float]:
    """(least, largest) reward that a sweep can meet: allowed pairs, models with f > 0."""
    if allowed.all() and live.size == R.shape[2]:
        return float(R.min()), float(R.max())
    parts = [R[allowed[:, a], a][:, live] for a in range(R.shape[1]) if allowed[:, a].any()]
    return min(float(x.min()) for x in parts), max(float(x.max()) for x in parts)


@final
class Sweeps:
    """The state of one rectangular solve: what sweeps remember, and what they have read.

    Parameters
    ----------
    problem : Problem
    float32 : bool
        Read the probabilities from a float32 copy, half as many bytes, with float64 sums.
    """

    def __init__(self, problem: Problem, float32: bool = False) -> None:
        m, S, A = problem.models, problem.n_states, problem.n_actions
        refuse_if_too_large(
            working_bytes(m, float32),
            "The working memory of a rectangular solve (mixed and mean rows, bases"
            + (", a float32 copy of the models)" if float32 else ")"),
            "Use fewer states or next states" + (", or float32=False." if float32 else "."),
        )
        self.models, self.gamma = m, problem.gamma
        self.prob = m.prob.astype(np.float32) if float32 else m.prob
        self.prob.flags.writeable = False
        self.float32 = float32
        self.threads = m.prob.size > PARALLEL_READ
        self.width = int(np.diff(m.indptr).max(initial=0))
        self.live = np.flatnonzero(m.f > 0)
        low, high = reward_range(problem.R, problem.allowed, self.live)
        self.R_max, self.R_span = max(abs(low), abs(high)), high - low
        self.pair_size = np.diff(m.indptr).reshape(S, A) * m.n_models
        self.size = max(m.prob.size, 1)
        self.memory = Memory(
            np.zeros((S, A), np.int32), np.zeros((S, A), np.int32), np.zeros(S, np.int32)
        )
        self.out = Update(
            np.zeros(S), np.zeros(S), np.zeros((S, A)), np.zeros(S, np.int8),
            np.zeros(S, np.int32), np.zeros(S, np.int64), np.zeros(m.next_states.size),
            np.zeros((0, 0)),
        )  # fmt: skip
        self.reset(problem)

    def reset(self, problem: Problem) -> None:
        """Go on with another λ and α of the same problem; memory stays, a good start nearby."""
        self.problem, self.sweeps, self.inner_sweeps = problem, 0, 0
        self.passes, self.pivots, self.fallbacks = 0.0, 0, 0
        m, p = self.models, problem
        objective = soft_robust(problem.objective, "A rectangular return or solver")
        u = objective.q_bounds(m.f)[self.live]
        self.rect = Rectangle(
            self.prob, m.indptr, m.next_states, p.R, p.allowed, self.live, m.f[self.live], u,
            float(u.sum()), objective.lam, self.gamma, self.float32, self.means()[0],
        )  # fmt: skip

    def lane(self, memory: Memory, out: Update) -> Sweeps:
        """The same problem with a memory and answers of its own."""
        other = copy(self)
        other.memory, other.out = memory, out
        return other

    # -- sweeps ----------------------------------------------------------------------------------

    def run(self, kind: int, v: FloatArray) -> None:
        """One sweep at v into `out`: lb, ub and, for games, the decision d."""
        shifted, centre, _ = centred(self.prob, v)
        sweep(
            kind, self.rect, shifted, centre, self.size_of(v), self.memory, self.out, self.threads
        )
        self.conclude(kind, v, shifted, centre)

    def size_of(self, v: FloatArray) -> float:
        """A bound of |Z| at v."""
        return self.R_max + self.gamma * float(np.abs(v).max())

    def conclude(
        self, kind: int, v: FloatArray, shifted: FloatArray, centre: float, share: float = 1.0
    ) -> None:
        """Mend and widen the answers of a sweep, and count what it read.

        shifted, centre are from `expected.centred`; `share` of the pass over the models counts.
        """
        if self.out.status.any():
            self._mend(shifted, centre)
        slack = rounding(self.width, v, self.R_max, self.float32, self.gamma)
        np.subtract(self.out.lb, slack, out=self.out.lb)
        # A tail's boundary model is chosen with SLACK of mass to spare: CVaR may be that share of
        # the values' span higher.
        edge = SLACK * self.rect.lam * (self.R_span + self.gamma * float(np.ptp(v)))
        np.add(self.out.ub, slack + edge, out=self.out.ub)
        self._count(kind, share)

    def _mend(self, shifted: FloatArray, centre: float) -> None:
        status = self.out.status
        lost = np.flatnonzero(status == NOT_FINITE)
        if lost.size:
            raise InputError(
                "Values must be finite: NaN or infinity came up in state "
                f"'{self.models.states[int(lost[0])]}' ({lost.size} such states). Check the "
                "rewards for NaN, infinity or numbers near the largest float."
            )
        for s in np.flatnonzero(status == UNSETTLED):
            settle(self.rect, shifted, centre, int(s), self.out)
            self.fallbacks += 1

    def _count(self, kind: int, share: float) -> None:
        game = kind in (S_GAME, SA_GAME)
        # A game's sweep reads every allowed row, nature's the taken ones; mixed rows read the
        # models of the tail once more.
        pairs = self.problem.allowed if game else self.out.d > 0
        read = share * self.pair_size[pairs].sum() + self.out.read.sum()
        self.passes += float(read) / self.size
        self.sweeps += game
        self.inner_sweeps += not game
        self.pivots += int(self.out.pivots.sum())

    @property
    def value(self) -> FloatArray:
        """Tv as the middle of its bounds."""
        return 0.5 * (self.out.lb + self.out.ub)

    def step(self, v: FloatArray) -> FloatArray:
        """Newton's step from v with the decision and worst case of the last sweep."""
        m = self.models
        return newton_step(
            m.indptr, m.next_states, self.out.mixed, self.out.d, self.gamma, v, self.value - v
        )

    # -- bounds ----------------------------------------------------------------------------------

    def bounds(self, v: FloatArray) -> tuple[FloatArray, FloatArray]:
        """(lower, upper) around the fixed point of the operator swept last, from its sweep at v."""
        _, deviation = self.means()
        deviation = 0.0 if self.float32 else deviation
        low, high = float((self.out.lb - v).min()), float((self.out.ub - v).max())
        few, many = self.gamma * (1 - deviation), self.gamma * (1 + deviation)
        if many >= 1:
            raise InputError(
                f"gamma = {self.gamma:g} times the largest row sum (1 + {deviation:.1e}) "
                "reaches 1: values are not finite. Normalise the rows, or lower gamma."
            )
        # A positive shift is safe with the small row sums below, with the large ones above.
        below = low * (few / (1 - few) if low > 0 else many / (1 - many))
        above = high * (many / (1 - many) if high > 0 else few / (1 - few))
        return self.out.lb + below, self.out.ub + above

    def means(self) -> tuple[FloatArray, float]:
        """Rows of the mean model (nnz,), and the largest |row sum − 1|."""
        hit = _MEANS.get(self.models)
        if hit is None:
            m = self.models
            rows = np.zeros(m.next_states.size)
            worst = mean_rows(m.prob, m.indptr, m.f, rows, self.threads)
            # The sum itself is rounded.
            hit = rows, worst + float(np.finfo(float).eps) * (self.width + 2)
            _MEANS[m] = hit
            self.passes += 1
        return hit
