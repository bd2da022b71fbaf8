"""Telling what a file is, and handing it to the one who knows that kind.

A run folder, a saved problem, models or bins say so themselves. A table with a probability holds
models; one with state, action and next state is a log of transitions; one with an id and a time
is a table of visits, and so is any for which the user names such columns.
"""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from softrobust._core.arguments import names_arguments
from softrobust._core.files import rebuilding
from softrobust._core.notes import Ledger
from softrobust.certificate.record import read_record, run_folder
from softrobust.data import Bins, inspection, read_continuous_log
from softrobust.data.columns import ACTION, LOG_ROLES, STATE, resolvable
from softrobust.data.inspection import Inspection, Step
from softrobust.data.readers import kind_of
from softrobust.data.table import Table, TableFile, is_minari, opened
from softrobust.errors import InputError
from softrobust.models import ModelSet, read_models
from softrobust.problem import load_problem

LOOKED_AT = 2000  # pairs whose models are compared


@names_arguments
@np.errstate(over="ignore", invalid="ignore")  # sizes of numbers near 1e308
def inspect_file(
    path: str | Path,
    *,
    columns: Mapping[str, str] | None = None,
    visits: Mapping[str, Any] | None = None,
    reading: Mapping[str, Any] | None = None,
    write_log_to: str | Path | None = None,
    save_bins_to: str | Path | None = None,
    force: bool = False,
) -> Inspection:
    """Say what a file holds, what is suspicious in it, and what to run next.

    Parameters
    ----------
    path : file or run folder
    columns : mapping, optional
        For a log of transitions: role → column name.
    visits : mapping, optional
        For a table of visits: settings of `TrajectoryRules`; what is absent is guessed, and "none"
        turns the guess of a terminal, a grid or a reward off.
    reading : mapping, optional
        Sheet, header_row and encoding, as `TableFile` has them.
    write_log_to, save_bins_to : path, optional
        Write the transitions of visits, and the bins that made their states.
    force : bool
        Replace files that exist.
    """
    path = Path(path)
    if path.is_dir() and not is_minari(path):
        return _inspect_run(path)
    given = {name: value for name, value in (visits or {}).items() if value is not None}
    for name in (reading or {}).keys() - {"sheet", "header_row", "encoding"}:
        raise InputError(f"reading knows sheet, header_row and encoding, and no '{name}'.")
    with opened(TableFile(path, **(reading or {}))) as table:
        kind = _kind(table, columns, given)
        if kind == "visits":
            where = (write_log_to, save_bins_to, force)
            return _read_so(inspection.inspect_visits(table, given, *where), reading)
        files = {"write_log": write_log_to, "save_bins": save_bins_to}
        surplus = [*given, *(name for name, file in files.items() if file)]
        if surplus:
            raise InputError(
                f"Only a table of visits takes {', '.join(surplus)}; {path.name} is a {kind}. "
                "Leave them out.",
                arguments=dict.fromkeys(surplus, ""),
            )
        if kind == "log":
            return _read_so(inspection.inspect_log(table, columns), reading)
        if columns:
            text = f"Only a log takes columns; {path.name} is a {kind}. Leave them out."
            raise InputError(text, arguments={"columns": ""})
        if kind not in _KNOWN:
            raise InputError(
                f"{path.name} holds '{kind}', which is neither a log, visits, models nor a problem."
            )
        return _KNOWN[kind](table)


def _read_so(found: Inspection, reading: Mapping[str, Any] | None) -> Inspection:
    """With commands that read the same file in the same way."""
    given = dict(reading or {})
    steps = tuple(step._replace(options=given | {**step.options}) for step in found.steps)
    return replace(found, steps=steps)


def _kind(table: Table, columns: Mapping[str, str] | None, given: Mapping[str, Any]) -> str:
    kind = kind_of(table)
    if table.kind == "npz":
        return kind
    names = table.names
    lower = {name.casefold() for name in names}
    if any(name in given for name in inspection.DECISIVE):
        return "visits"
    if kind == "models":
        return "policy" if lower == {"state", "action", "probability"} else kind
    if columns or resolvable(names, LOG_ROLES):
        return "log"
    if any(name.startswith("next_") and name[5:] in lower for name in lower):
        return "continuous log"
    return "visits"


def _inspect_models(table: Table) -> Inspection:
    """A file of models."""
    assert table.path is not None
    models = read_models(table.path)
    blocked = None
    if models.rewards is None:
        blocked = InputError(
            f"{table.source} has no rewards, and a policy needs to know what is good. Add a column "
            "'reward' to its rows."
        )
    gamma = inspection.GAMMA if models.gamma is None else None
    steps = () if blocked else (inspection.solve_step(str(table.path), gamma=gamma),)
    facts, found = _model_facts(models) | {"notes": models.notes}, _model_findings(models)
    told: dict[str, Any] = {"source": table.source, "kind": "models", "facts": facts}
    return Inspection(**told, findings=found, steps=steps, blocked=blocked)


def _inspect_problem(table: Table) -> Inspection:
    """A saved problem."""
    assert table.path is not None
    problem = load_problem(table.path)
    aim = problem.objective
    own = {"gamma": problem.gamma, "lam": aim.lam, "alpha": aim.alpha, "criterion": aim.criterion}
    return Inspection(
        source=table.source,
        kind="problem",
        facts=_model_facts(problem.models) | own,
        findings=_model_findings(problem.models),
        steps=(inspection.solve_step(str(table.path))._replace(code="solve_again"),),
    )


def _model_facts(models: "ModelSet") -> dict[str, Any]:
    pairs = int(models.available.sum())
    several = models.n_models > 1
    return {
        "models": models.n_models,
        "states": models.n_states,
        "actions": models.n_actions,
        "pairs_available": pairs,
        "pairs": int(models.available.size),
        "next_states": models.next_states.size / max(pairs, 1),
        "never_left": int(models.sinks.sum()),
        "distance": _distance(models) if several else None,
        "weights": [float(models.f.min()), float(models.f.max())] if several else None,
        "gamma": models.gamma,
        "has_rewards": models.rewards is not None,
    }


def _distance(models: ModelSet) -> float:
    """Mean L1 distance of neighbouring models, over at most `LOOKED_AT` pairs (s, a)."""
    pairs = np.flatnonzero(models.available.ravel())
    pairs = pairs[:: max(1, pairs.size // LOOKED_AT)]
    total = 0.0
    for k in pairs.tolist():
        _, block = models.block(*divmod(k, models.n_actions))
        total += float(np.abs(np.diff(block, axis=0)).sum(axis=1).mean())
    return total / max(pairs.size, 1)


def _model_findings(models: "ModelSet") -> Ledger:
    ledger = Ledger()
    if models.n_models == 1:
        ledger.say("one_model")
    elif _distance(models) <= 1e-12:
        ledger.say("equal_models", models=models.n_models)
    if zero := int((models.f == 0).sum()):
        ledger.say("weight_zero", models=zero)
    return ledger


def _inspect_run(path: Path) -> Inspection:
    if not (path / "solution.json").is_file():
        raise InputError(
            f"{path} is a folder without solution.json, so it is no run. Name a file, or solve "
            "again."
        )
    with run_folder(path), rebuilding("solution", path / "solution.json"):
        record, _ = read_record(path)
        vectors = record["kind"] == "continuous"
        names = [str(name) for name in record["variables" if vectors else "states"]]
        facts = {
            "path": str(path),
            "solver": str(record["solver"]),
            "status": str(record["status"]),
            "variables" if vectors else "states": len(names),
            "files": sorted(file.name for file in path.iterdir()),
        }
        steps = () if vectors else (Step("apply", "apply", str(path), {"state": names[0]}),)
    return Inspection(source=path.name, kind="run", facts=facts, steps=steps)


def _inspect_policy(table: Table) -> Inspection:
    columns = table.read((STATE, ACTION))
    facts = {f"{role}s": len(columns.names[role]) for role in ("state", "action")}
    return Inspection(source=table.source, kind="policy", facts=facts)


def _inspect_bins(table: Table) -> Inspection:
    assert table.path is not None
    bins = Bins.load(table.path)
    facts = {
        "method": bins.method,
        "variables": list(bins.variables),
        "states": bins.n_states,
        "names": list(bins.states)[:24],
    }
    return Inspection(source=table.source, kind="bins", facts=facts)


def _inspect_continuous(table: Table) -> Inspection:
    log = read_continuous_log(table)
    return Inspection(
        source=table.source,
        kind="continuous log",
        facts={
            "transitions": len(log),
            "variables": list(log.variables),
            "actions": len(log.actions),
            "notes": log.notes,
        },
        blocked=InputError(
            "Its states are numbers, and tables need states that repeat. `softrobust solve` takes "
            "it as it is with --continuous; for all else, make bins in Python: "
            "log = sr.read_continuous_log(…); bins = sr.Bins.fit(log.s, 4, variables="
            "log.variables); sr.save_log(bins.log(log), 'log.parquet'); then solve log.parquet."
        ),
    )


_KNOWN = {
    "models": _inspect_models,
    "problem": _inspect_problem,
    "bins": _inspect_bins,
    "policy": _inspect_policy,
    "continuous log": _inspect_continuous,
}
