"""What every model says about a set of allowed actions: optima, advantages, least occupancies.

By the performance-difference lemma, with V_ω optimal in model ω under the allowed actions,

    ρ(π, P̂^ω) = p₀ᵀV_ω + Σ_s h^ω_π(s)·adv_ω(s, π(s)),     adv ≤ 0,   h^ω_π(s) ≥ m_ω(s, π(s)),

for every deterministic π that takes allowed actions, where m_ω(s,a) is the least discounted
occupancy of s over the allowed policies that take a there. A `Relaxation` holds these numbers; it
is tightened, not recomputed, when actions are taken away.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, final

import numpy as np
from numpy.typing import NDArray

from softrobust._core.arrays import BoolArray, FloatArray, refuse_if_too_large
from softrobust._core.limits import Late, check, chunks
from softrobust.bounds.reduction import reach

if TYPE_CHECKING:
    from softrobust._core.limits import Late
    from softrobust.bounds.reduction import Reduced
    from softrobust.problem import Problem
    from softrobust.returns import ModelOptima


PARALLEL_WORK = 2_000_000  # N·S³ below which threads cost more than they bring
DENSE_ROWS = 3e7  # S·A·S above which occupancies are not bounded (m = 0 stays true),
RULES = 3e8  # and N·S² above which their rules would not fit,
INVERSES = 5e9  # and N·S³ above which one inverse per model would take long
FIRST = 4  # models before the first look at the clock,
TARGET_WORK = 2e8  # and FIRST·S³ times the states whose occupancies are bounded before it


@final
@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class Relaxation:
    """The models' view of one set of allowed actions; N models, S states, A actions.

    Attributes
    ----------
    allowed : (S, A) bool
    V : (N, S), decisions : (N, S)
        Optimal values and rules per model.
    x : (N,)
        p₀ᵀV_ω plus its correction: a bound on every allowed policy's return in model ω.
    adv : (S, A, N)
        Advantages, ≤ 0; 0 where not allowed.
    m : (S, A, N)
        Least occupancies (0 where not bounded), and the rules (N, S, S) that attain them.
    h : (N, S)
        Occupancies of the models' own optimal rules.
    """

    allowed: BoolArray
    V: FloatArray
    decisions: NDArray[np.int64]
    upper: FloatArray
    x: FloatArray
    adv: FloatArray
    m: FloatArray
    rules: NDArray[np.int16]
    h: FloatArray

    @property
    def terms(self) -> FloatArray:
        """(S, A, N): m·adv ≤ 0, what a choice of a in s costs model ω at least."""
        return self.m * self.adv

    @property
    def nbytes(self) -> int:
        """Memory held."""
        held = (self.V, self.decisions, self.adv, self.m, self.rules, self.h)
        return sum(part.nbytes for part in held)


def relax(
    reduced: Reduced,
    allowed: BoolArray,
    parent: Relaxation | None = None,
    late: Late | None = None,
    occupancies: bool = True,
    worth: BoolArray | None = None,
    optima: ModelOptima | None = None,
) -> Relaxation:
    """The relaxation of `allowed`, starting from that of a larger set.

    Raises `OutOfTime` where not even the optima are there in time; occupancy bounds that are not
    stay as they were, which is always true.

    Parameters
    ----------
    late : callable, optional
        Asked between chunks of models.
    occupancies : bool
        Whether to bound occupancies anew; if not, the larger set's stay, which is always true.
    worth : (S,) bool, optional
        The states whose occupancies are worth it; all where there is a choice by default.
    optima : ModelOptima, optional
        Optima of the models, to start from where there is no parent.
    """
    p = reduced.problem
    S, A, N = p.R.shape
    fresh = parent is None
    if parent is None:
        refuse_if_too_large(
            relaxation_bytes(p, occupancies),
            "The bounds on what every model can earn",
            "Use fewer models, or a solver that proves nothing (local-search).",
        )
        V, decisions = _start(reduced, allowed, optima)
        upper, h, adv = np.zeros(N), np.zeros((N, S)), np.zeros((S, A, N))
        kept = S if occupancies and can_bound_occupancies(p) else 0
        least, rules = np.zeros((S, A, N)), np.zeros((N, S, kept), np.int16)
    else:
        V, decisions, upper = parent.V.copy(), parent.decisions.copy(), parent.upper.copy()
        h, adv, least, rules = parent.h.copy(), parent.adv.copy(), parent.m, parent.rules
    _restrict(p, allowed, fresh, V, decisions, upper, adv, h, late)
    if occupancies and rules.shape[2] == S:
        least, rules = least.copy(), rules.copy()
        choice = reduced.reachable & (allowed.sum(axis=1) > 1)
        targets = np.flatnonzero(choice if worth is None else choice & worth)
        tighten(p, allowed, targets, 1, fresh, rules, least, late)
    slack = 4 * S * np.finfo(float).eps * (np.abs(V) @ p.p0)
    x = V @ p.p0 + p.p0.sum() * upper + slack
    return Relaxation(allowed, V, decisions, upper, x, adv, least, rules, h)


def _start(
    reduced: Reduced, allowed: BoolArray, optima: ModelOptima | None
) -> tuple[FloatArray, NDArray[np.int64]]:
    """Values (N, S) and allowed rules (N, S) to start from."""
    p = reduced.problem
    first = np.argmax(np.where(allowed, p.R @ p.models.f, -np.inf), axis=1)
    if optima is None:
        return np.zeros((p.n_models, p.n_states)), np.tile(first, (p.n_models, 1))
    kept = allowed[np.arange(p.n_states), optima.decisions]
    return optima.V.copy(), np.where(kept, optima.decisions, first)


def _restrict(
    problem: Problem,
    allowed: BoolArray,
    fresh: bool,
    V: FloatArray,
    decisions: NDArray[np.int64],
    upper: FloatArray,
    adv: FloatArray,
    h: FloatArray,
    late: Late | None,
) -> None:
    """Optima under `allowed` and their advantages, in place; `OutOfTime` where it is late."""
    from softrobust.kernels import optimal as restricted

    m, large = problem.models, _large(problem)
    run: Any = restricted.restrict_parallel if large else restricted.restrict_serial
    for part in chunks(m.n_models, FIRST if large else m.n_models):
        check(late)
        run(
            m.indptr, m.next_states, m.prob, problem.R, problem.p0, allowed, problem.gamma, fresh,
            part.start, part.stop, V, decisions, upper, adv, h,
        )  # fmt: skip


def tighten(
    problem: Problem,
    allowed: BoolArray,
    targets: NDArray[np.int64],
    sign: int,
    fresh: bool,
    rules: NDArray[np.int16],
    m: FloatArray,
    late: Late | None = None,
) -> bool:
    """Bound the occupancies of the target states, in place; False where the clock cut it short.

    States and models not reached by then keep what they had, 0 or the bound of a larger set of
    actions. At hundreds of states one model takes seconds, so the clock is looked at between chunks
    of states too; each chunk pays one inverse per model.
    """
    from softrobust.kernels import passage

    if not can_bound_occupancies(problem):
        return False
    models, large = problem.models, _large(problem)
    run: Any = passage.passage_parallel if large else passage.passage_serial
    at_first = max(1, int(TARGET_WORK / (FIRST * problem.n_states**3)))
    for part in chunks(models.n_models, FIRST if large else models.n_models):
        for some in chunks(targets.size, at_first):
            if late is not None and late():
                return False
            run(
                models.indptr, models.next_states, models.prob, problem.R, problem.p0, allowed,
                targets, some.start, some.stop, problem.gamma, sign, fresh, part.start, part.stop,
                rules, m,
            )  # fmt: skip
    return True


def relaxation_bytes(problem: Problem, occupancies: bool = True) -> float:
    """What `relax` allocates: V, decisions and h; advantages, m and m·adv; rules; dense rows."""
    S, A, N = problem.R.shape
    size = 24.0 * N * S + 24.0 * S * A * N
    if occupancies and can_bound_occupancies(problem):
        size += 2.0 * N * S**2 + 8.0 * S * A * S * 2
    return float(size)


def can_bound_occupancies(problem: Problem) -> bool:
    """Whether the problem is small enough for first-passage values of every state."""
    S, A, N = problem.R.shape
    return bool(S * A * S <= DENSE_ROWS and N * S**2 <= RULES and N * S**3 <= INVERSES)


def _large(problem: Problem) -> bool:
    return problem.n_models > 1 and problem.n_models * problem.n_states**3 > PARALLEL_WORK


# --------------------------------------------------------------------------------------------------
# Least and greatest discounted occupancies per state, action and model (the u of section 4.1).
#
#     m_ω(s,a) ≤ h^ω_π(s) ≤ M_ω(s,a)     for every deterministic allowed π with π(s) = a,
#     min_a m_ω(s,a) ≤ h^ω_π(s) ≤ max_a M_ω(s,a)     for every allowed π, randomized ones included,
#
# by discounted first-passage values (see `kernels.passage`), true in floating point.


@final
@dataclass(frozen=True, slots=True, eq=False)
class OccupancyBounds:
    """`least` and `greatest`, each (n_states, n_actions, n_models); 0 where not allowed."""

    least: FloatArray
    greatest: FloatArray


def occupancy_bounds(
    problem: Problem,
    allowed: BoolArray | None = None,
    late: Late | None = None,
) -> OccupancyBounds:
    """Bound every occupancy of the problem.

    Parameters
    ----------
    allowed : (n_states, n_actions) bool, optional
        Fewer actions than the problem's.
    late : callable, optional
        Asked now and then; once True, what is not yet bounded stays at 0 and at
        Σp₀/(1 − γ·row sum).
    """
    mask = problem.allowed if allowed is None else allowed
    S, A, N = problem.R.shape
    targets = np.arange(S)
    kept = S if can_bound_occupancies(problem) else 0
    refuse_if_too_large(
        16.0 * S * A * N + 2.0 * N * S * kept,
        "Bounds on every occupancy",
        "Use fewer models, or fewer states and actions.",
    )
    least, rules = np.zeros((S, A, N)), np.zeros((N, S, kept), np.int16)
    tighten(problem, mask, targets, 1, True, rules, least, late)
    greatest = np.where(mask[:, :, None], reach(problem), 0.0)
    rules[:] = 0
    tighten(problem, mask, targets, -1, True, rules, greatest, late)
    return OccupancyBounds(least, greatest)
