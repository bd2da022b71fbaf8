"""The methods of the figures: how each makes its curve over λ, and how it is shown.

The static optimum is proven by branch and bound with a limit on nodes, never on seconds, so that a
run gives the same policies on any machine. It walks through λ from 0 to 1: a solve starts from the
best policy found so far, and in the end every λ takes the best of all of them.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, final

import numpy as np

from softrobust.experiments.bench import Bench
from softrobust.models.model_set import ModelSet
from softrobust.models.policy import Policy
from softrobust.objective import SoftRobust
from softrobust.returns import policy_return
from softrobust.solvers import (
    BCR,
    RSVF,
    SPIBB,
    Empirical,
    Exact,
    Nominal,
    RSVFSimple,
    SARect,
    SaturationWarning,
    Solver,
    SRect,
    VaRBellman,
    WorstModel,
    solve_grid,
)
from softrobust.solvers.draws import PosteriorDraws, tail_mass

GAP = 1e-3  # of |value|: closer than a picture shows
NO_RADIUS = 1e-9  # L1 balls smaller than this are points, which λ cannot shrink
IN_MEMORY = 6e7  # transition probabilities of draws that are kept


@final
@dataclass(frozen=True, slots=True)
class Point:
    """A policy on a method's curve: λ (None where the method has none), its own value, status."""

    lam: float | None
    policy: Policy
    own: float
    status: str
    gap: float | None = None


@final
@dataclass(frozen=True, slots=True)
class Look:
    """Name in words, in short, colour and marker; a curve that is in the tables only is hidden."""

    label: str
    short: str
    colour: str
    marker: str
    hidden: bool = False


LOOKS = {
    "static": Look("static soft-robust (SR-MILP's optimum)", "static", "#0072b2", "o"),
    "s-rect": Look("dynamic soft-robust (SRVI, S-rectangular)", "SRVI", "#d55e00", "s"),
    "sa-rect": Look("dynamic soft-robust, SA-rectangular", "SA-rect", "#e69f00", "v", True),
    "bcr": Look("BCR", "BCR", "#009e73", "D"),
    "bcr-paper": Look("BCR, sets from the training draws", "BCR (N)", "#7fceb8", "d", True),
    "rsvf": Look("RSVF", "RSVF", "#cc79a7", "^"),
    "rsvf-paper": Look("RSVF, sets from the training draws", "RSVF", "#cc79a7", "^"),
    "rsvf-simple": Look("RSVF, the authors' simple form", "RSVF simple", "#8c6d1f", "<"),
    "rsvf-simple-paper": Look(
        "RSVF, the authors' simple form, training draws", "RSVF simple", "#8c6d1f", "<"
    ),
    "var": Look("VaR-Bellman", "VaR", "#56b4e9", "P"),
    "worst-model": Look("worst model", "worst model", "#999999", "p"),
    "nominal": Look("nominal (mean model)", "nominal", "#222222", "X"),
    "empirical": Look("empirical", "empirical", "#777777", "*"),
    "spibb": Look("SPIBB", "SPIBB", "#b2182b", "h"),
}


def curve(name: str, bench: Bench, lams: Sequence[float], nodes: int) -> list[Point]:
    """The points of one method on one log."""
    with warnings.catch_warnings():
        if name.endswith("-paper"):  # too few draws for the quantile is what the paper did
            warnings.simplefilter("ignore", SaturationWarning)
        return _curve(name, bench, lams, nodes)


def _curve(name: str, bench: Bench, lams: Sequence[float], nodes: int) -> list[Point]:
    if name == "static":
        return _static(bench, lams, nodes)
    if name in ALONE:
        return [_point(None, ALONE[name](bench).solve(bench.at(1.0)))]
    solver = ALONG_LAMBDA[name](bench)
    alpha = bench.train.objective.alpha
    if isinstance(solver, RSVF):
        full = solver.solve(bench.at(1.0))
        if full.stats["budget_max"] <= NO_RADIUS:  # the same robust MDP at every λ
            return [_point(lam, full) for lam in lams]
    rows = solve_grid(bench.train, solver, lams, [alpha])
    return [_point(lam, row[0]) for lam, row in zip(lams, rows, strict=True)]


def _enough(bench: Bench) -> ModelSet | PosteriorDraws:
    """As many draws as show the quantile at 1 − δ/(SA), in memory where they fit.

    A posterior that is a weighted list of models needs no draws.
    """
    weighted: Callable[[], ModelSet] | None = getattr(bench.fitted, "weighted", None)
    if weighted is not None:
        return weighted()
    n = math.ceil(tail_mass(bench.train)[1] - 1e-6)
    if n * bench.train.models.next_states.size <= IN_MEMORY:
        return bench.own_draws(n)
    return PosteriorDraws(bench.fitted, int(bench.own_seed.generate_state(1)[0]))


# Methods without λ, made for the bad case alone (or, nominal and empirical, for one model).
ALONE: dict[str, Callable[[Bench], Solver]] = {
    "nominal": lambda _: Nominal(),
    "empirical": lambda bench: Empirical(bench.log),
    "var": lambda _: VaRBellman(),
    "worst-model": lambda _: WorstModel(),
    "spibb": lambda bench: SPIBB(bench.log),
}
# Methods with λ; "-paper" builds its sets from the training models, as the paper did.
ALONG_LAMBDA: dict[str, Callable[[Bench], Solver]] = {
    "s-rect": lambda _: SRect(),
    "sa-rect": lambda _: SARect(),
    "bcr": lambda bench: BCR(draws=_enough(bench)),
    "bcr-paper": lambda _: BCR(variant="paper"),
    "rsvf": lambda bench: RSVF(draws=_enough(bench)),
    "rsvf-paper": lambda _: RSVF(),
    "rsvf-simple": lambda bench: RSVFSimple(draws=_enough(bench)),
    "rsvf-simple-paper": lambda _: RSVFSimple(),
}


def _point(lam: float | None, solution: Any) -> Point:
    own = solution.static_value if solution.model_value is None else solution.model_value
    return Point(lam, solution.policy, float(own), str(solution.status))


def _static(bench: Bench, lams: Sequence[float], nodes: int) -> list[Point]:
    """Exact solves along λ that share their policies."""
    alpha, f = bench.train.objective.alpha, bench.train.models.f
    pool: list[tuple[Policy, np.ndarray[Any, np.dtype[np.float64]]]] = []

    def best(lam: float) -> int:
        goal = SoftRobust(lam, alpha)
        return int(np.argmax([goal.value(x, f) for _, x in pool]))

    solved = []
    for lam in lams:
        start = pool[best(lam)][0] if pool else None
        solution = Exact(gap=GAP, node_limit=nodes, start=start).solve(bench.at(lam))
        pool.append((solution.policy, policy_return(bench.train, solution.policy)))
        solved.append(solution)
    out = []
    for lam, solution in zip(lams, solved, strict=True):
        policy, x = pool[best(lam)]
        value = SoftRobust(lam, alpha).value(x, f)
        gap = None
        if solution.bound is not None and value != 0:
            gap = max(solution.bound.value - value, 0.0) / abs(value)
        out.append(Point(lam, policy, value, str(solution.status), gap))
    return out
