"""The best of all decision rules of a small set, by walking through them (see `kernels.gray`)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, final

import numpy as np
from numpy.typing import NDArray

from softrobust.bounds.reduction import count_policies

if TYPE_CHECKING:
    from softrobust.bounds.reduction import Reduced
    from softrobust.solvers.base import Deadline

IntArray = NDArray[np.int64]
BoolArray = NDArray[np.bool_]

RULES = 2e6  # more rules than this are never enumerated
WALK = 256  # steps between two fresh inverses
PARALLEL_WORK = 2_000_000  # N·S²·steps below which threads cost more than they bring


@final
@dataclass(frozen=True, slots=True, eq=False)
class Enumerated:
    """The best rule above the floor (or None), a bound on all rules seen, and whether all were."""

    decision: IntArray | None
    value: float
    bound: float
    complete: bool


def enumeration_work(reduced: Reduced, allowed: BoolArray) -> float:
    """Multiply-adds of an enumeration, about; infinite above `RULES` rules."""
    count = count_policies(allowed)
    if count > RULES:
        return float("inf")
    p = reduced.problem
    stops = count / max(int(allowed.sum(axis=1).max()), 1)
    return float(p.n_models * (stops * 2 * p.n_states**2 + count * 4 * p.n_states))


def enumerate_rules(
    reduced: Reduced, allowed: BoolArray, floor: float, deadline: Deadline
) -> Enumerated:
    """Evaluate every rule in `allowed` (n_states, n_actions); look for one above `floor`.

    `bound` is the best value or the floor, plus what rounding can have hidden.
    """
    from softrobust.kernels.gray import gray_steps, walk_parallel, walk_serial
    from softrobust.kernels.soft_robust import best_row

    p = reduced.problem
    m, objective = p.models, p.objective
    sizes = allowed.sum(axis=1)
    s0 = int(np.argmax(sizes))
    actions = np.flatnonzero(allowed[s0])
    walked = np.array([s for s in np.flatnonzero(sizes > 1) if s != s0], dtype=np.int64)
    choices = [np.flatnonzero(allowed[s]) for s in walked]
    decision = np.argmax(allowed, axis=1).astype(np.int64)
    digits, directions = np.zeros(walked.size, np.int64), np.ones(walked.size, np.int64)
    focus = np.arange(walked.size + 1)
    X = np.empty((WALK + 1, actions.size, p.n_models))
    ends, last = np.empty((2, p.n_models)), None
    large = p.n_models * p.n_states**2 * WALK > PARALLEL_WORK and p.n_models > 1
    run: Any = walk_parallel if large else walk_serial
    live = np.ones((WALK + 1) * actions.size, np.bool_)
    xi, best, drift, size = m.f, floor, 0.0, 0.0
    found: IntArray | None = None
    while True:
        if deadline.passed:
            return Enumerated(found, best, float("inf"), complete=False)
        which, value = np.empty(WALK, np.int64), np.empty(WALK, np.int64)
        n = gray_steps(sizes[walked], digits, directions, focus, which, value)
        states = walked[which[:n]]
        new = np.array([choices[w][d] for w, d in zip(which[:n], value[:n], strict=True)], np.int64)
        run(
            m.indptr, m.next_states, m.prob, p.R, p.p0, p.gamma, decision, states, new, s0, actions,
            X, ends,
        )  # fmt: skip
        if last is not None:
            drift = max(drift, float(np.abs(ends[0] - last).max()))
        last = ends[1].copy()
        size = max(size, float(np.abs(ends).max()))
        rows = X[: n + 1].reshape(-1, p.n_models)
        k, top = best_row(rows, live, m.f, objective.lam, objective.alpha, xi, best)
        if k >= 0:
            best, stop = float(top), k // actions.size
            xi = objective.worst_case(rows[k], m.f)
            found = decision.copy()
            for s, a in zip(states[:stop], new[:stop], strict=True):
                found[s] = a
            found[s0] = actions[k % actions.size]
        for s, a in zip(states, new, strict=True):
            decision[s] = a
        if n < WALK:
            slack = 4 * drift + 1e-13 * size / (1 - p.gamma)
            return Enumerated(found, best, best + slack, complete=True)
