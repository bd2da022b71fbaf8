"""Rectangular soft-robust solvers by partial policy iteration with certified bounds (section 4.2).

    SRect    nature picks ξ ∈ Ξ anew in every state: P^R (eq. 4.6), S-rectangular (eqs. 2.4, 2.5)
    SARect   nature picks ξ ∈ Ξ anew for every state and action: P^RA (eqs. A.1, A.2)

The policy of the first may randomize, and its value ρ^R is a lower bound of ρ^D; that of the second
is deterministic, and its value ρ^RA ≤ ρ^R the more cautious of the two.

# ERRATUM: ρ^R does not bound ρ^S, on which no rectangular policy is reliably the better one.

Each round sweeps all states once at v: the games give a decision d, nature's answer ξ and bounds on
the fixed point. If these are tight enough, the middle is the value and d the policy, whose own
worst-case return lies between the same bounds (d attains lb). If not, v moves by Newton's step with
(d, ξ), which converges quadratically near the solution. Newton alone can cycle: where the residual
does not fall, d is kept and nature's own policy iteration answers it (Hoffman and Karp). Where that
brings no better bounds either, it is done in every round that follows: the values of d then rise
from round to round, although their residuals need not fall. The start is the optimal value of the
mean model, at 1/N of a pass per step.

A grid of (λ, α) is solved in lock step. Its points are walked row by row, forth and back, and cut
into chains of neighbours. Every chain solves its points one after the other, each from the value
function and the games' bases of the one before, and all chains sweep together: one read of the
models serves as many points as there are chains. A chain whose point is solved goes on with its
next at once; the last sweeps have fewer and fewer chains.
"""

from __future__ import annotations

import time
from abc import ABC
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, final

import numpy as np

from softrobust._core.arrays import FloatArray, fits
from softrobust._core.limits import Deadline
from softrobust.kernels.sweeps import S_GAME, S_NATURE, SA_GAME, SA_NATURE
from softrobust.problem import Problem
from softrobust.returns import rectangular_sweeps
from softrobust.returns.dynamic import nature_response
from softrobust.returns.rectangular_sweeps import Bracket, Sweeps
from softrobust.solvers.base import Solution, Status, finish
from softrobust.solvers.rectangular.fixed_point import Iterated

FALL = 0.5  # a residual that falls less than this calls for nature's own answer
PATIENCE = 4  # rounds without a better bound before every decision is answered in full,
LAST = 40  # and before rounding has the last word, unless
FLOOR = 4.0  # the bounds are this many times what rounding leaves of them
ANSWERED = 1e-3  # of the least residual so far: how well nature's answer is then known
NOMINAL_STEPS = 30
CHAINS = 8  # that sweep together; more gain little and cost memory
TOGETHER = 500_000  # probabilities below which points are solved one at a time

Point = tuple[int, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Rectangular(Iterated, ABC):
    """Settings of a rectangular solver: those of `Iterated`, and

    Parameters
    ----------
    float32 : bool
        Read the probabilities as float32, with float64 sums: half the memory traffic. The
        certificate is then about the rounded models.

    Notes
    -----
    Where v is below it and rounding has the last word, `tol` is relative to the largest |reward|.
    """

    float32: bool = False
    kind: ClassVar[int]

    def solve(self, problem: Problem) -> Solution:
        """Find the policy and its certified value."""
        deadline = Deadline(self.time_limit)
        sweeps = Sweeps(problem, float32=self.float32)
        v = nominal_start(sweeps)
        found, status = iterate(sweeps, self.kind, v, self.tol, deadline, self.max_rounds)
        stats = self.statistics(sweeps, found, deadline.elapsed)
        return finish(problem, self.name, problem.policy(found.decision), status, stats, found.v)

    def solve_grid(
        self, problem: Problem, lams: Sequence[float], alphas: Sequence[float]
    ) -> list[list[Solution]]:
        """Solve for every (λ, α), each from an answer next to it.

        The time limit is per point, on its share of the sweeps; so are the `stats` of each: passes
        over the models and seconds add up to those of the grid.
        """
        found: dict[Point, Solution] = {}
        for x in solve_points(self, problem, lams, alphas):
            policy = x.problem.policy(x.found.decision)
            found[x.at] = finish(x.problem, self.name, policy, x.status, x.stats, x.found.v)
        return [[found[i, j] for j in range(len(alphas))] for i in range(len(lams))]

    def statistics(self, sweeps: Sweeps, found: Bracket, seconds: float) -> dict[str, Any]:
        """What a solve did, and how exact its value is."""
        return self.figures(sweeps.problem, found, seconds) | {
            "passes": round(sweeps.passes, 3),
            **{name: int(getattr(sweeps, name)) for name in ("sweeps", "inner_sweeps", "pivots")},
            "lp_fallbacks": int(sweeps.fallbacks),
            "randomized_states": int(((found.decision > 0).sum(axis=1) > 1).sum()),
            "certificate_of": "models rounded to float32" if sweeps.float32 else "models as stored",
        }


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class SRect(Rectangular):
    """Maximise ρ^R, the return where nature answers state by state; settings as in `Rectangular`.

    The policy is randomized in the states where that pays.
    """

    name: ClassVar[str] = "s-rect"
    kind: ClassVar[int] = S_GAME


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class SARect(Rectangular):
    """Maximise ρ^RA, the return where nature answers each action; settings as in `Rectangular`."""

    name: ClassVar[str] = "sa-rect"
    kind: ClassVar[int] = SA_GAME


def nominal_start(sweeps: Sweeps) -> FloatArray:
    """The optimal value of the mean model, by policy iteration on its rows (to about 1e-3)."""
    problem, m = sweeps.problem, sweeps.models
    rows, _ = sweeps.means()
    R = problem.R @ m.f
    S, A = R.shape
    v, d = np.zeros(S), np.zeros((S, A))
    for _ in range(NOMINAL_STEPS):
        ahead = np.add.reduceat(np.append(rows * v[m.next_states], 0.0), m.indptr[:-1])
        Q = np.where(problem.allowed, R + problem.gamma * ahead.reshape(S, A), -np.inf)
        residual = Q.max(axis=1) - v
        if np.ptp(residual) <= 1e-3 * (1 - problem.gamma) * np.abs(v).max():
            break
        d[:] = 0.0
        d[np.arange(S), Q.argmax(axis=1)] = 1.0
        v = rectangular_sweeps.newton_step(
            m.indptr, m.next_states, rows, d, problem.gamma, v, residual
        )
    return v


def iterate(
    sweeps: Sweeps, kind: int, v: FloatArray, tol: float, deadline: Deadline, max_rounds: int
) -> tuple[Bracket, Status]:
    """Partial policy iteration from v; `kind` is S_GAME or SA_GAME."""
    course = Course(sweeps, kind, v, tol, max_rounds)
    while True:  # at most max_rounds times
        sweeps.run(kind, course.v)
        answer = course.advance(deadline.passed)
        if answer is not None:
            return answer


@final
class Course:
    """A solve between two sweeps: where it stands, its best bounds, and how it goes on.

    Whoever drives it sweeps at `v` (alone, or together with other courses) and calls `advance`.
    """

    def __init__(
        self, sweeps: Sweeps, kind: int, v: FloatArray, tol: float, max_rounds: int
    ) -> None:
        self.sweeps, self.tol, self.rounds_left = sweeps, tol, max_rounds
        self.nature = S_NATURE if kind == S_GAME else SA_NATURE
        self.v, self.last, self.least, self.waited = v, np.inf, np.inf, 0
        self.cycles = False
        self.best: Bracket | None = None

    def advance(self, out_of_time: bool) -> tuple[Bracket, Status] | None:
        """Take up a sweep at v: the answer where that ends the solve, else None, and v has moved.

        `out_of_time` ends it with the bounds reached.
        """
        v, sweeps = self.v, self.sweeps
        found, best = sweeps.bounds(v), self.best
        self.waited += 1
        self.rounds_left -= 1
        if best is None or found.width < best.width:
            best, self.waited = replace(found, decision=found.decision.copy()), 0
            self.best = best
        if best.tol <= self.tol:
            return best, Status.TOLERANCE_REACHED
        # Whether the bounds are about as wide as the rounding of a sweep makes them.
        floor = FLOOR * float((sweeps.out.ub - sweeps.out.lb).max()) / (1 - sweeps.gamma)
        if self.waited >= (PATIENCE if best.width <= floor else LAST):
            return at_rounding(best, sweeps.R_max, self.tol)
        if out_of_time:
            return best, Status.TIME_LIMIT
        if self.rounds_left == 0:
            return best, Status.ITERATION_LIMIT
        span = float(np.ptp(sweeps.value - v))
        self.least = min(self.least, span)
        self.v = sweeps.step(v)
        self.cycles = self.cycles or self.waited >= PATIENCE
        if self.cycles:
            self.v = nature_response(sweeps, self.nature, self.v, ANSWERED * self.least)
        elif span > FALL * self.last:
            self.v = nature_response(sweeps, self.nature, self.v, 0.01 * span)
        self.last = span
        return None


def at_rounding(best: Bracket, unit: float, tol: float) -> tuple[Bracket, Status]:
    """Rounding has the last word; a value function of 0 is then known as well as any.

    So is one below `unit`, the largest |reward|: what it sums has cancelled, and was rounded.
    """
    if max(np.abs(best.lower).max(), np.abs(best.upper).max()) <= unit:
        best = replace(best, unit=unit)
        if best.tol <= tol:
            return best, Status.TOLERANCE_REACHED
    return best, Status.ITERATION_LIMIT


@final
@dataclass(frozen=True, slots=True, eq=False)
class SolvedPoint:
    """One point of a grid: its problem, its answer, and its share of the work."""

    at: Point
    problem: Problem
    found: Bracket
    status: Status
    stats: dict[str, Any]


@final
@dataclass(slots=True, eq=False)
class _Chain:
    """Points still to solve, and the course of the present one."""

    sweeps: Sweeps
    v: FloatArray
    points: list[tuple[Point, Problem]]
    start_up: float  # passes of the whole grid (the mean model), per point
    course: Course | None = None
    seconds: float = 0.0

    def begin(self, solver: Rectangular) -> None:
        """Go on with the next point, if there is one."""
        self.course, self.seconds = None, 0.0
        if self.points:
            self.sweeps.reset(self.points[0][1])
            self.sweeps.passes += self.start_up
            self.course = Course(self.sweeps, solver.kind, self.v, solver.tol, solver.max_rounds)

    def advance(self, solver: Rectangular, share: float) -> SolvedPoint | None:
        """Take up a sweep; the point if that solved it. Its clock counts its share of the sweep."""
        assert self.course is not None
        limit, begin = solver.time_limit, time.monotonic()
        answer = self.course.advance(limit is not None and self.seconds + share >= limit)
        self.seconds += share + time.monotonic() - begin
        if answer is None:
            return None
        (at, problem), (found, status) = self.points.pop(0), answer
        self.v = found.v
        stats = solver.statistics(self.sweeps, found, self.seconds)
        return SolvedPoint(at, problem, found, status, stats)


def neighbour_walk(rows: int, columns: int) -> list[Point]:
    """The points of a grid, each next to the one before."""
    return [(i, j) for i in range(rows) for j in range(columns)[:: 1 if i % 2 == 0 else -1]]


def chains_for(sweeps: Sweeps, points: int) -> int:
    """How many points to sweep together: one where models are small, else as many as memory holds.

    Measured in processor time, one at a time against eight together: level below 100 000
    probabilities, where a second kernel is not worth its compilation; 1.2 to 1.3 times faster at
    51 × 5 × 100 (1.3 million), 2 to 2.5 times on rows of 100 states or more. On short rows (1000 to
    10 000 states with ten next states) 1.1 times, as games and Newton's steps cost more there than
    the read.
    """
    if sweeps.models.prob.size < TOGETHER:
        return 1
    count = min(CHAINS, points)
    while count > 1 and not fits(count * rectangular_sweeps.slot_bytes(sweeps.models)):
        count -= 1
    return count


def solve_points(
    solver: Rectangular,
    problem: Problem,
    lams: Sequence[float],
    alphas: Sequence[float],
    together: int | None = None,
) -> Iterator[SolvedPoint]:
    """Every point of the grid, as they are solved; `chains_for` says how many at a time."""
    first = Sweeps(problem, float32=solver.float32)
    walk = [
        (at, replace(problem, objective=problem.objective.at(lams[at[0]], alphas[at[1]])))
        for at in neighbour_walk(len(lams), len(alphas))
    ]
    n = len(walk)
    count = chains_for(first, n) if together is None else min(together, n)
    start, start_up = nominal_start(first), first.passes / max(n, 1)
    batch = rectangular_sweeps.SweepBatch(first, max(count, 1))
    chains = [
        _Chain(x, start, walk[j * n // count : (j + 1) * n // count], start_up)
        for j, x in enumerate(batch.sweeps[:count])
    ]
    for chain in chains:
        chain.begin(solver)
    while True:  # every course has at most max_rounds
        active = [(j, c.course.v) for j, c in enumerate(chains) if c.course is not None]
        if not active:
            return
        begin = time.monotonic()
        batch.run(solver.kind, [j for j, _ in active], [v for _, v in active])
        share = (time.monotonic() - begin) / len(active)
        for j, _ in active:
            solved = chains[j].advance(solver, share)
            if solved is not None:
                yield solved
                chains[j].begin(solver)
