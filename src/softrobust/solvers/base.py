"""The protocol of every solver: settings in, a `Solution` with a status and a bound out.

A solver is a frozen bag of its own settings; what is maximised lives in the problem. A limit is not
a failure: the incumbent comes back with its gap. `SolverError` is for "no usable policy" only.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from importlib import import_module
from typing import TYPE_CHECKING, Any, ClassVar, final, overload

from softrobust._core.arrays import FloatArray
from softrobust.errors import InputError
from softrobust.objective import Objective, SoftRobust
from softrobust.returns import static_return, uniform_value

if TYPE_CHECKING:
    from softrobust._core.limits import Late
    from softrobust.bounds import Bound
    from softrobust.continuous_problem import ContinuousProblem
    from softrobust.models.policy import Policy
    from softrobust.problem import Problem
    from softrobust.solvers.continuous.base import ContinuousSolution, ContinuousSolver

ROUNDING = 1e-10  # two values that differ by less than this share may be the same number


class Status(StrEnum):
    """How a solve ended."""

    OPTIMAL = "optimal"
    TOLERANCE_REACHED = "tolerance_reached"
    LOCAL_OPTIMUM = "local_optimum"
    TIME_LIMIT = "time_limit"
    NODE_LIMIT = "node_limit"
    ITERATION_LIMIT = "iteration_limit"
    INTERRUPTED = "interrupted"
    GIVEN = "given"  # handed in by the user or read from the log: nothing was searched


@final
@dataclass(frozen=True, slots=True, eq=False)
class Solution:
    """What a solver found, and what it can say about it.

    Attributes
    ----------
    solver : str
        The name of the solver, as on the command line.
    policy : Policy
    v : (n_states,) or None
        The solver's own value function, if it has one, and `model_value` = p₀ᵀv.
    static_value : float
        Exact ρ^S of the policy on the problem's models.
    uniform_value : float or None
        ρ^S of the uniform policy, the zero of `gap_share`; None without a bound.
    bound : Bound or None
        No policy of the class it covers is better; None if the solver proves nothing.
    status : Status
    stats : mapping
        Iterations, seconds, tolerances: plain numbers and words, ready for JSON.
    rounding : float
        A gap up to this much may be rounding alone (see `bounds.rounding`).
    """

    solver: str
    policy: Policy
    static_value: float
    uniform_value: float | None
    gamma: float
    objective: Objective
    n_models: int
    status: Status
    v: FloatArray | None = None
    model_value: float | None = None
    bound: Bound | None = None
    stats: Mapping[str, Any] = field(default_factory=dict)
    rounding: float = 0.0

    @property
    def gap_abs(self) -> float | None:
        """Bound − static_value."""
        return None if self.bound is None else self.bound.value - self.static_value

    @property
    def gap(self) -> float | None:
        """gap_abs over |static_value|; None where that is 0."""
        if self.gap_abs is None or self.static_value == 0:
            return None
        return self.gap_abs / abs(self.static_value)

    @property
    def gap_share(self) -> float | None:
        """gap_abs over bound − ρ^S(uniform): free of reward offsets; None where that is 0."""
        return gap_share(self.bound, self.static_value, self.uniform_value, self.rounding)

    def _repr_html_(self) -> str:
        # How an object is shown is for the last stage to say; importing it here would turn the
        # order of the stages round, so it is looked up when somebody looks.
        html: str = import_module("softrobust.report.notebook").solution_html(self)
        return html

    def plot(self, axes: Any = None) -> Any:
        """The policy as shades over states and actions; returns the matplotlib axes."""
        return import_module("softrobust.report.notebook").plot_solution(self, axes)


def gap_share(
    bound: Bound | None, value: float, uniform: float | None, rounding: float = 0.0
) -> float | None:
    """(bound − value)/(bound − uniform): the share of what could be gained that is still open.

    None where nothing could be gained: acting at random reaches the bound but for rounding, which
    around 0 is not a share of the two but has a size of its own (`bounds.rounding`).
    """
    if bound is None or uniform is None:
        return None
    nothing = max(ROUNDING * max(abs(bound.value), abs(uniform)), rounding)
    if bound.value - uniform <= nothing:
        return None
    return (bound.value - value) / (bound.value - uniform)


class Solver(ABC):
    """A frozen bag of settings with `solve`."""

    __slots__ = ()
    name: ClassVar[str]

    @abstractmethod
    def solve(self, problem: Problem) -> Solution:
        """Find a policy for the problem."""


@overload
def solve(problem: Problem, solver: Solver) -> Solution: ...
@overload
def solve(problem: ContinuousProblem, solver: ContinuousSolver) -> ContinuousSolution: ...
def solve(problem: Any, solver: Any) -> Any:
    """Solve the problem with a solver, for example `solve(problem, SARect())`."""
    from softrobust.continuous_problem import ContinuousProblem
    from softrobust.solvers.continuous.base import ContinuousSolver

    if not isinstance(solver, (Solver, ContinuousSolver)):
        hint = f"{solver.__name__}()" if isinstance(solver, type) else "SARect()"
        raise InputError(
            f"solve(problem, solver) needs a solver object such as {hint}; it got {solver!r}."
        )
    continuous = isinstance(problem, ContinuousProblem)
    if continuous != isinstance(solver, ContinuousSolver):
        kind = "continuous states" if continuous else "a table of states"
        hint = "SRVI() or SoftRobustSAC()" if continuous else "SRect() or Exact()"
        raise InputError(
            f"The problem has {kind}, and '{solver.name}' is not for those. Use {hint}."
        )
    return solver.solve(problem)


def solve_grid(
    problem: Problem, solver: Solver, lams: Sequence[float], alphas: Sequence[float]
) -> list[list[Solution]]:
    """Solve for every (λ, α): `result[i][j]` belongs to `lams[i]`, `alphas[j]`.

    A solver that can share work over the grid has a method `solve_grid` of its own.
    """
    own = getattr(solver, "solve_grid", None)
    if own is not None:
        result: list[list[Solution]] = own(problem, lams, alphas)
        return result
    return [
        [solve(replace(problem, objective=SoftRobust(lam, alpha)), solver) for alpha in alphas]
        for lam in lams
    ]


def finish(
    problem: Problem,
    *,
    solver: str,
    policy: Policy,
    status: Status,
    v: FloatArray | None = None,
    model_value: float | None = None,
    bound: Bound | None = None,
    stats: Mapping[str, Any] | None = None,
) -> Solution:
    """Evaluate the policy exactly and put the `Solution` together."""
    from softrobust.bounds.reduction import rounding

    if v is not None and model_value is None:
        model_value = float(problem.p0 @ v)
    return Solution(
        solver=solver,
        policy=policy,
        v=v,
        model_value=model_value,
        static_value=static_return(problem, policy),
        uniform_value=None if bound is None else uniform_value(problem),
        gamma=problem.gamma,
        objective=problem.objective,
        n_models=problem.n_models,
        bound=bound,
        status=status,
        stats=dict(stats or {}),
        rounding=0.0 if bound is None else rounding(problem),
    )


@final
class Deadline:
    """A time limit in seconds from now; None never passes."""

    __slots__ = ("limit", "start")

    def __init__(self, limit: float | None) -> None:
        if limit is not None and not limit > 0:
            raise InputError(f"A time limit is a positive number of seconds; it is {limit!r}.")
        self.limit = limit
        self.start = time.monotonic()

    @property
    def elapsed(self) -> float:
        """Seconds since the start."""
        return time.monotonic() - self.start

    @property
    def left(self) -> float:
        """Seconds left, at least 0; infinite without a limit."""
        return float("inf") if self.limit is None else max(0.0, self.limit - self.elapsed)

    @property
    def passed(self) -> bool:
        """Whether the limit is over."""
        return self.left == 0.0

    @property
    def late(self) -> Late | None:
        """`passed` as a function to hand down; None without a limit."""
        return None if self.limit is None else lambda: self.passed
