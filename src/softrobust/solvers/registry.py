"""Solvers by the names of the command line, and what each needs to be made."""

from __future__ import annotations

import difflib
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, final

from softrobust.errors import InputError
from softrobust.objective import Objective, SoftRobust
from softrobust.solvers.base import Deadline
from softrobust.solvers.exact import Exact
from softrobust.solvers.local_search import LocalSearch
from softrobust.solvers.milp import MILP
from softrobust.solvers.multi_model import CADP, MVP, WSU
from softrobust.solvers.nominal import Empirical, Nominal
from softrobust.solvers.randomized import RandomizedAscent
from softrobust.solvers.s_rect import SRect
from softrobust.solvers.sa_rect import SARect

if TYPE_CHECKING:
    from softrobust.data import TransitionLog
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


def _empirical(context: Context) -> Empirical:
    if context.log is None:
        raise InputError(
            "The solver 'empirical' counts transitions in a log, and the input holds models only. "
            "Give it the log, or choose another solver."
        )
    return Empirical(context.log)


SOLVERS: dict[str, Callable[[Context], Solver]] = {
    Nominal.name: lambda _: Nominal(),
    Empirical.name: _empirical,
    Exact.name: lambda c: Exact(time_limit=_limit(c), seed=c.seed),
    MILP.name: lambda c: MILP(time_limit=_limit(c), seed=c.seed),
    LocalSearch.name: lambda c: LocalSearch(time_limit=_limit(c), seed=c.seed),
    RandomizedAscent.name: lambda c: RandomizedAscent(time_limit=_limit(c), seed=c.seed),
    SRect.name: lambda c: SRect(time_limit=c.time_limit),
    SARect.name: lambda c: SARect(time_limit=c.time_limit),
    MVP.name: lambda _: MVP(),
    WSU.name: lambda _: WSU(),
    CADP.name: lambda _: CADP(robust=True),
}


def _limit(context: Context) -> float:
    return DEFAULT_SECONDS if context.time_limit is None else context.time_limit


def default_solver(objective: Objective) -> str:
    """What is used where no solver is named: the one that proves most for the criterion."""
    return DEFAULT_SOLVER if isinstance(objective, SoftRobust) else MILP.name


def make_solver(
    name: str, *, log: TransitionLog | None = None, time_limit: float | None = None, seed: int = 0
) -> Solver:
    """The solver called `name`, with the settings that the command line knows."""
    Deadline(time_limit)  # refuses limits that are not positive, whatever the solver does with it
    if name not in SOLVERS:
        close = difflib.get_close_matches(name, SOLVERS, n=1)
        hint = f" Did you mean '{close[0]}'?" if close else ""
        raise InputError(f"There is no solver '{name}'.{hint} Solvers: {', '.join(SOLVERS)}.")
    return SOLVERS[name](Context(log, time_limit, seed))
