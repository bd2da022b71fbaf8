"""The frontier: what caution costs, as a picture to choose λ and α on.

For every (λ, α) of a grid the best policy is found and certified. All policies found go into one
pool, each evaluated once on the models; a solve starts from the best of the pool by its own
objective, and in the end every point takes the best of the whole pool, so that a policy found
elsewhere on the grid is never overlooked. For one α, a policy is
dominated when another has at least its mean and at least its CVaR, and more of one.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from typing import Any, final

import numpy as np

from softrobust._core.arguments import names_arguments
from softrobust._core.arrays import FloatArray
from softrobust._core.files import atomic_write
from softrobust._core.limits import LiveLine, time_bound
from softrobust._core.settings import instance
from softrobust.bounds import Bound
from softrobust.certificate import Certificate, certify
from softrobust.errors import InputError
from softrobust.models.policy import Policy
from softrobust.objective import Objective
from softrobust.problem import Problem
from softrobust.returns import occupancies, returns_of
from softrobust.returns.evaluation import AnyPolicy, rules_of
from softrobust.solvers import Exact, LocalSearch, Solver, Status, solve_grid

POINT_SECONDS = 8.0  # per point, where no time limit is given
POINT_GAP = 1e-4  # of |value|: closer than a picture shows
POINTS_SHARE = 0.7  # of the time left: certificates and pictures take the rest
SAME = 1e-9  # figures that differ by less than this share are the same
COLUMNS = (
    "alpha", "lam", "mean", "cvar", "var", "objective", "bound", "bound_covers", "gap_share",
    "status", "policy", "dominated", "price", "changed",
)  # fmt: skip


@final
@dataclass(frozen=True, slots=True, eq=False)
class FrontierPoint:
    """The best policy for one (λ, α), with its certificate."""

    lam: float
    alpha: float
    policy: Any  # the same at all steps, or with a rule for each
    policy_id: int  # equal for equal policies
    certificate: Certificate
    status: Status
    # states whose action differs from the point before (the next smaller λ of the same α); states
    # that neither policy ever reaches do not count
    changed: tuple[str, ...]
    # mean given up per unit of CVaR gained since that point; None where CVaR was not gained
    price: float | None
    dominated: bool  # whether another point of the same α is better

    @property
    def mean(self) -> float:
        """Mean over the models of what the objective is taken of."""
        return self.certificate.static["mean"]

    @property
    def cvar(self) -> float:
        """Average over the worst 1 − α of the models."""
        return self.certificate.static["cvar"]

    def row(self) -> list[Any]:
        """The point under `COLUMNS`."""
        c = self.certificate
        return [
            self.alpha, self.lam, self.mean, self.cvar, c.static["var"], c.static["objective"],
            c.bound.value, str(c.bound.covers), c.gap_share, str(self.status), self.policy_id,
            self.dominated, self.price, " ".join(self.changed),
        ]  # fmt: skip


@final
@dataclass(frozen=True, slots=True, eq=False)
class Frontier:
    """All points of the grid; `points[i][j]` belongs to `lams[i]`, `alphas[j]`."""

    lams: tuple[float, ...]
    alphas: tuple[float, ...]
    points: tuple[tuple[FrontierPoint, ...], ...]

    def column(self, j: int) -> list[FrontierPoint]:
        """The points of one α, by rising λ."""
        return [row[j] for row in self.points]

    def chosen(self, j: int) -> list[FrontierPoint]:
        """The points of one α that no other dominates, one per policy, by rising CVaR."""
        best: dict[int, FrontierPoint] = {}
        for point in self.column(j):
            if not point.dominated:
                best.setdefault(point.policy_id, point)
        return sorted(best.values(), key=lambda point: (point.cvar, -point.mean))

    def __iter__(self) -> Iterator[FrontierPoint]:
        return (point for row in self.points for point in row)

    def rows(self) -> list[list[Any]]:
        """One row per point under `COLUMNS`; α outermost."""
        return [p.row() for j in range(len(self.alphas)) for p in self.column(j)]


def save_frontier_csv(frontier: Frontier, path: str | Path) -> None:
    """Write the table, atomically."""
    with atomic_write(path, "w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(COLUMNS)
        rows.writerows(frontier.rows())


@names_arguments
def frontier(
    problem: Problem,
    lams: Sequence[float] = tuple(np.linspace(0, 1, 11).round(10)),
    alphas: Sequence[float] = (0.9,),
    solver: Solver | None = None,
    time_limit: float | None = None,
    also: Sequence[AnyPolicy] = (),
) -> Frontier:
    """Best policies over a grid of (λ, α), each certified.

    Parameters
    ----------
    solver : Solver, optional
        `Exact` by default: each point is proven, or its gap is known. With a horizon, local search
        over stationary policies; those of a solver that is given may have a rule for each step.
    time_limit : float, optional
        Seconds for the whole grid, shared out over its points (default solver only).
    also : sequence of Policy
        Policies that are known already: a point takes one of these where it is the best there.
    """
    instance("problem", problem, Problem)
    lams, alphas = _grid("lambda", lams), _grid("alpha", alphas)
    if solver is None:
        share = POINT_SECONDS if time_limit is None else time_limit / (len(lams) * len(alphas))
        solver = Exact(gap=POINT_GAP, time_limit=share)
        if problem.horizon is not None:
            solver = LocalSearch(starts=3, time_limit=share, stationary=True)
    elif time_limit is not None:
        raise InputError("time_limit is for the default solver; set it on the solver given.")
    pool = _Pool(problem)
    solved = _solve_all(problem, solver, lams, alphas, pool)
    for policy in also:
        pool.add(policy)
    best = {key: pool.best(problem.objective.at(*key)) for key in solved}
    columns = [
        _judged([_point(problem, (lam, alpha), best, solved, pool, lams) for lam in lams])
        for alpha in alphas
    ]
    return Frontier(lams, alphas, tuple(zip(*columns, strict=True)))


def _grid(name: str, values: Sequence[float]) -> tuple[float, ...]:
    try:
        out = tuple(float(x) for x in values)
    except (TypeError, ValueError):
        raise InputError(f"Values of {name} must be numbers; they are {list(values)}.") from None
    if not out or any(not 0 <= x <= 1 for x in out):
        raise InputError(f"A frontier needs values of {name} in [0, 1]; it got {list(values)}.")
    if list(out) != sorted(set(out)):
        raise InputError(f"Values of {name} must rise and be given once each: {list(out)}.")
    return out


Key = tuple[float, float]


def _solve_all(
    problem: Problem, solver: Solver, lams: Sequence[float], alphas: Sequence[float], pool: _Pool
) -> dict[Key, tuple[Bound | None, Status]]:
    """Bound and status of every point; once time is over the best policy of the others is its."""
    out: dict[Key, tuple[Bound | None, Status]] = {}
    line, clock = LiveLine(), time_bound().part(POINTS_SHARE)
    for lam, alpha in product(lams, alphas):
        if clock.passed and out:
            time_bound().note("points")
            out[lam, alpha] = (None, Status.TIME_LIMIT)
            continue
        line.update(f"frontier: point {len(out) + 1} of {len(lams) * len(alphas)}".__str__)
        known = pool.policies and pool.policies[pool.best(problem.objective.at(lam, alpha))]
        warm = solver
        if isinstance(solver, Exact) and isinstance(known, Policy):
            warm = replace(solver, start=known)
        [[solution]] = solve_grid(problem, warm, [lam], [alpha])
        pool.add(solution.policy)
        out[lam, alpha] = (solution.bound, solution.status)
    line.clear()
    return out


@final
class _Pool:
    """Distinct policies with their returns on the models."""

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        self.policies: list[AnyPolicy] = []
        self.returns: list[FloatArray] = []
        self.index: dict[bytes, int] = {}

    def add(self, policy: AnyPolicy) -> None:
        key = policy.probs.tobytes()
        if key not in self.index:
            self.index[key] = len(self.policies)
            self.policies.append(policy)
            self.returns.append(returns_of(self.problem, policy).x)

    def best(self, objective: Objective) -> int:
        """The policy of greatest value; among equals the one of greatest mean, then the first."""
        f = self.problem.models.f
        scores = [(objective.value(x, f), float(x @ f)) for x in self.returns]
        top = max(value for value, _ in scores)
        near = [i for i, (v, _) in enumerate(scores) if v >= top - SAME * max(abs(top), 1e-300)]
        return max(near, key=lambda i: (scores[i][1], -i))


def _point(
    problem: Problem, key: Key, best: dict[Key, int],
    solved: dict[Key, tuple[Bound | None, Status]], pool: _Pool, lams: Sequence[float],
) -> FrontierPoint:  # fmt: skip
    lam, alpha = key
    policy = pool.policies[best[key]]
    bound, status = solved[key]
    there = replace(problem, objective=problem.objective.at(lam, alpha))
    certificate = certify(there, policy, bounds=[] if bound is None else [bound], time_limit=2.0)
    before = pool.policies[best[lams[max(lams.index(lam) - 1, 0)], alpha]]
    changed = _changes(problem, before, policy)
    return FrontierPoint(lam, alpha, policy, best[key], certificate, status, changed, None, False)


def _changes(problem: Problem, before: AnyPolicy, after: AnyPolicy) -> tuple[str, ...]:
    """States that act differently, among those that either policy reaches."""
    differs = np.abs(rules_of(before) - rules_of(after)).max(axis=(0, 2)) > 1e-9
    if not differs.any():
        return ()
    visits = [occupancies(problem, p).max(axis=0) > 1e-12 for p in (before, after)]
    where = np.flatnonzero(differs & (visits[0] | visits[1]) & problem.decided)
    return tuple(problem.models.states[s] for s in where)


def _judged(points: list[FrontierPoint]) -> list[FrontierPoint]:
    """Prices along rising λ, and who is dominated."""
    out = []
    for before, p in zip([points[0], *points], points, strict=False):
        gained = p.cvar - before.cvar
        dear = gained > SAME * max(abs(p.cvar), abs(before.cvar))
        price = (before.mean - p.mean) / gained if dear else None
        out.append(replace(p, price=price, dominated=any(_dominates(q, p) for q in points)))
    return out


def _dominates(q: FrontierPoint, p: FrontierPoint) -> bool:
    slack = [SAME * max(abs(a), abs(b)) for a, b in ((q.mean, p.mean), (q.cvar, p.cvar))]
    no_worse = q.mean >= p.mean - slack[0] and q.cvar >= p.cvar - slack[1]
    return no_worse and (q.mean > p.mean + slack[0] or q.cvar > p.cvar + slack[1])
