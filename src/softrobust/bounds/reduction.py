"""What can be left out of a static problem without changing any policy's return.

Models of weight 0 have ξ_ω = 0 for every ξ ∈ Ξ. In a state that no allowed policy reaches from p₀
in any model, every action is as good as another. Two actions of a state with the same rewards and
the same transition rows in all models are one action (an order above the free shelf space, say).
What is kept is the first action of each kind, so a bound for the reduced problem is a bound for the
whole one, and a decision of the reduced problem is a decision of the whole one.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, final

import numpy as np
from numpy.typing import NDArray

from softrobust.errors import InputError

if TYPE_CHECKING:
    from softrobust.problem import Problem

FloatArray = NDArray[np.float64]
BoolArray = NDArray[np.bool_]
PAIRS = 50_000  # above this many pairs (s, a), finding copies costs more than it saves


@final
@dataclass(frozen=True, slots=True, eq=False)
class Reduced:
    """A problem on its models of positive weight, with one action of each kind per state.

    Attributes
    ----------
    problem : Problem
        The same problem without the models of weight 0.
    allowed : (n_states, n_actions) bool
        The actions kept.
    reachable : (n_states,) bool
        States that some allowed policy visits in some model.
    """

    problem: Problem
    allowed: BoolArray
    reachable: BoolArray

    @property
    def count(self) -> float:
        """How many decision rules are left (infinite where that overflows)."""
        return count_policies(self.allowed)


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
    if problem.allowed.size > PAIRS:
        everywhere = np.ones(problem.n_states, dtype=bool)
        return Reduced(problem, problem.allowed.copy(), everywhere)
    reachable = reachable_states(problem)
    allowed = problem.allowed & first_of_kind(problem)
    first = np.argmax(allowed, axis=1)
    allowed[~reachable] = False
    allowed[~reachable, first[~reachable]] = True
    return Reduced(problem, allowed, reachable)


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
