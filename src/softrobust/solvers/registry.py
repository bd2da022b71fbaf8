"""Solvers by the names of the command line, and what each needs to be made."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from functools import partial
from pathlib import Path
from typing import Any, final

from softrobust._core.settings import did_you_mean
from softrobust.data import TransitionLog
from softrobust.errors import InputError
from softrobust.models.features import PolynomialFeatures
from softrobust.objective import PRACTICE_REFERENCE, SoftRobust
from softrobust.posterior import FittedPosterior
from softrobust.posterior.learned import FittedLearned
from softrobust.problem import ContinuousProblem, Problem
from softrobust.solvers.base import Deadline, Solver
from softrobust.solvers.baselines.bcr import BCR
from softrobust.solvers.baselines.draws import PosteriorDraws
from softrobust.solvers.baselines.multi_model import CADP, MVP, WSU
from softrobust.solvers.baselines.nominal import Empirical, Nominal
from softrobust.solvers.baselines.rsvf import RSVF, RSVFSimple
from softrobust.solvers.baselines.safe_improvement import DUIPI, SPIBB, RaMDP, SoftSPIBB
from softrobust.solvers.baselines.var_bellman import VaRBellman, WorstModel
from softrobust.solvers.continuous.sac import SAC, RobustSAC, SoftRobustSAC
from softrobust.solvers.continuous.srvi import SRVI, SRVISA, WorstModelVI
from softrobust.solvers.exact.exact import Exact
from softrobust.solvers.exact.local_search import LocalSearch
from softrobust.solvers.exact.milp import MILP
from softrobust.solvers.exact.randomized import RandomizedAscent
from softrobust.solvers.improve import Improve
from softrobust.solvers.rectangular.rectangular import SARect, SRect

DEFAULT_SOLVER = "exact"
DEFAULT_SECONDS = 60.0  # for solvers that could go on for long


@final
@dataclass(frozen=True, slots=True)
class Context:
    """What the command line knows beyond the problem."""

    log: TransitionLog | None = None
    time_limit: float | None = None
    seed: int = 0
    node_limit: int | None = None
    posterior: FittedPosterior | None = None
    checkpoint: Path | None = None
    min_count: int | None = None
    stationary: bool = False

    def make(self, kind: type[Any]) -> Solver:
        """A solver with all that it has settings for."""
        names = {field.name for field in fields(kind)}
        given = {name: getattr(self, name) for name in SETTINGS if name in names}
        # None where nodes are the limit, so that a solve always ends at the same place.
        if kind in SLOW and self.time_limit is None and self.node_limit is None:
            given["time_limit"] = DEFAULT_SECONDS
        if "draws" in names and self.posterior is not None:  # else the problem's own models
            given["draws"] = PosteriorDraws(self.posterior, self.seed)
        if "log" in names and self.log is None:
            raise InputError(
                f"The solver '{kind.name}' {READS.get(kind, 'reads the counts of')} a log, and the "
                "input holds models only. Give it the log, or choose another solver."
            )
        if self.stationary and "stationary" not in names and kind is not Improve:
            raise InputError(
                f"The solver '{kind.name}' does not search for one rule for all steps. Use "
                "local-search or improve, or leave the choice to it.",
                arguments=("stationary",),
            )
        own: dict[Any, Any] = {CADP: {"robust": True}, Improve: {"min_count": self.min_count}}
        solver: Solver = kind(**given, **own.get(kind, {}))
        return solver


SETTINGS = ("log", "time_limit", "seed", "node_limit", "checkpoint", "stationary")
SLOW = (Exact, MILP, LocalSearch, RandomizedAscent, RSVF)
READS: dict[type[Solver], str] = {
    Improve: "improves the policy that made",
    SPIBB: "improves the policy that made",
    Empirical: "counts transitions in",
}
TABLES = (
    Improve, Nominal, Empirical, Exact, MILP, LocalSearch, RandomizedAscent, SRect, SARect, MVP,
    WSU, CADP, BCR, RSVF, RSVFSimple, VaRBellman, WorstModel, SPIBB, SoftSPIBB, RaMDP, DUIPI,
)  # fmt: skip
SOLVERS: dict[str, Callable[[Context], Solver]] = {
    kind.name: partial(Context.make, kind=kind) for kind in TABLES
}
CONTINUOUS_SOLVERS: dict[str, Callable[..., Solver]] = {
    kind.name: kind for kind in (SRVI, SRVISA, WorstModelVI, SoftRobustSAC, RobustSAC, SAC)
}


def default_solver(problem: Problem | ContinuousProblem, posterior: object = None) -> str:
    """What is used where no solver is named.

    For a log under the learned prior, the one whose promises come true: it looks for a gain over
    practice, so another reference asks for another solver, and so does a mask on what practice
    does. Else the one that proves most for the problem, and with a horizon a search.
    """
    if isinstance(problem, ContinuousProblem):
        return SRVI.name
    if _seeks_gain(problem, posterior) and _free(problem):
        return Improve.name
    return DEFAULT_SOLVER if problem.horizon is None else LocalSearch.name


def improve_barred(problem: Problem | ContinuousProblem, posterior: object) -> bool:
    """Whether `improve` would be the default, were all of practice allowed."""
    if isinstance(problem, ContinuousProblem):
        return False
    return _seeks_gain(problem, posterior) and not _free(problem)


def _seeks_gain(problem: Problem, posterior: object) -> bool:
    plain = isinstance(problem.objective, SoftRobust)
    own = plain and problem.objective.against in (None, PRACTICE_REFERENCE)
    return own and isinstance(posterior, FittedLearned)


def _free(problem: Problem) -> bool:
    return bool(problem.allowed[problem.models.available].all())


def make_solver(
    name: str,
    *,
    continuous: bool = False,
    log: TransitionLog | None = None,
    time_limit: float | None = None,
    seed: int = 0,
    node_limit: int | None = None,
    posterior: FittedPosterior | None = None,
    checkpoint: Path | None = None,
    min_count: int | None = None,
    stationary: bool = False,
    settings: Mapping[str, Any] | None = None,
) -> Solver:
    """The solver called `name`, for tables or for continuous states.

    For tables: `log` is what `empirical`, `spibb`, `soft-spibb`, `ramdp` and `duipi` need; from
    `posterior`, `bcr`, `rsvf` and `rsvf-simple` draw the many models that their sets take (without
    one they use those of the problem). With a `node_limit` and no time limit no solver looks at a
    clock. `checkpoint` is a file for the open nodes of `exact`, `min_count` a setting of `improve`;
    with `stationary`, `local-search` looks for one rule for all steps of a horizon.
    For continuous states: `settings`
    are the solver's own by name, such as {"ridge": 0.1}; `degree` sets the features of value
    iteration, and lists become tuples.
    """
    Deadline(time_limit)  # refuses limits that are not positive, whatever the solver does with it
    known = CONTINUOUS_SOLVERS if continuous else SOLVERS
    if name not in known:
        kind, hint = " for continuous states" if continuous else "", did_you_mean(name, known)
        raise InputError(f"There is no solver '{name}'{kind}.{hint} Solvers: {', '.join(known)}.")
    if settings and not continuous:
        text = "Settings by name are for solvers of continuous states. Leave them out."
        raise InputError(text, arguments=("set_",))
    if not continuous:
        return SOLVERS[name](
            Context(log, time_limit, seed, node_limit, posterior, checkpoint, min_count, stationary)
        )
    return _with_settings(name, {"seed": seed, "time_limit": time_limit, **(settings or {})})


def _with_settings(name: str, settings: Mapping[str, Any]) -> Solver:
    kind: Any = CONTINUOUS_SOLVERS[name]
    given: dict[str, Any] = {
        key: tuple(v) if isinstance(v, list) else v for key, v in settings.items()
    }
    known = {field.name for field in fields(kind) if field.init}
    if "degree" in given and "degree" not in known:
        given["features"] = PolynomialFeatures(given.pop("degree"))
    unknown = sorted(set(given) - known)
    if unknown:
        raise InputError(
            f"The solver '{name}' has no setting '{unknown[0]}'. Its settings: "
            f"{', '.join(sorted(known - {'features', 'states'}))}."
        )
    solver: Solver = kind(**given)
    return solver
