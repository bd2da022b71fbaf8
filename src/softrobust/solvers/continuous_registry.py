"""Solvers for continuous states by the names of the command line."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import fields
from importlib import import_module
from typing import Any

from softrobust.errors import InputError
from softrobust.models.features import PolynomialFeatures
from softrobust.solvers.base import Deadline
from softrobust.solvers.continuous_base import ContinuousSolver

# Names of classes, imported when asked for: the actor-critics need JAX.
CONTINUOUS_SOLVERS = {
    "srvi": ("softrobust.solvers.srvi", "SRVI"),
    "srvi-sa": ("softrobust.solvers.srvi", "SRVISA"),
    "rpvi-control": ("softrobust.solvers.srvi", "WorstModelVI"),
    "sr-sac": ("softrobust.solvers.sac", "SoftRobustSAC"),
    "r-sac": ("softrobust.solvers.sac", "RobustSAC"),
    "sac": ("softrobust.solvers.sac", "SAC"),
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
