"""Fixed points of monotone operators that shift with their argument, with certified bounds.

The baselines all look for v = Tv where T v(s) = max_a g_{s,a}(v), g monotone, and g(v + c) = g(v) +
γσc for a row sum σ near 1: worst cases over balls, quantiles over models. From lb ≤ Tv ≤ ub, which
contain the rounding of g, follow MacQueen's bounds on v* (see `returns.rectangular_sweeps`).

The step is Newton's: the operator is linear around v, with one transition row per state. For worst
cases that is policy iteration of both players, and where it does not help, the decision is kept and
nature answers it alone (Hoffman and Karp). Quantiles are neither convex nor concave, and both can
cycle: then plain sweeps from the best v so far, whose residual falls by γ at least, do the work.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from softrobust._core.arrays import FloatArray, IntArray
from softrobust._core.limits import Deadline, Seconds
from softrobust._core.settings import Count, NotNegative
from softrobust.problem import Problem
from softrobust.returns import optimal_returns
from softrobust.returns.rectangular_sweeps import Bracket, bracket, newton_step
from softrobust.solvers.base import Solution, Solver, Status, finish

FALL = 0.5  # a residual that falls less than this after Newton's step calls for care
ANSWERS = 50  # steps of nature's own policy iteration
PATIENCE = 6  # rounds without better bounds before rounding has the last word
PLAIN = 8  # plain sweeps the first time that care did not help either; doubled each time
PLAIN_MOST = 4096


@final
@dataclass(frozen=True, slots=True, eq=False)
class OperatorSweep:
    """T at v: lb ≤ Tv ≤ ub (n_states,), a best decision, and the rows of its pairs (nnz,)."""

    lb: FloatArray
    ub: FloatArray
    decision: IntArray
    rows: FloatArray

    @property
    def value(self) -> FloatArray:
        """Tv as the middle of its bounds."""
        return 0.5 * (self.lb + self.ub)


class Operator(ABC):
    """T of one problem; `indptr` and `next_states` are the lists that its rows refer to.

    `deviation` is the largest |row sum − 1| of the rows that T can choose.
    """

    indptr: NDArray[np.int64]
    next_states: NDArray[np.int32]
    gamma: float
    deviation: float
    n_actions: int
    sweeps: int = 0
    stats: Mapping[str, Any] = {}

    @abstractmethod
    def sweep(self, v: FloatArray, decision: IntArray, fixed: bool) -> OperatorSweep:
        """Tv, trying `decision` first; with `fixed` the operator that keeps it."""

    def step(self, v: FloatArray, sweep: OperatorSweep) -> FloatArray:
        """Newton's step from v."""
        d = np.zeros((v.size, self.n_actions))
        d[np.arange(v.size), sweep.decision] = 1.0
        return newton_step(
            self.indptr, self.next_states, sweep.rows, d, self.gamma, v, sweep.value - v
        )


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Iterated(Solver, ABC):
    """Settings of a solver that looks for a fixed point.

    Parameters
    ----------
    tol : float
        Half-width of the certified bounds on the value, relative to max|v|. What was reached is
        `stats["tol_achieved"]`; rounding can keep it from smaller values.
    time_limit : float, optional
        Seconds; the bounds reached by then come back.
    max_rounds : int
        Steps at most.
    """

    tol: NotNegative = 1e-8
    time_limit: Seconds | None = None
    max_rounds: Count = 1000

    def figures(self, problem: Problem, found: Bracket, seconds: float) -> dict[str, Any]:
        """How exact the value of a solution is, and how long it took."""
        return {
            "seconds": seconds,
            "tol": self.tol,
            "tol_achieved": found.tol,
            "model_value_lower": float(problem.p0 @ found.lower),
            "model_value_upper": float(problem.p0 @ found.upper),
        }

    def search(
        self, operator: Operator, v: FloatArray, decision: IntArray, deadline: Deadline
    ) -> tuple[Bracket, Status]:
        """`fixed_point` with these settings."""
        return fixed_point(operator, v, decision, self.tol, deadline, self.max_rounds)

    def solution(
        self,
        problem: Problem,
        operator: Operator,
        deadline: Deadline,
        stats: Mapping[str, Any] | None = None,
        result: tuple[Bracket, Status] | None = None,
    ) -> Solution:
        """The result, or that of a search from the nominal policy; how exact, and what it took."""
        found, status = result or self.search(operator, *nominal_policy(problem), deadline)
        own = self.figures(problem, found, deadline.elapsed) | {"sweeps": operator.sweeps}
        policy, more = problem.policy(found.decision), {**operator.stats, **(stats or {})}
        return finish(problem, self.name, policy, status, own | more, found.v)


def fixed_point(
    operator: Operator,
    v: FloatArray,
    decision: IntArray,
    tol: float,
    deadline: Deadline,
    max_rounds: int,
) -> tuple[Bracket, Status]:
    """Look for v = Tv from v; `decision` (n_states,) must be allowed."""
    best: Bracket | None = None
    good, least, last = v, np.inf, np.inf
    plain, helped, gained, waited = PLAIN, True, True, 0
    for _ in range(max_rounds):
        sweep = operator.sweep(v, decision, fixed=False)
        decision = sweep.decision
        found = bracket(v, sweep.lb, sweep.ub, operator.gamma, operator.deviation, decision)
        waited += 1
        if best is None or found.width < best.width:
            best, waited = found, 0
        if best.tol <= tol:
            return best, Status.TOLERANCE_REACHED
        if deadline.passed:
            return best, Status.TIME_LIMIT
        if waited >= PATIENCE:
            break
        span = float(np.ptp(sweep.value - v))
        if span < least:
            good, least, gained = sweep.value, span, True
        if span <= FALL * last:
            v, helped = operator.step(v, sweep), True
        elif helped:  # Newton's step did not: let nature answer the decision by itself
            v, helped = _answer(operator, operator.step(v, sweep), decision, 0.01 * span), False
        else:
            if not gained:
                break  # plain sweeps brought nothing either: rounding has the last word
            v, plain = _plain(operator, good, decision, plain, deadline), min(2 * plain, PLAIN_MOST)
            span, gained = np.inf, False
        last = span
    assert best is not None  # max_rounds is at least 1
    return best, Status.ITERATION_LIMIT


def _answer(operator: Operator, v: FloatArray, decision: IntArray, target: float) -> FloatArray:
    """Policy iteration for the decision alone, while its residual falls; the best v met."""
    best, least = v, np.inf
    for _ in range(ANSWERS):
        sweep = operator.sweep(v, decision, fixed=True)
        span = float(np.ptp(sweep.value - v))
        if span >= least:
            break
        best, least = v, span
        if span <= target:
            break
        v = operator.step(v, sweep)
    return best


def _plain(
    operator: Operator, v: FloatArray, decision: IntArray, n: int, deadline: Deadline
) -> FloatArray:
    for _ in range(n):
        if deadline.passed:
            break
        v = operator.sweep(v, decision, fixed=False).value
    return v


def nominal_policy(problem: Problem) -> tuple[FloatArray, IntArray]:
    """Value (n_states,) and decision of the mean model: where every search starts."""
    optima = optimal_returns(problem.mean_problem(), tol=1e-6)
    return optima.V[0].copy(), optima.decisions[0].copy()
