"""What every model says about a set of allowed actions: optima, advantages, occupancies (§4.1's u).

By the performance-difference lemma, with V_ω optimal in model ω under the allowed actions,

    ρ(π, P̂^ω) = p₀ᵀV_ω + Σ_s h^ω_π(s)·adv_ω(s, π(s)),     adv ≤ 0,   h^ω_π(s) ≥ m_ω(s, π(s)),

for every deterministic π that takes allowed actions. m_ω(s,a) and M_ω(s,a) are the least and the
greatest discounted occupancy of s over the allowed policies that take a there, by discounted
first-passage values (`kernels.passage`), true in floating point. For randomized policies too,

    min_a m_ω(s,a) ≤ h^ω_π(s) ≤ max_a M_ω(s,a).

Least occupancies are those of policies that avoid a state at any price, and nobody wants these. For
each s let actions have prices, F(s) = 1 and F(j) = min_a price(j,a) + γP(j,a)ᵀF elsewhere. With
p_s(j,a) = (F(j) − γP(j,a)ᵀF)₊, the least prices at which F is what it is, and D = 1 − γP(s,a)ᵀF,
the balance of visits says

    h(s)·D(s,π(s)) + Σ_j h(j)·p_s(j,π(j)) ≥ p₀ᵀF_s.

Let c = −adv, W(s) ≥ 0 be weights with used(j,a) := Σ_s W(s)·p_s(j,a) ≤ c(j,a), and e = c − used.
Of these inequalities w(s) = min(W, e/D)(s,π(s)) times each, and h ≥ m for what is left, give

    Σ_s h·c ≥ Σ_s [w·p₀ᵀF + (e − wD)·m](s, π(s)) = Σ_s e·[τm' + (1 − τ)m],   m' = p₀ᵀF/D, τ = wD/e:

prices are paid out of the costs of those who avoid. They begin as parts of the costs, but 0 for the
likely action of a state (the incumbent's, or else the one that is cheapest in the mean of the
models), so that who takes it is charged in full, and fall where they use up more of a cost than
they should. All this holds in each model, whatever its weight. So does every mixture of charges
found so far, in each model its own, as long as actions are only taken away (`Charges.mixed`).

A `Relaxation` holds V, adv and m; it is tightened, not recomputed, when actions are taken away.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from softrobust._core.arrays import BoolArray, FloatArray, IntArray, read_only, refuse_if_too_large
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
PRICE = 0.1  # of what is to be charged at s: what avoiding it is to cost at first
SCALES = (0.3, 1.0)  # parts of the weights that are tried,
TURNS = 3  # and how often each model may choose one for itself
ALONE = (0.2, 0.5)  # parts of all costs that are tried for one state alone
FREE = 1  # actions of a state without a price
TIMES = 3  # rounds of prices where there were none before
PRICED_WORK = 3e8  # S³·A above which one model's prices would take long


@final
@dataclass(frozen=True, slots=True, eq=False)
class Prices:
    """Occupancies of those who mind what they pay."""

    q: FloatArray  # (S, A, N) prices of the next time
    cost: FloatArray  # (S, A, N) c of that time
    m: FloatArray  # (S, A, N) m'
    used: FloatArray  # (S, A, N)
    start: FloatArray  # (N, S) p₀ᵀF
    weight: FloatArray  # (N, S) W
    most: FloatArray  # (N, S) the greatest W of a state if it is the only one that has any
    rules: NDArray[np.int16]  # (N, S, S) that attain F
    calm: BoolArray  # (N,) whether prices hardly fell

    @property
    def arrays(self) -> tuple[NDArray[Any], ...]:
        """All of them."""
        return tuple(getattr(self, each.name) for each in fields(self))


@final
@dataclass(frozen=True, slots=True, eq=False)
class Charges:
    """What returns are at most: x_ω + Σ_s terms_ω(s, π(s)) for every allowed π.

    `terms` charge a dear action no more than is good for the sum. To take it away, its state alone
    may have a part of all costs, one of `ALONE`: then it costs `alone`, and what other states are
    charged counts by the rest.
    """

    x: FloatArray  # (N,)
    size: float  # what x was rounded at
    terms: FloatArray  # (S, A, N), ≤ 0
    alone: tuple[FloatArray, ...] = ()  # (S, A, N), ≤ 0

    def mixed(self, older: Charges, part: FloatArray) -> Charges:
        """In each model `part` (N,) of these and the rest of others: true as both are."""
        old, size = (1 - 4 * EPS) * (1 - part), max(self.size, older.size)
        new = (1 - 4 * EPS) * part
        pairs = zip((self.terms, *self.alone), (older.terms, *older.alone), strict=True)
        terms, *alone = (new * mine + old * theirs for mine, theirs in pairs)
        x = part * self.x + (1 - part) * older.x + 4 * EPS * size
        return Charges(x, size, terms, tuple(alone))


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
    charged: Charges | None = None  # the best mixture known, of these or more actions
    potential: Any = None  # a `Potential`, of these or more actions

    @property
    def terms(self) -> FloatArray:
        """(S, A, N): m·adv ≤ 0, what a choice of a in s costs model ω at least."""
        return self.m * self.adv

    def charges(self, xi: FloatArray) -> Charges:
        """What choices cost with prices, in the sum over states that is best for the weights xi."""
        best, p = self.terms, self.prices
        if p is None:
            return Charges(self.x, self.size, best, (best,) * len(ALONE))
        c = -self.adv
        live = self.allowed[:, :, None] & (p.used > 0)  # V may have changed since prices were made
        kept = np.where(live, c / np.where(live, p.cost, 1.0), 1.0).min(axis=(0, 1))
        whole = (1 - 64 * EPS) * np.minimum(kept, 1.0)
        more = np.maximum(p.m - self.m, 0.0)
        per_cost = p.m / np.where(p.start > 0, p.start, np.inf).T[:, None, :]  # 1/D, 0 if no target

        def charged(share: FloatArray, alone: float = 0.0) -> FloatArray:
            share = (1 - alone) * share
            e = np.maximum((1 - 64 * EPS) * c - (1 + 64 * EPS) * share * p.used, 0.0)
            full = np.maximum(per_cost * e, 1e-300)  # the weight that charges all of e
            w = (share * p.weight.T + alone * whole * p.most.T)[:, None, :]
            tau = (1 - 64 * EPS) * (np.minimum(w, full) / full)
            return np.asarray(-e * (self.m + tau * more))

        shares = np.array([np.minimum(scale, whole) for scale in (0.0, *SCALES)])
        sets = [best, *(charged(share) for share in shares[1:])]
        values = [_sum_of_best(self.allowed, terms, xi) for terms in sets]
        first = int(np.argmin(values))
        value, best, used = values[first], sets[first], shares[first]
        rows, models = np.arange(len(self.allowed)), np.arange(xi.size)
        for _ in range(TURNS):  # each model takes the set that costs most where sums are best
            chosen = np.where(self.allowed, best @ xi, -np.inf).argmax(axis=1)
            own = np.argmin([terms[rows, chosen].sum(axis=0) for terms in sets], axis=0)
            terms = np.choose(own, sets)
            found = _sum_of_best(self.allowed, terms, xi)
            if found >= value:
                break
            value, best, used = found, terms, shares[own, models]
        alone = tuple(charged(used, part) for part in ALONE)
        return Charges(self.x, self.size, best, alone)

    @property
    def nbytes(self) -> int:
        """Memory held."""
        held = (self.V, self.decisions, self.adv, self.m, self.rules, self.h)
        prices = 0 if self.prices is None else sum(part.nbytes for part in self.prices.arrays)
        charged = 0 if self.charged is None else (1 + len(ALONE)) * self.adv.nbytes
        other = 0 if self.potential is None else self.potential.nbytes
        return prices + charged + int(other) + sum(part.nbytes for part in held)


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
    free: bool = True,
    likely: IntArray | None = None,
) -> Relaxation:
    """The relaxation of `allowed`, starting from that of a larger set.

    Raises `OutOfTime` where not even the optima are there in time; occupancy bounds that are not
    stay as they were, which is always true. So they do without `occupancies`. `worth` (S,) are the
    states whose occupancies are worth it, all where there is a choice by default; `optima` of the
    models are a start where there is no parent. Given weights `xi` (N,) of the models, losses are
    priced where that is worth most to them: for deterministic policies alone, and so that `likely`
    (S,), a rule that may well be the best, is charged in full. Without `free`, only the occupancies
    of those who pay are bounded anew, once there are any.
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
        if free or prices is None:
            tighten(p, allowed, targets, 1, fresh, rules, least, deadline)
        if xi is not None and S**3 * A <= PRICED_WORK:
            now = Relaxation(allowed, V, decisions, upper, x, size, adv, least, rules, h, prices)
            prices = _priced(p, now, np.flatnonzero(choice), xi, deadline, likely)
    known, other = (None, None) if parent is None else (parent.charged, parent.potential)
    return Relaxation(
        allowed, V, decisions, upper, x, size, adv, least, rules, h, prices, known, other
    )


def _priced(
    problem: Problem,
    now: Relaxation,
    targets: NDArray[np.int64],
    xi: FloatArray,
    deadline: Deadline,
    likely: IntArray | None,
) -> Prices | None:
    """Prices by the costs of now, and what they lead to; None where time is over before.

    A state is to be charged the larger cost of the two actions that are cheapest if visited as by
    h; dearer ones are charged hardly more.
    """
    from softrobust.kernels.passage import priced_bounds

    adv, rows, (N, S) = now.adv, np.arange(now.V.shape[1]), now.V.shape
    mean = np.where(now.allowed, np.einsum("san,ns->sa", adv * -xi, now.h), np.inf)
    if likely is not None:
        mean[rows, likely] = np.where(now.allowed[rows, likely], -1.0, np.inf)
    order = np.argsort(mean, axis=1)
    first, second = order[:, 0], order[:, min(1, order.shape[1] - 1)]
    wanted = -np.minimum(adv[rows, first], adv[rows, second])  # (S, N)
    wanted = np.maximum(wanted, (wanted @ xi)[:, None])
    dear = wanted.T * np.maximum(now.h, 1.0)  # 1 − γPᵀF is at most one over h
    theta = np.where(dear > 0, PRICE / np.where(dear > 0, dear, 1.0), 0.0)
    cost, old = np.where(now.allowed[:, :, None], -adv, 0.0), now.prices
    q = cost.copy() if old is None else np.where((old.q > 0) & (cost > 0), old.q, cost)
    q[rows[:, None], order[:, :FREE]] = 0.0
    m, used, (start, weight, most) = now.m.copy(), np.zeros_like(cost), np.zeros((3, N, S))
    calm = np.zeros(N, dtype=bool)
    if old is not None:
        other = (cost != old.cost) | ((q > 0) != (old.q > 0))
        calm = old.calm & ~(other & now.allowed[:, :, None]).any(axis=(0, 1))
        m, used = old.m.copy(), old.used.copy()
        start, weight, most = old.start.copy(), old.weight.copy(), old.most.copy()
    rules = (now if old is None else old).rules.copy()
    models, large = problem.models, _large(problem)
    (allowed,) = read_only(now.allowed)
    for fresh in [True] + [False] * (TIMES - 1) if old is None else [False]:
        for part in chunks(N, FIRST if large else N):
            if deadline.passed:
                return old
            priced_bounds(
                large, part.start, part.stop, models.indptr, models.next_states, models.prob, cost,
                wanted, problem.p0, allowed, targets, problem.gamma, fresh, theta, q, rules, m,
                start, weight, used, most, calm,
            )  # fmt: skip
    return Prices(q, cost, m, used, start, weight, most, rules, calm)


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
                problem.p0, allowed, targets, some.start, some.stop, problem.gamma, sign, fresh,
                rules, m,
            )  # fmt: skip


def relaxation_bytes(problem: Problem, occupancies: bool = True) -> float:
    """What `relax` takes: V, decisions, h, prices; advantages, m, charges; rules; dense rows."""
    S, A, N = problem.R.shape
    size = 72.0 * N * S + (80.0 + 16.0 * (1 + len(ALONE))) * S * A * N
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
