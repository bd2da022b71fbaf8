"""Fixed points of monotone updates that shift with their argument, with certified bounds.

The baselines all look for v = Tv where T v(s) = max_a g_{s,a}(v), g monotone, and g(v + c) = g(v) +
γσc for a row sum σ near 1: worst cases over balls, quantiles over models. From lb ≤ Tv ≤ ub,
m = min(lb − v) and w = max(ub − v), MacQueen's bounds hold,

    lb + γσ·m/(1 − γσ)  ≤  v*  ≤  ub + γσ·w/(1 − γσ),

each side with the σ that makes it safe; lb and ub contain the rounding of g.

The step is Newton's: the update is linear around v, with one transition row per state. For worst
cases that is policy iteration of both players, and where it does not help, the decision is kept and
nature answers it alone (Hoffman and Karp). Quantiles are neither convex nor concave, and both can
cycle: then plain sweeps from the best v so far, whose residual falls by γ at least, do the work.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, final

import numpy as np
from numpy.typing import NDArray

from softrobust._core.arrays import FloatArray, IntArray
from softrobust.errors import InputError
from softrobust.models.policy import Policy
from softrobust.returns.rectangular import relative_width
from softrobust.returns.rectangular_sweeps import newton_step
from softrobust.solvers.base import Deadline, Solver, Status

if TYPE_CHECKING:
    from softrobust.problem import Problem


EPS = float(np.finfo(np.float64).eps)
FALL = 0.5  # a residual that falls less than this after Newton's step calls for care
ANSWERS = 50  # steps of nature's own policy iteration
PATIENCE = 6  # rounds without better bounds before rounding has the last word
PLAIN = 8  # plain sweeps the first time that care did not help either; doubled each time
PLAIN_MOST = 4096


@final
@dataclass(frozen=True, slots=True, eq=False)
class Sweep:
    """One update: lb ≤ Tv ≤ ub (n_states,), a best decision, and the rows of its pairs (nnz,)."""

    lb: FloatArray
    ub: FloatArray
    decision: IntArray
    rows: FloatArray

    @property
    def value(self) -> FloatArray:
        """Tv as the middle of its bounds."""
        return 0.5 * (self.lb + self.ub)


class Update(ABC):
    """T of one problem; `indptr` and `next_states` are the lists that its rows refer to.

    `deviation` is the largest |row sum − 1| of the rows that T can choose.
    """

    indptr: NDArray[np.int64]
    next_states: NDArray[np.int32]
    gamma: float
    deviation: float
    n_actions: int
    sweeps: int = 0

    @abstractmethod
    def sweep(self, v: FloatArray, decision: IntArray, fixed: bool) -> Sweep:
        """Tv, trying `decision` first; with `fixed` the update that keeps it."""

    def step(self, v: FloatArray, sweep: Sweep) -> FloatArray:
        """Newton's step from v."""
        d = np.zeros((v.size, self.n_actions))
        d[np.arange(v.size), sweep.decision] = 1.0
        return newton_step(
            self.indptr, self.next_states, sweep.rows, d, self.gamma, v, sweep.value - v
        )

    def bounds(self, v: FloatArray, sweep: Sweep) -> tuple[FloatArray, FloatArray]:
        """(lower, upper) around the fixed point, from the sweep at v."""
        few, many = self.gamma * (1 - self.deviation), self.gamma * (1 + self.deviation)
        if many >= 1:
            raise InputError(
                f"gamma = {self.gamma:g} times the largest row sum (1 + {self.deviation:.1e}) "
                "reaches 1: values are not finite. Normalise the rows, or lower gamma."
            )
        low, high = float((sweep.lb - v).min()), float((sweep.ub - v).max())
        below = low * (few / (1 - few) if low > 0 else many / (1 - many))
        above = high * (many / (1 - many) if high > 0 else few / (1 - few))
        return sweep.lb + below, sweep.ub + above


@final
@dataclass(slots=True, eq=False)
class FixedPoint:
    """The best bounds on v*, the decision that came with them, and how the search ended."""

    lower: FloatArray
    upper: FloatArray
    decision: IntArray
    status: Status = Status.ITERATION_LIMIT

    @property
    def v(self) -> FloatArray:
        """The middle of the bounds."""
        return 0.5 * (self.lower + self.upper)

    @property
    def tol(self) -> float:
        """Half the width of the bounds, relative to max|v|."""
        return relative_width(self.lower, self.upper)

    @property
    def width(self) -> float:
        """The largest difference of the bounds."""
        return float((self.upper - self.lower).max())


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

    tol: float = 1e-8
    time_limit: float | None = None
    max_rounds: int = 1000

    def __post_init__(self) -> None:
        if not self.tol >= 0:
            raise InputError(f"tol is a relative half-width, at least 0; it is {self.tol!r}.")
        if self.max_rounds < 1:
            raise InputError(f"max_rounds must be at least 1; it is {self.max_rounds!r}.")
        Deadline(self.time_limit)  # refuses what is no limit

    def search(
        self, update: Update, v: FloatArray, decision: IntArray, deadline: Deadline
    ) -> FixedPoint:
        """`fixed_point` with these settings."""
        return fixed_point(update, v, decision, self.tol, deadline, self.max_rounds)

    def statistics(self, problem: Problem, update: Update, found: FixedPoint) -> dict[str, Any]:
        """How exact the value is, and what it took."""
        return {
            "tol": self.tol,
            "tol_achieved": found.tol,
            "model_value_lower": float(problem.p0 @ found.lower),
            "model_value_upper": float(problem.p0 @ found.upper),
            "sweeps": update.sweeps,
        }


def fixed_point(
    update: Update,
    v: FloatArray,
    decision: IntArray,
    tol: float,
    deadline: Deadline,
    max_rounds: int,
) -> FixedPoint:
    """Look for v = Tv from v; `decision` (n_states,) must be allowed."""
    best: FixedPoint | None = None
    good, least, last = v, np.inf, np.inf
    plain, helped, gained, waited = PLAIN, True, True, 0
    for _ in range(max_rounds):
        sweep = update.sweep(v, decision, fixed=False)
        decision = sweep.decision
        found = FixedPoint(*update.bounds(v, sweep), decision)
        waited += 1
        if best is None or found.width < best.width:
            best, waited = found, 0
        if best.tol <= tol:
            best.status = Status.TOLERANCE_REACHED
            break
        if deadline.passed:
            best.status = Status.TIME_LIMIT
            break
        if waited >= PATIENCE:
            break
        span = float(np.ptp(sweep.value - v))
        if span < least:
            good, least, gained = sweep.value, span, True
        if span <= FALL * last:
            v, helped = update.step(v, sweep), True
        elif helped:  # Newton's step did not: let nature answer the decision by itself
            v, helped = _answer(update, update.step(v, sweep), decision, 0.01 * span), False
        else:
            if not gained:
                break  # plain sweeps brought nothing either: rounding has the last word
            v, plain = _plain(update, good, decision, plain, deadline), min(2 * plain, PLAIN_MOST)
            span, gained = np.inf, False
        last = span
    assert best is not None  # max_rounds is at least 1
    return best


def _answer(update: Update, v: FloatArray, decision: IntArray, target: float) -> FloatArray:
    """Policy iteration for the decision alone, while its residual falls; the best v met."""
    best, least = v, np.inf
    for _ in range(ANSWERS):
        sweep = update.sweep(v, decision, fixed=True)
        span = float(np.ptp(sweep.value - v))
        if span >= least:
            break
        best, least = v, span
        if span <= target:
            break
        v = update.step(v, sweep)
    return best


def _plain(
    update: Update, v: FloatArray, decision: IntArray, n: int, deadline: Deadline
) -> FloatArray:
    for _ in range(n):
        if deadline.passed:
            break
        v = update.sweep(v, decision, fixed=False).value
    return v


def nominal_policy(problem: Problem) -> tuple[FloatArray, IntArray]:
    """Value (n_states,) and decision of the mean model: where every search starts."""
    from softrobust.returns import optimal_returns

    optima = optimal_returns(problem.mean_problem(), tol=1e-6)
    return optima.V[0].copy(), optima.decisions[0].copy()


def as_policy(problem: Problem, decision: IntArray) -> Policy:
    """The decision as a policy of the problem."""
    m = problem.models
    return Policy.from_decision(decision, m.states, m.actions, problem.decided)
