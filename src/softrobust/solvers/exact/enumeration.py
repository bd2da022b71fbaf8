"""The best of all decision rules of a set, by walking through them (`kernels.eliminate`).

Every return comes with a proven error. Mean and CVaR move by at most as much as the returns do, so

    ρ^S(d) ≤ (greatest computed value) + (error) + (rounding of the objective itself)

for every rule d seen. The same holds of a percentile, with its ties in favour of the bound.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import numpy as np

from softrobust._core.arrays import BoolArray, FloatArray, IntArray
from softrobust._core.limits import Deadline
from softrobust.bounds.reduction import EPS, Reduced, count_policies, pair_sums, reach, widest_row
from softrobust.kernels.eliminate import BLOCK, best_stop
from softrobust.objective import EDGE, Percentile
from softrobust.returns import measured, reference_size

RULES = 1e12  # more rules than this are never enumerated
NUMBERS = 4e6  # returns looked at together
ROOM = 5e7  # numbers of a block of models above which their systems would not fit
PARALLEL_WORK = 2_000_000  # N·S²·stops below which threads cost more than they bring


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
    p = reduced.problem
    sizes = np.sort(allowed.sum(axis=1))
    choices = sizes[sizes > 1]
    held = (sizes.sum() + 1) * (sizes.size + 2) + choices.size * choices.sum() * choices.size
    if count_policies(allowed) > RULES or BLOCK * held > ROOM:
        return float("inf")
    left = sizes.sum() - np.cumsum(sizes)  # pairs of the states after each
    columns = np.arange(sizes.size, 0, -1) + 1
    return float(p.n_models * (np.cumprod(sizes.astype(float)) * ((left + 1) * columns)).sum())


def enumerate_rules(
    reduced: Reduced, allowed: BoolArray, floor: float, deadline: Deadline
) -> Enumerated:
    """Evaluate every rule in `allowed` (n_states, n_actions); look for one above `floor`.

    `bound` is the best value or the floor, plus what rounding can have hidden.
    """
    walker = _Walker(reduced, allowed, floor)
    while walker.left:
        if deadline.passed:
            return Enumerated(walker.found, walker.best, float("inf"), complete=False)
        walker.walk()
    return walker.result()


@final
class _Walker:
    """The stop of the tree reached so far, the best rule met, and the range of returns."""

    def __init__(self, reduced: Reduced, allowed: BoolArray, floor: float) -> None:
        p = reduced.problem
        sizes = allowed.sum(axis=1)
        self.p, self.order = p, np.argsort(sizes, kind="stable")  # no choice first, most last
        self.sizes = sizes[self.order].astype(np.int64)
        pairs = [s * p.n_actions + np.flatnonzero(allowed[s]) for s in self.order]
        self.pairs = np.concatenate(pairs).astype(np.int64)
        self.begin = np.cumsum(self.sizes) - self.sizes
        self.left = round(count_policies(allowed)) // int(self.sizes[-1])  # stops to come
        self.digits = np.zeros(sizes.size, np.int64)
        most = int(max(NUMBERS // (self.sizes[-1] * p.n_models), 1))
        self.X = np.empty((min(most, self.left), int(self.sizes[-1]), p.n_models))
        self.found: IntArray | None = None
        self.best, self.xi = floor, p.models.f.copy()
        self.low, self.high, self.most = np.inf, -np.inf, -np.inf

    def walk(self) -> None:
        """Look at the next stops, as many as there is room for."""
        from softrobust.kernels.eliminate import BLOCK, tree_returns

        p, m, n = self.p, self.p.models, min(self.left, self.X.shape[0])
        large = p.n_models > 1 and p.n_models * p.n_states**2 * n > PARALLEL_WORK
        tree_returns(
            large, 0, -(-p.n_models // BLOCK), m.indptr, m.next_states, m.prob, p.R, p.p0, p.gamma,
            self.order, self.sizes, self.pairs, self.digits, n, self.X,
        )  # fmt: skip
        self._look(self.X[:n].reshape(-1, p.n_models))
        self.digits = self._after(n)
        self.left -= n

    def _after(self, n: int) -> IntArray:
        """The choices n stops on."""
        out, carry = self.digits.copy(), n
        for i in range(self.order.size - 2, -1, -1):
            carry, out[i] = divmod(int(out[i]) + carry, int(self.sizes[i]))
        return out

    def error(self) -> float:
        """By how much a return can be off (`kernels.eliminate`)."""
        p, entry = self.p, (widest_row(self.p) + 3) * EPS
        slack = 1.0 - p.gamma * float(pair_sums(p)[p.allowed].max()) - entry
        k = np.arange(1, p.n_states + 1)
        share = float(((2 * k + 1) * (k + 4)).sum()) * EPS
        share += (2 * p.n_states + 1) * entry / slack if slack > 0 else np.inf
        return float(share * (reach(p) * np.abs(p.R[p.allowed]).max(axis=0)).max())

    def _look(self, returns: FloatArray) -> None:
        """Take the best rule of the stops, if it is better; keep account of sizes."""
        p, n = self.p, int(self.sizes[-1])
        rows = measured(p, returns)
        self.low, self.high = min(self.low, float(rows.min())), max(self.high, float(rows.max()))
        objective, f = p.objective, p.models.f
        if isinstance(objective, Percentile):
            values = objective.values(rows, f)
            self.most = max(self.most, float(objective.values(rows, f, most=True).max()))
            k, top = int(np.argmax(values)), float(values.max())
            k = k if top > self.best else -1
        else:
            lam, alpha = objective.lam, objective.alpha
            k, top = best_stop(rows, f, lam, alpha, self.xi, self.best)
        if k < 0:
            return
        self.best = float(top)
        digits = self._after(k // n)
        digits[-1] = k % n
        self.found = np.empty(digits.size, np.int64)
        self.found[self.order] = self.pairs[self.begin + digits] % p.n_actions

    def result(self) -> Enumerated:
        """What was found, with a bound on every rule."""
        size, spread = max(abs(self.low), abs(self.high)), self.high - self.low
        size += reference_size(self.p)
        # N products are summed, and a tail's edge counts as met when missed by EDGE of its mass.
        objective = 8 * self.p.n_models * EPS * size + 4 * EDGE * spread
        error = self.error() + objective if np.isfinite(size) else np.inf
        bound = max(self.best, self.most) + error
        return Enumerated(self.found, self.best, bound, complete=True, error=error, size=size)
