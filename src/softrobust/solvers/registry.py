"""Solvers by the names of the command line, and what each needs to be made."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from importlib import import_module
from typing import TYPE_CHECKING, Any, final

from softrobust.errors import InputError
from softrobust.models.features import PolynomialFeatures
from softrobust.objective import Objective, SoftRobust
from softrobust.solvers.base import Deadline
from softrobust.solvers.baselines.bcr import BCR
from softrobust.solvers.baselines.draws import PosteriorDraws
from softrobust.solvers.baselines.multi_model import CADP, MVP, WSU
from softrobust.solvers.baselines.nominal import Empirical, Nominal
from softrobust.solvers.baselines.rsvf import RSVF, RSVFSimple
from softrobust.solvers.baselines.spibb import SPIBB
from softrobust.solvers.baselines.var_bellman import VaRBellman, WorstModel
from softrobust.solvers.continuous.base import ContinuousSolver
from softrobust.solvers.exact.exact import Exact
from softrobust.solvers.exact.local_search import LocalSearch
from softrobust.solvers.exact.milp import MILP
from softrobust.solvers.exact.randomized import RandomizedAscent
from softrobust.solvers.rectangular.rectangular import SARect, SRect

if TYPE_CHECKING:
    from pathlib import Path

    from softrobust.data import TransitionLog
    from softrobust.posterior import FittedPosterior
    from softrobust.solvers.base import Solver


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

    def draws(self) -> PosteriorDraws | None:
        """Draws for ambiguity sets; None (the problem's own models) where there is no posterior."""
        return None if self.posterior is None else PosteriorDraws(self.posterior, self.seed)


def _empirical(context: Context) -> Empirical:
    if context.log is None:
        raise InputError(
            "The solver 'empirical' counts transitions in a log, and the input holds models only. "
            "Give it the log, or choose another solver."
        )
    return Empirical(context.log)


def _spibb(context: Context) -> SPIBB:
    if context.log is None:
        raise InputError(
            "The solver 'spibb' improves the policy that made a log, and the input holds models "
            "only. Give it the log, or choose another solver."
        )
    return SPIBB(context.log)


SOLVERS: dict[str, Callable[[Context], Solver]] = {
    Nominal.name: lambda _: Nominal(),
    Empirical.name: _empirical,
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
    SPIBB.name: _spibb,
}


def _limit(context: Context) -> float | None:
    """Seconds; none where nodes are the limit, so that a solve always ends at the same place."""
    if context.time_limit is None and context.node_limit is None:
        return DEFAULT_SECONDS
    return context.time_limit


def default_solver(objective: Objective) -> str:
    """What is used where no solver is named: the one that proves most for the criterion."""
    return DEFAULT_SOLVER if isinstance(objective, SoftRobust) else MILP.name


def make_solver(
    name: str,
    *,
    log: TransitionLog | None = None,
    time_limit: float | None = None,
    seed: int = 0,
    node_limit: int | None = None,
    posterior: FittedPosterior | None = None,
    checkpoint: Path | None = None,
) -> Solver:
    """The solver called `name`, with the settings that the command line knows.

    `log` is what `empirical` and `spibb` need; from `posterior`, `bcr`, `rsvf` and `rsvf-simple`
    draw the many models that their sets take (without one they use those of the problem).
    With a `node_limit` and no time limit no solver looks at a clock. `checkpoint` is a file for
    the open nodes of `exact`.
    """
    Deadline(time_limit)  # refuses limits that are not positive, whatever the solver does with it
    if name not in SOLVERS:
        close = difflib.get_close_matches(name, SOLVERS, n=1)
        hint = f" Did you mean '{close[0]}'?" if close else ""
        raise InputError(f"There is no solver '{name}'.{hint} Solvers: {', '.join(SOLVERS)}.")
    return SOLVERS[name](Context(log, time_limit, seed, node_limit, posterior, checkpoint))


# --------------------------------------------------------------------------------------------------
# Solvers for continuous states by the names of the command line.

# Names of classes, imported when asked for: the actor-critics need JAX.
CONTINUOUS_SOLVERS = {
    "srvi": ("softrobust.solvers.continuous.srvi", "SRVI"),
    "srvi-sa": ("softrobust.solvers.continuous.srvi", "SRVISA"),
    "rpvi-control": ("softrobust.solvers.continuous.srvi", "WorstModelVI"),
    "sr-sac": ("softrobust.solvers.continuous.sac", "SoftRobustSAC"),
    "r-sac": ("softrobust.solvers.continuous.sac", "RobustSAC"),
    "sac": ("softrobust.solvers.continuous.sac", "SAC"),
}
DEFAULT_CONTINUOUS = "srvi"


def make_continuous_solver(
    name: str | None = None,
    *,
    seed: int = 0,
    time_limit: float | None = None,
    settings: Mapping[str, Any] | None = None,
) -> ContinuousSolver:
    """The solver called `name` (default srvi), with settings by name, such as {"ridge": 0.1}.

    `degree` sets the polynomial features of value iteration; lists become tuples.
    """
    Deadline(time_limit)  # refuses limits that are not positive
    chosen = name or DEFAULT_CONTINUOUS
    if chosen not in CONTINUOUS_SOLVERS:
        close = difflib.get_close_matches(chosen, CONTINUOUS_SOLVERS, n=1)
        hint = f" Did you mean '{close[0]}'?" if close else ""
        raise InputError(
            f"There is no solver '{chosen}' for continuous states.{hint} Solvers: "
            f"{', '.join(CONTINUOUS_SOLVERS)}."
        )
    module, cls = CONTINUOUS_SOLVERS[chosen]
    kind = getattr(import_module(module), cls)
    given: dict[str, Any] = {"seed": seed, "time_limit": time_limit}
    for key, value in (settings or {}).items():
        given[key] = tuple(value) if isinstance(value, list) else value
    known = {field.name for field in fields(kind) if field.init}
    if "degree" in given and "degree" not in known:
        given["features"] = PolynomialFeatures(given.pop("degree"))
    unknown = sorted(set(given) - known)
    if unknown:
        raise InputError(
            f"The solver '{chosen}' has no setting '{unknown[0]}'. Its settings: "
            f"{', '.join(sorted(known - {'features', 'states'}))}."
        )
    solver: ContinuousSolver = kind(**given)
    return solver
