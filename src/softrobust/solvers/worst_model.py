"""Robust against the worst model: nature picks any model of positive weight, step by step.

    v(s) = max_a min_{ω : f_ω > 0} P̂^ω_{s,a}ᵀ(r_{s,a} + γv)

This is SA-rectangular soft-robustness at λ = 1, α = 1, whatever λ and α the problem has, and is
solved as that. Nature may change the model from step to step, so p₀ᵀv is at most the return in the
worst single model. The best policy for one fixed worst model is the static problem at λ = 1, α = 1:
`Exact` with `SoftRobust(1, 1)`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar, final

from softrobust.errors import InputError
from softrobust.objective import SoftRobust
from softrobust.solvers.base import Deadline, Solution, Solver, finish
from softrobust.solvers.sa_rect import SARect

if TYPE_CHECKING:
    from softrobust.problem import Problem


@final
@dataclass(frozen=True, slots=True)
class WorstModel(Solver):
    """Maximise the return where every step follows the worst of the models.

    Parameters
    ----------
    tol : float
        Half-width of the certified bounds on the value, relative to max|v|.
    time_limit : float, optional
        Seconds; the bounds reached by then come back.
    """

    tol: float = 1e-8
    time_limit: float | None = None
    name: ClassVar[str] = "worst-model"

    def __post_init__(self) -> None:
        if not self.tol >= 0:
            raise InputError(f"tol is a relative half-width, at least 0; it is {self.tol!r}.")
        Deadline(self.time_limit)  # refuses what is no limit

    def solve(self, problem: Problem) -> Solution:
        """Solve at λ = 1, α = 1, and value the policy by the problem's own objective."""
        worst = replace(problem, objective=SoftRobust(1.0, 1.0))
        found = SARect(tol=self.tol, time_limit=self.time_limit).solve(worst)
        return finish(
            problem,
            solver=self.name,
            policy=found.policy,
            v=found.v,
            status=found.status,
            stats=found.stats,
        )
