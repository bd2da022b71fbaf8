"""RSVF: robust against sets made for sensible value functions (Petrik and Russel 2019).

A set need not contain P*; it must only be no better than P* along the value functions that come up.
With δ = 1 − α and, for a value function v and a pair (s, a),

    K(v) = {p ∈ Δ : pᵀz ≤ λ·VaR^{1−δ/(SA)}[P̂ᵀz] + (1 − λ)·p̄ᵀz},     z = r_{s,a} + γv,

a ball that meets K(v) for the v that solves its own robust MDP gives, at λ = 1, a lower bound of
the true return with posterior probability at least α. λ moves the thresholds towards the mean row
p̄, and at λ = 0 the method is nominal; shrinking the balls instead would do nothing, since the sets
mostly have a point in common and ψ = 0. So, from V = {v₀} (v₀ nominal):

1. centre θ and radius ψ of every pair: min_θ max_{v ∈ V} dist₁(θ, K(v)) (`centre`);
2. v_k solves the robust MDP with the L1 balls (θ, ψ);
3. stop if every ball meets K(v_k), else V ← V ∪ {v_k}.

A pair whose ball meets K(v_k) keeps it: it is still smallest. Where rewards differ by model a
threshold can lie below all of z; K is then the worst next state (counted in the stats).

`RSVFSimple` is the form that its authors' evaluator uses, a quantile mixed with the mean:

    v(s) = max_a λ·VaR^{1−δ/(SA)}[P̂^ω_{s,a}ᵀ(r + γv)] + (1 − λ)·mean

At λ = 1 the promise p₀ᵀv is a lower bound of the true return with posterior probability at least α
if the quantile is the posterior's; that takes N ≥ SA/δ draws (`draws`). The mean is that of the
problem's models, so that λ = 0 is nominal.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, NamedTuple, final

import numpy as np

from softrobust._core.arrays import FloatArray, IntArray
from softrobust._core.limits import Deadline
from softrobust._core.settings import Count, NotNegative
from softrobust.errors import InputError, SolverError
from softrobust.kernels.balls import l1_reach, meets_all, reach_sweep
from softrobust.kernels.expected import expected_values
from softrobust.models.model_set import ModelSet
from softrobust.problem import Problem
from softrobust.solvers.base import Solution, Status
from softrobust.solvers.baselines.ball_robust import (
    BallOperator,
    PairRows,
    Support,
    model_keys,
    pair_rows,
    reached_keys,
)
from softrobust.solvers.baselines.draws import (
    KEPT_BYTES,
    DrawnSample,
    Draws,
    UpperTail,
    resolution,
    tail_mass,
)
from softrobust.solvers.baselines.nominal import nominal_solution
from softrobust.solvers.baselines.var_bellman import QuantileOperator
from softrobust.solvers.rectangular.fixed_point import Iterated, nominal_policy

INSIDE = 1e-12  # of the spread of z: a point this near counts as in the set


@final
@dataclass(frozen=True, slots=True, eq=False)
class RSVF(Iterated):
    """Robust against the smallest L1 balls that meet the sets of the value functions that came up.

    Parameters
    ----------
    draws : ModelSet or PosteriorDraws, optional
        What VaR is taken of; the problem's own models by default. One pass per value function.
    max_sets : int
        Value functions at most; then the status is `iteration_limit`.
    meet : float
        A ball meets a set from which it is no farther than this (L1, of at most 2).
    support : "models" or "all"
        Where nature may put mass (see `pair_rows`).
    tol, time_limit, max_rounds
        As in `Iterated`, for each robust MDP; the time limit is for all of them together.
    """

    draws: Draws | None = None
    max_sets: Count = 50
    meet: NotNegative = 1e-6
    support: Support = "models"
    name: ClassVar[str] = "rsvf"

    def solve(self, problem: Problem) -> Solution:
        """Grow the list of value functions until the balls meet all their sets."""
        deadline = Deadline(self.time_limit)
        tail, wanted, _ = tail_mass(problem)
        sample = DrawnSample(problem, self.draws, wanted)
        v, decision = nominal_policy(problem)
        sets = _Sets(problem, sample, tail, self.support, v)
        stats = resolution("RSVF", sample, tail, wanted, warn=True)
        while True:
            operator = BallOperator(problem, replace(sets.rows, p=sets.theta.copy()), sets.psi)
            found, status = self.search(operator, v, decision, deadline)
            v, decision = found.v, found.decision
            if status is Status.TIME_LIMIT:
                break
            cut = sets.cut(v)
            if (cut.away <= sets.psi + self.meet).all():
                break
            if deadline.passed or len(sets.cuts) >= self.max_sets:
                status = Status.TIME_LIMIT if deadline.passed else Status.ITERATION_LIMIT
                break
            sets.add(cut, self.meet)
        return self.solution(problem, operator, deadline, stats | sets.stats(), (found, status))


@final
class _Cut(NamedTuple):
    """The sets K(v) of one v, and how far the centres are from them."""

    z: FloatArray  # (nnz,)
    levels: FloatArray  # (S·A,)
    away: FloatArray  # (S·A,) L1 distances
    nearest: FloatArray  # (nnz,) the points of K(v) nearest to the centres


@final
class _Sets:
    """The sets K(v) of all pairs, and the smallest balls that meet them; v is the first."""

    def __init__(
        self, problem: Problem, sample: DrawnSample, tail: float, support: Support, v: FloatArray
    ) -> None:
        self.problem, self.sample, self.tail = problem, sample, tail
        self.programs = self.lifted = 0
        more: list[IntArray] = []
        levels = self._thresholds(v, more)
        self.rows: PairRows = pair_rows(problem, support=support, more=np.concatenate(more))
        self.theta = self.rows.p
        self.psi = np.zeros(self.rows.live.size)
        first = self._cut(v, levels)
        self.theta = first.nearest  # one set: its point nearest to the mean row
        self.cuts = [first]

    def _thresholds(self, v: FloatArray, more: list[IntArray] | None = None) -> FloatArray:
        """VaR^{1−δ/(SA)} of P̂ᵀz for every pair, (S·A,); keys that draws reach go to `more`."""
        p = self.problem
        below = UpperTail(p.allowed.size, self.tail, self.sample.total, lower_side=True)
        for models, weights in self.sample:
            R = p.with_models(models).R
            Z = expected_values(models.prob, models.indptr, models.next_states, R, v, p.gamma)
            below.add(-Z.reshape(-1, models.n_models), weights)
            if more is not None:
                keys, _ = reached_keys(models)
                if not more or not np.array_equal(more[-1], keys):
                    more.append(keys)
        return -below.quantile(self.sample.total)

    def cut(self, v: FloatArray) -> _Cut:
        """The sets K(v)."""
        return self._cut(v, self._thresholds(v))

    def _cut(self, v: FloatArray, levels: FloatArray) -> _Cut:
        r = self.rows
        z = r.r + self.problem.gamma * v[r.next_states]
        used = np.diff(r.indptr) > 0
        least = np.full(used.size, -np.inf)
        least[used] = np.minimum.reduceat(z, r.indptr[:-1][used])
        self.lifted += int((r.live & (levels < least - 1e-12 * np.abs(least))).sum())
        levels = np.maximum(levels, least)
        lam = self.problem.objective.lam
        if lam < 1:
            mean = np.zeros(used.size)
            mean[used] = np.add.reduceat(r.p * z, r.indptr[:-1][used])
            levels = np.where(used, lam * levels + (1 - lam) * mean, levels)
        away, nearest = np.empty(used.size), np.empty(z.size)
        reach_sweep(r.indptr, self.theta, z, levels, r.live, away, nearest)
        return _Cut(z, levels, away, nearest)

    def add(self, cut: _Cut, slack: float) -> None:
        """Add K(v), and move the balls that miss it."""
        self.cuts.append(cut)
        for k in np.flatnonzero(cut.away > self.psi + slack):
            part = slice(self.rows.indptr[k], self.rows.indptr[k + 1])
            Z = np.array([c.z[part] for c in self.cuts])
            b = np.array([c.levels[k] for c in self.cuts])
            self.theta[part], self.psi[k], programs = centre(self.rows.p[part], Z, b)
            self.programs += programs

    def stats(self) -> dict[str, Any]:
        """What it took."""
        made = {"value_functions": len(self.cuts), "linear_programs": self.programs}
        return made | {"thresholds_lifted": self.lifted}


def centre(p: FloatArray, Z: FloatArray, levels: FloatArray) -> tuple[FloatArray, float, int]:
    """The smallest ball that meets the sets K of one pair: θ (n,), ψ, and the programs it took.

    From θ the cheapest way into K moves mass y_j ≤ θ_j from entries of large z onto the smallest:
    dist₁(θ, K) = min {2·Σy : Σ_j y_j·(z_j − min z) ≥ θᵀz − b, 0 ≤ y ≤ θ}. So the radius and centre
    are one linear program in (θ, y_v, ψ); often the sets have a point in common and ψ = 0. It has
    many optimal centres, of which one nearest to the mean row in L1 is taken: that depends on no
    solver's habits, and is the least that has to be given up. p (n,) is the mean row; Z (m, n) and
    levels (m,) are the half-spaces pᵀz ≤ b, each of which must meet the simplex.
    """
    theta = np.empty(p.size)
    slack = INSIDE * np.maximum(np.abs(Z).max(axis=1), np.ptp(Z, axis=1))
    if meets_all(p, Z, levels, slack, theta):
        return theta, 0.0, 0
    low = Z.min(axis=1)
    unit = np.maximum(np.ptp(Z, axis=1), np.finfo(float).tiny)
    G, b = (Z - low[:, None]) / unit[:, None], np.maximum((levels - low) / unit, 0.0)
    common = _common_point(p, G, b)
    if common is not None:
        theta, programs = common, 1
    else:
        psi, _ = _minimax(p, G, b, None)
        _, theta = _minimax(p, G, b, psi)
        programs = 3
    theta = np.maximum(theta, 0.0)  # a solver's tolerance; what it costs is in ψ below
    theta /= theta.sum()
    return theta, distance(theta, Z, levels), programs


def distance(theta: FloatArray, Z: FloatArray, levels: FloatArray) -> float:
    """max over sets of dist₁(θ, K)."""
    out = np.empty(theta.size)
    return max(float(l1_reach(theta, z, b, out)) for z, b in zip(Z, levels, strict=True))


def _common_point(p: FloatArray, G: FloatArray, b: FloatArray) -> FloatArray | None:
    """The point of all sets that is nearest to p, or None where they have none in common."""
    n = p.size
    # θ = p + up − down, Σ(up + down) least; up and down move the same mass.
    same = np.r_[np.ones(n), -np.ones(n)][None]
    bounds = [(0.0, None)] * n + [(0.0, float(x)) for x in p]
    answer = _linear_program(
        np.ones(2 * n), np.c_[G, -G], b - G @ p, same, np.zeros(1), bounds, may_be_infeasible=True
    )
    return None if answer is None else p + answer[:n] - answer[n:]


def _minimax(
    p: FloatArray, G: FloatArray, b: FloatArray, psi: float | None
) -> tuple[float, FloatArray]:
    """(ψ, θ) of the program; with ψ given, the θ nearest to p among those of that radius."""
    from scipy import sparse

    m, n = G.shape
    eye, each = sparse.eye_array(n), sparse.eye_array(m)
    below, no_t = -sparse.kron(np.ones((m, 1)), eye), sparse.csr_array((m * n, n))
    blocks: list[list[Any]] = [  # columns: θ (n), y (m·n), t (n), ψ
        [G, -sparse.block_diag([row[None] for row in G]), None, None],
        [None, 2 * sparse.kron(each, np.ones((1, n))), None, -np.ones((m, 1))],
        [below, sparse.kron(each, eye), no_t, None],
    ]
    right = [b, np.zeros(m), np.zeros(m * n)]
    cost = np.r_[np.zeros(n * (m + 2)), 1.0]
    bounds: list[tuple[float, float | None]] = [(0.0, None)] * (n * (m + 2) + 1)
    if psi is not None:  # t ≥ |θ − p|
        blocks += [[eye, None, -eye, None], [-eye, None, -eye, None]]
        right += [p, -p]
        cost = np.r_[np.zeros(n * (m + 1)), np.ones(n), 0.0]
        bounds[-1] = (0.0, psi * (1 + 1e-9) + 1e-10)
    A = sparse.block_array(blocks, format="csr")
    total = np.r_[np.ones(n), np.zeros(n * (m + 1) + 1)][None]
    x = _linear_program(cost, A, np.concatenate(right), total, np.ones(1), bounds)
    assert x is not None
    return float(x[-1]), x[:n]


def _linear_program(
    cost: FloatArray,
    A: Any,
    b: FloatArray,
    A_eq: FloatArray,
    b_eq: FloatArray,
    bounds: Sequence[tuple[float, float | None]],
    may_be_infeasible: bool = False,
) -> FloatArray | None:
    from scipy.optimize import linprog

    program: Any = linprog
    tight = {"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10}
    found = program(
        cost, A_ub=A, b_ub=b, A_eq=A_eq, b_eq=b_eq, bounds=bounds, method="highs", options=tight
    )
    if found.x is None or found.status != 0:
        if may_be_infeasible and found.status == 2:
            return None
        raise SolverError(f"The linear program of RSVF's centre failed: {found.message}")
    return np.asarray(found.x, dtype=np.float64)


@final
@dataclass(frozen=True, slots=True, eq=False)
class RSVFSimple(Iterated):
    """λ·VaR at 1 − δ/(SA) plus (1 − λ)·mean, step by step.

    Parameters
    ----------
    draws : ModelSet or PosteriorDraws, optional
        What VaR is taken of; the problem's own models by default. The draws stay in memory for all
        sweeps: of `PosteriorDraws` at most 512 MiB are used, and the stats say if that is too few.
    tol, time_limit, max_rounds
        As in `Iterated`.
    """

    draws: Draws | None = None
    name: ClassVar[str] = "rsvf-simple"

    def solve(self, problem: Problem) -> Solution:
        """Find the fixed point."""
        deadline = Deadline(self.time_limit)
        lam = problem.objective.lam
        if lam == 0:
            return nominal_solution(problem, self.name)
        tail, wanted, _ = tail_mass(problem)
        models = problem.models if self.draws is None else self.draws
        if not isinstance(models, ModelSet):  # no more than may stay in memory
            size = max(problem.models.next_states.size, 1)
            most = max(KEPT_BYTES // (8 * size), 1)
            models = models.in_time(min(models.count(wanted, size), most))
        sample = DrawnSample(problem, models, wanted)  # checks them
        stats = resolution("RSVF", sample, tail, wanted, warn=True)
        nominal_part = None
        if lam < 1:  # the slope of the update mixes rows of both
            mean, models = on_common_lists(problem.models.mean_model(), models)
            nominal_part = replace(problem.mean_problem(), models=mean)
        operator = QuantileOperator(problem.with_models(models), tail, lam, nominal_part)
        return self.solution(problem, operator, deadline, stats)


def on_common_lists(first: ModelSet, second: ModelSet) -> tuple[ModelSet, ModelSet]:
    """Both sets on the union of their lists of next states; pairs that one lacks are dropped."""
    a, b = model_keys(first), model_keys(second)
    if np.array_equal(a, b):
        return first, second
    if second.rewards is not None and second.rewards.kind == "model":
        raise InputError(
            "Draws with rewards of their own must be one ModelSet that lists the next states of "
            "the problem's models: rewards cannot be laid out anew. Give rewards r(s,a,s′) with "
            "the problem instead."
        )
    both = (first.available & second.available).reshape(-1)
    keys = np.union1d(a, b)
    keys = keys[both[keys // first.n_states]]
    return _relisted(first, keys), _relisted(second, keys)


def _relisted(models: ModelSet, keys: IntArray) -> ModelSet:
    """The models on the lists of the given keys, which hold all of their own in their pairs."""
    own, N, S = model_keys(models), models.n_models, models.n_states
    counts = np.bincount(keys // S, minlength=models.indptr.size - 1)
    indptr = np.concatenate([[0], np.cumsum(counts)])
    prob = models.prob
    if not np.array_equal(own, keys):
        place, prob = np.searchsorted(keys, own), np.zeros(keys.size * N)
        for k in np.flatnonzero(counts):
            lo, hi, first, width = models.indptr[k], models.indptr[k + 1], indptr[k], counts[k]
            block = prob[first * N : (first + width) * N].reshape(N, width)
            block[:, place[lo:hi] - first] = models.prob[lo * N : hi * N].reshape(N, hi - lo)
    listed = (keys % S).astype(np.int32)
    return replace(models, indptr=indptr, next_states=listed, prob=prob, normalise=False)
