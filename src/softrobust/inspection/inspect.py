"""Telling what a file is, and handing it to the one who knows that kind.

A run folder, a saved problem, models or bins say so themselves. A table with a probability holds
models; one with state, action and next state is a log of transitions; one with an id and a time is
a table of visits, and so is any for which the user names such columns.
"""

import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from softrobust.data import Bins, sniff
from softrobust.data.columns import ACTION, LOG_ROLES, STATE, resolvable
from softrobust.data.source import file_kind
from softrobust.data.table import read_table, table_columns
from softrobust.errors import InputError
from softrobust.inspection.convert import Written, refuse_existing, write_log
from softrobust.inspection.guess import looks_like_visits
from softrobust.inspection.logs import inspect_log
from softrobust.inspection.models import inspect_models, inspect_problem
from softrobust.inspection.result import Inspection, Section, Step, several
from softrobust.inspection.visits import inspect_visits, read_visits_file

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
