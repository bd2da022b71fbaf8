"""The safe dual with any potential: what models that disagree can still earn together.

For every U and every deterministic π that takes allowed actions, in every model,

    ρ(π, P̂^ω) = p₀ᵀU_ω + Σ_s h^ω_π(s)·d_ω(s,π(s)),   d_ω(s,a) = R_ω(s,a) + γP_ω(s,a)ᵀU_ω − U_ω(s),
              ≤ p₀ᵀU_ω + Σ_s φ_ω(s,π(s)),            φ = max(M·d, m·d),   m ≤ h ≤ M,

with the least and greatest occupancies of those who take a in s. With U the models' optima d is the
advantage and this is the safe dual of `bounds.best`; other U give up some of the optimum of a model
where its rule is not the one that the models agree on. The least over U of

    B(ξ, U) = Σ_ω ξ_ω p₀ᵀU_ω + Σ_s max_a Σ_ω ξ_ω φ_ω(s,a)

is the bound of the linear program in which every model has a flow of its own and all of them share
the shares of actions π(a|s): m·π(a|s) ≤ h(s,a) ≤ M·π(a|s). B is convex, and smoothed a little its
gradient is a misfit of flows. Any U bounds, so how well it was found is no matter of proof; for the
U found, φ is rounded up.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import final

import numpy as np
from numpy.typing import NDArray

from softrobust._core.arrays import BoolArray, FloatArray, fits
from softrobust._core.limits import NO_LIMIT, Deadline
from softrobust.bounds.advantage import Charges, Relaxation, can_bound_occupancies, tighten
from softrobust.bounds.best import DualBound, dual_bound
from softrobust.bounds.reduction import EPS, Reduced, reach
from softrobust.problem import Problem
from softrobust.returns import measured, reference_size

DENSE = 2e7  # N·S·A·S above which one look at all rows takes too long for hundreds of them
SMOOTH = (0.3, 0.06)  # of the gap, shared out over the states: what is smoothed at first and last
LOOKS = 120  # at all rows, for each of them,
MEMORY = 10  # of which so many are remembered


@final
@dataclass(frozen=True, slots=True, eq=False)
class Potential:
    """U and occupancies that hold for a set of actions, and for every part of it."""

    U: FloatArray  # (N, S)
    least: FloatArray  # (S, A, N) m,
    greatest: FloatArray  # (S, A, N) M,
    rules: tuple[NDArray[np.int16], NDArray[np.int16]]  # each (N, S, S), that attain them

    @property
    def nbytes(self) -> int:
        """Memory held."""
        return sum(x.nbytes for x in (self.U, self.least, self.greatest, *self.rules))


def can_lower(problem: Problem) -> bool:
    """Whether the problem is small enough for it."""
    S, A, N = problem.R.shape
    rows = N * S * A * S
    return can_bound_occupancies(problem) and rows <= DENSE and fits(8.0 * (rows + 8 * S * A * N))


def lower(
    reduced: Reduced, relaxation: Relaxation, xi: FloatArray, floor: float, deadline: Deadline
) -> tuple[Potential, DualBound]:
    """A potential for the actions of a relaxation, from its parent's if it has one, and its bound.

    `floor` is the value at which the bound need not be lowered any more.
    """
    p, allowed, known = reduced.problem, relaxation.allowed, relaxation.potential
    S, A, N = p.R.shape
    fresh = known is None
    if known is None:
        least = np.zeros((S, A, N))
        greatest = np.where(allowed[:, :, None], reach(p), 0.0)
        rules = (np.zeros((N, S, S), np.int16), np.zeros((N, S, S), np.int16))
        U = relaxation.V.copy()
    else:
        least, greatest, U = known.least.copy(), known.greatest.copy(), known.U
        rules = (known.rules[0].copy(), known.rules[1].copy())
    targets = np.flatnonzero(reduced.reachable)
    for sign, own, m in ((1, rules[0], least), (-1, rules[1], greatest)):
        tighten(p, allowed, targets, sign, fresh, own, m, deadline)
    never = ~(allowed & reduced.reachable[:, None])
    least[never] = greatest[never] = 0.0
    flows = _Flows(p, allowed, least, greatest)
    best = dual_bound(p, allowed, flows.charges(U), xi, floor, deadline)
    bound = best
    for part in SMOOTH:
        if deadline.passed or best.value <= floor:
            break
        new = flows.search(U, bound.xi, part * (best.value - floor) / S, deadline)
        bound = dual_bound(p, allowed, flows.charges(new), bound.xi, floor, deadline)
        U = new
        if bound.value < best.value:
            best = bound
    return Potential(U, least, greatest, rules), best


class _Flows:
    """All rows of the allowed pairs, for looking at them often."""

    def __init__(
        self, problem: Problem, allowed: BoolArray, least: FloatArray, greatest: FloatArray
    ) -> None:
        models, self.problem, self.allowed = problem.models, problem, allowed
        self.shape = problem.R.shape
        S, A, N = self.shape
        self.at = np.flatnonzero(allowed.reshape(-1))
        self.states = self.at // A
        self.first = np.flatnonzero(np.diff(self.states, prepend=-1))  # pair of every state
        self.rows = np.zeros((N, self.at.size, S))
        for k, pair in enumerate(self.at):
            to, prob = models.block(*divmod(int(pair), A))
            self.rows[:, k, to] = problem.gamma * prob
        self.R = problem.R.reshape(-1, N)[self.at].T  # (N, pairs), as all that follow
        low, high = (x.reshape(-1, N)[self.at].T for x in (least, greatest))
        self.middle, self.half = (high + low) / 2, (high - low) / 2
        self.low, self.high = low, high

    def slope(self, U: FloatArray) -> FloatArray:
        """D (N, pairs)."""
        return np.asarray(self.R + (self.rows @ U[:, :, None])[..., 0] - U[:, self.states])

    def _spread(self, values: FloatArray) -> FloatArray:
        S, A, N = self.shape
        out = np.zeros((S * A, N))
        out[self.at] = values.T
        return out.reshape(S, A, N)

    def charges(self, U: FloatArray) -> Charges:
        """What returns are at most with this U, rounded up."""
        p, S = self.problem, self.shape[0]
        size = np.abs(self.R).max(axis=1) + 2 * np.abs(U).max(axis=1)  # (N,) of what d sums
        d = self.slope(U) + (4 * (S + 4) * EPS * size)[:, None]
        phi = np.maximum(self.high * d, self.low * d)
        terms = self._spread(phi + 4 * EPS * np.abs(phi))
        x = U @ p.p0 + 4 * S * EPS * (np.abs(U) @ p.p0)
        summed = float(np.abs(terms).max(axis=(1, 2)).sum())
        whole = float(np.abs(x).max()) + reference_size(p) + 2 * summed
        return Charges(measured(p, x), whole, terms)

    def search(
        self, U: FloatArray, xi: FloatArray, smooth: float, deadline: Deadline = NO_LIMIT
    ) -> FloatArray:
        """A U of about the least B(ξ, U), smoothed by so much in every state."""
        unit = max(smooth, 1e-300)
        start, first = xi[:, None] * self.problem.p0, self.first

        def look(now: FloatArray) -> tuple[float, FloatArray]:
            d = self.slope(now)
            root = np.sqrt(d * d + unit * unit)
            worth = xi @ (self.middle * d + self.half * root)  # (pairs,)
            top = np.maximum.reduceat(worth, first)
            away = np.exp((worth - top[self.states]) / unit)
            total = np.add.reduceat(away, first)
            value = float(np.vdot(start, now) + top.sum() + unit * np.log(total).sum())
            h = (self.middle + self.half * d / root) * (away / total[self.states])
            h *= xi[:, None]
            slope = start + (h[:, None, :] @ self.rows)[:, 0]
            slope -= np.add.reduceat(h, first, axis=1)
            return value, slope

        return descend(look, U, LOOKS, deadline)


def descend(
    look: Callable[[FloatArray], tuple[float, FloatArray]],
    x: FloatArray,
    looks: int,
    deadline: Deadline = NO_LIMIT,
) -> FloatArray:
    """L-BFGS for a smooth convex function: the best point of so many looks at it and its slope.

    That of scipy takes longer between two looks than they do, at thousands of unknowns.
    """
    value, g = look(x)
    past: deque[tuple[FloatArray, FloatArray, float]] = deque(maxlen=MEMORY)
    step = 1.0 / max(float(np.abs(g).max()), 1e-300)
    for _ in range(looks):
        way, parts = g.copy(), []
        for s, y, rho in reversed(past):
            parts.append(rho * float(np.vdot(s, way)))
            way -= parts[-1] * y
        if past:
            s, y, rho = past[-1]
            way *= 1.0 / (rho * float(np.vdot(y, y)))
        for (s, y, rho), part in zip(past, reversed(parts), strict=True):
            way += (part - rho * float(np.vdot(y, way))) * s
        fall = float(np.vdot(g, way))
        if not fall > 0 or deadline.passed:
            break
        new = x - step * way
        there, slope = look(new)
        if there > value - 1e-4 * step * fall:  # too far: half of it, or as a parabola says
            bend = 2 * (there - value + step * fall)
            step *= min(max(step * fall / bend if bend > 0 else 0.5, 0.1), 0.5)
            if step < 1e-12:
                break
            continue
        s, y = new - x, slope - g
        curved = float(np.vdot(s, y))
        if curved > 0:
            past.append((s, y, 1.0 / curved))
        x, value, g, step = new, there, slope, 1.0
    return x
