"""Rectangular solves over a grid of (λ, α) in lock step (section 4).

The points are walked like a snake, cut into lanes of neighbours. Every lane solves its points one
after the other, each from the value function and the games' bases of the one before, and all lanes
sweep together: one read of the models serves as many points as there are lanes. A lane whose point
is solved goes on with its next at once; the last sweeps have fewer and fewer lanes.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, final

import numpy as np
from numpy.typing import NDArray

from softrobust.data.memory import fits
from softrobust.objective import SoftRobust
from softrobust.returns._lanes import Lanes, lane_bytes
from softrobust.returns._rectangle import Sweeps
from softrobust.solvers.rectangular import Answer, Course, nominal_start, statistics

if TYPE_CHECKING:
    from softrobust.problem import Problem
    from softrobust.solvers.rectangular_base import Rectangular

FloatArray = NDArray[np.float64]
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
