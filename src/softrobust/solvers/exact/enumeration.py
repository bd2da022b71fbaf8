"""The best of all decision rules of a small set, by walking through them (`walk_returns`).

Every walk comes with an error bound on its returns that is proven from residuals. Mean and CVaR
move by at most as much as the returns do, so

    ρ^S(d) ≤ (greatest computed value) + (greatest error) + (rounding of the objective itself)

for every rule d seen. The same holds of a percentile, with its ties in favour of the bound. A walk
on which errors have grown is walked again in shorter pieces, each from a fresh inverse.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import numpy as np

from softrobust._core.arrays import BoolArray, IntArray
from softrobust._core.limits import Deadline
from softrobust.bounds.reduction import EPS, Reduced, count_policies, reach, widest_row
from softrobust.kernels.tail import best_row
from softrobust.objective import EDGE, Percentile
from softrobust.returns import measured, reference_size

RULES = 2e6  # more rules than this are never enumerated
WALK = 256  # steps between two fresh inverses,
NUMBERS = 4e6  # fewer where their returns would be more than this many,
GROWTH = 64.0  # and fewer where errors have grown by more than this since the fresh inverse
PARALLEL_WORK = 2_000_000  # N·S²·steps below which threads cost more than they bring


@final
@dataclass(frozen=True, slots=True, eq=False)
class Enumerated:
    """The best rule above the floor (or None), a bound on all rules seen, and whether all were.

    `error` is what floating point can have done to any return on the way: part of the bound.
    `size` is the largest |return| met.
    """

    decision: IntArray | None
    value: float
    bound: float
    complete: bool
    error: float = 0.0
    size: float = 0.0


def enumeration_work(reduced: Reduced, allowed: BoolArray) -> float:
    """Multiply-adds of an enumeration, about; infinite above `RULES` rules."""
    count = count_policies(allowed)
    if count > RULES:
        return float("inf")
    p = reduced.problem
    stops = count / max(int(allowed.sum(axis=1).max()), 1)
    row = min(widest_row(p), p.n_states)
    step = 2 * p.n_states**2 + 2 * p.n_states * row  # the exchange, and its two residuals
    return float(p.n_models * (stops * step + count * 4 * row))


def enumerate_rules(
    reduced: Reduced, allowed: BoolArray, floor: float, deadline: Deadline
) -> Enumerated:
    """Evaluate every rule in `allowed` (n_states, n_actions); look for one above `floor`.

    `bound` is the best value or the floor, plus what rounding can have hidden.
    """
    from softrobust.kernels.exchange import gray_steps

    walker = _Walker(reduced, allowed, floor)
    sizes = walker.sizes
    digits, directions = np.zeros(sizes.size, np.int64), np.ones(sizes.size, np.int64)
    focus = np.arange(sizes.size + 1)
    while True:
        if deadline.passed:
            return Enumerated(walker.found, walker.best, float("inf"), complete=False)
        which, digit = np.empty(walker.stops, np.int64), np.empty(walker.stops, np.int64)
        n = int(gray_steps(sizes, digits, directions, focus, which, digit))
        walker.walk(which[:n], digit[:n])
        if n < walker.stops:
            return walker.result()


@final
class _Walker:
    """The rule reached so far, the best one met, and the errors on the way."""

    def __init__(self, reduced: Reduced, allowed: BoolArray, floor: float) -> None:
        p = reduced.problem
        sizes = allowed.sum(axis=1)
        self.p, self.s0 = p, int(np.argmax(sizes))
        self.actions = np.flatnonzero(allowed[self.s0])
        self.walked = np.flatnonzero((sizes > 1) & (np.arange(sizes.size) != self.s0))
        self.sizes = sizes[self.walked]
        self.choices = [np.flatnonzero(allowed[s]) for s in self.walked]
        self.decision = np.argmax(allowed, axis=1).astype(np.int64)
        self.stops = int(np.clip(NUMBERS / (self.actions.size * p.n_models) - 1, 1, WALK))
        self.piece = self.stops
        self.X = np.empty((self.stops + 1, self.actions.size, p.n_models))
        self.live = np.ones((self.stops + 1) * self.actions.size, np.bool_)
        self.errors = np.empty((2, p.n_models))
        self.reach, self.widest = reach(p), widest_row(p)
        self.found: IntArray | None = None
        self.best, self.xi = floor, p.models.f
        self.error, self.low, self.high, self.most = 0.0, np.inf, -np.inf, -np.inf

    def walk(self, which: IntArray, digit: IntArray) -> None:
        """Take the steps: digit which[i] of the Gray code becomes digit[i]."""
        states = self.walked[which]
        new = np.array([self.choices[w][d] for w, d in zip(which, digit, strict=True)], np.int64)
        i = 0
        while True:  # the first stop is the rule where the walk starts
            j = min(i + self.piece, new.size)
            error = self._returns(states[i:j], new[i:j])
            if error > GROWTH * float(self.errors[0].max()) and self.piece > 1:
                self.piece = max(self.piece // 4, 1)
                continue
            self._look(states[i:j], new[i:j], error)
            for s, a in zip(states[i:j], new[i:j], strict=True):
                self.decision[s] = a
            i = j
            if i == new.size:
                return

    def _returns(self, states: IntArray, new: IntArray) -> float:
        """X[: len(new) + 1] ← returns along the steps; their greatest error."""
        from softrobust.kernels.exchange import walk_returns

        p, m = self.p, self.p.models
        large = p.n_models > 1 and p.n_models * p.n_states**2 * (new.size + 1) > PARALLEL_WORK
        walk_returns(
            large, m.indptr, m.next_states, m.prob, p.R, p.p0, p.gamma, self.decision, states, new,
            self.s0, self.actions, self.widest, self.reach, self.X, self.errors,
        )  # fmt: skip
        return float(self.errors[1].max())

    def _look(self, states: IntArray, new: IntArray, error: float) -> None:
        """Take the best rule of the stops, if it is better; keep account of errors."""
        p, n = self.p, self.actions.size
        rows = measured(p, self.X[: new.size + 1].reshape(-1, p.n_models))
        self.error = max(self.error, error)
        self.low, self.high = min(self.low, float(rows.min())), max(self.high, float(rows.max()))
        objective, f = p.objective, p.models.f
        if isinstance(objective, Percentile):
            values = objective.values(rows, f)
            self.most = max(self.most, float(objective.values(rows, f, most=True).max()))
            k, top = int(np.argmax(values)), float(values.max())
            k = k if top > self.best else -1
        else:
            lam, alpha = objective.lam, objective.alpha
            k, top = best_row(rows, self.live, f, lam, alpha, self.xi, self.best)
        if k < 0:
            return
        self.best, self.xi = float(top), objective.worst_case(rows[k], f)
        self.found = self.decision.copy()
        for s, a in zip(states[: k // n], new[: k // n], strict=True):
            self.found[s] = a
        self.found[self.s0] = self.actions[k % n]

    def result(self) -> Enumerated:
        """What was found, with a bound on every rule."""
        size, spread = max(abs(self.low), abs(self.high)), self.high - self.low
        size += reference_size(self.p)
        # N products are summed, and a tail's edge counts as met when missed by EDGE of its mass.
        objective = 8 * self.p.n_models * EPS * size + 4 * EDGE * spread
        error = self.error + objective if np.isfinite(size) else np.inf
        bound = max(self.best, self.most) + error
        return Enumerated(self.found, self.best, bound, complete=True, error=error, size=size)
