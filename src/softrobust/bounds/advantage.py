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

if TYPE_CHECKING:
    from collections.abc import Callable

    from softrobust.bounds.reduction import Reduced
    from softrobust.problem import Problem

FloatArray = NDArray[np.float64]
BoolArray = NDArray[np.bool_]

PARALLEL_WORK = 2_000_000  # N·S³ below which threads cost more than they bring
DENSE_ROWS = 3e7  # S·A·S above which occupancies are not bounded (m = 0 stays true),
RULES = 3e8  # and N·S² above which their rules would not fit,
INVERSES = 5e9  # and N·S³ above which one inverse per model would take long
CHUNK_WORK = 1e9  # N·S²·A·targets between two looks at the clock


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
    late: Callable[[], bool] | None = None,
    occupancies: bool = True,
    worth: BoolArray | None = None,
) -> Relaxation:
    """The relaxation of `allowed`, starting from that of a larger set.

    Parameters
    ----------
    late : callable, optional
        Asked between chunks of states: once True, the remaining occupancy bounds stay as they are.
    occupancies : bool
        Whether to bound occupancies anew; if not, the larger set's stay, which is always true.
    worth : (S,) bool, optional
        The states whose occupancies are worth it; all where there is a choice by default.
    """
    from softrobust.kernels import restricted

    p = reduced.problem
    S, A, N = p.R.shape
    m = p.models
    fresh = parent is None
    if parent is None:
        first = np.argmax(np.where(allowed, p.R @ m.f, -np.inf), axis=1)
        V, decisions = np.zeros((N, S)), np.tile(first, (N, 1))
        upper, h, adv = np.zeros(N), np.zeros((N, S)), np.zeros((S, A, N))
        kept = S if occupancies and can_bound_occupancies(p) else 0
        least, rules = np.zeros((S, A, N)), np.zeros((N, S, kept), np.int16)
    else:
        V, decisions, upper = parent.V.copy(), parent.decisions.copy(), parent.upper.copy()
        h, adv, least, rules = parent.h.copy(), parent.adv.copy(), parent.m, parent.rules
    run: Any = restricted.restrict_parallel if _large(p) else restricted.restrict_serial
    run(
        m.indptr, m.next_states, m.prob, p.R, p.p0, allowed, p.gamma, fresh,
        V, decisions, upper, adv, h,
    )  # fmt: skip
    if occupancies and rules.shape[2] == S:
        least, rules = least.copy(), rules.copy()
        choice = reduced.reachable & (allowed.sum(axis=1) > 1)
        targets = np.flatnonzero(choice if worth is None else choice & worth)
        tighten(p, allowed, targets, 1, fresh, rules, least, late)
    slack = 4 * S * np.finfo(float).eps * (np.abs(V) @ p.p0)
    x = V @ p.p0 + p.p0.sum() * upper + slack
    return Relaxation(allowed, V, decisions, upper, x, adv, least, rules, h)


def tighten(
    problem: Problem,
    allowed: BoolArray,
    targets: NDArray[np.int64],
    sign: int,
    fresh: bool,
    rules: NDArray[np.int16],
    m: FloatArray,
    late: Callable[[], bool] | None = None,
) -> bool:
    """Bound the occupancies of the target states, in place; False where the clock cut it short."""
    from softrobust.kernels import passage

    S, A, _ = problem.R.shape
    if not can_bound_occupancies(problem):
        return False
    models = problem.models
    run: Any = passage.passage_parallel if _large(problem) else passage.passage_serial
    chunk = max(8, int(CHUNK_WORK / (problem.n_models * S**2 * A)))
    for i in range(0, targets.size, chunk):
        if late is not None and late():
            return False
        run(
            models.indptr, models.next_states, models.prob, problem.R, problem.p0, allowed,
            targets[i : i + chunk], problem.gamma, sign, fresh, rules, m,
        )  # fmt: skip
    return True


def can_bound_occupancies(problem: Problem) -> bool:
    """Whether the problem is small enough for first-passage values of every state."""
    S, A, N = problem.R.shape
    return bool(S * A * S <= DENSE_ROWS and N * S**2 <= RULES and N * S**3 <= INVERSES)


def _large(problem: Problem) -> bool:
    return problem.n_models > 1 and problem.n_models * problem.n_states**3 > PARALLEL_WORK
