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
from numpy.typing import NDArray

from softrobust.kernels.sweeps import S_GAME, S_NATURE, SA_NATURE
from softrobust.models.policy import Policy
from softrobust.returns._newton import newton_step
from softrobust.returns._rectangle import Sweeps
from softrobust.returns.rectangular import nature_response, relative_width
from softrobust.solvers.base import Deadline, Status

if TYPE_CHECKING:
    from softrobust.problem import Problem

FloatArray = NDArray[np.float64]

FALL = 0.5  # a residual that falls less than this calls for nature's own answer
PATIENCE = 4  # rounds without a better bound before rounding has the last word
NOMINAL_STEPS = 30


@final
@dataclass(slots=True, eq=False)
class Answer:
    """The best bounds of a rectangular solve, and the decision that came with them."""

    lower: FloatArray
    upper: FloatArray
    d: FloatArray
    status: Status = Status.ITERATION_LIMIT

    @property
    def v(self) -> FloatArray:
        """The middle of the bounds."""
        return 0.5 * (self.lower + self.upper)

    @property
    def tol(self) -> float:
        """Half the width of the bounds, relative to max|v|."""
        return relative_width(self.lower, self.upper)


def iterate(
    sweeps: Sweeps, kind: int, v: FloatArray, tol: float, deadline: Deadline, max_rounds: int
) -> Answer:
    """Partial policy iteration from v; `kind` is S_GAME or SA_GAME."""
    nature = S_NATURE if kind == S_GAME else SA_NATURE
    best: Answer | None = None
    last, waited = np.inf, 0
    for _ in range(max_rounds):
        sweeps.run(kind, v)
        lower, upper = sweeps.bounds(v)
        width = float((upper - lower).max())
        if best is None or width < (best.upper - best.lower).max():
            best, waited = Answer(lower, upper, sweeps.out.d.copy()), 0
        else:
            waited += 1
        if best.tol <= tol:
            best.status = Status.TOLERANCE_REACHED
            break
        if waited >= PATIENCE:
            break
        if deadline.passed:
            best.status = Status.TIME_LIMIT
            break
        span = float(np.ptp(sweeps.value - v))
        v = sweeps.step(v)
        if span > FALL * last:
            v = nature_response(sweeps, nature, v, 0.01 * span)
        last = span
    assert best is not None  # max_rounds is at least 1
    return best


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
