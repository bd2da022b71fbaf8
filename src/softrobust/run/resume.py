"""A search that was cut short, taken up again: where its open nodes are kept between two runs.

A run folder appears only when it is complete. While `exact` works on one called NAME, its open
nodes are in `.NAME.search.npz` beside it, so that a run that was killed has them too; a finished
folder holds them as `search.npz` where any are left.
"""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path

from softrobust.errors import InputError
from softrobust.run.line import Run
from softrobust.solvers.base import Status
from softrobust.solvers.exact.exact import Exact

SEARCH = "search.npz"
CUT = (Status.TIME_LIMIT, Status.NODE_LIMIT, Status.INTERRUPTED)


def working_file(out: Path) -> Path:
    """Where the open nodes of a run into `out` are while it works."""
    target = out.resolve()
    return target.parent / f".{target.name}.{SEARCH}"


def prepare_search(out: Path | None, solver: str, resume: bool) -> Path | None:
    """The checkpoint for a run into `out`: nothing yet, or with `resume` what the last one left.

    None where there is none to keep: only `exact` has a search, and only a folder has a place.
    """
    if resume and solver != Exact.name:
        raise InputError(f"Only the solver 'exact' can be resumed; the solver is '{solver}'.")
    if resume and out is None:
        raise InputError("--resume goes on with the search of a run folder: give it with --out.")
    if out is None or solver != Exact.name:
        return None
    working, kept = working_file(out), out / SEARCH
    if not resume:
        working.unlink(missing_ok=True)
        return working
    found = [file for file in (kept, working) if file.exists()]
    if not found:
        raise InputError(f"There is nothing to resume in '{out}': {_why(out)}.")
    return max(found, key=lambda file: file.stat().st_mtime)  # of a run that was killed since


def _why(out: Path) -> str:
    """What became of the run that was to leave a search there."""
    if not out.exists():
        return "there is no such folder, and no search beside it. Leave --resume out"
    try:
        record = json.loads((out / "solution.json").read_text(encoding="utf-8"))
        solver, status = str(record["solver"]), str(record["status"]).replace("_", " ")
    except (OSError, ValueError, KeyError, TypeError):
        return f"it has no {SEARCH}. Leave --resume out to start afresh (with --force)"
    if solver != "exact":
        return f"it was solved by '{solver}', and only 'exact' can be resumed"
    return f"its search is complete (status: {status})"


def with_hint(run: Run) -> Run:
    """Say in the notes that a search was taken up again, or can be."""
    stats, notes = run.solution.stats, list(run.notes)
    before = stats.get("seconds_before_resume", 0.0)
    if before > 0:
        notes.append(f"The search was taken up again after {before:.3g} s.")
    if left_open(run):
        notes.append(
            f"The search is not over ({stats['open_nodes']:,} open "
            f"node{'' if stats['open_nodes'] == 1 else 's'}): the same command with "
            "--resume goes on."
        )
    return replace(run, notes=tuple(notes))


def left_open(run: Run) -> bool:
    """Whether there is a search to go on with."""
    return run.solution.status in CUT and bool(run.solution.stats.get("open_nodes"))


def keep_search(run: Run, out: Path, used: Path | None) -> None:
    """Once the folder is written: put the open nodes into it, or away with them.

    `used` is the checkpoint of the run, if it had one.
    """
    working, kept = working_file(out), out.resolve() / SEARCH
    if used is not None and left_open(run):
        if used.resolve() != kept:
            os.replace(used, kept)
    else:
        kept.unlink(missing_ok=True)
    working.unlink(missing_ok=True)
