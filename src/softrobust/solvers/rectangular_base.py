"""What `SRect` and `SARect` share around the iteration: settings, one solve, grids of (λ, α).

A grid shares the passes over the models, each point starts from a neighbour (`rectangular_grid`),
and the mean model, the row sums and R are computed once for all.
"""

from __future__ import annotations

from abc import ABC
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from numpy.typing import NDArray

from softrobust.errors import InputError
from softrobust.returns import policy_return
from softrobust.returns._rectangle import Sweeps
from softrobust.solvers.base import Deadline, Solution, Solver, finish
from softrobust.solvers.rectangular import as_policy, iterate, nominal_start, statistics
from softrobust.solvers.rectangular_grid import solve_points

if TYPE_CHECKING:
    from softrobust.problem import Problem

FloatArray = NDArray[np.float64]


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
