"""BCR: robust against a Bayesian credible region (Petrik and Russel 2019; spec of the baselines).

    δ = 1 − α,   p̄ = E[P̂],   ψ_{s,a} = λ·quantile of ‖P̂^ω_{s,a} − p̄_{s,a}‖ at 1 − δ/(SA)

and an SA-rectangular robust MDP with the balls of radius ψ around p̄. At λ = 1 all balls together
hold P* with posterior probability at least α, so p₀ᵀv is a lower bound of the true return with that
probability. λ shrinks the balls; at λ = 0 the method is nominal.

- The centre is always the mean of the problem's models, as for `Nominal`. Draws that sets are built
  from only measure distances to it: a ball around any fixed centre is a credible region.
- `scope="global"` needs no union bound. Models are ranked by their largest distance over all pairs,
  the nearest of total weight α are kept (⌈αN⌉ of N equal ones, at least one), and ψ_{s,a} is λ
  times the largest distance of the kept ones there.
- `weighting="value"` (Behzadian et al. 2021) lets the norm look where it matters. Over a ball,
  |(p − p̄)ᵀz| ≤ ψ·‖z − c‖* for any c, with the dual norm max |z_i − c|/w_i for L1 and
  Σ |z_i − c|/w_i for L∞. Among weights with Σw² fixed this is least for w ∝ |z − c| and
  w ∝ |z − c|^(1/3). z is that of the nominal value function, c the middle of its range (L1) or its
  median (L∞), which make the unweighted dual norms least. Weights have mean square 1 over the
  support, and are at least `FLOOR`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal, final

import numpy as np

from softrobust._core.arrays import FloatArray, IntArray
from softrobust._core.limits import Deadline
from softrobust.kernels.balls import L1, LINF, distances
from softrobust.models.model_set import ModelSet
from softrobust.objective import EDGE
from softrobust.problem import Problem
from softrobust.solvers.base import Solution
from softrobust.solvers.baselines import ball_robust
from softrobust.solvers.baselines.draws import DrawnSample, Draws, UpperTail, resolution, tail_mass
from softrobust.solvers.baselines.nominal import nominal_solution
from softrobust.solvers.rectangular.fixed_point import Iterated, nominal_policy

FLOOR = 0.05  # of the mean square weight: every entry must count
GLOBAL_DRAWS = 100  # times 1/δ: how finely a global region resolves its level


@final
@dataclass(frozen=True, slots=True, eq=False)
class CredibleSets:
    """The sets at λ = 1: rows, radii (n_states·n_actions,), weights of the norm, and what is known.

    They are those of one α; λ only scales the radii.
    """

    rows: ball_robust.PairRows
    radii: FloatArray
    weights: FloatArray | None
    stats: dict[str, Any]


@final
@dataclass(frozen=True, slots=True, eq=False)
class BCR(Iterated):
    """Robust against a Bayesian credible region around the mean model.

    Parameters
    ----------
    draws : ModelSet or PosteriorDraws, optional
        What the radii are measured on; the problem's own models by default. The quantile needs
        SA/δ draws (850 for pest control at α = .7, 10 455 for the inventory at .8).
    norm : "l1" or "linf"
    weighting : None or "value"
        Weights of the norm from the nominal value function.
    scope : "local" or "global"
        Pair by pair with a union bound, or whole models ranked by their largest distance.
    variant : "draws" or "paper"
        "paper" measures on the problem's models whatever their number, as the paper's experiments
        did with N = 100, and takes a saturated quantile as it is; "draws" warns about one.
    shrink : bool
        Scale the radii by λ. False keeps the full set at every λ: what the paper's figs. 6 and 7
        show as "BCR" (erratum 8).
    support : "models" or "all"
        Where nature may put mass (see `pair_rows`).
    tol, time_limit, max_rounds
        As in `Iterated`.
    """

    draws: Draws | None = None
    norm: Literal["l1", "linf"] = "l1"
    weighting: Literal["value"] | None = None
    scope: Literal["local", "global"] = "local"
    variant: Literal["draws", "paper"] = "draws"
    shrink: bool = True
    support: ball_robust.Support = "models"
    name: ClassVar[str] = "bcr"

    def solve(self, problem: Problem) -> Solution:
        """Build the sets and solve the robust MDP."""
        return self._solve(problem, None, Deadline(self.time_limit))

    def solve_grid(
        self, problem: Problem, lams: Sequence[float], alphas: Sequence[float]
    ) -> list[list[Solution]]:
        """Solve for every (λ, α); the sets of one α are built once."""
        found: dict[tuple[int, int], Solution] = {}
        for j, alpha in enumerate(alphas):
            sets: CredibleSets | None = None
            for i, lam in enumerate(lams):
                point = replace(problem, objective=problem.objective.at(lam, alpha))
                deadline = Deadline(self.time_limit)
                if sets is None and (lam > 0 or not self.shrink):
                    sets = self.sets(point)
                found[i, j] = self._solve(point, sets, deadline)
        return [[found[i, j] for j in range(len(alphas))] for i in range(len(lams))]

    def _solve(self, problem: Problem, sets: CredibleSets | None, deadline: Deadline) -> Solution:
        scale = problem.objective.lam if self.shrink else 1.0
        if scale == 0:  # all radii are 0: exactly `Nominal`, with nothing drawn
            return nominal_solution(problem, self.name, budget_mean=0.0, budget_max=0.0)
        sets = self.sets(problem) if sets is None else sets
        norm = L1 if self.norm == "l1" else LINF
        operator = ball_robust.BallOperator(
            problem, sets.rows, scale * sets.radii, norm, sets.weights
        )
        return self.solution(problem, operator, deadline, sets.stats)

    def sets(self, problem: Problem) -> CredibleSets:
        """The credible region of the problem's α, at λ = 1."""
        tail, wanted, _ = tail_mass(problem)
        if self.scope == "global":
            tail = 1.0 - problem.objective.alpha
            wanted = GLOBAL_DRAWS / tail if tail > EDGE else np.inf
        paper = self.variant == "paper"
        sample = DrawnSample(problem, None if paper else self.draws, wanted)
        own = ball_robust.pair_rows(problem, support=self.support)
        weigh = None if self.weighting is None else _ValueWeights(problem, own, self.norm)
        measured = _Distances(own, weigh, L1 if self.norm == "l1" else LINF)
        if self.scope == "global":
            radii = _global_radii(measured, sample, problem.objective.alpha)
            wanted = 1 / tail if tail > EDGE else np.inf
        else:
            above = UpperTail(own.live.size, tail, sample.total)
            for models, weights in sample:
                above.add(measured.of(models), weights)
            radii = above.quantile(sample.total)
        stats = resolution("BCR", sample, tail, wanted, warn=not paper)
        rows = own
        if self.support == "models" and measured.more.size:
            rows = ball_robust.pair_rows(problem, support=self.support, more=measured.more)
        return CredibleSets(rows, radii, None if weigh is None else weigh.at(rows.keys), stats)


@final
class _Distances:
    """Distances of models to the nominal rows, and keys of next states that only they reach."""

    def __init__(self, rows: ball_robust.PairRows, weigh: _ValueWeights | None, norm: int) -> None:
        self.rows, self.weigh, self.norm = rows, weigh, norm
        self.known = rows.keys
        self.more: IntArray = np.empty(0, np.int64)
        self.own = np.empty(0) if weigh is None else weigh.at(self.known)

    def of(self, models: ModelSet) -> FloatArray:
        """(n_states·n_actions, n_models)."""
        rows = self.rows
        out = np.empty((rows.live.size, models.n_models))
        keys, there = ball_robust.reached_keys(models)
        w = np.empty(0)
        if self.weigh is not None:
            w = np.ones(there.size)  # where nobody gets, nothing is weighed
            w[there] = self.weigh.at(keys)
        distances(
            models.prob, models.indptr, models.next_states, w,
            rows.p, rows.indptr, rows.next_states, self.own, rows.live, self.norm, out,
        )  # fmt: skip
        new = keys[~np.isin(keys, self.known, assume_unique=True)]
        new = new[rows.live[new // rows.n_states]]
        if new.size:
            self.more = np.union1d(self.more, new)
        return out


def _global_radii(measured: _Distances, sample: DrawnSample, alpha: float) -> FloatArray:
    """The largest distance, pair by pair, among the nearest models of total weight α."""
    parts = [(measured.of(models), weights) for models, weights in sample]
    D = np.concatenate([d for d, _ in parts], axis=1)
    w = np.concatenate([x for _, x in parts])
    order = np.argsort(np.where(w > 0, D.max(axis=0), np.inf), kind="stable")
    enough = int(np.searchsorted(np.cumsum(w[order]), alpha * sample.total * (1 - EDGE))) + 1
    kept = order[: max(min(enough, int((w > 0).sum())), 1)]
    return np.asarray(D[:, kept].max(axis=1))


@final
class _ValueWeights:
    """Weights of the norm from the nominal value function, at any transition; 1 at constant z."""

    def __init__(self, problem: Problem, rows: ball_robust.PairRows, norm: str) -> None:
        v, _ = nominal_policy(problem)
        self.problem, self.norm = problem, norm
        self.ahead = problem.gamma * v
        z = rows.r + self.ahead[rows.next_states]
        pairs = np.diff(rows.indptr)
        self.middle, self.unit = np.zeros(pairs.size), np.ones(pairs.size)
        for k in np.flatnonzero(pairs):
            part = z[rows.indptr[k] : rows.indptr[k + 1]]
            c = np.median(part) if norm == "linf" else 0.5 * (part.min() + part.max())
            self.middle[k] = c
            unit = np.sqrt(np.mean(self._shape(part - c) ** 2))
            self.unit[k] = unit if np.ptp(part) > 1e-12 * np.abs(part).max() else 0.0
        self.live = rows.live

    def _shape(self, difference: FloatArray) -> FloatArray:
        size = np.abs(difference)
        return np.cbrt(size) if self.norm == "linf" else size

    def at(self, keys: IntArray) -> FloatArray:
        """(n,): w(s,a,s′) of the keys pair·n_states + s′; 1 where nothing is to be moved."""
        pair, s_next = np.divmod(keys, self.problem.n_states)
        use = self.live[pair] & (self.unit[pair] > 0)
        w = np.ones(keys.size)
        r = ball_robust.transition_rewards(self.problem, keys[use])
        z = r + self.ahead[s_next[use]]
        w[use] = self._shape(z - self.middle[pair[use]]) / self.unit[pair[use]]
        return np.maximum(w, FLOOR)
