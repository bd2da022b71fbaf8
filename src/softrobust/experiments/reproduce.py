"""Run an experiment from its tasks to its files.

OUT/NAME/tasks/      one result file per task: an interrupted run goes on from them
OUT/NAME/            results.json, run.json, table.md, table.csv, figure.svg, figure.png
"""

from __future__ import annotations

import json
import os
import platform
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, final

from softrobust.errors import InputError, SolverError
from softrobust.experiments.base import Experiment
from softrobust.experiments.results import results_of, write_all
from softrobust.runner import run_tasks

TASKS = "tasks"


@final
@dataclass(frozen=True, slots=True, eq=False)
class Reproduced:
    """What one experiment came to: its results, where they lie, tasks that failed, seconds."""

    results: dict[str, Any]
    out: Path
    failed: dict[str, str]
    seconds: float


def check_place(out: Path, name: str, resume: bool) -> Path:
    """The folder of an experiment; it must be new, or --resume given."""
    place = out / name
    if out.exists() and not out.is_dir():
        raise InputError(f"'{out}' is a file; --out needs a folder.")
    if not out.resolve().parent.is_dir():
        raise InputError(f"The folder '{out.parent}' that is to hold '{out.name}' does not exist.")
    if place.exists() and not resume:
        raise InputError(
            f"The folder '{place}' exists already. Give --resume to go on with the run in it, or "
            "choose another folder with --out."
        )
    there = next(p for p in (place, out, out.resolve().parent) if p.exists())
    if not os.access(there, os.W_OK | os.X_OK):
        raise InputError(f"No permission to write '{place}'. Choose another folder with --out.")
    return place


def reproduce(
    experiment: Experiment,
    out: Path,
    *,
    quick: bool = False,
    workers: int | None = None,
    cluster: str | None = None,
    resume: bool = False,
    progress: bool | None = None,
    settings: Mapping[str, Any] | None = None,
) -> Reproduced:
    """Run the tasks, gather, and write all files into `out`/NAME.

    `settings` replaces some of the experiment's own, as tests do to keep it tiny.
    """
    place = check_place(out, experiment.name, resume)
    chosen = experiment.settings(quick) | dict(settings or {})
    tasks = experiment.tasks(chosen)
    place.mkdir(parents=True, exist_ok=True)
    began, load, known = time.monotonic(), _load(), place / "run.json"
    before = len(list((place / TASKS / "results").glob("*.json")))
    done = run_tasks(
        tasks, place / TASKS, workers=workers, cluster=cluster,
        resume=resume and (place / TASKS).exists(), progress=progress, title=experiment.name,
    )  # fmt: skip
    if not done.results:
        key, why = next(iter(done.failed.items()))
        raise SolverError(f"No task of {experiment.name} came to an end. The first, {key}: {why}")
    found = experiment.gather(chosen, done.results)
    results = results_of(experiment, chosen, quick, found)
    seconds = time.monotonic() - began
    run = {
        "machine": machine(),
        "workers": cluster if cluster is not None else workers,
        "wall_seconds": round(seconds, 1),
        "task_seconds": round(sum(done.timings.values()), 1),
        "tasks": len(tasks),
        "load_at_start": load,
        "failed": done.failed,
    }
    if before == len(tasks) and known.is_file():  # nothing was computed: keep what it took then
        run = json.loads(known.read_text(encoding="utf-8"))
    write_all(experiment, results, run, place)
    return Reproduced(results, place, done.failed, seconds)


def _load() -> float | None:
    """Processes that wanted a core in the last minute, where the system tells."""
    return round(os.getloadavg()[0], 1) if hasattr(os, "getloadavg") else None


def machine() -> str:
    """Processor, cores and system, in words."""
    name = platform.processor() or platform.machine()
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
        name = next(x.split(":", 1)[1].strip() for x in lines if x.startswith("model name"))
    except (OSError, StopIteration):
        pass
    return f"{name}, {os.cpu_count()} cores, {platform.system()}"
