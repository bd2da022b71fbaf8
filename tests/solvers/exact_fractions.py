"""Returns and soft-robust values of small problems in exact fractions: the referee of rounding."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

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


def exact_returns(problem: Problem, decision: NDArray[Any]) -> list[Fraction]:
    """ρ(d, P̂^ω) of every model, of the numbers as they are stored.

    A decision is a rule (n_states,), or shares of the actions (n_states, n_actions), which are
    scaled to sum to 1; with a horizon it may have one of them for every step.
    """
    P, out, zero = np.asarray(problem.models.P), [], Fraction(0)
    S, gamma, H = problem.n_states, Fraction(problem.gamma), problem.horizon
    if np.issubdtype(decision.dtype, np.integer):
        decision = np.eye(problem.models.n_actions)[decision]
    steps = [_shares(d) for d in (decision if decision.ndim == 3 else [decision])]
    for omega in range(problem.n_models):
        made = [_rows(problem, P[omega], shares, omega) for shares in steps]
        if H is None:
            ((r, rows),) = made
            M = [
                [Fraction(int(s == j)) - gamma * p for j, p in enumerate(rows[s])] for s in range(S)
            ]
            v = solve_exactly(M, r)
        else:
            v = [zero] * S
            for t in range(H - 1, -1, -1):
                r, rows = made[t if len(made) > 1 else 0]
                ahead = [sum((p * x for p, x in zip(row, v, strict=True)), zero) for row in rows]
                v = [now + gamma * x for now, x in zip(r, ahead, strict=True)]
        out.append(sum((Fraction(float(p)) * x for p, x in zip(problem.p0, v, strict=True)), zero))
    return out


def _shares(probs: NDArray[np.float64]) -> list[dict[int, Fraction]]:
    """Of every state: the actions that are taken, and their shares, which sum to 1."""
    out = []
    for row in probs:
        known = {int(a): Fraction(float(row[a])) for a in np.flatnonzero(row > 0)}
        total = sum(known.values(), Fraction(0))
        out.append({a: p / total for a, p in known.items()})
    return out


def _rows(
    problem: Problem, P: NDArray[np.float64], shares: list[dict[int, Fraction]], omega: int
) -> tuple[list[Fraction], list[list[Fraction]]]:
    """Rewards and probabilities of next states, of the actions' mixtures, in one model."""
    zero, S = Fraction(0), problem.n_states
    r = [
        sum((p * Fraction(float(problem.R[s, a, omega])) for a, p in row.items()), zero)
        for s, row in enumerate(shares)
    ]
    rows = [
        [sum((p * Fraction(float(P[s, a, j])) for a, p in row.items()), zero) for j in range(S)]
        for s, row in enumerate(shares)
    ]
    return r, rows


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
