"""VaR-Bellman (Lobo et al. 2023): the percentile criterion without an explicit ambiguity set.

    v(s) = max_a VaR^α over ω of P̂^ω_{s,a}ᵀ(r_{s,a} + γv),     VaR^α = inf{z : G(z) ≥ 1 − α}

The update is monotone and shifts with v: its fixed point is unique and certified (`fixed_point`).
The quantile is taken anew at every state and action: p₀ᵀv is what the method promises, and neither
a lower nor an upper bound of the percentile of the returns.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, final

import numpy as np
from numpy.typing import NDArray

from softrobust.errors import InputError
from softrobust.kernels.expected import expected_values, rounding
from softrobust.kernels.quantile import quantile_rows, quantile_sweep
from softrobust.objective.measures import EDGE
from softrobust.solvers.base import Deadline, Solution, finish
from softrobust.solvers.fixed_point import (
    EPS,
    IntArray,
    Iterated,
    Sweep,
    Update,
    as_policy,
    nominal_policy,
)

if TYPE_CHECKING:
    from softrobust.problem import Problem

FloatArray = NDArray[np.float64]


@final
class QuantileUpdate(Update):
    """T v(s) = max_a λ·VaR_ω[Z(s,a,ω)] + (1 − λ)·mean(s,a).

    Parameters
    ----------
    sample : Problem
        Its models are the sample of which VaR is taken.
    share : float
        VaR = inf{z : G(z) ≥ share}.
    lam : float
    mean : Problem, optional
        A problem of one model on the sample's own lists, for the mean part; needed where λ < 1.
    """

    def __init__(
        self, sample: Problem, share: float, lam: float = 1.0, mean: Problem | None = None
    ) -> None:
        m = sample.models
        self.sample, self.mean, self.lam = sample, sample if mean is None else mean, lam
        self.indptr, self.next_states, self.gamma = m.indptr, m.next_states, sample.gamma
        self.n_actions, self.sweeps = sample.n_actions, 0
        self.width = int(np.diff(m.indptr).max())
        self.deviation = row_sum_deviation(sample)
        if mean is not None:
            self.deviation = max(self.deviation, row_sum_deviation(mean))
        self.live = np.flatnonzero(m.f > 0)
        self.f = m.f[self.live]
        # A share of nothing is the smallest value of positive weight.
        self.target = max(share * float(self.f.sum()) - EDGE, 0.5 * float(self.f.min()))
        self.allowed = np.ascontiguousarray(sample.allowed)
        self.r_max = float(max(np.abs(sample.R).max(), np.abs(self.mean.R).max()))
        self.Z = np.empty(sample.R.shape)

    def sweep(self, v: FloatArray, decision: IntArray, fixed: bool) -> Sweep:
        """One pass over the sample."""
        if not np.isfinite(v).all():
            raise InputError("Values must be finite; check the rewards for numbers too large.")
        m = self.sample.models
        expected_values(m.prob, m.indptr, m.next_states, self.sample.R, v, self.gamma, out=self.Z)
        means, nominal = np.empty((0, 0)), np.zeros(self.next_states.size)
        if self.lam < 1:
            one = self.mean.models
            nominal = one.prob
            means = expected_values(
                one.prob, one.indptr, one.next_states, self.mean.R, v, self.gamma
            )[:, :, 0]
        values, chosen = np.empty(v.size), decision.copy()
        picked = np.zeros(v.size, np.int64)
        quantile_sweep(
            self.Z, self.f, self.live, self.target, self.lam, np.ascontiguousarray(means),
            self.allowed, chosen, fixed, values, picked,
        )  # fmt: skip
        rows = np.zeros(self.next_states.size)
        quantile_rows(m.prob, m.indptr, m.n_models, self.lam, nominal, chosen, picked, rows)
        self.sweeps += 1
        size = self.r_max + self.gamma * float(np.abs(v).max())
        slack = rounding(self.width, v, self.r_max, False, self.gamma) + 4 * EPS * size
        return Sweep(values - slack, values + slack, chosen, rows)


def row_sum_deviation(problem: Problem) -> float:
    """The largest |row sum − 1| of the models' rows, with the rounding of the sum itself."""
    from softrobust.kernels.mean_rows import mean_rows

    m = problem.models
    worst = mean_rows(m.prob, m.indptr, m.f, np.zeros(m.next_states.size), False)
    return worst + EPS * (int(np.diff(m.indptr).max()) + 2)


@final
@dataclass(frozen=True, slots=True, eq=False)
class VaRBellman(Iterated):
    """Maximise the α-quantile of every step's value over the models.

    Settings as in `Iterated`.
    """

    name: ClassVar[str] = "var"

    def solve(self, problem: Problem) -> Solution:
        """Find the fixed point."""
        deadline = Deadline(self.time_limit)
        update = QuantileUpdate(problem, 1.0 - problem.objective.alpha)
        found = self.search(update, *nominal_policy(problem), deadline)
        return finish(
            problem,
            solver=self.name,
            policy=as_policy(problem, found.decision),
            v=found.v,
            status=found.status,
            stats={"seconds": deadline.elapsed} | self.statistics(problem, update, found),
        )
