"""What every model says about a set of allowed actions: optima, advantages, occupancies (§4.1's u).

By the performance-difference lemma, with V_ω optimal in model ω under the allowed actions,

    ρ(π, P̂^ω) = p₀ᵀV_ω + Σ_s h^ω_π(s)·adv_ω(s, π(s)),     adv ≤ 0,   h^ω_π(s) ≥ m_ω(s, π(s)),

for every deterministic π that takes allowed actions. m_ω(s,a) and M_ω(s,a) are the least and the
greatest discounted occupancy of s over the allowed policies that take a there, by discounted
first-passage values (`kernels.passage`), true in floating point. For randomized policies too,

    min_a m_ω(s,a) ≤ h^ω_π(s) ≤ max_a M_ω(s,a).

A `Relaxation` holds V, adv and m; it is tightened, not recomputed, when actions are taken away.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import numpy as np
from numpy.typing import NDArray

from softrobust._core.arrays import BoolArray, FloatArray, read_only, refuse_if_too_large
from softrobust._core.limits import NO_LIMIT, Deadline, chunks
from softrobust.bounds.reduction import EPS, Reduced, reach
from softrobust.problem import Problem
from softrobust.returns import ModelOptima, measured, reference_size

PARALLEL_WORK = 2_000_000  # N·S³ below which threads cost more than they bring
DENSE_ROWS = 3e7  # S·A·S above which occupancies are not bounded (m = 0 stays true),
RULES = 3e8  # and N·S² above which their rules would not fit,
INVERSES = 5e9  # and N·S³ above which one inverse per model would take long
FIRST = 4  # models before the first look at the clock,
TARGET_WORK = 2e8  # and FIRST·S³ times the states whose occupancies are bounded before it


@final
@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class Relaxation:
    """The models' view of one set of allowed actions; N models, S states, A actions."""

    allowed: BoolArray  # (S, A)
    V: FloatArray  # (N, S) optimal values per model,
    decisions: NDArray[np.int64]  # (N, S) and rules
    upper: FloatArray  # (N,) corrections that make V a bound in floating point
    x: FloatArray  # (N,) p₀ᵀV_ω so corrected: a bound on every allowed policy's return, less c_ω
    size: float  # the largest |p₀ᵀV_ω| and |c_ω|: what x was rounded at
    adv: FloatArray  # (S, A, N) advantages, ≤ 0; 0 where not allowed
    m: FloatArray  # (S, A, N) least occupancies, 0 where not bounded,
    rules: NDArray[np.int16]  # (N, S, S) and the rules that attain them
    h: FloatArray  # (N, S) occupancies of the models' own optimal rules

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
    deadline: Deadline = NO_LIMIT,
    occupancies: bool = True,
    worth: BoolArray | None = None,
    optima: ModelOptima | None = None,
) -> Relaxation:
    """The relaxation of `allowed`, starting from that of a larger set.

    Raises `OutOfTime` where not even the optima are there in time; occupancy bounds that are not
    stay as they were, which is always true. So they do without `occupancies`. `worth` (S,) are the
    states whose occupancies are worth it, all where there is a choice by default; `optima` of the
    models are a start where there is no parent.
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
    _restrict(p, allowed, fresh, V, decisions, upper, adv, h, deadline)
    if occupancies and rules.shape[2] == S:
        least, rules = least.copy(), rules.copy()
        choice = reduced.reachable & (allowed.sum(axis=1) > 1)
        targets = np.flatnonzero(choice if worth is None else choice & worth)
        tighten(p, allowed, targets, 1, fresh, rules, least, deadline)
    slack = 4 * S * EPS * (np.abs(V) @ p.p0)
    x = V @ p.p0 + p.p0.sum() * upper + slack
    size = float(np.abs(x).max()) + reference_size(p)
    return Relaxation(allowed, V, decisions, upper, measured(p, x), size, adv, least, rules, h)


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
    deadline: Deadline,
) -> None:
    """Optima under `allowed` and their advantages, in place; `OutOfTime` once time is over."""
    from softrobust.kernels.optimal import restrict_models

    m, large = problem.models, _large(problem)
    (allowed,) = read_only(allowed)
    for part in chunks(m.n_models, FIRST if large else m.n_models):
        deadline.check()
        restrict_models(
            large, part.start, part.stop, m.indptr, m.next_states, m.prob, problem.R, problem.p0,
            allowed, problem.gamma, fresh, V, decisions, upper, adv, h,
        )  # fmt: skip


def tighten(
    problem: Problem,
    allowed: BoolArray,
    targets: NDArray[np.int64],
    sign: int,
    fresh: bool,
    rules: NDArray[np.int16],
    m: FloatArray,
    deadline: Deadline = NO_LIMIT,
) -> None:
    """Bound the occupancies of the target states, in place; sign 1 from below, −1 from above.

    States and models not reached by then keep what they had, 0 or the bound of a larger set of
    actions. At hundreds of states one model takes seconds, so the clock is looked at between chunks
    of states too; each chunk pays one inverse per model.
    """
    from softrobust.kernels.passage import passage_bounds

    if not can_bound_occupancies(problem):
        return
    models, large = problem.models, _large(problem)
    (allowed,) = read_only(allowed)
    at_first = max(1, int(TARGET_WORK / (FIRST * problem.n_states**3)))
    for part in chunks(models.n_models, FIRST if large else models.n_models):
        for some in chunks(targets.size, at_first):
            if deadline.passed:
                return
            passage_bounds(
                large, part.start, part.stop, models.indptr, models.next_states, models.prob,
                problem.R, problem.p0, allowed, targets, some.start, some.stop, problem.gamma,
                sign, fresh, rules, m,
            )  # fmt: skip


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


def occupancy_bounds(
    problem: Problem, allowed: BoolArray | None = None, deadline: Deadline = NO_LIMIT
) -> tuple[FloatArray, FloatArray]:
    """Least and greatest occupancies, each (n_states, n_actions, n_models); 0 where not allowed.

    `allowed` may be fewer actions than the problem's. Once the deadline has passed, what is not yet
    bounded stays at 0 and at Σp₀/(1 − γ·row sum).
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
    tighten(problem, mask, targets, 1, True, rules, least, deadline)
    greatest = np.where(mask[:, :, None], reach(problem), 0.0)
    rules[:] = 0
    tighten(problem, mask, targets, -1, True, rules, greatest, deadline)
    return least, greatest
