"""The cheap, strong safe dual: one weight vector ξ ∈ Ξ turns advantages into an upper bound.

For every ξ ∈ Ξ and every deterministic π with allowed actions (see `bounds.advantage`),

    ρ^S(π) ≤ Σ_ω ξ_ω ρ(π, P̂^ω) ≤ Σ_ω ξ_ω p₀ᵀV_ω + Σ_s max_a Σ_ω ξ_ω m_ω(s,a)·adv_ω(s,a) =: UB(ξ).

UB is convex and piecewise linear, so the best ξ is a small linear program. Its answer is only a
proposal: ξ is moved into Ξ and UB evaluated anew for the ξ actually used, so no tolerance of the LP
solver enters the bound. With m_ω(s) = min_a m_ω(s,a) the bound holds for randomized π too.

The same sum bounds each choice: no policy that takes a in s earns more than

    UB(s,a) = UB − max_a' val(s,a') + val(s,a),     val(s,a) = Σ_ω ξ_ω m_ω(s,a)·adv_ω(s,a),

so actions with UB(s,a) below a known value can be taken away (reduced-cost fixing).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, final

import numpy as np

from softrobust._core.arrays import FloatArray
from softrobust._core.limits import NO_LIMIT, Deadline
from softrobust.bounds.advantage import Relaxation
from softrobust.bounds.reduction import EPS
from softrobust.objective import soft_robust
from softrobust.problem import Problem

ROUNDS = 30  # of row generation


@final
@dataclass(frozen=True, slots=True, eq=False)
class DualBound:
    """UB(ξ), with what it says of every choice."""

    value: float
    xi: FloatArray  # (n_models,)
    choice: FloatArray  # (n_states, n_actions) UB(s,a) for allowed actions, −inf for others


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


def dual_value(
    problem: Problem, relaxation: Relaxation, terms: FloatArray, xi: FloatArray
) -> DualBound:
    """UB for a given ξ ∈ Ξ, rounding included.

    `terms` (n_states, n_actions, n_models) are m·adv, for randomized policies with per-state m.
    """
    val = np.where(relaxation.allowed, terms @ xi, -np.inf)
    top = val.max(axis=1)
    base = float(relaxation.x @ xi)
    # ξ may miss Ξ, and sums their exact value, by a few units in the last place of what is summed.
    size = float(np.abs(relaxation.x).max()) + float(-top.sum())
    slack = 8 * (problem.n_models + problem.n_states) * EPS * size
    value = base + float(top.sum()) + slack
    return DualBound(value, xi, value + (val - top[:, None]))


def dual_bound(
    problem: Problem,
    relaxation: Relaxation,
    terms: FloatArray,
    xi: FloatArray | None = None,
    floor: float = -np.inf,
    deadline: Deadline = NO_LIMIT,
) -> DualBound:
    """The best UB over ξ ∈ Ξ, or the best found in time: UB holds for any ξ ∈ Ξ.

    `xi` (n_models,) ∈ Ξ is tried first; if it already proves `floor`, the program is not solved.
    """
    objective, f = soft_robust(problem.objective, "The safe dual bound"), problem.models.f
    lower, upper = objective.xi_bounds(f)
    clairvoyant = into_xi(objective.worst_case(relaxation.x, f), lower, upper)
    best = dual_value(problem, relaxation, terms, clairvoyant)
    if xi is not None and best.value > floor:
        given = dual_value(problem, relaxation, terms, xi)
        best = given if given.value < best.value else best
    if best.value <= floor or not terms.any() or objective.lam == 0:
        return best
    proposal = best_xi(relaxation, terms, lower, upper, best.xi, deadline)
    if proposal is not None:
        solved = dual_value(problem, relaxation, terms, into_xi(proposal, lower, upper))
        best = solved if solved.value < best.value else best
    return best


def best_xi(
    relaxation: Relaxation,
    terms: FloatArray,
    lower: FloatArray,
    upper: FloatArray,
    xi: FloatArray,
    deadline: Deadline = NO_LIMIT,
) -> FloatArray | None:
    """The ξ ∈ Ξ of least x·ξ + Σ_s t_s, t_s ≥ val(s,a): an LP by row generation; None if it fails.

    Only rows that were once the maximum of their state enter. A state with an action of cost 0 in
    every model has t_s = 0 whatever ξ is, and is left out. The clock is looked at between two
    programs, and by HiGHS inside one.
    """
    from scipy.optimize import linprog

    program: Any = linprog
    allowed = relaxation.allowed
    free = (terms == 0).all(axis=2) & allowed
    states = np.flatnonzero(~free.any(axis=1))
    if states.size == 0:
        return None
    N, n = xi.size, states.size
    scale = max(float(np.abs(relaxation.x).max()), 1e-300)
    c = np.concatenate([(relaxation.x - relaxation.x.mean()) / scale, np.ones(n)])
    bounds = np.vstack([np.column_stack([lower, upper]), np.tile([-np.inf, 0.0], (n, 1))])
    equal = np.concatenate([np.ones(N), np.zeros(n)])[None, :]
    rows: dict[tuple[int, int], None] = {}
    answer: FloatArray | None = None
    for _ in range(ROUNDS):
        if deadline.passed:
            break
        val = np.where(allowed[states], terms[states] @ xi, -np.inf)
        top = np.argmax(val, axis=1)
        new = [(i, int(a)) for i, a in enumerate(top) if (i, int(a)) not in rows]
        if not new:
            break
        rows.update(dict.fromkeys(new))
        index = np.array(list(rows))
        A_ub = np.zeros((len(rows), N + n))
        A_ub[:, :N] = terms[states[index[:, 0]], index[:, 1]] / scale
        A_ub[np.arange(len(rows)), N + index[:, 0]] = -1.0
        result = program(
            c, A_ub=A_ub, b_ub=np.zeros(len(rows)), A_eq=equal, b_eq=[1.0], bounds=bounds,
            method="highs", options={"time_limit": deadline.left},
        )  # fmt: skip
        if result.x is None:
            return answer
        answer = xi = np.asarray(result.x[:N])
    return answer
