"""Rectangular soft-robust problems by partial policy iteration with certified bounds (section 4.2).

Each round sweeps all states once at v: the games give a decision d, nature's answer ξ and bounds on
the fixed point. If these are tight enough, the middle is the value and d the policy, whose own
worst-case return lies between the same bounds (d attains lb). If not, v moves by Newton's step with
(d, ξ), which converges quadratically near the solution. Newton alone can cycle: where the residual
does not fall, d is kept and nature's own policy iteration answers it (Hoffman and Karp), whose
values rise from round to round.

The start is the optimal value of the mean model, at 1/N of a pass per step.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, final

import numpy as np

from softrobust._core.arrays import FloatArray
from softrobust.kernels.sweeps import S_GAME, S_NATURE, SA_NATURE
from softrobust.models.policy import Policy
from softrobust.returns.rectangular import nature_response, relative_width
from softrobust.returns.rectangular_sweeps import Sweeps, newton_step
from softrobust.solvers.base import Deadline, Status

if TYPE_CHECKING:
    from softrobust.problem import Problem


FALL = 0.5  # a residual that falls less than this calls for nature's own answer
PATIENCE = 4  # rounds without a better bound before rounding has the last word
NOMINAL_STEPS = 30


@final
@dataclass(slots=True, eq=False)
class Answer:
    """The best bounds of a rectangular solve, and the decision that came with them.

    `unit` is 0, or the largest |reward| where v is 0 but for rounding, and its size no measure.
    """

    lower: FloatArray
    upper: FloatArray
    d: FloatArray
    status: Status = Status.ITERATION_LIMIT
    unit: float = 0.0

    @property
    def v(self) -> FloatArray:
        """The middle of the bounds."""
        return 0.5 * (self.lower + self.upper)

    @property
    def tol(self) -> float:
        """Half the width of the bounds, relative to max|v|, or to `unit` where v is 0."""
        return relative_width(self.lower, self.upper, self.unit)


@final
class Course:
    """A solve between two sweeps: where it stands, its best bounds, and how it goes on.

    Whoever drives it sweeps at `v` (alone, or together with other courses) and calls `advance`.

    Parameters
    ----------
    sweeps : Sweeps
        Whose answers `advance` takes up.
    kind : int
        S_GAME or SA_GAME.
    v : (n_states,)
        The start.
    """

    def __init__(
        self, sweeps: Sweeps, kind: int, v: FloatArray, tol: float, max_rounds: int
    ) -> None:
        self.sweeps, self.tol, self.rounds_left = sweeps, tol, max_rounds
        self.nature = S_NATURE if kind == S_GAME else SA_NATURE
        self.v, self.last, self.waited = v, np.inf, 0
        self.best: Answer | None = None

    def advance(self, late: bool) -> Answer | None:
        """Take up a sweep at v: the answer where that ends the solve, else None, and v has moved.

        `late` ends it with the bounds reached.
        """
        best = self._better()
        self.rounds_left -= 1
        if best.tol <= self.tol:
            best.status = Status.TOLERANCE_REACHED
            return best
        if self.waited >= PATIENCE:
            return at_rounding(best, self.sweeps.R_max, self.tol)
        if late:
            best.status = Status.TIME_LIMIT
            return best
        if self.rounds_left == 0:
            return best
        v, sweeps = self.v, self.sweeps
        span = float(np.ptp(sweeps.value - v))
        self.v = sweeps.step(v)
        if span > FALL * self.last:
            self.v = nature_response(sweeps, self.nature, self.v, 0.01 * span)
        self.last = span
        return None

    def _better(self) -> Answer:
        lower, upper = self.sweeps.bounds(self.v)
        width = float((upper - lower).max())
        if self.best is None or width < (self.best.upper - self.best.lower).max():
            self.best, self.waited = Answer(lower, upper, self.sweeps.out.d.copy()), 0
        else:
            self.waited += 1
        return self.best


def at_rounding(best: Answer, unit: float, tol: float) -> Answer:
    """Rounding has the last word; a value function of 0 is then known as well as any.

    Parameters
    ----------
    unit : float
        The largest |reward|.
    """
    if (best.lower <= 0).all() and (best.upper >= 0).all():
        best.unit = unit
        if best.tol <= tol:
            best.status = Status.TOLERANCE_REACHED
    return best


def iterate(
    sweeps: Sweeps, kind: int, v: FloatArray, tol: float, deadline: Deadline, max_rounds: int
) -> Answer:
    """Partial policy iteration from v; `kind` is S_GAME or SA_GAME."""
    course = Course(sweeps, kind, v, tol, max_rounds)
    while True:  # at most max_rounds times
        sweeps.run(kind, course.v)
        answer = course.advance(deadline.passed)
        if answer is not None:
            return answer


def nominal_start(sweeps: Sweeps) -> FloatArray:
    """The optimal value of the mean model, by policy iteration on its rows (to about 1e-3)."""
    problem, m = sweeps.problem, sweeps.models
    rows, _ = sweeps.means()
    R = problem.R @ m.f
    S, A = R.shape
    v, d = np.zeros(S), np.zeros((S, A))
    for _ in range(NOMINAL_STEPS):
        ahead = np.add.reduceat(np.append(rows * v[m.next_states], 0.0), m.indptr[:-1])
        Q = np.where(problem.allowed, R + problem.gamma * ahead.reshape(S, A), -np.inf)
        residual = Q.max(axis=1) - v
        if np.ptp(residual) <= 1e-3 * (1 - problem.gamma) * np.abs(v).max():
            break
        d[:] = 0.0
        d[np.arange(S), Q.argmax(axis=1)] = 1.0
        v = newton_step(m.indptr, m.next_states, rows, d, problem.gamma, v, residual)
    return v


def as_policy(problem: Problem, d: FloatArray) -> Policy:
    """The decision as a policy of the problem."""
    return Policy(d, problem.models.states, problem.models.actions, problem.decided)


def statistics(sweeps: Sweeps, answer: Answer, tol: float, seconds: float) -> dict[str, Any]:
    """What a solve did, and how exact its value is."""
    p0 = sweeps.problem.p0
    return {
        "seconds": seconds,
        "tol": tol,
        "tol_achieved": answer.tol,
        "model_value_lower": float(p0 @ answer.lower),
        "model_value_upper": float(p0 @ answer.upper),
        "passes": round(sweeps.passes, 3),
        "sweeps": int(sweeps.sweeps),
        "inner_sweeps": int(sweeps.inner_sweeps),
        "pivots": int(sweeps.pivots),
        "lp_fallbacks": int(sweeps.fallbacks),
        "randomized_states": int(((answer.d > 0).sum(axis=1) > 1).sum()),
        "certificate_of": "models rounded to float32" if sweeps.float32 else "models as stored",
    }
