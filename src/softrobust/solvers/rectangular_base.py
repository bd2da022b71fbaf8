"""What `SRect` and `SARect` share around the iteration: settings, one solve, grids of (λ, α).

A grid walks its points like a snake, so that each starts from the value function and the games'
bases of a neighbour. The mean model, the row sums and R are computed once for the whole grid.
"""

from __future__ import annotations

from abc import ABC
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from numpy.typing import NDArray

from softrobust.errors import InputError
from softrobust.objective import SoftRobust
from softrobust.returns import policy_return
from softrobust.returns._rectangle import Sweeps
from softrobust.solvers.base import Deadline, Solution, Solver, finish
from softrobust.solvers.rectangular import as_policy, iterate, nominal_start, statistics

if TYPE_CHECKING:
    from softrobust.problem import Problem

FloatArray = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Rectangular(Solver, ABC):
    """Settings of a rectangular solver.

    Parameters
    ----------
    tol : float
        Half-width of the certified bounds on the value, relative to max|v|. What was reached is
        `stats["tol_achieved"]`; rounding can keep it from smaller values.
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
        """Solve for every (λ, α), each from the answer next to it; the time limit is per point."""
        sweeps = Sweeps(problem, float32=self.float32)
        v = nominal_start(sweeps)
        found: dict[tuple[int, int], Solution] = {}
        returns: dict[bytes, FloatArray] = {}  # neighbours often share their policy
        for i, lam in enumerate(lams):
            for j in range(len(alphas))[:: 1 if i % 2 == 0 else -1]:
                point = replace(problem, objective=SoftRobust(lam, alphas[j]))
                deadline = Deadline(self.time_limit)
                sweeps.reset(point)
                answer = iterate(sweeps, self.kind, v, self.tol, deadline, self.max_rounds)
                v, policy = answer.v, as_policy(point, answer.d)
                key = answer.d.tobytes()
                if key not in returns:
                    returns[key] = policy_return(point, policy)
                found[i, j] = Solution(
                    solver=self.name,
                    policy=policy,
                    static_value=point.objective.value(returns[key], point.models.f),
                    uniform_value=None,  # as of `finish` without a bound
                    gamma=point.gamma,
                    objective=point.objective,
                    n_models=point.n_models,
                    status=answer.status,
                    v=v,
                    model_value=float(point.p0 @ v),
                    stats=statistics(sweeps, answer, self.tol, deadline.elapsed),
                )
        return [[found[i, j] for j in range(len(alphas))] for i in range(len(lams))]
