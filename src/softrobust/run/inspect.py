"""Files that hold models, problems or runs: what is in them, and what they are for."""

import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from softrobust.data import Bins, sniff
from softrobust.data.columns import ACTION, LOG_ROLES, STATE, resolvable
from softrobust.data.inspection.columns import looks_like_visits
from softrobust.data.inspection.findings import Inspection, Section, Step, several
from softrobust.data.inspection.logs import (
    Written,
    inspect_log,
    refuse_existing,
    solve_line,
    write_log,
)
from softrobust.data.inspection.visits import inspect_visits, read_visits_file
from softrobust.data.source import file_kind
from softrobust.data.table import read_table, table_columns
from softrobust.data.visit_report import Ledger
from softrobust.errors import InputError
from softrobust.models.files import read_models
from softrobust.problem import load_problem

if TYPE_CHECKING:
    from softrobust.models.model_set import ModelSet


def inspect_models(path: Path) -> Inspection:
    """A file of models."""
    models = read_models(path)
    ledger = _findings(models)
    words = list(_facts(models)) + list(models.notes)
    blocked = ""
    if models.rewards is None:
        blocked = (
            f"{path.name} has no rewards, and a policy needs to know what is good. Add a column "
            "'reward' to its rows."
        )
    gamma = None if models.gamma is not None else "0.95"
    if gamma is not None:
        words.append("The discount is not in the file: --gamma is yours to choose.")
    return Inspection(
        source=path.name,
        kind="models",
        headline=(
            f"{path.name} holds {several(models.n_models, 'model')} of "
            f"{several(models.n_states, 'state')} and {several(models.n_actions, 'action')}."
        ),
        sections=[Section("The models", tuple(words))],
        findings=ledger.findings,
        steps=() if blocked else (Step("Choose a policy", solve_line(str(path), gamma=gamma)),),
        blocked=blocked,
        record=_record(models),
    )


def inspect_problem(path: Path) -> Inspection:
    """A saved problem."""
    problem = load_problem(path)
    models, aim = problem.models, problem.objective
    words = [
        *_facts(models),
        f"Discount γ = {problem.gamma:g}; λ = {aim.lam:g}, α = {aim.alpha:g} ({aim.criterion}).",
    ]
    return Inspection(
        source=path.name,
        kind="problem",
        headline=(
            f"{path.name} is a whole problem: {several(models.n_models, 'model')} of "
            f"{several(models.n_states, 'state')} and {several(models.n_actions, 'action')}, with "
            "rewards, start, discount and objective."
        ),
        sections=[Section("The problem", tuple(words))],
        findings=_findings(models).findings,
        steps=(Step("Solve it again", solve_line(str(path), gamma=None)),),
        record=_record(models)
        | {"gamma": problem.gamma, "lam": aim.lam, "alpha": aim.alpha, "criterion": aim.criterion},
    )


def _facts(models: "ModelSet") -> list[str]:
    pairs = int(models.available.sum())
    wide = models.next_states.size / max(pairs, 1)
    out = [
        f"{pairs} of {models.available.size} pairs of state and action are available, with "
        f"{wide:.3g} possible next states each on average."
    ]
    sinks = int(models.sinks.sum())
    if sinks:
        out.append(f"Never left in the data they came from: {several(sinks, 'state')}.")
    if models.n_models > 1:
        out.append(
            f"Two models differ by {_distance(models):.3g} per pair on average (L1 distance; 2 is "
            "the most)."
        )
        if np.ptp(models.f) > 0:
            out.append(f"Weights from {models.f.min():.3g} to {models.f.max():.3g}.")
    return out


def _distance(models: "ModelSet", most: int = 2000) -> float:
    """Mean L1 distance of neighbouring models, over at most `most` pairs (s, a)."""
    pairs = np.flatnonzero(models.available.ravel())
    pairs = pairs[:: max(1, pairs.size // most)]
    total = 0.0
    for k in pairs.tolist():
        _, block = models.block(*divmod(k, models.n_actions))
        total += float(np.abs(np.diff(block, axis=0)).sum(axis=1).mean())
    return total / max(pairs.size, 1)


def _findings(models: "ModelSet") -> Ledger:
    ledger = Ledger()
    if models.n_models == 1:
        ledger.count("one_model", 1, "model only: there is no uncertainty to be robust against")
    elif _distance(models) <= 1e-12:
        ledger.count("equal_models", models.n_models, "models are all equal")
    zero = int((models.f == 0).sum())
    if zero:
        ledger.count(
            "weight_zero", zero, "{model has|models have} weight 0 and {counts|count} for nothing"
        )
    return ledger


def _record(models: "ModelSet") -> dict[str, Any]:
    return {
        "models": models.n_models,
        "states": models.n_states,
        "actions": models.n_actions,
        "pairs_available": int(models.available.sum()),
        "gamma": models.gamma,
        "has_rewards": models.rewards is not None,
    }


# --------------------------------------------------------------------------------------------------
# Telling what a file is, and handing it to the one who knows that kind.
#
# A run folder, a saved problem, models or bins say so themselves. A table with a probability holds
# models; one with state, action and next state is a log of transitions; one with an id and a time
# is a table of visits, and so is any for which the user names such columns.

_DECISIVE = ("id", "time", "action", "measurements")


def inspect_file(
    path: str | Path,
    *,
    columns: Mapping[str, str] | None = None,
    visits: Mapping[str, Any] | None = None,
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
        For a table of visits: arguments of `read_trajectories`; what is absent is guessed, and
        "none" turns the guess of a terminal, a grid or a reward off.
    write_log_to, save_bins_to : path, optional
        Write the transitions of visits, and the bins that made their states.
    force : bool
        Replace files that exist.
    """
    path = Path(path)
    given = {name: value for name, value in (visits or {}).items() if value is not None}
    kind = _kind(path, columns, given)
    if kind == "visits":
        return _visits(path, given, write_log_to, save_bins_to, force)
    surplus = [
        *given,
        *(["write_log"] if write_log_to else []),
        *(["save_bins"] if save_bins_to else []),
    ]
    if surplus:
        flags = ", ".join(f"--{name.replace('_', '-')}" for name in surplus)
        raise InputError(
            f"{flags} is for a table of visits; {path.name} is a {kind}. Leave it out."
        )
    if kind == "log":
        return inspect_log(path, columns)
    if columns:
        raise InputError(f"--columns is for a log; {path.name} is a {kind}. Leave it out.")
    known = {
        "models": inspect_models,
        "problem": inspect_problem,
        "run": _inspect_run,
        "bins": _inspect_bins,
        "policy": _inspect_policy,
        "continuous log": _inspect_continuous,
    }
    if kind not in known:
        raise InputError(
            f"{path.name} holds '{kind}', which is neither a log, visits, models nor a problem."
        )
    return known[kind](path)


def _kind(path: Path, columns: Mapping[str, str] | None, given: Mapping[str, Any]) -> str:
    if path.is_dir():
        if (path / "solution.json").is_file():
            return "run"
        raise InputError(f"{path} is a folder without solution.json, so it is no run. Name a file.")
    kind = sniff(path)
    if file_kind(path) == "npz":
        return kind
    if kind == "models":
        found = {name.strip().casefold() for name in table_columns(path)}
        return "policy" if found == {"state", "action", "probability"} else kind
    if any(name in given for name in _DECISIVE):
        return "visits"
    names = [name.strip() for name in table_columns(path)]
    if columns or resolvable(names, LOG_ROLES):
        return "log"
    lower = {name.casefold() for name in names}
    if any(name.startswith("next_") and name[5:] in lower for name in lower):
        return "continuous log"
    if not looks_like_visits(names):
        listed = ", ".join(f"'{name}'" for name in names[:20])
        raise InputError(
            f"What {path.name} is cannot be told from its columns, {listed}. For a log of "
            "transitions, say which are state, action and next state: --columns "
            "state=…,action=…,next_state=…. For visits, say which are id, time and action: "
            "--id … --time … --action …."
        )
    return "visits"


def _visits(
    path: Path,
    given: Mapping[str, Any],
    write_log_to: str | Path | None,
    save_bins_to: str | Path | None,
    force: bool,
) -> Inspection:
    profile, settled = read_visits_file(path, given)
    written: Written | None = None
    made = settled.made
    if made is not None and save_bins_to is not None:
        if made.bins is None:
            raise InputError("There are no bins to save: no measurement is cut into intervals.")
        refuse_existing(Path(save_bins_to), force)
        made.bins.save(save_bins_to)
    if made is not None and write_log_to is not None:
        written = write_log(made.log, Path(write_log_to), force)
    return inspect_visits(path, profile, settled, written)


def _inspect_run(path: Path) -> Inspection:
    import json

    try:
        record = json.loads((path / "solution.json").read_text(encoding="utf-8"))
        solver, states = str(record["solver"]), list(record["states"])
        first = str(states[0])
        status = str(record["status"]).replace("_", " ")
    except (ValueError, KeyError, IndexError, TypeError, OSError) as error:
        raise InputError(f"{path}/solution.json cannot be read ({error}). Solve again.") from None
    files = ", ".join(sorted(file.name for file in path.iterdir()))
    line = shlex.join(["softrobust", "apply", str(path), "--state", first])
    return Inspection(
        source=path.name,
        kind="run",
        headline=f"{path} is the folder of a run: a policy by {solver} ({status}).",
        sections=[Section("The run", (f"Files: {files}.", f"{len(states)} states."))],
        steps=(Step("Ask what to do in a state", line),),
        record={"solver": solver, "status": record["status"], "states": len(states)},
    )


def _inspect_policy(path: Path) -> Inspection:
    table = read_table(path, (STATE, ACTION))
    n_states, n_actions = len(table.names["state"]), len(table.names["action"])
    return Inspection(
        source=path.name,
        kind="policy",
        headline=(
            f"{path.name} is a policy: what to do in {several(n_states, 'state')}, among "
            f"{several(n_actions, 'action')}."
        ),
        record={"states": n_states, "actions": n_actions},
    )


def _inspect_bins(path: Path) -> Inspection:
    bins = Bins.load(path)
    words = [f"{bins!r}.", *(f"{name}" for name in list(bins.states)[:24])]
    return Inspection(
        source=path.name,
        kind="bins",
        headline=f"{path.name} says how numbers become states; give it to inspect with --bins.",
        sections=[Section("The bins", tuple(words))],
        record={"variables": list(bins.variables), "states": bins.n_states},
    )


def _inspect_continuous(path: Path) -> Inspection:
    from softrobust.data import read_continuous_log

    log = read_continuous_log(path)
    names = ", ".join(log.variables)
    return Inspection(
        source=path.name,
        kind="continuous log",
        headline=(
            f"{path.name} is a log of {log.a.size} transitions between vectors ({names}), with "
            f"{len(log.actions)} actions."
        ),
        blocked=(
            "Its states are numbers, and tables need states that repeat. Make bins in Python: "
            "log = sr.read_continuous_log(…); bins = sr.Bins.fit(log.s, 4, variables="
            "log.variables); sr.save_log(bins.log(log), 'log.parquet'); then solve log.parquet."
        ),
        record={"transitions": int(log.a.size), "variables": list(log.variables)},
    )
