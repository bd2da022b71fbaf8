"""What can be left out of a static problem, and what rounding can do to what is left.

Models of weight 0 have ξ_ω = 0 for every ξ ∈ Ξ. In a state that no allowed policy reaches from p₀
in any model, every action is as good as another. Two actions of a state with the same rewards and
the same transition rows in all models are one action (an order above the free shelf space, say).
What is kept is the first action of each kind, so a bound for the reduced problem is a bound for the
whole one, and a decision of the reduced problem is a decision of the whole one.

Sums of transition rows may miss 1 by 1e-8. With σ the largest row sum, Σ_s h_π(s) ≤ Σp₀/(1 − γσ) =:
reach for every policy: an error e in every reward moves a return by at most reach·e. With the least
row sum it is a lower bound of Σ_s h_π(s). With a horizon H, Σ_{t<H} (γσ)^t stands for 1/(1 − γσ).

A share of the value says nothing of rounding where the value is 0: returns of −20 and +20 that
cancel, or costs that a free action avoids, are rounded all the same. What rounding can leave
between a bound and the value it bounds is of the size of what was computed. With x the largest |V|,
‖R‖ the largest |reward| and w the longest row,

    a model's optimum     x·10⁻¹¹ (where its iteration stops) + 4ε·(‖R‖ + (w + 2)·x)/(1 − γσ),
    mean and CVaR of N    16ε·(N + S)·x, and 8·EDGE·x where the edge of the tail is a tie.

Nothing of this is taken off a bound: it says when a gap is no gap. So it must never excuse what
anybody would call one: a penalty of 10¹³ that stands for "forbidden" rounds by more than all that
is at stake. What is excused is therefore at most a millionth of the smallest reward.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import final

import numpy as np
from numpy.typing import NDArray

from softrobust._core.arrays import BoolArray, FloatArray, Recent
from softrobust.errors import InputError
from softrobust.objective import EDGE
from softrobust.objective import EPS as EPS
from softrobust.problem import Problem
from softrobust.returns import reference_size

PAIRS = 50_000  # above this many pairs (s, a), finding copies costs more than it saves
EXCUSED = 1e-6  # of the smallest reward that is not 0
STOP = 1e-11  # `optimal_returns` and `kernels.optimal` stop at this share of the largest value


@final
@dataclass(frozen=True, slots=True, eq=False)
class Reduced:
    """A problem on its models of positive weight, with one action of each kind per state."""

    problem: Problem  # without the models of weight 0
    allowed: BoolArray  # (n_states, n_actions) the actions kept
    reachable: BoolArray  # (n_states,) states that some allowed policy visits in some model


def count_policies(allowed: BoolArray) -> float:
    """Π_s (number of allowed actions in s), as a float."""
    logs = float(np.log(allowed.sum(axis=1)).sum())
    return float("inf") if logs > 700 else math.prod(allowed.sum(axis=1).tolist())


def reduce(problem: Problem) -> Reduced:
    """Drop models of weight 0, copies of actions, and choices in states never reached."""
    if not np.isfinite(problem.R).all():
        s, a, omega = np.argwhere(~np.isfinite(problem.R))[0]
        raise InputError(
            "Rewards must be finite: state "
            f"'{problem.models.states[int(s)]}', action '{problem.models.actions[int(a)]}', model "
            f"{omega} has {problem.R[s, a, omega]}. Mend the reward table."
        )
    live = problem.models.f > 0
    if not live.all():
        problem = problem.with_models(problem.models.select(live))
        known = problem.objective.reference
        if known is not None and known.returns is not None:
            goal = problem.objective.measured_against(replace(known, returns=known.returns[live]))
            problem = replace(problem, objective=goal)
    if problem.allowed.size > PAIRS:
        everywhere = np.ones(problem.n_states, dtype=bool)
        return Reduced(problem, problem.allowed.copy(), everywhere)
    own = (problem.R, problem.p0, problem.allowed)
    known = _LOOKED.get(problem.models, *own)
    if known is None:  # seconds of thousands of states
        found = reachable_states(problem), first_of_kind(problem)
        known = _LOOKED.put(found, problem.models, *own)
    reachable, kinds = known
    allowed = problem.allowed & kinds
    first = np.argmax(allowed, axis=1)
    allowed[~reachable] = False
    allowed[~reachable, first[~reachable]] = True
    return Reduced(problem, allowed, reachable.copy())


_LOOKED: Recent[tuple[BoolArray, BoolArray]] = Recent(2)


def onto(decision: NDArray[np.int64], allowed: BoolArray) -> NDArray[np.int64]:
    """The decision with its first kept action wherever a copy of it was dropped.

    A dropped action is a later copy of a kept one, or belongs to a state never reached, so the
    first kept action at or before it stands in for it; the climb mends the choice if need be.
    """
    rows = np.arange(decision.size)
    kept = allowed[rows, decision]
    before = np.where(np.arange(allowed.shape[1])[None, :] <= decision[:, None], allowed, False)
    last = allowed.shape[1] - 1 - np.argmax(before[:, ::-1], axis=1)
    stand_in = np.where(before.any(axis=1), last, np.argmax(allowed, axis=1))
    return np.asarray(np.where(kept, decision, stand_in), dtype=np.int64)


def reachable_states(problem: Problem) -> BoolArray:
    """(n_states,): reached from p₀ by allowed actions in at least one model."""
    m = problem.models
    successors = []
    for s in range(problem.n_states):
        onward = [np.zeros(0, np.int32)]
        for a in np.flatnonzero(problem.allowed[s]):
            columns, block = m.block(s, int(a))
            onward.append(columns[(block > 0).any(axis=0)])
        successors.append(np.unique(np.concatenate(onward)))
    seen = problem.p0 > 0
    frontier = list(np.flatnonzero(seen))
    while frontier:
        for s_next in successors[frontier.pop()]:
            if not seen[s_next]:
                seen[s_next] = True
                frontier.append(s_next)
    return np.asarray(seen)


def first_of_kind(problem: Problem) -> BoolArray:
    """(n_states, n_actions): True for the first of all actions alike in rewards and transitions."""
    keep = np.zeros_like(problem.allowed)
    for s in range(problem.n_states):
        kinds: set[tuple[bytes, bytes, bytes]] = set()
        for a in np.flatnonzero(problem.allowed[s]):
            columns, block = problem.models.block(s, int(a))
            used = (block > 0).any(axis=0)
            kind = (
                columns[used].tobytes(), block[:, used].tobytes(), problem.R[s, a].tobytes(),
            )  # fmt: skip
            if kind not in kinds:
                kinds.add(kind)
                keep[s, a] = True
    return keep


def pair_sums(problem: Problem) -> FloatArray:
    """(n_states, n_actions, n_models): Σ_s' P̂^ω(s'|s,a), each off by at most `sum_error`."""
    m = problem.models
    widths = np.diff(m.indptr)
    out = np.zeros((widths.size, m.n_models))
    some = np.flatnonzero(widths)
    if some.size:
        starts = m.indptr[some][:, None] * m.n_models
        rows = starts + np.arange(m.n_models) * widths[some][:, None]
        out[some] = np.add.reduceat(m.prob, rows.reshape(-1)).reshape(some.size, m.n_models)
    return out.reshape(problem.R.shape)


def widest_row(problem: Problem) -> int:
    """The number of entries of the longest row."""
    return int(np.diff(problem.models.indptr).max(initial=0))


def sum_error(problem: Problem) -> float:
    """What rounding can have done to a row sum."""
    return (widest_row(problem) + 2) * EPS


def reach(problem: Problem, sums: FloatArray | None = None) -> FloatArray:
    """(n_models,): at least Σp₀/(1 − γσ_ω), rounding included."""
    sums = pair_sums(problem) if sums is None else sums
    sigma = sums.max(axis=(0, 1)) + sum_error(problem)
    start = float(problem.p0.sum()) * (1 + problem.n_states * EPS)
    return np.asarray(start * _steps(problem, sigma) * (1 + 1e-8))


def least_reach(problem: Problem) -> FloatArray:
    """(n_models,): at most Σp₀/(1 − γσ_ω) for the least row sum of an allowed pair."""
    sigma = pair_sums(problem)[problem.allowed].min(axis=0) - sum_error(problem)
    start = float(problem.p0.sum()) * (1 - problem.n_states * EPS)
    return np.asarray(start * _steps(problem, sigma) * (1 - 1e-8))


def _steps(problem: Problem, sigma: FloatArray) -> FloatArray:
    """Σ_t (γσ_ω)^t, off by less than 1e-8 of itself."""
    ratio = problem.gamma * sigma
    if problem.horizon is not None:
        total, n = np.zeros_like(ratio), 0
        for bit in f"{problem.horizon:b}":  # twice as many steps, and one more
            total, n = total * (1.0 + ratio**n), 2 * n
            total, n = (total + ratio**n, n + 1) if bit == "1" else (total, n)
        return np.asarray(total)
    # γσ ≤ 1 − 9e-8 (`Problem` refuses greater γ): 1 − γσ is off by 5e-9 of itself at most.
    return np.asarray(1.0 / (1.0 - ratio))


def rounding(problem: Problem, V: NDArray[np.float64] | None = None, excused: bool = True) -> float:
    """The largest gap that may be rounding alone, in units of the return.

    V (n_models, n_states) are the models' optimal values. Without them |V| counts as ‖R‖/(1 − γσ),
    its greatest possible size, which one large penalty that nobody need pay can make much too
    large. If it is not to be `excused`, it is what arithmetic can do.
    """
    S, _, N = problem.R.shape
    far = float(reach(problem).max())
    reward = float(np.abs(problem.R[problem.allowed]).max(initial=0.0))
    x = reward * far if V is None else float(np.abs(V).max(initial=0.0))
    x += reference_size(problem)
    share = STOP + 8 * EDGE + EPS * (4 * (widest_row(problem) + 2) * far + 16 * (N + S))
    found = float(share * x + 4 * EPS * reward * far)
    return min(found, excusable(problem)) if excused else found


def excusable(problem: Problem) -> float:
    """The largest gap that nobody minds: a millionth of the smallest |reward| that is not 0."""
    sizes = np.abs(problem.R[problem.allowed])
    return EXCUSED * float(sizes[sizes > 0].min(initial=np.inf))
