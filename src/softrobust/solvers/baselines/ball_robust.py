"""SA-rectangular robust MDPs (eq. 2.3) whose sets are L1 or L∞ balls around a nominal model.

    v(s) = max_a min {pᵀ(r_{s,a} + γv) : p ∈ Δ, ‖p − p̄_{s,a}‖ ≤ ψ_{s,a}}

An optimal policy is deterministic, and p₀ᵀv its return if nature picks the worst row of the ball
anew at every visit: what the method promises. Policy iteration of both players, with a worst case
in O(n log n) per pair and certified bounds (`fixed_point`).

Which next states may the worst case use? The paper and Petrik and Russel (2019) write the simplex
over all states. Their group's code lets nature move mass only among next states of positive nominal
probability, and so do we by default (`support="models"`): every model of the set lives there, so a
set that contains P* with probability α still does, stock that was never there cannot appear, and
rewards are known there. `support="all"` is the text's simplex.

Rewards stand at the transition, z = r(s,a,s′) + γv(s′). Where they differ by model, r(s,a,s′) is
Σ_ω f P̂^ω r^ω / Σ_ω f P̂^ω, with which the nominal row has the mean reward. States that the data
never left stay where they are with reward 0, whatever the budget.
"""

from __future__ import annotations

from abc import ABC
from dataclasses import dataclass
from typing import ClassVar, Literal, final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from softrobust._core import arrays
from softrobust._core.arguments import names_arguments
from softrobust._core.arrays import BoolArray, FloatArray, IntArray
from softrobust._core.limits import Deadline
from softrobust.bounds.reduction import EPS
from softrobust.errors import InputError
from softrobust.kernels.balls import L1, LINF, Balls, ball_sweep, reached_states
from softrobust.models.model_set import ModelSet
from softrobust.problem import Problem
from softrobust.solvers.base import Solution, Solver
from softrobust.solvers.rectangular.fixed_point import Iterated, Operator, OperatorSweep

Support = Literal["models", "all"]


@final
@dataclass(frozen=True, slots=True, eq=False)
class PairRows:
    """Nominal rows of pairs that may be taken, laid out like `ModelSet`; others list nothing."""

    indptr: IntArray  # (n_states·n_actions + 1,)
    next_states: NDArray[np.int32]  # (nnz,)
    p: FloatArray  # (nnz,) nominal probabilities,
    r: FloatArray  # (nnz,) and rewards of the transitions
    live: BoolArray  # (n_states·n_actions,) pairs that nature may move: not of a state never left
    n_states: int

    @property
    def keys(self) -> IntArray:
        """pair·n_states + s′ of every entry, ascending."""
        return arrays.entry_keys(self.indptr, self.next_states, self.n_states)

    @property
    def width(self) -> int:
        """The longest list."""
        return int(np.diff(self.indptr).max(initial=0))

    @property
    def deviation(self) -> float:
        """The largest |row sum − 1|, with the rounding of the sum itself."""
        used = np.diff(self.indptr) > 0
        sums = np.add.reduceat(self.p, self.indptr[:-1][used])
        return float(np.abs(sums - 1).max()) + EPS * (self.width + 2)


def model_keys(models: ModelSet, which: BoolArray | None = None) -> IntArray:
    """pair·n_states + s′ of the listed next states, ascending; only the chosen entries."""
    keys = arrays.entry_keys(models.indptr, models.next_states, models.n_states)
    return keys if which is None else keys[which]


def reached_keys(models: ModelSet) -> tuple[IntArray, BoolArray]:
    """Keys of the next states that any model gives a positive probability, and which those are."""
    there = np.empty(models.next_states.size, np.bool_)
    reached_states(models.prob, models.indptr, models.n_models, there)
    return model_keys(models, there), there


def pair_rows(
    problem: Problem,
    centre: ModelSet | None = None,
    support: Support = "models",
    more: IntArray | None = None,
) -> PairRows:
    """The nominal rows of a problem: the mean of its models, or of those of `centre`.

    Nature may put mass on next states that the nominal row or a model of positive weight reaches,
    and on those of the keys `more` (see `model_keys`), which other draws reach; or on all states.
    """
    S, A = problem.n_states, problem.n_actions
    sinks = np.repeat(problem.models.sinks, A)
    live = problem.allowed.reshape(-1) & ~sinks
    own = problem.models.mean_model()
    at = own if centre is None else centre.mean_model() if centre.n_models > 1 else centre
    if centre is not None:
        check_like(problem, centre, "The centre of the ambiguity sets")
    listed, p = model_keys(at), at.prob
    if support == "all":
        arrays.refuse_if_too_large(
            40.0 * live.sum() * S, "Rows over all states", "Use support='models'."
        )
        keys = (np.flatnonzero(live)[:, None] * S + np.arange(S)).reshape(-1)
    else:
        parts = [listed[p > 0], model_keys(own, own.prob > 0), more]
        keys = np.unique(np.concatenate([x for x in parts if x is not None]))
        keys = keys[live[keys // S]]
    stay = np.flatnonzero(problem.allowed.reshape(-1) & sinks)
    keys = np.sort(np.concatenate([keys, stay * S + stay // A]))
    rows, _ = _at(listed, p, keys)
    moves = live[keys // S]
    rows[~moves] = 1.0
    r = np.zeros(keys.size)
    r[moves] = transition_rewards(problem, keys[moves])
    indptr = np.concatenate([[0], np.cumsum(np.bincount(keys // S, minlength=S * A))])
    return PairRows(indptr, (keys % S).astype(np.int32), rows, r, live, S)


def check_like(problem: Problem, models: ModelSet, what: str) -> None:
    """Raise unless `models` have the problem's labels and transitions for all its pairs."""
    m = problem.models
    if models.states != m.states or models.actions != m.actions:
        raise InputError(
            f"{what} must have the states and actions of the problem ({m.n_states} and "
            f"{m.n_actions}); it has {models.n_states} and {models.n_actions}, or other labels."
        )
    missing = np.argwhere(problem.allowed & ~models.available)
    if missing.size:
        s, a = missing[0]
        raise InputError(
            f"{what} must know every allowed pair: state '{m.states[s]}', action "
            f"'{m.actions[a]}' has no transitions there."
        )


def _at(listed: IntArray, values: FloatArray, keys: IntArray) -> tuple[FloatArray, BoolArray]:
    """Values of the ascending keys `listed` at `keys`, 0 where they are not listed; and where."""
    place, known = arrays.found_at(listed, keys)
    return np.where(known, values[place], 0.0), known


def transition_rewards(problem: Problem, keys: IntArray) -> FloatArray:
    """r(s,a,s′) of the keys pair·n_states + s′; an unknown one is an error."""
    S, A = problem.n_states, problem.n_actions
    if problem.rewards.per_model is not None:
        value, known = _mean_rewards(problem, keys)
    else:
        value, known = problem.rewards.lookup(keys // S, keys % S)
    if not known.all():
        i = int(np.flatnonzero(~known)[0])
        pair, s_next = divmod(int(keys[i]), S)
        m = problem.models
        raise InputError(
            "An ambiguity set needs the reward of every transition that nature may choose: state "
            f"'{m.states[pair // A]}', action '{m.actions[pair % A]}', next state "
            f"'{m.states[s_next]}' has none ({int((~known).sum())} such transitions). Use "
            "support='models', or give a reward table with a default."
        )
    return value


def _mean_rewards(problem: Problem, keys: IntArray) -> tuple[FloatArray, BoolArray]:
    """Σ f P r / Σ f P at the keys (Σ f r where no model gets there), and whether it is listed."""
    m, per_model = problem.models, problem.rewards.per_model
    assert per_model is not None
    mean = np.empty(m.next_states.size)
    for k in range(m.indptr.size - 1):
        lo, hi = m.indptr[k], m.indptr[k + 1]
        P = m.prob[lo * m.n_models : hi * m.n_models].reshape(m.n_models, hi - lo)
        r = per_model[lo * m.n_models : hi * m.n_models].reshape(P.shape)
        mass = m.f @ P
        with np.errstate(divide="ignore", invalid="ignore"):
            mean[lo:hi] = np.where(mass > 0, m.f @ (P * r) / mass, m.f @ r)
    return _at(model_keys(m), mean, keys)


@final
class BallOperator(Operator):
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
        used = radii[problem.allowed.reshape(-1)]
        self.stats = {"budget_mean": float(used.mean()), "budget_max": float(used.max())}
        w = np.empty(0) if weights is None else weights
        self.balls = Balls(
            rows.indptr, rows.next_states, rows.p, rows.r, w, radii,
            np.ascontiguousarray(problem.allowed), problem.gamma, norm,
        )  # fmt: skip

    def sweep(self, v: FloatArray, decision: IntArray, fixed: bool) -> OperatorSweep:
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
        return OperatorSweep(values - slack, values + 2 * slack, chosen, rows)


@dataclass(frozen=True, slots=True, eq=False)
class _BallRobust(Iterated, ABC):
    """Settings that the two norms share."""

    budgets: float | FloatArray
    centre: ModelSet | None = None
    weights: FloatArray | None = None
    support: Support = "models"
    norm: ClassVar[int]

    def __post_init__(self) -> None:
        Solver.__post_init__(self)
        given = np.array(self.budgets, dtype=np.float64)
        if given.ndim not in (0, 2) or not (given >= 0).all() or not np.isfinite(given).all():
            raise InputError(
                "budgets is one radius ≥ 0, or an array (n_states, n_actions) of them; "
                f"its shape is {given.shape} and its least entry {given.min(initial=np.inf):g}."
            )
        put = object.__setattr__  # the one place where a frozen object is completed
        put(self, "budgets", arrays.frozen(given, np.float64) if given.ndim else float(given))
        if self.weights is not None:
            put(self, "weights", arrays.frozen(self.weights, np.float64))

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
        operator = BallOperator(problem, rows, np.broadcast_to(budgets, shape), self.norm, weights)
        return self.solution(problem, operator, deadline)


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


@names_arguments
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


@names_arguments
@final
@dataclass(frozen=True, slots=True, eq=False)
class LInfRobust(_BallRobust):
    """As `L1Robust`, with the norm max w(s′)·|p(s′) − p̄(s′)|; 1 is any row on the support."""

    name: ClassVar[str] = "linf-robust"
    norm: ClassVar[int] = LINF
