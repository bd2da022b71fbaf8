"""Solvers by the names of the command line, and what each needs to be made."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, final

from softrobust.errors import InputError
from softrobust.models.features import PolynomialFeatures
from softrobust.objective import SoftRobust
from softrobust.posterior.learned import FittedLearned
from softrobust.problem import ContinuousProblem, Problem
from softrobust.solvers.base import Deadline, Solver
from softrobust.solvers.baselines.bcr import BCR
from softrobust.solvers.baselines.draws import PosteriorDraws
from softrobust.solvers.baselines.multi_model import CADP, MVP, WSU
from softrobust.solvers.baselines.nominal import Empirical, Nominal
from softrobust.solvers.baselines.rsvf import RSVF, RSVFSimple
from softrobust.solvers.baselines.safe_improvement import DUIPI, RaMDP, SoftSPIBB
from softrobust.solvers.baselines.spibb import SPIBB
from softrobust.solvers.baselines.var_bellman import VaRBellman, WorstModel
from softrobust.solvers.continuous.sac import SAC, RobustSAC, SoftRobustSAC
from softrobust.solvers.continuous.srvi import SRVI, SRVISA, WorstModelVI
from softrobust.solvers.exact.exact import Exact
from softrobust.solvers.exact.local_search import LocalSearch
from softrobust.solvers.exact.milp import MILP
from softrobust.solvers.exact.randomized import RandomizedAscent
from softrobust.solvers.improve import Improve
from softrobust.solvers.rectangular.rectangular import SARect, SRect

if TYPE_CHECKING:
    from pathlib import Path

    from softrobust.data import TransitionLog
    from softrobust.posterior import FittedLearned, FittedPosterior

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

    def draws(self) -> PosteriorDraws | None:
        """Draws for ambiguity sets; None (the problem's own models) where there is no posterior."""
        return None if self.posterior is None else PosteriorDraws(self.posterior, self.seed)

    def need_log(self, solver: str, what: str) -> TransitionLog:
        """The log, or an error that says what the solver does with one."""
        if self.log is None:
            raise InputError(
                f"The solver '{solver}' {what} a log, and the input holds models only. Give it the "
                "log, or choose another solver."
            )
        return self.log


SOLVERS: dict[str, Callable[[Context], Solver]] = {
    Improve.name: lambda c: Improve(
        c.need_log(Improve.name, "improves the policy that made"), c.seed, c.min_count
    ),
    Nominal.name: lambda _: Nominal(),
    Empirical.name: lambda c: Empirical(c.need_log(Empirical.name, "counts transitions in")),
    Exact.name: lambda c: Exact(
        time_limit=_limit(c), seed=c.seed, node_limit=c.node_limit, checkpoint=c.checkpoint
    ),
    MILP.name: lambda c: MILP(time_limit=_limit(c), seed=c.seed, node_limit=c.node_limit),
    LocalSearch.name: lambda c: LocalSearch(time_limit=_limit(c), seed=c.seed),
    RandomizedAscent.name: lambda c: RandomizedAscent(time_limit=_limit(c), seed=c.seed),
    SRect.name: lambda c: SRect(time_limit=c.time_limit),
    SARect.name: lambda c: SARect(time_limit=c.time_limit),
    MVP.name: lambda _: MVP(),
    WSU.name: lambda _: WSU(),
    CADP.name: lambda _: CADP(robust=True),
    BCR.name: lambda c: BCR(c.draws(), time_limit=c.time_limit),
    RSVF.name: lambda c: RSVF(c.draws(), time_limit=_limit(c)),
    RSVFSimple.name: lambda c: RSVFSimple(c.draws(), time_limit=c.time_limit),
    VaRBellman.name: lambda c: VaRBellman(time_limit=c.time_limit),
    WorstModel.name: lambda c: WorstModel(time_limit=c.time_limit),
    SPIBB.name: lambda c: SPIBB(c.need_log(SPIBB.name, "improves the policy that made")),
    SoftSPIBB.name: lambda c: SoftSPIBB(c.need_log(SoftSPIBB.name, "reads the counts of")),
    RaMDP.name: lambda c: RaMDP(c.need_log(RaMDP.name, "reads the counts of")),
    DUIPI.name: lambda c: DUIPI(c.need_log(DUIPI.name, "reads the counts of")),
}
CONTINUOUS_SOLVERS: dict[str, Callable[..., Solver]] = {
    kind.name: kind for kind in (SRVI, SRVISA, WorstModelVI, SoftRobustSAC, RobustSAC, SAC)
}


def _limit(context: Context) -> float | None:
    """Seconds; none where nodes are the limit, so that a solve always ends at the same place."""
    if context.time_limit is None and context.node_limit is None:
        return DEFAULT_SECONDS
    return context.time_limit


def default_solver(problem: Problem | ContinuousProblem, posterior: object = None) -> str:
    """What is used where no solver is named.

    For a log under the learned prior, the one whose promises come true, unless something that
    practice does is not allowed; else the one that proves most for the problem.
    """
    if isinstance(problem, ContinuousProblem):
        return SRVI.name
    if not isinstance(problem.objective, SoftRobust):
        return MILP.name
    free = problem.allowed[problem.models.available].all()
    return Improve.name if isinstance(posterior, FittedLearned) and free else DEFAULT_SOLVER


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
    settings: Mapping[str, Any] | None = None,
) -> Solver:
    """The solver called `name`, for tables or for continuous states.

    For tables: `log` is what `empirical`, `spibb`, `soft-spibb`, `ramdp` and `duipi` need; from
    `posterior`, `bcr`, `rsvf` and `rsvf-simple` draw the many models that their sets take (without
    one they use those of the problem). With a `node_limit` and no time limit no solver looks at a
    clock. `checkpoint` is a file for the open nodes of `exact`, `min_count` a setting of `improve`.
    For continuous states: `settings`
    are the solver's own by name, such as {"ridge": 0.1}; `degree` sets the features of value
    iteration, and lists become tuples.
    """
    Deadline(time_limit)  # refuses limits that are not positive, whatever the solver does with it
    known = CONTINUOUS_SOLVERS if continuous else SOLVERS
    if name not in known:
        close = difflib.get_close_matches(name, known, n=1)
        hint = f" Did you mean '{close[0]}'?" if close else ""
        kind = " for continuous states" if continuous else ""
        raise InputError(f"There is no solver '{name}'{kind}.{hint} Solvers: {', '.join(known)}.")
    if settings and not continuous:
        text = "Settings by name are for solvers of continuous states. Leave them out."
        raise InputError(text, arguments=("set_",))
    if not continuous:
        return SOLVERS[name](
            Context(log, time_limit, seed, node_limit, posterior, checkpoint, min_count)
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
