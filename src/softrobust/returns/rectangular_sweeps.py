"""Sweeps over the states of one problem, with bounds on the fixed point they lead to (section 4).

Each rectangular operator T (see `kernels.sweeps`) is monotone, and T(v + c) lies between Tv + γσc
for the least and the largest row sum σ. So from lb ≤ Tv ≤ ub, m = min(lb − v) and w = max(ub − v),

    lb + γσ·m/(1 − γσ)  ≤  v*  ≤  ub + γσ·w/(1 − γσ)

with the σ that makes each side safe (MacQueen's bounds where σ = 1). lb and ub hold the rounding of
the games and of Z, so the interval is a certificate in floating point, and its half-width, relative
to max|v|, the achieved tolerance. The fixed point is that of the models as stored; with float32
storage, of the rounded models.

The step between sweeps is Newton's, v + (I − γP_{d,ξ})⁻¹(Tv − v), with the rows mixed in the sweep.
Solving for the correction and not for the value makes every step a refinement: an error in P or in
the solution shrinks the next residual less, and never enters the answer, which a sweep certifies.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass
from typing import Any, final
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from softrobust._core.arrays import FloatArray, refuse_if_too_large
from softrobust.errors import InputError, SolverError
from softrobust.kernels import evaluate, expected, sweeps
from softrobust.kernels.group import Group, sweep_group
from softrobust.kernels.s_game import NOT_FINITE, UNSETTLED, certify_pair
from softrobust.kernels.sweeps import SweepResult, WarmStart
from softrobust.kernels.tail import SLACK
from softrobust.models.model_set import ModelSet
from softrobust.objective import soft_robust
from softrobust.problem import Problem

LAPACK_STATES = 128  # above this LAPACK's blocked factorisation wins
DENSE_STATES = 300  # up to here, or where rows are full, a dense factorisation
FILL = 0.1  # rows fuller than this count as full
# The mean model and the row sums take a pass of their own: once per set of models.
_MEANS: WeakKeyDictionary[ModelSet, tuple[FloatArray, float]] = WeakKeyDictionary()


@final
@dataclass(frozen=True, slots=True, eq=False)
class Bracket:
    """lower ≤ v* ≤ upper, each (n_states,), and the decision that came with them.

    `unit` is 0, or the largest |reward| where v* is 0 but for rounding, and its size no measure.
    """

    lower: FloatArray
    upper: FloatArray
    decision: Any = None
    unit: float = 0.0

    @property
    def v(self) -> FloatArray:
        """The middle of the bounds."""
        return 0.5 * (self.lower + self.upper)

    @property
    def width(self) -> float:
        """The largest difference of the bounds."""
        return float((self.upper - self.lower).max())

    @property
    def tol(self) -> float:
        """Half the width, relative to max|v|, or to `unit` if that is larger."""
        size = max(float(np.abs(self.v).max()), self.unit)
        return 0.5 * self.width / max(size, float(np.finfo(float).tiny))


def bracket(
    v: FloatArray, lb: FloatArray, ub: FloatArray, gamma: float, deviation: float, decision: Any
) -> Bracket:
    """Bounds of the fixed point from lb ≤ Tv ≤ ub; row sums of T miss 1 by `deviation` at most."""
    few, many = gamma * (1 - deviation), gamma * (1 + deviation)
    if many >= 1:
        raise InputError(
            f"gamma = {gamma:g} times the largest row sum (1 + {deviation:.1e}) reaches 1: values "
            "are not finite. Normalise the rows, or lower gamma."
        )
    low, high = float((lb - v).min()), float((ub - v).max())
    # A positive shift is safe with the small row sums below, with the large ones above.
    below = low * (few / (1 - few) if low > 0 else many / (1 - many))
    above = high * (many / (1 - many) if high > 0 else few / (1 - few))
    return Bracket(lb + below, ub + above, decision)


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
    """(n_states,): v + (I − γP_d)⁻¹·residual; v, residual (n_states,), d (n_states, n_actions).

    `mixed` has one transition row per pair (s, a), in the models' own lists; those with d > 0 are
    read.
    """
    S = v.size
    if is_dense(S, next_states.size, d.shape[1]):
        M = np.empty((S, S))
        evaluate.policy_matrix(indptr, next_states, mixed, 1, 0, d, M)
        M *= -gamma
        M.flat[:: S + 1] += 1.0
        if S > LAPACK_STATES:
            return np.asarray(v + np.linalg.solve(M, residual))
        evaluate.lu_inplace(M)
        x = residual.copy()
        evaluate.lu_solve(M, x)
        return v + x
    rows, columns = evaluate.policy_sparsity(indptr, next_states, d)
    data = np.empty(columns.size)
    evaluate.fill_policy_rows(indptr, mixed, 1, 0, d, data)
    return v + _sparse_correction(rows, columns, data, gamma, residual)


def _sparse_correction(
    rows: NDArray[np.int64],
    columns: NDArray[np.int32],
    data: FloatArray,
    gamma: float,
    residual: FloatArray,
) -> FloatArray:
    """Krylov after a shift for the constant part; where states mix slowly, a factorisation."""
    import scipy.sparse as sp
    from scipy.sparse.linalg import gmres, splu

    S = residual.size
    M = sp.eye_array(S, format="csr") - gamma * sp.csr_array((data, columns, rows), shape=(S, S))
    shift = 0.5 * float(residual.max() + residual.min()) / (1 - gamma)
    rest = residual - (1 - gamma) * shift
    x, info = gmres(M, rest, rtol=1e-5, restart=30, maxiter=4)
    if info == 0:
        return np.asarray(x + shift)
    return np.asarray(splu(M.tocsc()).solve(residual))


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


def improve_by_lp(
    g: sweeps.Rectangle, v: FloatArray, centre: float, s: int, out: SweepResult
) -> None:
    """Solve the S game of a state that the dual simplex kernel left unsettled as a linear program.

    The LP's answer is only a proposal: d and q are made feasible and certified by the same bounds
    as any other, so a sloppy tolerance widens the interval and never breaks it. What the kernel had
    stays, unless the proposal narrows it.
    """
    Z, actions = sweeps.state_rows(g, v, centre, s, out.d)
    d, q = game_lp(Z, g.f, g.u, g.lam)
    lb, ub = certify_pair(Z, g.f, g.u, g.lam, d, q)
    if ub - lb < out.ub[s] - out.lb[s]:
        out.lb[s], out.ub[s] = lb, ub
        out.d[s] = 0.0
        out.d[s, actions] = d
        sweeps.record_state(g, s, actions, d, q, out)


def working_bytes(models: ModelSet, float32: bool = False) -> float:
    """What a solve allocates besides the models and R, in bytes."""
    S, pairs, nnz = models.n_states, models.n_states * models.n_actions, models.next_states.size
    square = 16.0 * S**2 if is_dense(S, nnz, models.n_actions) else 48.0 * nnz / models.n_actions
    return 16.0 * nnz + 40.0 * pairs + square + (4.0 * models.prob.size if float32 else 0.0)


def reward_range(
    R: FloatArray, allowed: NDArray[np.bool_], live: NDArray[np.int64]
) -> tuple[float, FloatArray]:
    """The largest |reward| that a sweep can meet (allowed pairs, models with f > 0).

    Also (n_states,) how far the models' rewards of one allowed pair of a state lie apart at most.
    """
    largest, span = 0.0, np.zeros(R.shape[0])
    for a in range(R.shape[1]):
        at = np.flatnonzero(allowed[:, a])
        if at.size:
            part = R[at, a] if live.size == R.shape[2] else R[at, a][:, live]
            low, high = part.min(axis=1), part.max(axis=1)
            largest = max(largest, float(high.max()), float(-low.min()))
            span[at] = np.maximum(span[at], high - low)
    return largest, span


@final
class Sweeps:
    """The state of one rectangular solve: what sweeps remember, and what they have read.

    With `float32` they read the probabilities from a copy of half as many bytes, with float64 sums.
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
        self.threads = m.prob.size > expected.PARALLEL_READ
        self.width = int(np.diff(m.indptr).max(initial=0))
        self.live = np.flatnonzero(m.f > 0)
        self.R_max, self.R_span = reward_range(problem.R, problem.allowed, self.live)
        self.pair_size = np.diff(m.indptr).reshape(S, A) * m.n_models
        self.size = max(m.prob.size, 1)
        self.warm, self.out = _answers((), m)
        self.reset(problem)

    def reset(self, problem: Problem) -> None:
        """Go on with another λ and α of the same problem; the warm start stays, good nearby."""
        self.problem, self.sweeps, self.inner_sweeps = problem, 0, 0
        self.passes, self.pivots, self.fallbacks = 0.0, 0, 0
        m, p = self.models, problem
        objective = soft_robust(problem.objective, "A rectangular return or solver")
        u = objective.q_bounds(m.f)[self.live]
        self.rect = sweeps.Rectangle(
            self.prob, m.indptr, m.next_states, p.R, p.allowed, self.live, m.f[self.live], u,
            float(u.sum()), objective.lam, self.gamma, self.float32, self.means()[0],
        )  # fmt: skip

    def beside(self, warm: WarmStart, out: SweepResult) -> Sweeps:
        """The same problem with a warm start and answers of its own."""
        other = copy(self)
        other.warm, other.out = warm, out
        return other

    def run(self, kind: int, v: FloatArray) -> None:
        """One sweep at v into `out`: lb, ub and, for games, the decision d."""
        shifted, centre, _ = expected.centred(self.prob, v)
        size = self.size_of(v)
        sweeps.sweep_states(
            kind, self.rect, shifted, centre, size, self.warm, self.out, self.threads
        )
        self.conclude(kind, v, shifted, centre)

    def size_of(self, v: FloatArray) -> float:
        """A bound of |Z| at v."""
        return self.R_max + self.gamma * float(np.abs(v).max())

    def conclude(
        self, kind: int, v: FloatArray, shifted: FloatArray, centre: float, share: float = 1.0
    ) -> None:
        """Finish the answers of a sweep, widen them, and count what it read.

        shifted, centre are from `expected.centred`; `share` of the pass over the models counts.
        """
        if self.out.status.any():
            self._finish_games(shifted, centre)
        slack = expected.expected_rounding(self.width, v, self.R_max, self.float32, self.gamma)
        np.subtract(self.out.lb, slack, out=self.out.lb)
        # A tail's boundary model is chosen with SLACK of mass to spare: CVaR may be that share
        # higher of how far the values of a choice lie apart over the models. The worst model alone
        # (u = 1) has none to spare.
        spare = SLACK * self.rect.lam if float(self.rect.u.min()) < 1 else 0.0
        edge = spare * (self.R_span + self.gamma * float(np.ptp(v)))
        np.add(self.out.ub, slack + edge, out=self.out.ub)
        game = kind in (sweeps.S_GAME, sweeps.SA_GAME)
        # A game's sweep reads every allowed row, nature's the taken ones; mixed rows read the
        # models of the tail once more.
        pairs = self.problem.allowed if game else self.out.d > 0
        read = share * self.pair_size[pairs].sum() + self.out.read.sum()
        self.passes += float(read) / self.size
        self.sweeps += game
        self.inner_sweeps += not game
        self.pivots += int(self.out.pivots.sum())

    def _finish_games(self, shifted: FloatArray, centre: float) -> None:
        status = self.out.status
        lost = np.flatnonzero(status == NOT_FINITE)
        if lost.size:
            raise InputError(
                "Values must be finite: NaN or infinity came up in state "
                f"'{self.models.states[int(lost[0])]}' ({lost.size} such states). Check the "
                "rewards for NaN, infinity or numbers near the largest float."
            )
        for s in np.flatnonzero(status == UNSETTLED):
            improve_by_lp(self.rect, shifted, centre, int(s), self.out)
            self.fallbacks += 1

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

    def bounds(self, v: FloatArray) -> Bracket:
        """Around the fixed point of the operator swept last, from its sweep at v."""
        deviation = 0.0 if self.float32 else self.means()[1]
        return bracket(v, self.out.lb, self.out.ub, self.gamma, deviation, self.out.d)

    def means(self) -> tuple[FloatArray, float]:
        """Rows of the mean model (nnz,), and the largest |row sum − 1|."""
        hit = _MEANS.get(self.models)
        if hit is None:
            m = self.models
            rows = np.zeros(m.next_states.size)
            worst = expected.mean_rows(m.prob, m.indptr, m.f, rows, self.threads)
            # The sum itself is rounded.
            hit = rows, worst + float(np.finfo(float).eps) * (self.width + 2)
            _MEANS[m] = hit
            self.passes += 1
        return hit


def _answers(slots: tuple[int, ...], m: ModelSet) -> tuple[WarmStart, SweepResult]:
    """Room for the answers of one sweep, or of several stacked along a first axis."""
    S, A = m.n_states, m.n_actions

    def room(*shape: int, kind: type[Any] = np.float64) -> NDArray[Any]:
        return np.zeros((*slots, *shape), kind)

    warm = WarmStart(room(S, A, kind=np.int32), room(S, A, kind=np.int32), room(S, kind=np.int32))
    return warm, SweepResult(
        room(S), room(S), room(S, A), room(S, kind=np.int8), room(S, kind=np.int32),
        room(S, kind=np.int64), room(m.next_states.size),
    )  # fmt: skip


def slot_bytes(models: ModelSet) -> float:
    """What one of several points swept together allocates, in bytes."""
    S, A = models.n_states, models.n_actions
    return 8.0 * models.next_states.size + 16.0 * S * A + 40.0 * S


@final
class SweepBatch:
    """Sweeps at several points (λ, α) that can run together: one read of the models serves all.

    Each is a `Sweeps` of its own, with its own (λ, α), bases and answers, laid out side by side so
    that one kernel fills them; its single sweeps, bounds and Newton steps are as any other's. They
    share the models and rewards of `first`.
    """

    def __init__(self, first: Sweeps, count: int) -> None:
        if count == 1:
            self.sweeps = [first]
            return
        refuse_if_too_large(
            count * slot_bytes(first.models),
            f"The working memory of {count} points solved together (mixed rows, bases)",
            "Solve fewer points together.",
        )
        self.warm, self.out = _answers((count,), first.models)
        self.sweeps = [
            first.beside(
                WarmStart._make(x[j] for x in self.warm),
                SweepResult._make(x[j] for x in self.out),
            )
            for j in range(count)
        ]

    def run(self, kind: int, slots: Sequence[int], values: Sequence[FloatArray]) -> None:
        """One sweep of each that is listed, at its v; `kind` is S_GAME or SA_GAME."""
        members = [self.sweeps[j] for j in slots]
        one = members[0]
        if len(members) == 1:
            one.run(kind, values[0])
            return
        shifted = [expected.centred(one.prob, v) for v in values]
        stacks: tuple[Any, ...] = (*self.warm, *self.out)
        copies = -len(members) % expected.LANES  # to fill up vectors
        V = np.stack([x for x, _, _ in shifted] + [shifted[0][0]] * copies)
        centres = np.array([c for _, c, _ in shifted] + [shifted[0][1]] * copies)
        group = Group(
            np.array(slots, dtype=np.int64), V, one.gamma * centres,
            np.array([x.size_of(v) for x, v in zip(members, values, strict=True)]),
            np.array([x.rect.lam for x in members]), np.stack([x.rect.u for x in members]),
            np.array([x.rect.total for x in members]), *stacks,
        )  # fmt: skip
        sweep_group(kind, one.rect, group, one.threads)
        for x, v, (flat, centre, _) in zip(members, values, shifted, strict=True):
            x.conclude(kind, v, flat, centre, share=1.0 / len(members))
