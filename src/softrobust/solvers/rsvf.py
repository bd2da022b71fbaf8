"""RSVF: robust against sets made for sensible value functions (Petrik and Russel 2019).

A set need not contain P*; it must only be no better than P* along the value functions that come up.
With δ = 1 − α and, for a value function v and a pair (s, a),

    K(v) = {p ∈ Δ : pᵀz ≤ VaR^{1−δ/(SA)}[P̂ᵀz]},     z = r_{s,a} + γv,

a ball that meets K(v) for the v that solves its own robust MDP gives a lower bound of the true
return with posterior probability at least α. So, from V = {v₀} (v₀ nominal):

1. centre θ and radius ψ of every pair: min_θ max_{v ∈ V} dist₁(θ, K(v)) (`rsvf_centre`);
2. v_k solves the robust MDP with the L1 balls (θ, λψ);
3. stop if every ball (θ, ψ) meets K(v_k), else V ← V ∪ {v_k}.

A pair whose ball meets K(v_k) keeps it: it is still smallest. Step 3 looks at the balls of radius
ψ, not λψ, which could go on missing a set that they were built for. Where rewards differ by model
a threshold can lie below all of z; K is then the worst next state (counted in the stats).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, final

import numpy as np
from numpy.typing import NDArray

from softrobust.data.settings import one_of, real, whole
from softrobust.kernels.balls import reach_sweep
from softrobust.kernels.distances import reached
from softrobust.kernels.expected import expected_values
from softrobust.solvers.base import Deadline, Solution, Status
from softrobust.solvers.draws import Draws, Sample, UpperTail, resolution, tail_mass
from softrobust.solvers.fixed_point import IntArray, Iterated, nominal_policy
from softrobust.solvers.l1_robust import BallUpdate, ball_solution
from softrobust.solvers.pair_rows import PairRows, Support, model_keys, pair_rows
from softrobust.solvers.rsvf_centre import centre

if TYPE_CHECKING:
    from softrobust.problem import Problem

FloatArray = NDArray[np.float64]


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
    max_sets: int = 50
    meet: float = 1e-6
    support: Support = "models"
    name: ClassVar[str] = "rsvf"

    def __post_init__(self) -> None:
        Iterated.__post_init__(self)
        whole("max_sets", self.max_sets)
        real("meet", self.meet, least=0)
        one_of("support", self.support, ("models", "all"))

    def solve(self, problem: Problem) -> Solution:
        """Grow the list of value functions until the balls meet all their sets."""
        deadline = Deadline(self.time_limit)
        tail, wanted, _ = tail_mass(problem)
        sample = Sample(problem, self.draws, wanted)
        stats = resolution("RSVF", sample, tail, wanted, warn=True)
        v, decision = nominal_policy(problem)
        sets = _Sets(problem, sample, tail, self.support, v)
        while True:
            update = BallUpdate(problem, sets.at_centre, problem.objective.lam * sets.psi)
            found = self.search(update, v, decision, deadline)
            v, decision = found.v, found.decision
            if found.status is Status.TIME_LIMIT:
                break
            cut = sets.cut(v)
            if (cut.away <= sets.psi + self.meet).all():
                break
            if deadline.passed or len(sets.cuts) >= self.max_sets:
                found.status = Status.TIME_LIMIT if deadline.passed else Status.ITERATION_LIMIT
                break
            sets.add(cut, self.meet)
        return ball_solution(self, problem, update, found, deadline, stats | sets.stats())


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
        self, problem: Problem, sample: Sample, tail: float, support: Support, v: FloatArray
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

    @property
    def at_centre(self) -> PairRows:
        """The rows with θ in place of the mean."""
        r = self.rows
        return PairRows(r.indptr, r.next_states, self.theta.copy(), r.r, r.live, r.n_states)

    def _thresholds(self, v: FloatArray, more: list[IntArray] | None = None) -> FloatArray:
        """VaR^{1−δ/(SA)} of P̂ᵀz for every pair, (S·A,); keys that draws reach go to `more`."""
        p = self.problem
        below = UpperTail(p.allowed.size, self.tail, self.sample.total, lower_side=True)
        for models, weights in self.sample:
            R = p.with_models(models).R
            Z = expected_values(models.prob, models.indptr, models.next_states, R, v, p.gamma)
            below.add(-Z.reshape(-1, models.n_models), weights)
            if more is not None:
                there = np.empty(models.next_states.size, np.bool_)
                reached(models.prob, models.indptr, models.n_models, there)
                keys = model_keys(models, there)
                if not more or not np.array_equal(more[-1], keys):
                    more.append(keys)
        return -below.quantile()

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
        return {
            "value_functions": len(self.cuts),
            "linear_programs": self.programs,
            "thresholds_lifted": self.lifted,
        }
