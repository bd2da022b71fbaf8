"""Upper bounds on what any policy of a class can earn: the best that a time budget affords.

    all            the clairvoyant bound: no policy, however it learns, beats being told the model.
                   ρ(π, P̂^ω) ≤ ρ*_ω for each ω, and mean and CVaR are monotone, so
                   ρ^S(π) ≤ (1 − λ)·mean(ρ*) + λ·CVaR(ρ*)
    stationary     the safe dual with m_ω(s) = min_a m_ω(s,a), the least occupancy of any policy
    deterministic  the safe dual with m_ω(s,a)
    timed          with a horizon: a rule for each step, see below

For every ξ ∈ Ξ and every deterministic π with allowed actions (see `bounds.advantage`),

    ρ^S(π) ≤ Σ_ω ξ_ω ρ(π, P̂^ω) ≤ Σ_ω ξ_ω p₀ᵀV_ω + Σ_s max_a Σ_ω ξ_ω m_ω(s,a)·adv_ω(s,a) =: UB(ξ):

the safe dual. UB is convex and piecewise linear, so the best ξ is a small linear program. Its
answer is only a proposal: ξ is moved into Ξ and UB evaluated anew for the ξ actually used, so no
tolerance of the LP solver enters the bound. The same sum bounds each choice: no policy that takes a
in s earns more than

    UB(s,a) = UB − max_a' val(s,a') + val(s,a),     val(s,a) = Σ_ω ξ_ω m_ω(s,a)·adv_ω(s,a),

so actions with UB(s,a) below a known value can be taken away (reduced-cost fixing).

A percentile is no minimum over weights, but it never falls when a return rises. In one state s at a
time ρ(π, P̂^ω) ≤ p₀ᵀV_ω + m_ω(s,π(s))·adv_ω(s,π(s)) for all ω, so that with q the percentile

    UB(s,a) = q_ω[p₀ᵀV_ω + m_ω(s,a)·adv_ω(s,a)],     UB = min_s max_a UB(s,a):

the single-state bound. Randomized policies mix the returns of actions, which a percentile does not
bound, so it is for deterministic ones.

With a horizon, V and adv have a step t, and with m_ω,t(s) the least probability of being in s then,

    ρ^S(π) ≤ Σ_ω ξ_ω p₀ᵀV_ω,0 + Σ_t Σ_s max_a Σ_ω ξ_ω γ^t m_ω,t(s)·adv_ω,t(s,a)     π timed,

as every randomized rule of a step is a mixture of actions; a stationary policy takes the same
action at all steps, so that there the sum over t stands inside the maximum.

Each is never above the one before. A bound for fewer policies is not used for more (action-wise
occupancies and fixing are not valid for randomized policies); the reverse is always allowed.

Under the posterior itself the optimum on N sampled models is optimistic: the policy is chosen on
the very models it is judged on. With CVaR written as max_b E[b − (b − Z)₊/(1 − α)], the soft-robust
objective is a maximum of sample means, so its expectation over samples is at least the optimum ρ*
under the posterior (Mak, Morton and Wood):

    E[v_N] ≥ ρ*,   v_N = max_π ρ^S on N independent draws.

M independent samples give M values v_N, or bounds above them; their mean plus a Student quantile
times the standard error bounds ρ* with the confidence asked for. The lower side is the held-out
value of a fixed policy (`certificate`). Both take the posterior at its word.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from softrobust._core.arguments import names_arguments
from softrobust._core.arrays import BoolArray, FloatArray, Recent, fits
from softrobust._core.limits import NO_LIMIT, Deadline, OutOfTime, chunks
from softrobust._core.settings import real
from softrobust.bounds.advantage import (
    ALONE,
    Charges,
    Relaxation,
    can_bound_occupancies,
    relax,
    relaxation_bytes,
)
from softrobust.bounds.reduction import EPS, Reduced, reduce
from softrobust.errors import InputError
from softrobust.kernels.evaluate import least_flows
from softrobust.objective import OPTIMUM, Percentile, soft_robust
from softrobust.problem import Problem
from softrobust.returns import (
    ModelOptima,
    action_values,
    measured,
    optimal_returns,
    reference_error,
    reference_size,
)

ROUNDS = 30  # of row generation
CLOSE = 0.05  # share of the gap: a program that could close no more is not solved
TURNS = 4  # of models that lean to the charges which suit them,
LEAN = 0.3  # by such a part of them
NEAR = 1.3  # times the least cost of a state: actions whose rows a program begins with
OPEN = 1000  # models that a program begins with, at most
SAME = 1e-13  # of the largest return: a change of charges that is none
COST = 1e-9  # of the largest return: a reduced cost that is none
ROWS_NUMBERS = 1e6  # returns that are sorted at a time
FLOW_WORK = 3e8  # multiply-adds of least probabilities between two looks at the clock
MOST_BYTES = 1.5 * 2**30  # of values, decisions and flows of every step


_OPTIMA: Recent[tuple[FloatArray, bool]] = Recent(2)  # and whether time cut them short


class Covers(StrEnum):
    """Which policies a bound holds for; each class contains the one before it.

    The first four are of policies that keep to practice where the log cannot tell
    (`solvers.practice_class`): those that in every state keep it or take one action that clearly
    pays, or what was seen often enough, with the rarest actions taken together where there are
    many; the corners of that class and all of it.
    """

    CLEAR_CHANGES = "clear_changes"
    PRACTICE_GROUPS = "practice_groups"
    PRACTICE_CORNERS = "practice_corners"
    PRACTICE_CLASS = "practice_class"
    DETERMINISTIC = "deterministic"
    STATIONARY = "stationary"
    TIMED = "timed"  # with a horizon: a rule, randomized or not, for each step
    ALL = "all"


CLASSES = tuple(Covers)[4:]  # that `best_bound` is for
OF_PRACTICE = frozenset(Covers) - frozenset(CLASSES)  # which say nothing of other policies


@final
@dataclass(frozen=True, slots=True)
class Bound:
    """No policy of the class `covers` has a static soft-robust return above `value`."""

    value: float
    covers: Covers
    method: str


@names_arguments
def clairvoyant_bound(
    problem: Problem, optima: ModelOptima | None = None, deadline: Deadline = NO_LIMIT
) -> Bound:
    """What could be earned by someone told the true model before starting: a bound on everyone.

    `optima` are those of the models, where they are known already. Once the deadline has passed,
    the models left are bounded crudely.
    """
    upper = _optima(problem, deadline) if optima is None else optima.upper
    value = problem.objective.most(measured(problem, upper), problem.models.f)
    # x − c is rounded at the size of both.
    rounding = 8 * EPS * (float(np.abs(upper).max()) + reference_size(problem))
    return bound_of(problem, float(value + rounding), Covers.ALL, "clairvoyant")


def bound_of(problem: Problem, value: float, covers: Covers, method: str) -> Bound:
    """The bound of a measure that was taken against what the reference earns at most.

    No regret is above 0.
    """
    value += reference_error(problem)
    known = problem.objective.reference
    if known is not None and known.name == OPTIMUM and known.returns is None:
        value = min(value, 0.0)
    return Bound(value, covers, method)


def _optima(problem: Problem, deadline: Deadline) -> FloatArray:
    """(n_models,): at least the models' optima, which do not depend on λ and α; kept for others."""
    own = (problem.R, problem.gamma, problem.horizon, problem.p0, problem.allowed)
    known = _OPTIMA.get(problem.models, *own)
    if known is None or (known[1] and not deadline.passed):  # nor is a crude one good for all
        upper = optimal_returns(problem, deadline=deadline).upper
        known = _OPTIMA.put((upper, deadline.passed), problem.models, *own)
    return known[0]


@names_arguments
def best_bound(
    problem: Problem,
    covers: Covers = Covers.STATIONARY,
    time_limit: float | None = None,
    of_work: bool = False,
) -> Bound:
    """The tightest bound known for the class, within about `time_limit` seconds (`of_work`).

    The clock is looked at several times a second; whatever is known when it is over is used. Where
    the safe dual would not fit into memory, or its time is over before it has begun, the
    clairvoyant bound stands.
    """
    deadline = Deadline() if time_limit is None else Deadline(max(time_limit, 1e-9), of_work)
    percentile, ends = isinstance(problem.objective, Percentile), problem.horizon is not None
    plain = covers is Covers.ALL or (covers is Covers.TIMED and not ends)
    if plain or (percentile and (ends or covers is not Covers.DETERMINISTIC)):
        return clairvoyant_bound(problem, deadline=deadline)
    reduced = reduce(problem)
    p = reduced.problem
    kept = p.horizon is None or 48.0 * p.horizon * p.n_models * p.n_states <= MOST_BYTES
    optima = optimal_returns(p, deadline=deadline, every=kept)
    bound = clairvoyant_bound(p, optima)
    if p.horizon is not None:
        return _horizon_bound(reduced, optima, covers, bound, deadline)
    # Without occupancies the safe dual is the clairvoyant bound.
    if deadline.passed or not can_bound_occupancies(p) or not fits(relaxation_bytes(p)):
        return bound
    try:
        relaxation = relax(reduced, reduced.allowed, deadline=deadline, optima=optima)
    except OutOfTime:
        return bound
    if percentile:
        single = percentile_bound(p, relaxation, relaxation.terms)
        better = single.value < bound.value
        return bound_of(p, single.value, covers, "single states") if better else bound
    x, size = relaxation.x, relaxation.size
    charges = Charges(x, size, state_terms(relaxation))
    dual = dual_bound(p, relaxation.allowed, charges, deadline=deadline, randomized=True)
    if dual.value < bound.value:
        bound = bound_of(p, dual.value, Covers.STATIONARY, "safe dual")
    if covers is Covers.DETERMINISTIC:  # its own bound, unless rounding has put it higher
        charges = Charges(x, size, relaxation.terms)
        dual = dual_bound(p, relaxation.allowed, charges, xi=dual.xi, deadline=deadline)
        if dual.value < bound.value:
            bound = bound_of(p, dual.value, Covers.DETERMINISTIC, "safe dual")
    return bound


def _horizon_bound(
    reduced: Reduced, optima: ModelOptima, covers: Covers, known: Bound, deadline: Deadline
) -> Bound:
    """The safe dual over H steps; `known` where it would not fit, or is no better."""
    p = reduced.problem
    if optima.steps is None:
        return known
    assert p.horizon is not None
    (S, A, N), H, V = p.R.shape, p.horizon, optima.steps[0]
    timed = covers is Covers.TIMED
    if deadline.passed or not fits(8.0 * S * A * N * (H if timed else 1) + 32.0 * H * N * S):
        return known
    least = _least_flows(reduced, deadline)
    terms = np.zeros((H if timed else 1, S, A, N))
    for t in range(H):
        if deadline.passed:
            return known
        adv = np.minimum(action_values(p, V[t + 1]) - V[t][:, :, None], 0.0)
        part = (p.gamma**t * least[t][:, :, None] * adv).transpose(1, 2, 0)
        terms[t if timed else 0] += np.where(reduced.allowed[:, :, None], part, 0.0)
    # Rounding of the optima enters once by V, and once more by the advantages.
    x = 2 * optima.upper - V[0] @ p.p0
    allowed = np.tile(reduced.allowed, (terms.shape[0], 1))
    size = float(np.abs(x).max()) + reference_size(p)  # x − c is rounded at the size of both
    charges = Charges(measured(p, x), size, terms.reshape(-1, A, N))
    dual = dual_bound(p, allowed, charges, deadline=deadline, randomized=True)
    if dual.value >= known.value:
        return known
    return bound_of(p, dual.value, Covers.TIMED if timed else Covers.STATIONARY, "safe dual")


def _least_flows(reduced: Reduced, deadline: Deadline) -> FloatArray:
    """(horizon, n_models, n_states): at most P(S_t = s) of any policy; 0 where time was short."""
    p, m = reduced.problem, reduced.problem.models
    assert p.horizon is not None
    least = np.zeros((p.horizon, p.n_models, p.n_states))
    least[0] = p.p0
    if not can_bound_occupancies(p):
        return least
    work = p.horizon * p.n_states * m.next_states.size
    for part in chunks(p.n_models, max(1, int(FLOW_WORK / work))):
        if deadline.passed:
            break
        least_flows(
            work * p.n_models > FLOW_WORK, part.start, part.stop, m.indptr, m.next_states, m.prob,
            reduced.allowed, p.p0, least,
        )  # fmt: skip
    return least


@final
@dataclass(frozen=True, slots=True, eq=False)
class DualBound:
    """UB(ξ), with what it says of every choice."""

    value: float
    xi: FloatArray  # (n_models,)
    choice: FloatArray  # (n_states, n_actions) UB(s,a) for allowed actions, −inf for others
    charges: Charges | None = None  # that led to it


def into_xi(xi: FloatArray, lower: FloatArray, upper: FloatArray) -> FloatArray:
    """A point of Ξ near `xi`: clipped to the box, then moved to sum 1 where there is room."""
    point = np.clip(xi, lower, upper)
    for _ in range(3):  # the second and third pass only remove rounding
        missing = 1.0 - point.sum()
        room = upper - point if missing > 0 else point - lower
        total = room.sum()
        if total <= 0:
            break
        point = np.clip(point + missing * room / total, lower, upper)
    return point


def dual_value(problem: Problem, allowed: BoolArray, charges: Charges, xi: FloatArray) -> DualBound:
    """UB for a given ξ ∈ Ξ, rounding included; with what a state is charged alone, if known."""
    val = np.where(allowed, charges.terms @ xi, -np.inf)
    top = val.max(axis=1)
    base, total = float(charges.x @ xi), float(top.sum())
    # ξ may miss Ξ, and sums their exact value, by a few units in the last place of what is summed.
    slack = 8 * (problem.n_models + allowed.shape[0]) * EPS * (charges.size - total)
    choice = base + total + slack + (val - top[:, None])
    for part, alone in zip(ALONE, charges.alone, strict=False):
        others = (1 - part) * (total - top[:, None])
        choice = np.minimum(choice, base + slack + others + alone @ xi)
    choice = np.where(allowed, choice, -np.inf)
    value = float(choice.max(axis=1).min())  # in every state some action is taken
    return DualBound(value, xi, np.minimum(choice, value), charges)


def dual_bound(
    problem: Problem,
    allowed: BoolArray,
    charges: Charges,
    xi: FloatArray | None = None,
    floor: float = -np.inf,
    deadline: Deadline = NO_LIMIT,
    older: Charges | None = None,
    randomized: bool = False,
) -> DualBound:
    """The best UB over ξ ∈ Ξ, or the best found in time: UB holds for any ξ ∈ Ξ.

    Who takes one action in a state has the UB of that action by every ξ; who may mix them
    (`randomized`) has that of one ξ.
    `xi` (n_models,) ∈ Ξ is tried first; if it already proves `floor`, the program is not solved.
    Of `older` charges, true of these actions too, every model takes the part that is best. Nor is
    it solved where that is found by turns, and the program could lower the bound by hardly more.
    """
    objective, f = soft_robust(problem.objective, "The safe dual bound"), problem.models.f
    lower, upper = objective.xi_bounds(f)
    clairvoyant = into_xi(objective.worst_case(charges.x, f), lower, upper)
    best = dual_value(problem, allowed, charges, clairvoyant)
    for known in (charges, older):
        if xi is not None and known is not None and best.value > floor:
            best = either(best, dual_value(problem, allowed, known, xi), randomized)
    if best.value <= floor or not charges.terms.any() or objective.lam == 0:
        return best
    if older is not None and xi is not None and np.isfinite(floor):
        part, least = parts_by_turns(problem, allowed, charges, older, xi)
        mixed = charges.mixed(older, part)
        best = either(best, dual_value(problem, allowed, mixed, xi), randomized)
        if best.value - least <= CLOSE * (best.value - floor):
            return best
    proposal = best_xi(allowed, charges, older, lower, upper, best.xi, deadline)
    if proposal is not None:
        weights, old = proposal
        if older is not None:
            part = 1.0 - old / np.where(weights > 0, weights, np.inf)
            charges = charges.mixed(older, np.clip(part, 0.0, 1.0))
        point = into_xi(weights, lower, upper)
        best = either(best, dual_value(problem, allowed, charges, point), randomized)
    return best


def parts_by_turns(
    problem: Problem, allowed: BoolArray, charges: Charges, older: Charges, xi: FloatArray
) -> tuple[FloatArray, float]:
    """Part (n_models,) of `charges` and not of older ones, good for ξ; and what UB is at least.

    Each model leans to what costs more where the sums of all are best. At the actions where they
    are, no other ξ and no other parts give less than the objective of the lesser of both.
    """
    rows, part = np.arange(len(allowed)), np.ones(xi.size)
    least, lowest, best = -np.inf, np.inf, part
    for turn in range(TURNS):
        value = np.where(allowed, (part * charges.terms + (1 - part) * older.terms) @ xi, -np.inf)
        top = value.argmax(axis=1)
        x = [each.x + each.terms[rows, top].sum(axis=0) for each in (charges, older)]
        total = float(xi @ (part * charges.x + (1 - part) * older.x) + value.max(axis=1).sum())
        if total < lowest:
            lowest, best = total, part
        least = max(least, problem.objective.value(np.minimum(*x), problem.models.f))
        lean = np.where(x[0] <= x[1], 1.0, -1.0)
        part = np.clip(lean if turn == 0 else part + LEAN * lean, 0.0, 1.0)
    return best, least


def either(one: DualBound, other: DualBound, randomized: bool = False) -> DualBound:
    """The lower of two bounds of the same actions, with what either says of every choice."""
    low = one if one.value <= other.value else other
    if randomized:
        return low
    choice = np.minimum(one.choice, other.choice)
    value = float(choice.max(axis=1).min())
    return replace(low, value=value, choice=np.minimum(choice, value))


def percentile_bound(problem: Problem, relaxation: Relaxation, terms: FloatArray) -> DualBound:
    """The single-state bound, with what it says of every choice; ξ is that of the models' optima.

    `terms` (n_states, n_actions, n_models) are m·adv ≤ 0.
    """
    objective, f, allowed = problem.objective, problem.models.f, relaxation.allowed
    assert isinstance(objective, Percentile)
    choice = np.full(allowed.shape, -np.inf)
    pairs = np.flatnonzero(allowed.reshape(-1))
    step = max(1, int(ROWS_NUMBERS / f.size))
    for some in (pairs[i : i + step] for i in range(0, pairs.size, step)):
        rows = relaxation.x + terms.reshape(-1, f.size)[some]
        choice.reshape(-1)[some] = objective.values(rows, f, most=True)
    slack = 8 * EPS * (relaxation.size + float(-terms.min(initial=0.0)))
    value = float(choice.max(axis=1).min()) + slack
    xi = objective.worst_case(relaxation.x, f)
    return DualBound(value, xi, np.minimum(choice + slack, value))


def best_xi(
    allowed: BoolArray,
    charges: Charges,
    older: Charges | None,
    lower: FloatArray,
    upper: FloatArray,
    xi: FloatArray,
    deadline: Deadline = NO_LIMIT,
) -> tuple[FloatArray, FloatArray] | None:
    """The ξ ∈ Ξ of least x·ξ + Σ_s t_s, t_s ≥ val(s,a): an LP by row generation; None if it fails.

    Only rows that were once the maximum of their state enter. A state with an action of cost 0 in
    every model has t_s = 0 whatever ξ is, and is left out. Of many models only those enter whose
    side is in doubt: the others are at a bound, and enter where reduced costs say otherwise. The
    clock is looked at between two programs, and by HiGHS inside one.

    With `older` charges, y_ω ∈ [0, ξ_ω] is what a model's weight has of these; it comes with ξ, and
    is 0 where they are the same.
    """
    from scipy.optimize import linprog

    program: Any = linprog
    above = np.inf if (charges.terms > 0).any() else 0.0  # how much a state may bring
    paid = ~((charges.terms == 0).all(axis=2) & allowed).any(axis=1) | (above > 0)
    states = np.flatnonzero(paid)
    if states.size == 0:
        return None
    own, n = charges.terms[states], states.size
    scale = max(charges.size, 1e-300)
    x = (charges.x - charges.x.mean()) / scale
    y, rise, change = np.zeros(0), np.zeros(0), np.zeros((*own.shape[:2], 0))
    other = np.zeros(xi.size, dtype=bool)  # whose charges have changed
    if older is not None:
        y, rise = np.zeros(xi.size), (older.x - charges.x) / scale
        change = older.terms[states] - own
        other = np.maximum(np.abs(rise), np.abs(change).max(axis=(0, 1)) / scale) > SAME
    rows: dict[tuple[int, int], None] = {}
    answer: tuple[FloatArray, FloatArray] | None = None
    open_ = wrong = np.zeros(0, dtype=bool)  # (n_models,): whose ξ the program decides
    for _ in range(ROUNDS):
        if deadline.passed:
            break
        value = np.where(allowed[states], own @ xi + change @ y, -np.inf)
        top = np.argmax(value, axis=1)
        near = np.arange(value.shape[1]) == top[:, None]
        if not rows:  # what may well become one too
            near |= value >= NEAR * value.max(axis=1)[:, None]
        new = [(i, a) for i, a in np.argwhere(near).tolist() if (i, a) not in rows]
        if not open_.size:
            open_, xi = _undecided(x + own[np.arange(n), top].sum(axis=0) / scale, lower, upper)
        elif not new and not wrong.any():
            break
        else:
            open_ = open_ | wrong
        rows.update(dict.fromkeys(new))
        index, m, both = np.array(list(rows)), int(open_.sum()), (open_ & other)[: y.size]
        k, r = int(both.sum()), len(rows)
        A = own[index[:, 0], index[:, 1]] / scale
        A_ub = np.zeros((r + k, m + n + k))
        A_ub[:r, :m] = A[:, open_]
        A_ub[np.arange(r), m + index[:, 0]] = -1.0
        A_ub[:r, m + n :] = change[index[:, 0], index[:, 1]][:, both] / scale
        A_ub[r:, :m], A_ub[r:, m + n :] = -np.eye(m)[other[open_]], np.eye(k)  # y ≤ ξ
        bounds = np.column_stack([lower, upper])[open_], [[-np.inf, above]] * n, [[0.0, np.inf]] * k
        result = program(
            np.concatenate([x[open_], np.ones(n), rise[both]]),
            A_ub=A_ub,
            b_ub=np.concatenate([-A[:, ~open_] @ xi[~open_], np.zeros(k)]),
            A_eq=np.concatenate([np.ones(m), np.zeros(n + k)])[None, :],
            b_eq=[1.0 - xi[~open_].sum()],
            bounds=np.vstack([part for part in bounds if len(part)]),
            method="highs",
            options={"time_limit": deadline.left, "presolve": False},  # costs more than it saves
        )
        if result.x is None:
            return answer
        xi, y = xi.copy(), y.copy()
        xi[open_], y[both] = result.x[:m], result.x[m + n :]
        answer = xi, y
        if result.status != 0:  # time is over: no reduced costs
            break
        cost = x - A.T @ result.ineqlin.marginals[:r] - result.eqlin.marginals[0]
        wrong = ~open_ & np.where(xi > lower, cost > COST, cost < -COST)
    return answer


def _undecided(
    cost: FloatArray, lower: FloatArray, upper: FloatArray
) -> tuple[BoolArray, FloatArray]:
    """(n_models,): near which costs ξ changes sides, and ξ by these costs, for all the others."""
    order = np.argsort(cost, kind="stable")
    at = int(np.searchsorted(np.cumsum((upper - lower)[order]), 1.0 - lower.sum()))
    xi, open_ = lower.copy(), np.zeros(cost.size, dtype=bool)
    xi[order[:at]] = upper[order[:at]]
    open_[order[max(0, at - OPEN // 2) : at + OPEN // 2]] = True
    return (open_, xi) if cost.size > OPEN else (~np.zeros_like(open_), xi)


def state_terms(relaxation: Relaxation) -> FloatArray:
    """(S, A, N): min_a m_ω(s,a) · adv_ω(s,a), valid for randomized stationary policies.

    Copies of an action and states never reached do not matter here either: mixing copies of an
    action is taking it, and nothing is earned where nobody comes.
    """
    allowed = relaxation.allowed[:, :, None]
    least = np.where(allowed, relaxation.m, np.inf).min(axis=1, keepdims=True)
    return np.where(allowed, least, 0.0) * relaxation.adv


@final
@dataclass(frozen=True, slots=True)
class ReplicationBound:
    """With probability `confidence` over the samples, no policy of the class beats `value`.

    `mean` and `standard_error` are those of `values`, one bound per replication.
    """

    value: float
    mean: float
    standard_error: float
    confidence: float
    covers: Covers
    values: tuple[float, ...]


@names_arguments
def replication_bound(
    sample: Callable[[np.random.Generator], Problem],
    replications: int = 10,
    confidence: float = 0.95,
    bound: Callable[[Problem], Bound] | None = None,
    seed: int | np.random.Generator = 0,
) -> ReplicationBound:
    """Bound the posterior optimum from independent samples of models.

    Parameters
    ----------
    sample : callable
        A problem on fresh posterior draws, made with the generator it is given; always of the same
        number of models and objective.
    replications : int
        How many samples, at least 2; ten or more for a usable interval.
    bound : callable, optional
        An upper bound on a problem's optimum; `best_bound` for deterministic policies by default.
        The tighter it is, the tighter the result: `lambda p: solve(p, Exact()).bound`.
    """
    check_replications(replications, 2)
    real("confidence", confidence, above=0, below=1)
    generators = np.random.default_rng(seed).spawn(replications)
    of = bound or (lambda p: best_bound(p, Covers.DETERMINISTIC))
    bounds = [of(sample(generator)) for generator in generators]
    values = np.array([b.value for b in bounds])
    limit, mean, error = upper_limit(values, confidence)
    order = list(Covers)  # a result covers what every replication covers
    covers = min((b.covers for b in bounds), key=order.index)
    return ReplicationBound(limit, mean, error, confidence, covers, tuple(values.tolist()))


def check_replications(replications: int, least: int) -> None:
    """Too few replications have no spread to judge by."""
    if replications < least:
        raise InputError(
            f"At least {least} replications are needed to judge by; {replications} came. Ask for "
            f"{least} or more, or leave them out.",
            arguments={"replications": f"{least}"},
        )


def upper_limit(values: NDArray[np.float64], confidence: float) -> tuple[float, float, float]:
    """A one-sided limit above the expectation by Student's t; with it the mean and its error."""
    from scipy.special import stdtrit

    n = values.size
    mean, error = float(values.mean()), float(values.std(ddof=1) / np.sqrt(n))
    return mean + float(stdtrit(n - 1, confidence)) * error, mean, error
