"""The protocol of every solver: settings in, a `Solution` with a status and a bound out.

A solver is a frozen bag of its own settings; what is maximised lives in the problem. A limit is not
a failure: the incumbent comes back with its gap. `SolverError` is for "no usable policy" only.
Tables and vectors of states have the same protocol; where states are vectors, no exact value of a
policy is known, and what it earns is simulated by the certificate.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Any, ClassVar, Generic, cast, final, overload

from softrobust._core.arguments import names_arguments
from softrobust._core.limits import Deadline as Deadline
from softrobust._core.limits import time_bound
from softrobust._core.settings import check_fields, instance
from softrobust._core.show import facts_html
from softrobust.bounds.reduction import rounding
from softrobust.errors import InputError
from softrobust.models.policy import Policy, TimedPolicy
from softrobust.objective import Objective
from softrobust.problem import ContinuousProblem, Problem
from softrobust.returns import static_return, uniform_value

if TYPE_CHECKING:
    from typing_extensions import TypeVar

    from softrobust.bounds import Bound
    from softrobust.models.continuous_policy import ContinuousPolicy

    P = TypeVar("P", default=Policy)  # plain `Solution` is that of a table
else:
    from typing import TypeVar

    P = TypeVar("P")

KNOW_HORIZONS = ("improve", "nominal", "mvp", "wsu", "cadp", "local-search", "empirical",
                 "behaviour")  # fmt: skip
ELSE = ", or use improve, nominal, local-search or cadp"
ROUNDING = 1e-10  # two values that differ by less than this share may be the same number
SOLVER_SHARE = 0.5  # of the time left; the rest is for certificates


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
class Solution(Generic[P]):
    """What a solver found, and what it can say about it.

    Attributes
    ----------
    solver : str
        The name of the solver, as on the command line.
    policy : Policy or ContinuousPolicy
    value : float or None
        Exact ρ^S of the policy on the problem's models; None where returns are simulated. Against a
        reference, where the objective has one.
    uniform_value : float or None
        ρ^S of the uniform policy, the zero of `gap_share`; None without a bound.
    v : (n_states,), callable (n, n_variables) → (n,), or None
        The solver's own value function, if it has one, and `model_value`, its mean over starts: of
        the return, whatever the reference.
    bound : Bound or None
        No policy of the class it covers is better; None if the solver proves nothing.
    status : Status
    stats : mapping
        Iterations, seconds, tolerances: plain numbers and words, ready for JSON.
    rounding : float
        A gap up to this much may be rounding alone (see `bounds.reduction`).
    """

    solver: str
    policy: P
    status: Status
    gamma: float
    objective: Objective
    n_models: int
    horizon: int | None = None
    value: float | None = None
    uniform_value: float | None = None
    v: Any = None
    model_value: float | None = None
    bound: Bound | None = None
    stats: Mapping[str, Any] = field(default_factory=dict)
    rounding: float = 0.0

    @property
    def static_value(self) -> float:
        """`value`, where it is exact."""
        if self.value is None:
            raise InputError(
                f"The returns of a policy of '{self.solver}' are simulated, so it has no exact "
                "value. Certify it: certify(problem, solution.policy)."
            )
        return self.value

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
        if self.bound is None:
            return None
        return gap_share(self.bound, self.static_value, self.uniform_value, self.rounding)

    def _repr_html_(self) -> str:
        facts = {
            "objective": self.value,
            "criterion": self.objective,
            "gamma": self.gamma,
            "models": self.n_models,
            "status": self.status,
            "bound": None if self.bound is None else self.bound.value,
            "gap_share": self.gap_share,
        }
        own: Any = self.policy
        policy = own._repr_html_() if isinstance(own, Policy | TimedPolicy) else ""
        return facts_html(f"Solution by {self.solver}", facts) + policy


def gap_share(
    bound: Bound | None, value: float, uniform: float | None, rounding: float = 0.0
) -> float | None:
    """(bound − value)/(bound − uniform): the share of what could be gained that is still open.

    None where nothing could be gained: acting at random reaches the bound but for rounding, which
    around 0 is not a share of the two but has a size of its own (`bounds.reduction`).
    """
    if bound is None or uniform is None or math.isinf(bound.value):
        return None
    nothing = max(ROUNDING * max(abs(bound.value), abs(uniform)), rounding)
    if bound.value - uniform <= nothing:
        return None
    return (bound.value - value) / (bound.value - uniform)


class Solver(ABC):
    """A frozen dataclass of settings with `solve`; `continuous` if it is for vectors of states."""

    __slots__ = ()
    name: ClassVar[str]
    continuous: ClassVar[bool] = False

    def __post_init__(self) -> None:
        check_fields(self)

    @abstractmethod
    def solve(self, problem: Any) -> Solution[Any]:
        """Find a policy for the problem."""


@overload
def solve(problem: Problem, solver: Solver) -> Solution: ...
@overload
def solve(problem: ContinuousProblem, solver: Solver) -> Solution[ContinuousPolicy]: ...
@names_arguments
def solve(problem: Any, solver: Solver) -> Solution[Any]:
    """Solve the problem with a solver, for example `solve(problem, SARect())`."""
    if not isinstance(solver, Solver):
        hint = f"{solver.__name__}()" if isinstance(solver, type) else "SARect()"
        raise InputError(
            f"solve(problem, solver) needs a solver object such as {hint}; it got {solver!r}."
        )
    instance("problem", problem, Problem, ContinuousProblem)
    continuous = isinstance(problem, ContinuousProblem)
    if continuous != solver.continuous:
        kind = "continuous states" if continuous else "a table of states"
        hint = "SRVI() or SoftRobustSAC()" if continuous else "SRect() or Exact()"
        raise InputError(
            f"The problem has {kind}, and '{solver.name}' is not for those. Use {hint}."
        )
    if isinstance(problem, Problem) and solver.name not in KNOW_HORIZONS:
        problem.refuse_horizon(f"The solver '{solver.name}'", ELSE)
    return in_time(solver).solve(problem)


def in_time(solver: Solver) -> Solver:
    """The solver, whose own limit leaves time for what comes after it."""
    left = time_bound().left
    if math.isinf(left) or "time_limit" not in {f.name for f in fields(solver)}:  # type: ignore[arg-type]
        return solver
    own = getattr(solver, "time_limit", None)
    limit = max(SOLVER_SHARE * left, 0.1)
    return replace(solver, time_limit=limit if own is None else min(own, limit))  # type: ignore[type-var]


@names_arguments
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
        [
            solve(replace(problem, objective=problem.objective.at(lam, alpha)), solver)
            for alpha in alphas
        ]
        for lam in lams
    ]


def finish(
    problem: Problem | ContinuousProblem,
    solver: str,
    policy: P,
    status: Status,
    stats: Mapping[str, Any] | None = None,
    v: Any = None,
    model_value: float | None = None,
    bound: Bound | None = None,
) -> Solution[P]:
    """Put the `Solution` together; where states are a table, the policy is evaluated exactly."""
    value = uniform = None
    if isinstance(problem, Problem):
        if status is not Status.GIVEN and solver not in KNOW_HORIZONS:
            problem.refuse_horizon(f"The solver '{solver}'", ELSE)  # whoever called it
        value = static_return(problem, cast("Policy", policy))
        uniform = None if bound is None else uniform_value(problem)
        if v is not None and model_value is None:
            model_value = float(problem.p0 @ v)
    return Solution(
        solver=solver,
        policy=policy,
        status=status,
        gamma=problem.gamma,
        objective=problem.objective,
        n_models=problem.n_models,
        horizon=problem.horizon,
        value=value,
        uniform_value=uniform,
        v=v,
        model_value=model_value,
        bound=bound,
        stats=dict(stats or {}),
        rounding=0.0 if uniform is None else rounding(cast("Problem", problem)),
    )
