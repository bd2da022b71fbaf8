"""Quantiles over models, step by step: VaR-Bellman, and the worst model.

VaR-Bellman (Lobo et al. 2023) is the percentile criterion without an explicit ambiguity set,

    v(s) = max_a VaR^α over ω of P̂^ω_{s,a}ᵀ(r_{s,a} + γv),     VaR^α = inf{z : G(z) ≥ 1 − α}.

The operator is monotone and shifts with v: its fixed point is unique and certified (`fixed_point`).
The quantile is taken anew at every state and action: p₀ᵀv is what the method promises, and neither
a lower nor an upper bound of the percentile of the returns.

`WorstModel` lets nature pick any model of positive weight,

    v(s) = max_a min_{ω : f_ω > 0} P̂^ω_{s,a}ᵀ(r_{s,a} + γv).

This is SA-rectangular soft-robustness at λ = 1, α = 1, whatever λ and α the problem has, and is
solved as that. Nature may change the model from step to step, so p₀ᵀv is at most the return in the
worst single model. The best policy for one fixed worst model is the static problem at λ = 1, α = 1:
`Exact` with `SoftRobust(1, 1)`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar, final

import numpy as np

from softrobust._core.arrays import FloatArray, IntArray
from softrobust._core.limits import Deadline
from softrobust.bounds.reduction import EPS, widest_row
from softrobust.errors import InputError
from softrobust.kernels.expected import expected_rounding, expected_values, mean_rows
from softrobust.kernels.tail import quantile_rows, quantile_sweep
from softrobust.objective import EDGE, SoftRobust
from softrobust.problem import Problem
from softrobust.solvers.base import Solution, finish
from softrobust.solvers.rectangular.fixed_point import Iterated, Operator, OperatorSweep
from softrobust.solvers.rectangular.rectangular import SARect


@final
class QuantileOperator(Operator):
    """T v(s) = max_a λ·VaR_ω[Z(s,a,ω)] + (1 − λ)·mean(s,a), VaR = inf{z : G(z) ≥ share}.

    VaR is taken of the models of the problem `sample`. Where λ < 1, `mean` is a problem of one
    model on the same lists of next states.
    """

    def __init__(
        self, sample: Problem, share: float, lam: float = 1.0, mean: Problem | None = None
    ) -> None:
        m = sample.models
        self.sample, self.mean, self.lam = sample, sample if mean is None else mean, lam
        self.indptr, self.next_states, self.gamma = m.indptr, m.next_states, sample.gamma
        self.n_actions, self.sweeps = sample.n_actions, 0
        self.width = widest_row(sample)
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

    def sweep(self, v: FloatArray, decision: IntArray, fixed: bool) -> OperatorSweep:
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
        slack = expected_rounding(self.width, v, self.r_max, False, self.gamma) + 4 * EPS * size
        return OperatorSweep(values - slack, values + slack, chosen, rows)


def row_sum_deviation(problem: Problem) -> float:
    """The largest |row sum − 1| of the models' rows, with the rounding of the sum itself."""
    m = problem.models
    worst = mean_rows(m.prob, m.indptr, m.f, np.zeros(m.next_states.size), False)
    return worst + EPS * (widest_row(problem) + 2)


@final
@dataclass(frozen=True, slots=True, eq=False)
class VaRBellman(Iterated):
    """Maximise the α-quantile of every step's value over the models; settings of `Iterated`."""

    name: ClassVar[str] = "var"

    def solve(self, problem: Problem) -> Solution:
        """Find the fixed point."""
        deadline = Deadline(self.time_limit)
        operator = QuantileOperator(problem, 1.0 - problem.objective.alpha)
        return self.solution(problem, operator, deadline)


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class WorstModel(Iterated):
    """Maximise the return where every step follows the worst model; settings of `Iterated`."""

    name: ClassVar[str] = "worst-model"

    def solve(self, problem: Problem) -> Solution:
        """Solve at λ = 1, α = 1, and value the policy by the problem's own objective."""
        worst = replace(problem, objective=SoftRobust(1.0, 1.0))
        same = SARect(tol=self.tol, time_limit=self.time_limit, max_rounds=self.max_rounds)
        x = same.solve(worst)
        return finish(problem, self.name, x.policy, x.status, x.stats, x.v)
