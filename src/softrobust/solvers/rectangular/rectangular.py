"""What `SRect` and `SARect` share around the iteration: settings, one solve, grids of (λ, α).

A grid shares the passes over the models, each point starts from a neighbour (`rectangular_grid`),
and the mean model, the row sums and R are computed once for all.
"""

from __future__ import annotations

import time
from abc import ABC
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, final

import numpy as np

from softrobust._core.arrays import FloatArray, fits
from softrobust.errors import InputError
from softrobust.kernels.sweeps import S_GAME, SA_GAME
from softrobust.objective import SoftRobust
from softrobust.returns import policy_return
from softrobust.returns.rectangular import Lanes, lane_bytes
from softrobust.returns.rectangular_sweeps import Sweeps
from softrobust.solvers.base import Deadline, Solution, Solver, Status, finish
from softrobust.solvers.rectangular.iteration import (
    Answer,
    Course,
    as_policy,
    at_rounding,
    iterate,
    nominal_start,
    statistics,
)

if TYPE_CHECKING:
    from softrobust.problem import Problem


@dataclass(frozen=True, slots=True)
class Rectangular(Solver, ABC):
    """Settings of a rectangular solver.

    Parameters
    ----------
    tol : float
        Half-width of the certified bounds on the value, relative to max|v| (to the largest |reward|
        where v is 0 but for rounding). What was reached is `stats["tol_achieved"]`; rounding can
        keep it from smaller values.
    time_limit : float, optional
        Seconds; the bounds reached by then come back.
    max_rounds : int
        Sweeps over all states.
    float32 : bool
        Read the probabilities as float32, with float64 sums: half the memory traffic. The
        certificate is then about the rounded models.
    """

    tol: float = 1e-8
    time_limit: float | None = None
    max_rounds: int = 1000
    float32: bool = False
    kind: ClassVar[int]

    def __post_init__(self) -> None:
        if not self.tol >= 0:
            raise InputError(f"tol is a relative half-width, at least 0; it is {self.tol!r}.")
        if self.max_rounds < 1:
            raise InputError(f"max_rounds must be at least 1; it is {self.max_rounds!r}.")

    def solve(self, problem: Problem) -> Solution:
        """Find the policy and its certified value."""
        deadline = Deadline(self.time_limit)
        sweeps = Sweeps(problem, float32=self.float32)
        v = nominal_start(sweeps)
        answer = iterate(sweeps, self.kind, v, self.tol, deadline, self.max_rounds)
        stats = statistics(sweeps, answer, self.tol, deadline.elapsed)
        return finish(
            problem,
            solver=self.name,
            policy=as_policy(problem, answer.d),
            v=answer.v,
            status=answer.status,
            stats=stats,
        )

    def solve_grid(
        self, problem: Problem, lams: Sequence[float], alphas: Sequence[float]
    ) -> list[list[Solution]]:
        """Solve for every (λ, α), each from an answer next to it.

        The time limit is per point, on its share of the sweeps; so are the `stats` of each: passes
        over the models and seconds add up to those of the grid.
        """
        if self.time_limit is not None:
            Deadline(self.time_limit)  # refuses what is no limit
        found: dict[tuple[int, int], Solution] = {}
        returns: dict[bytes, FloatArray] = {}  # neighbours often share their policy
        for x in solve_points(self, problem, lams, alphas):
            policy, key = as_policy(x.problem, x.answer.d), x.answer.d.tobytes()
            if key not in returns:
                returns[key] = policy_return(x.problem, policy)
            v, objective = x.answer.v, x.problem.objective
            found[x.at] = Solution(
                solver=self.name,
                policy=policy,
                static_value=objective.value(returns[key], problem.models.f),
                uniform_value=None,  # as of `finish` without a bound
                gamma=problem.gamma,
                objective=objective,
                n_models=problem.n_models,
                status=x.answer.status,
                v=v,
                model_value=float(problem.p0 @ v),
                stats=x.stats,
            )
        return [[found[i, j] for j in range(len(alphas))] for i in range(len(lams))]


# --------------------------------------------------------------------------------------------------
# Rectangular solves over a grid of (λ, α) in lock step (section 4).
#
# The points are walked like a snake, cut into lanes of neighbours. Every lane solves its points one
# after the other, each from the value function and the games' bases of the one before, and all
# lanes sweep together: one read of the models serves as many points as there are lanes. A lane
# whose point is solved goes on with its next at once; the last sweeps have fewer and fewer lanes.

Point = tuple[int, int]

MOST = 8  # lanes; more gain little and cost memory
TOGETHER = 500_000  # probabilities below which points are solved one at a time


@final
@dataclass(slots=True, eq=False)
class Solved:
    """One point of a grid: its problem, its answer, and its share of the work."""

    at: Point
    problem: Problem
    answer: Answer
    stats: dict[str, Any]


@final
@dataclass(slots=True, eq=False)
class _Lane:
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


def snake(rows: int, columns: int) -> list[Point]:
    """The points of a grid, each next to the one before."""
    return [(i, j) for i in range(rows) for j in range(columns)[:: 1 if i % 2 == 0 else -1]]


def lanes_for(sweeps: Sweeps, points: int) -> int:
    """How many points to sweep together: one where models are small, else as many as memory holds.

    Measured in processor time, one at a time against eight together: level below 100 000
    probabilities, where a second kernel is not worth its compilation; 1.2 to 1.3 times faster at
    51 × 5 × 100 (1.3 million), 2 to 2.5 times on rows of 100 states or more. On short rows (1000 to
    10 000 states with ten next states) 1.1 times, as games and Newton's steps cost more there than
    the read.
    """
    if sweeps.models.prob.size < TOGETHER:
        return 1
    count = min(MOST, points)
    while count > 1 and not fits(count * lane_bytes(sweeps.models)):
        count -= 1
    return count


def solve_points(
    solver: Rectangular,
    problem: Problem,
    lams: Sequence[float],
    alphas: Sequence[float],
    lanes: int | None = None,
) -> Iterator[Solved]:
    """Every point of the grid, as they are solved.

    Parameters
    ----------
    lanes : int, optional
        How many points to sweep together; by default `lanes_for` says. 1 is one at a time.
    """
    first = Sweeps(problem, float32=solver.float32)
    walk = [
        (at, replace(problem, objective=SoftRobust(lams[at[0]], alphas[at[1]])))
        for at in snake(len(lams), len(alphas))
    ]
    count = lanes_for(first, len(walk)) if lanes is None else min(lanes, len(walk))
    start, start_up = nominal_start(first), first.passes / max(len(walk), 1)
    together = Lanes(first, max(count, 1))
    parts = [
        _Lane(x, start, walk[j * len(walk) // count : (j + 1) * len(walk) // count], start_up)
        for j, x in enumerate(together.sweeps[:count])
    ]
    for part in parts:
        part.begin(solver)
    while True:  # every course has at most max_rounds
        active = [j for j, part in enumerate(parts) if part.course is not None]
        if not active:
            return
        courses = [parts[j].course for j in active]
        begin = time.monotonic()
        together.run(solver.kind, active, [c.v for c in courses if c is not None])
        share = (time.monotonic() - begin) / len(active)
        for j in active:
            solved = _advance(parts[j], solver, share)
            if solved is not None:
                yield solved
                parts[j].begin(solver)


def _advance(lane: _Lane, solver: Rectangular, share: float) -> Solved | None:
    """Take up a sweep; the point if that solved it. Its clock counts its share of the sweep."""
    assert lane.course is not None
    limit, begin = solver.time_limit, time.monotonic()
    late = limit is not None and lane.seconds + share >= limit
    answer = lane.course.advance(late)
    lane.seconds += share + time.monotonic() - begin
    if answer is None:
        return None
    at, problem = lane.points.pop(0)
    lane.v = answer.v
    return Solved(at, problem, answer, statistics(lane.sweeps, answer, solver.tol, lane.seconds))


# --------------------------------------------------------------------------------------------------
# The S-rectangular solver: nature picks ξ ∈ Ξ anew in every state (section 4.2).
#
# Its policy may randomize. Its value is ρ^R, a lower bound of ρ^D.
#
#     # ERRATUM: ρ^R does not bound ρ^S, on which no rectangular policy is reliably the better one.


@final
@dataclass(frozen=True, slots=True)
class SRect(Rectangular):
    """Maximise ρ^R, the return where nature answers state by state; settings as in `Rectangular`.

    The policy is randomized in the states where that pays.
    """

    name: ClassVar[str] = "s-rect"
    kind: ClassVar[int] = S_GAME


# --------------------------------------------------------------------------------------------------
# The SA-rectangular solver: nature picks ξ ∈ Ξ anew for every state and action (appendix A).
#
# Its policy is deterministic. Its value is ρ^RA ≤ ρ^R, the more cautious of the two.


@final
@dataclass(frozen=True, slots=True)
class SARect(Rectangular):
    """Maximise ρ^RA, the return where nature answers every action by itself.

    Settings as in `Rectangular`.
    """

    name: ClassVar[str] = "sa-rect"
    kind: ClassVar[int] = SA_GAME


# --------------------------------------------------------------------------------------------------
# Plain value iteration on the rectangular operators, as a reference for the solvers (section 4).
#
# v ← Tv, with the operator T of `SRect` or `SARect`: no decision is kept, no linear system solved.
# It shares nothing with partial policy iteration but T itself and the certificate, MacQueen's
# bounds, which also say when to stop. From sweep to sweep the residual shrinks by γ at worst, and
# faster if the models mix: tens of passes over them where they mix well, thousands where they do
# not.

PATIENCE = 20  # sweeps without a better bound before rounding has the last word


def rectangular_value_iteration(
    problem: Problem, kind: int = S_GAME, tol: float = 1e-8, max_sweeps: int = 100_000
) -> tuple[Answer, int]:
    """The certified value by value iteration from 0, and the number of sweeps it took.

    Parameters
    ----------
    kind : int
        `kernels.sweeps.S_GAME` or `SA_GAME`.
    tol : float
        Half-width of the bounds to reach, relative to max|v|.
    """
    if kind not in (S_GAME, SA_GAME):
        raise InputError(f"kind is S_GAME ({S_GAME}) or SA_GAME ({SA_GAME}); it is {kind!r}.")
    if max_sweeps < 1:
        raise InputError(f"max_sweeps must be at least 1; it is {max_sweeps!r}.")
    sweeps = Sweeps(problem)
    sweeps.out = sweeps.out._replace(mixed=np.zeros(0))  # no linear system, no mixed rows
    v, best, waited, done = np.zeros(problem.n_states), None, 0, 0
    while done < max_sweeps and waited < PATIENCE:
        sweeps.run(kind, v)
        done += 1
        lower, upper = sweeps.bounds(v)
        if best is None or (upper - lower).max() < (best.upper - best.lower).max():
            best, waited = Answer(lower, upper, sweeps.out.d.copy()), 0
        else:
            waited += 1
        if best.tol <= tol:
            best.status = Status.TOLERANCE_REACHED
            return best, done
        v = sweeps.value
    assert best is not None  # max_sweeps is at least 1
    return (at_rounding(best, sweeps.R_max, tol) if waited == PATIENCE else best), done
