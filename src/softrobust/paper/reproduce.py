"""Run an experiment from its tasks to its files.

    OUT/NAME/tasks/   one result file per task: an interrupted run goes on from them
    OUT/NAME/         results.json, run.json, page.md, table.md, table.csv, figure.svg, figure.png

results.json holds settings, seeds, versions, every number, the tables and the verdicts. It has no
clock in it: the same settings and versions give the same file for any number of workers on one
kind of processor (NUTS magnifies what other instructions round otherwise: figures 3 and 4 then have
other draws). The machine and the time taken are in run.json.
"""

from __future__ import annotations

import json
import os
import platform
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from softrobust._core.files import atomic_write
from softrobust._core.schema import read_json
from softrobust.errors import InputError, SolverError
from softrobust.paper.base import Experiment, Findings
from softrobust.paper.claims import csv_text, markdown
from softrobust.paper.figures import save
from softrobust.run.jobs import run_tasks
from softrobust.run.jobs.store import check_folder, kept_safe
from softrobust.run.jobs.tasks import versions

PACKAGES = ("numpy", "scipy", "numba", "highspy", "jax", "numpyro", "matplotlib")
DIGITS = 6  # significant, of every number: more than any interval shows
LINE = 160
TASKS = "tasks"


def rounded(value: Any) -> Any:
    """The same object with every float to six significant digits."""
    if isinstance(value, float):
        return float(f"{value:.{DIGITS}g}")
    if isinstance(value, Mapping):
        return {key: rounded(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [rounded(item) for item in value]
    return value


def json_text(value: Any) -> str:
    """JSON that a person can read and that stays small: what fits on a line is on one.

    Examples
    --------
    >>> print(json_text({"a": [1, 2.0], "b": {"c": None}}), end="")
    {"a": [1, 2.0], "b": {"c": null}}
    """
    return _laid_out(rounded(value), 0) + "\n"


def _laid_out(value: Any, depth: int) -> str:
    line = json.dumps(value, ensure_ascii=False, allow_nan=False)
    flat = isinstance(value, list) and not any(isinstance(x, (list, dict, str)) for x in value)
    if flat or len(line) <= LINE or not isinstance(value, (dict, list)):
        return line
    inner = "\n" + " " * (depth + 1)
    if isinstance(value, dict):
        parts = [f"{json.dumps(k, ensure_ascii=False)}: {_laid_out(x, depth + 1)}"
                 for k, x in value.items()]  # fmt: skip
        return "{" + inner + ("," + inner).join(parts) + "\n" + " " * depth + "}"
    parts = [_laid_out(x, depth + 1) for x in value]
    return "[" + inner + ("," + inner).join(parts) + "\n" + " " * depth + "]"


def write_all(
    experiment: Experiment, settings: Mapping[str, Any], quick: bool, found: Findings,
    run: Mapping[str, Any], out: Path,
) -> dict[str, Any]:  # fmt: skip
    """Write every file, each atomically, from the rounded results; they are returned as they are.

    results.json is last: a folder that has it has all files.
    """
    from softrobust.paper.page import FORMAT, FORMAT_VERSION, section  # runs as a program, too

    whole = {
        "format": FORMAT,
        "format_version": FORMAT_VERSION,
        "name": experiment.name,
        **{key: experiment.words(key) for key in ("figure", "title", "about", "caption")},
        "quick": quick,
        "settings": dict(settings),
        "versions": run["versions"],
        "claims": [claim.as_dict() for claim in found.claims],
        "remarks": list(found.remarks),
        "tables": list(found.tables),
        "numbers": found.numbers,
    }
    results = rounded(whole)
    save(experiment.draw(results["numbers"]), out / "figure.svg", out / "figure.png")
    tables = results["tables"]
    texts = {
        "table.md": "\n".join(map(markdown, tables)),
        "table.csv": "\n".join(f"# {t['title']}\n{csv_text(t)}" for t in tables),
        "page.md": section(results, run),
        "run.json": json_text(run),
        "results.json": json_text(results),
    }
    for name, text in texts.items():
        with kept_safe(out), atomic_write(out / name) as file:
            file.write(text)
    return whole


class Reproduced(NamedTuple):
    """What one experiment came to: its results, where they lie, tasks that failed, seconds."""

    results: dict[str, Any]
    out: Path
    failed: dict[str, str]
    seconds: float


def check_place(out: Path, name: str, resume: bool) -> Path:
    """The folder of an experiment; it must be new, unless the run in it is to go on."""
    check_folder(out, may_exist=True)
    if out.exists():
        check_folder(out / name, resume)
    return out / name


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
    began, known = time.monotonic(), place / "run.json"
    load = round(os.getloadavg()[0], 1) if hasattr(os, "getloadavg") else None
    before = len(list((place / TASKS / "results").glob("*.json")))
    done = run_tasks(
        tasks, place / TASKS, workers=workers, cluster=cluster,
        resume=resume and (place / TASKS).exists(), progress=progress, title=experiment.name,
    )  # fmt: skip
    if not done.results:
        key, why = next(iter(done.failed.items()))
        raise SolverError(f"No task of {experiment.name} came to an end. The first, {key}: {why}")
    found = experiment.gather(chosen, done.results)
    seconds = time.monotonic() - began
    run = {
        "machine": machine(),
        "workers": cluster if cluster is not None else workers,
        "wall_seconds": round(seconds, 1),
        "task_seconds": round(sum(done.timings.values()), 1),
        "tasks": len(tasks),
        "load_at_start": load,
        "failed": done.failed,
        "versions": versions_here(),
    }
    if before == len(tasks) and known.is_file():  # nothing was computed: keep what it took then
        run |= _kept(known)
    results = write_all(experiment, chosen, quick, found, run, place)
    return Reproduced(results, place, done.failed, seconds)


def _kept(path: Path) -> dict[str, Any]:
    """What an earlier run took."""
    text, number = {"type": "string"}, {"type": "number", "minimum": 0}
    named = {"type": "object", "additionalProperties": text}
    properties = {
        "machine": text, "workers": {"type": ["integer", "string", "null"]},
        "tasks": {"type": "integer", "minimum": 1},
        "wall_seconds": number, "task_seconds": number, "failed": named,
        "versions": named | {"required": ["softrobust", "python", "numpy"]},
        "load_at_start": {"type": ["number", "null"]},
    }  # fmt: skip
    try:
        found: dict[str, Any] = read_json(path, {"type": "object", "properties": properties})
    except InputError as error:
        raise InputError(f"{error} Remove it: it is written again.") from None
    return found


def versions_here() -> dict[str, str]:
    """Of Python and of the packages that results rest on."""
    return {"python": platform.python_version(), **versions(PACKAGES)}


def machine() -> str:
    """Processor, cores and system, in words."""
    name = platform.processor() or platform.machine()
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
        name = next(x.split(":", 1)[1].strip() for x in lines if x.startswith("model name"))
    except (OSError, StopIteration):
        pass
    return f"{name}, {os.cpu_count()} cores, {platform.system()}"
