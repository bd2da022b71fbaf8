"""What every model says about a set of allowed actions: optima, advantages, occupancies (§4.1's u).

By the performance-difference lemma, with V_ω optimal in model ω under the allowed actions,

    ρ(π, P̂^ω) = p₀ᵀV_ω + Σ_s h^ω_π(s)·adv_ω(s, π(s)),     adv ≤ 0,   h^ω_π(s) ≥ m_ω(s, π(s)),

for every deterministic π that takes allowed actions. m_ω(s,a) and M_ω(s,a) are the least and the
greatest discounted occupancy of s over the allowed policies that take a there, by discounted
first-passage values (`kernels.passage`), true in floating point. For randomized policies too,

    min_a m_ω(s,a) ≤ h^ω_π(s) ≤ max_a M_ω(s,a).

Least occupancies are those of policies that avoid a state at any price, and nobody wants these. Let
actions have prices q(j,a) ≥ 0, and for θ ≥ 0 let F(s) = 1 and F(j) = min_a θq(j,a) + γP(j,a)ᵀF
elsewhere. Counting visits to s and payments between them, with a = π(s), Q = Σ_j h(j)·q(j,π(j)),

    h(s)·(1 − γP(s,a)ᵀF − θq(s,a)) + θQ ≥ p₀ᵀF,

so that h(s) ≥ m' − θQ·m'/p₀ᵀF with m' = p₀ᵀF/(1 − γPᵀF − θq), besides h(s) ≥ m. Let c = −adv and
e = c − Bq ≥ 0. With weights τ and 1 − τ on the two such that τ·θ·e·m'/p₀ᵀF ≤ b(s) and Σ_s b(s) = B,

    Σ_s h·c = Σ_s h·e + BQ ≥ Σ_s e·[τm' + (1 − τ)m](s, π(s)) :

Q is gone. With B = 0 these are the terms above. Prices are the costs c, but 0 for the action of a
state that is cheapest in the mean of the models, so that who takes it is charged in full: with a B
of a tenth m' is often fifty times m. All this holds in each model, whatever its weight.

A `Relaxation` holds V, adv and m; it is tightened, not recomputed, when actions are taken away.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, final

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
BUDGET = 0.3  # B where nothing is charged yet (0.2 to 0.6 were tried on pest control),
SCALES = (0.1, 0.3, 1.0)  # and the parts of it that are tried
MORE = 0.3  # by which b may rise for one action alone
FREE = 1  # actions of a state without a price
SAME = 0.9  # share of its price that an action must cost for a model to keep its prices


@final
@dataclass(frozen=True, slots=True, eq=False)
class Prices:
    """Occupancies of those who mind what they pay."""

    q: FloatArray  # (S, A, N)
    theta: FloatArray  # (N, S)
    budget: FloatArray  # (N, S) b
    start: FloatArray  # (N, S) p₀ᵀF
    m: FloatArray  # (S, A, N) m'
    rules: NDArray[np.int16]  # (N, S, S) that attain F

    @property
    def arrays(self) -> tuple[NDArray[Any], ...]:
        """All of them, in order."""
        return self.q, self.theta, self.budget, self.start, self.m, self.rules


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
    prices: Prices | None = None

    @property
    def terms(self) -> FloatArray:
        """(S, A, N): m·adv ≤ 0, what a choice of a in s costs model ω at least."""
        return self.m * self.adv

    def charges(self, xi: FloatArray) -> Charges:
        """What choices cost with prices, in the sum over states that is best for the weights xi."""
        best = Charges(self.terms, None, None)
        if self.prices is None:
            return best
        q, theta, budget, start, m, _ = self.prices.arrays
        c = -self.adv
        most = _most(self.allowed, c, q)  # V may have changed since the prices were made
        per_cost = (theta / np.where(start > 0, start, np.inf)).T[:, None, :] * m
        more = np.maximum(m - self.m, 0.0)
        useful = np.where(more > 0, per_cost * c, 0.0).max(axis=1)  # (S, N): no more b is of use
        value = _sum_of_best(self.allowed, best.terms, xi)
        for scale in SCALES:
            b = np.minimum(scale * budget.T, useful)
            total = b.sum(axis=0)
            b *= np.divide(most, total, out=np.ones_like(total), where=total > most)
            B = b.sum(axis=0)
            terms = self._with(b[:, None, :], B, q, per_cost, more)
            found = _sum_of_best(self.allowed, terms, xi)
            if found < value:
                value = found
                extra = np.minimum(MORE, np.maximum(most - B, 0.0))
                left = 1.0 - extra / np.maximum(most - B, 1e-300)
                alone = self._with(b[:, None, :] + extra, B + extra, q, per_cost, more)
                best = Charges(terms, alone, float(left.min()))
        return best

    def _with(
        self, b: FloatArray, B: FloatArray, q: FloatArray, per_cost: FloatArray, more: FloatArray
    ) -> FloatArray:
        """−e·(m + τ·(m' − m)₊), rounding included."""
        e = np.maximum((1 - 64 * EPS) * -self.adv - (1 + 64 * EPS) * B * q, 0.0)
        tau = np.minimum(1.0, b / np.maximum(per_cost * e, 1e-300))
        return np.asarray(-e * (self.m + (1 - 64 * EPS) * tau * more))

    @property
    def nbytes(self) -> int:
        """Memory held."""
        held = (self.V, self.decisions, self.adv, self.m, self.rules, self.h)
        prices = 0 if self.prices is None else sum(part.nbytes for part in self.prices.arrays)
        return prices + sum(part.nbytes for part in held)


@final
@dataclass(frozen=True, slots=True, eq=False)
class Charges:
    """What choices cost at least.

    `terms` charge a dear action no more than is good for the sum. To take it away, b may rise for
    it by `MORE`: then it costs `alone`, and what others cost counts by the share `others`.
    """

    terms: FloatArray  # (S, A, N), ≤ 0
    alone: FloatArray | None  # (S, A, N), ≤ 0
    others: float | None


def _sum_of_best(allowed: BoolArray, terms: FloatArray, xi: FloatArray) -> float:
    return float(np.where(allowed, terms @ xi, -np.inf).max(axis=1).sum())


def relax(
    reduced: Reduced,
    allowed: BoolArray,
    parent: Relaxation | None = None,
    deadline: Deadline = NO_LIMIT,
    occupancies: bool = True,
    worth: BoolArray | None = None,
    optima: ModelOptima | None = None,
    xi: FloatArray | None = None,
) -> Relaxation:
    """The relaxation of `allowed`, starting from that of a larger set.

    Raises `OutOfTime` where not even the optima are there in time; occupancy bounds that are not
    stay as they were, which is always true. So they do without `occupancies`. `worth` (S,) are the
    states whose occupancies are worth it, all where there is a choice by default; `optima` of the
    models are a start where there is no parent. Given weights `xi` (N,) of the models, losses are
    priced where that is worth most to them: for deterministic policies alone.
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
    prices = None if parent is None else parent.prices
    _restrict(p, allowed, fresh, V, decisions, upper, adv, h, deadline)
    slack = 4 * S * EPS * (np.abs(V) @ p.p0)
    x = V @ p.p0 + p.p0.sum() * upper + slack
    size = float(np.abs(x).max()) + reference_size(p)
    x = measured(p, x)
    if occupancies and rules.shape[2] == S:
        least, rules = least.copy(), rules.copy()
        choice = reduced.reachable & (allowed.sum(axis=1) > 1)
        targets = np.flatnonzero(choice if worth is None else choice & worth)
        tighten(p, allowed, targets, 1, fresh, rules, least, deadline)
        if xi is not None:
            now = Relaxation(allowed, V, decisions, upper, x, size, adv, least, rules, h, prices)
            prices = _priced(p, now, targets, xi, deadline)
    return Relaxation(allowed, V, decisions, upper, x, size, adv, least, rules, h, prices)


def _priced(
    problem: Problem,
    now: Relaxation,
    targets: NDArray[np.int64],
    xi: FloatArray,
    deadline: Deadline,
) -> Prices:
    """Prices by the costs of now, and what they lead to.

    b goes by what a state would charge beyond m if visited as by h. θ is such that b serves the
    larger cost of the two actions that are cheapest so; dearer ones are charged hardly more.
    """
    adv, rows, (N, S) = now.adv, np.arange(now.V.shape[1]), now.V.shape
    cost = np.where(now.allowed, np.einsum("san,ns->sa", adv * -xi, now.h), np.inf)
    order = np.argsort(cost, axis=1)
    first, second = order[:, 0], order[:, min(1, order.shape[1] - 1)]
    least, own = now.m[rows, first], cost[rows, first]
    gain = np.zeros(S)
    gain[targets] = np.maximum(own + (least * adv[rows, first]) @ xi, 0.0)[targets]
    b = BUDGET * gain / max(own.sum(), 1e-300)
    dear = -np.minimum(adv[rows, first], adv[rows, second]).T  # (N, S)
    dear = np.maximum(dear, xi @ dear) * np.maximum(now.h, 1.0)  # 1 − γPᵀF is at most one over h
    theta = np.where(dear > 0, b / np.where(dear > 0, dear, 1.0), 0.0)
    q, budget, old = -adv, np.where(theta > 0, b, 0.0), now.prices
    q[rows[:, None], order[:, :FREE]] = 0.0
    start, m, rules, keep = np.zeros((N, S)), now.m.copy(), now.rules.copy(), np.zeros((N, S), bool)
    if old is not None:  # models whose costs are still what they were keep their prices
        same = _most(now.allowed, -adv, old.q) >= SAME
        keep[same] = True
        q[:, :, same], m[:, :, same] = old.q[:, :, same], old.m[:, :, same]
        theta[same], budget[same], start[same] = old.theta[same], old.budget[same], old.start[same]
        rules = old.rules.copy()
    _passages(
        problem, now.allowed, targets, 1, old is None, rules, m, deadline, -q, theta, keep, start
    )
    return Prices(q, theta, budget, start, m, rules)


def _most(allowed: BoolArray, c: FloatArray, q: FloatArray) -> FloatArray:
    """(N,): the largest B with B·q ≤ c for all that is allowed."""
    priced = allowed[:, :, None] & (q > 0)
    return np.asarray(np.where(priced, c / np.where(q > 0, q, 1.0), np.inf).min(axis=(0, 1)))


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
    actions.
    """
    free = np.zeros((problem.n_models, problem.n_states))
    _passages(
        problem, allowed, targets, sign, fresh, rules, m, deadline, np.zeros_like(m), free,
        np.ones_like(free, bool), free.copy(),
    )  # fmt: skip


def _passages(
    problem: Problem,
    allowed: BoolArray,
    targets: NDArray[np.int64],
    sign: int,
    fresh: bool,
    rules: NDArray[np.int16],
    m: FloatArray,
    deadline: Deadline,
    adv: FloatArray,
    theta: FloatArray,
    keep: BoolArray,
    start: FloatArray,
) -> None:
    """First passages until the deadline; `start` (N, S) ← p₀ᵀF of what is computed.

    At hundreds of states one model takes seconds, so the clock is looked at between chunks of
    states too; each chunk pays one inverse per model.
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
                large, part.start, part.stop, models.indptr, models.next_states, models.prob, adv,
                problem.p0, allowed, targets, some.start, some.stop, problem.gamma, sign, fresh,
                theta, keep, rules, m, start,
            )  # fmt: skip


def relaxation_bytes(problem: Problem, occupancies: bool = True) -> float:
    """What `relax` allocates: V, decisions, h, prices; advantages, m, terms; rules; dense rows."""
    S, A, N = problem.R.shape
    size = 56.0 * N * S + 56.0 * S * A * N
    if occupancies and can_bound_occupancies(problem):
        size += 4.0 * N * S**2 + 8.0 * S * A * S * 2
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
