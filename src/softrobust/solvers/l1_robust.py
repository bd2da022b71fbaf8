"""SA-rectangular robust MDPs whose sets are L1 or L∞ balls around a nominal model.

    v(s) = max_a min {pᵀ(r_{s,a} + γv) : p ∈ Δ, ‖p − p̄_{s,a}‖ ≤ ψ_{s,a}}

An optimal policy is deterministic, and p₀ᵀv its return if nature picks the worst row of the ball
anew at every visit: what the method promises. Policy iteration of both players, with a worst case
in O(n log n) per pair and certified bounds (`fixed_point`); where mass may go, see `pair_rows`.
"""

from __future__ import annotations

from abc import ABC
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from softrobust.data.arrays import frozen
from softrobust.errors import InputError
from softrobust.kernels.balls import L1, LINF, Balls, ball_sweep
from softrobust.models.model_set import ModelSet
from softrobust.solvers.base import Deadline, Solution, finish
from softrobust.solvers.fixed_point import (
    EPS,
    FixedPoint,
    IntArray,
    Iterated,
    Sweep,
    Update,
    as_policy,
    nominal_policy,
)
from softrobust.solvers.pair_rows import PairRows, Support, pair_rows

if TYPE_CHECKING:
    from softrobust.problem import Problem

FloatArray = NDArray[np.float64]


@final
class BallUpdate(Update):
    """T for balls of radius `budgets` (n_states·n_actions,) around the rows.

    `weights` (nnz,) are those of the norm at every entry of the rows, or None.
    """

    def __init__(
        self,
        problem: Problem,
        rows: PairRows,
        budgets: FloatArray,
        norm: int = L1,
        weights: FloatArray | None = None,
    ) -> None:
        self.indptr, self.next_states = rows.indptr, rows.next_states
        self.gamma, self.deviation = problem.gamma, rows.deviation
        self.n_actions, self.sweeps = problem.n_actions, 0
        self.width = rows.width
        self.r_max = float(np.abs(rows.r).max(initial=0.0))
        radii = np.where(rows.live, budgets.reshape(-1), 0.0)
        w = np.empty(0) if weights is None else weights
        self.balls = Balls(
            rows.indptr, rows.next_states, rows.p, rows.r, w, radii,
            np.ascontiguousarray(problem.allowed), problem.gamma, norm,
        )  # fmt: skip

    def sweep(self, v: FloatArray, decision: IntArray, fixed: bool) -> Sweep:
        """One pass over the rows."""
        if not np.isfinite(v).all():
            raise InputError("Values must be finite; check the rewards for numbers too large.")
        values, rows = np.empty(v.size), np.zeros(self.next_states.size)
        chosen = decision.copy()
        ball_sweep(self.balls, v, chosen, fixed, values, rows)
        self.sweeps += 1
        # z is rounded once or twice, the moved mass and the sum over n entries once each; and an
        # action is skipped by its rounded nominal value.
        size = self.r_max + self.gamma * float(np.abs(v).max())
        slack = EPS * (2 * self.width + 8) * size
        return Sweep(values - slack, values + 2 * slack, chosen, rows)


@dataclass(frozen=True, slots=True, eq=False)
class _BallRobust(Iterated, ABC):
    """Settings that the two norms share."""

    budgets: float | FloatArray
    centre: ModelSet | None = None
    weights: FloatArray | None = None
    support: Support = "models"
    norm: ClassVar[int]

    def __post_init__(self) -> None:
        Iterated.__post_init__(self)
        given = np.array(self.budgets, dtype=np.float64)
        if given.ndim not in (0, 2) or not (given >= 0).all() or not np.isfinite(given).all():
            raise InputError(
                "budgets is one radius ≥ 0, or an array (n_states, n_actions) of them; "
                f"its shape is {given.shape} and its least entry {given.min(initial=np.inf):g}."
            )
        put = object.__setattr__  # the one place where a frozen object is completed
        put(self, "budgets", frozen(given, np.float64) if given.ndim else float(given))
        if self.weights is not None:
            put(self, "weights", frozen(self.weights, np.float64))

    def solve(self, problem: Problem) -> Solution:
        """Find the policy that is best in the worst case, and its certified value."""
        deadline = Deadline(self.time_limit)
        shape = problem.allowed.shape
        budgets = np.array(self.budgets, dtype=np.float64)
        if budgets.ndim == 2 and budgets.shape != shape:
            raise InputError(
                f"budgets must have shape (n_states, n_actions) = {shape}; it has {budgets.shape}."
            )
        rows = pair_rows(problem, self.centre, self.support)
        weights = None if self.weights is None else entry_weights(rows, self.weights, shape)
        update = BallUpdate(problem, rows, np.broadcast_to(budgets, shape), self.norm, weights)
        found = self.search(update, *nominal_policy(problem), deadline)
        return ball_solution(self, problem, update, found, deadline, {})


def ball_solution(
    solver: Iterated,
    problem: Problem,
    update: BallUpdate,
    found: FixedPoint,
    deadline: Deadline,
    stats: dict[str, Any],
) -> Solution:
    """The solution of a robust MDP with balls, with what was found about it."""
    radii = update.balls.budgets[update.balls.allowed.reshape(-1)]
    more = {
        "seconds": deadline.elapsed,
        "budget_mean": float(radii.mean()),
        "budget_max": float(radii.max()),
    }
    return finish(
        problem,
        solver=solver.name,
        policy=as_policy(problem, found.decision),
        v=found.v,
        status=found.status,
        stats=solver.statistics(problem, update, found) | more | stats,
    )


def entry_weights(rows: PairRows, weights: ArrayLike, shape: tuple[int, int]) -> FloatArray:
    """(nnz,): weights (n_states,) by next state, or (n_states, n_actions, n_states), per entry."""
    w = np.asarray(weights, dtype=np.float64)
    S, A = shape
    if w.shape not in ((S,), (S, A, S)) or not ((w > 0) & np.isfinite(w)).all():
        raise InputError(
            "weights of a norm are positive, one for each next state (n_states,) or for each "
            f"transition (n_states, n_actions, n_states): {(S,)} or {(S, A, S)}; the shape is "
            f"{w.shape} and the least {w.min(initial=np.inf):g}."
        )
    if w.ndim == 1:
        return np.asarray(w[rows.next_states])
    return np.asarray(w.reshape(-1)[rows.keys])


@final
@dataclass(frozen=True, slots=True, eq=False)
class L1Robust(_BallRobust):
    """Robust against all rows within an L1 distance of a nominal model.

    Parameters
    ----------
    budgets : float or (n_states, n_actions)
        Radii ψ ≥ 0; 0 is the nominal model, 2 any row on the support.
    centre : ModelSet, optional
        The nominal model; by default the mean of the problem's models.
    weights : (n_states,) or (n_states, n_actions, n_states), optional
        w > 0 of the norm Σ w(s′)·|p(s′) − p̄(s′)|.
    support : "models" or "all"
        Where nature may put mass: next states that the nominal row or a model reaches, or all.
    tol, time_limit, max_rounds
        As in `Iterated`.
    """

    name: ClassVar[str] = "l1-robust"
    norm: ClassVar[int] = L1


@final
@dataclass(frozen=True, slots=True, eq=False)
class LInfRobust(_BallRobust):
    """Robust against all rows whose entries differ by at most a budget from a nominal model.

    Parameters as in `L1Robust`, with the norm max w(s′)·|p(s′) − p̄(s′)|; 1 is any row on the
    support.
    """

    name: ClassVar[str] = "linf-robust"
    norm: ClassVar[int] = LINF
