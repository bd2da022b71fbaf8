"""Returns and soft-robust values of small problems in exact fractions: the referee of rounding."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from softrobust.problem import Problem


def solve_exactly(M: list[list[Fraction]], b: list[Fraction]) -> list[Fraction]:
    """Gauss–Jordan in whole numbers (Bareiss); M is strictly diagonally dominant: no pivot is 0."""
    rows: list[list[int]] = []
    before = 1
    for row, right in zip(M, b, strict=True):
        unit = math.lcm(*(x.denominator for x in (*row, right)))
        rows.append([x.numerator * (unit // x.denominator) for x in (*row, right)])
    for k, top in enumerate(rows):
        for i, old in enumerate(rows):
            if i != k:
                pairs = zip(old, top, strict=True)
                rows[i] = [(top[k] * x - old[k] * y) // before for x, y in pairs]
        before = top[k]
    return [Fraction(known[-1], known[i]) for i, known in enumerate(rows)]


def exact_returns(problem: Problem, decision: NDArray[np.int64]) -> list[Fraction]:
    """ρ(d, P̂^ω) of every model, of the numbers as they are stored.

    With a horizon the decision may have a row for every step.
    """
    S, gamma = problem.n_states, Fraction(problem.gamma)
    P, out = np.asarray(problem.models.P), []
    for omega in range(problem.n_models):
        if problem.horizon is not None:
            out.append(_over_steps(problem, P[omega], decision, omega))
            continue
        M = [
            [
                Fraction(int(s == j)) - gamma * Fraction(float(P[omega, s, decision[s], j]))
                for j in range(S)
            ]
            for s in range(S)
        ]
        r = [Fraction(float(problem.R[s, decision[s], omega])) for s in range(S)]
        v = solve_exactly(M, r)
        out.append(
            sum(
                (Fraction(float(p)) * x for p, x in zip(problem.p0, v, strict=True)),
                start=Fraction(0),
            )
        )
    return out


def _over_steps(
    problem: Problem, P: NDArray[np.float64], decision: NDArray[np.int64], omega: int
) -> Fraction:
    """What is earned in one model until the horizon, backwards from it."""
    assert problem.horizon is not None
    gamma, v = Fraction(problem.gamma), [Fraction(0)] * problem.n_states
    for rule in np.broadcast_to(decision, (problem.horizon, problem.n_states))[::-1]:
        ahead = [
            sum((Fraction(float(p)) * x for p, x in zip(P[s, a], v, strict=True)), Fraction(0))
            for s, a in enumerate(rule)
        ]
        v = [
            Fraction(float(problem.R[s, a, omega])) + gamma * x
            for (s, a), x in zip(enumerate(rule), ahead, strict=True)
        ]
    return sum((Fraction(float(p)) * x for p, x in zip(problem.p0, v, strict=True)), Fraction(0))


def exact_objective(problem: Problem, x: list[Fraction]) -> Fraction:
    """(1 − λ)·mean + λ·CVaR^α, atoms split at the edge of the tail."""
    f = [Fraction(float(w)) for w in problem.models.f]
    total = sum(f, start=Fraction(0))
    f = [w / total for w in f]
    lam, tail = Fraction(problem.objective.lam), 1 - Fraction(problem.objective.alpha)
    mean = sum((w * y for w, y in zip(f, x, strict=True)), start=Fraction(0))
    live = sorted((y, w) for y, w in zip(x, f, strict=True) if w > 0)
    if tail == 0:
        return (1 - lam) * mean + lam * live[0][0]
    left, cvar = Fraction(1), Fraction(0)
    for y, w in live:
        part = min(w / tail, left)
        cvar += part * y
        left -= part
    return (1 - lam) * mean + lam * cvar
