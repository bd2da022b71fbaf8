"""What a sweep found: one row a task, and mean ± 95 % interval over seeds for each setting.

`open` is how much more than this policy the best could earn on the training models: bound − value,
with the least bound that any solver of the sweep proved for the same models, λ and α and that
covers the policy, so one solver's proof judges all. `open_share` is its share of bound − ρ^S of
acting at random (None where that is nothing).
"""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from io import StringIO
from pathlib import Path
from typing import Any

import numpy as np

from softrobust.bounds import Bound, Covers
from softrobust.data.files import atomic_write
from softrobust.runner.plan import versions
from softrobust.runner.run import Outcome, run_tasks
from softrobust.runner.store import kept_safe
from softrobust.runner.sweep import sweep_tasks
from softrobust.runner.sweep_file import Sweep
from softrobust.solvers.base import gap_share

FORMAT_VERSION = 1
LEVEL = 0.95
PLACE = ("source", "solver", "lam", "alpha")
FIGURES: dict[str, Callable[[Mapping[str, Any]], Any]] = {
    "objective": lambda r: r["static"]["objective"],
    "mean": lambda r: r["static"]["mean"],
    "cvar": lambda r: r["static"]["cvar"],
    "model_value": lambda r: r["model_value"],
    "bound": lambda r: r["bound"],
    "gap_share": lambda r: r["gap_share"],
    "open": lambda r: r["open"],
    "open_share": lambda r: r["open_share"],
    "heldout_objective": lambda r: r["heldout"]["objective"]["value"],
    "heldout_low": lambda r: r["heldout"]["objective"]["low"],
    "heldout_high": lambda r: r["heldout"]["objective"]["high"],
    "heldout_mean": lambda r: r["heldout"]["mean"]["value"],
    "heldout_cvar": lambda r: r["heldout"]["cvar"]["value"],
    "optimism": lambda r: r["heldout"]["optimism"],
    "true_return": lambda r: r["true_return"],
}
AVERAGED = (
    "objective", "mean", "cvar", "open", "heldout_objective", "heldout_mean", "heldout_cvar",
    "optimism", "true_return",
)  # fmt: skip
HEADER = ("key", "source", "seed", "solver", "lam", "alpha", "status", *FIGURES)


def run_sweep(
    sweep: Sweep,
    out: Path,
    *,
    workers: int | None = None,
    cluster: str | None = None,
    resume: bool = False,
    progress: bool | None = None,
) -> tuple[dict[str, Any], Outcome]:
    """Run (or go on with) a sweep and write its tables; returns what results.json holds."""
    outcome = run_tasks(
        sweep_tasks(sweep),
        out,
        workers=workers,
        cluster=cluster,
        resume=resume,
        progress=progress,
        title="sweep",
    )
    record = sweep_record(sweep, outcome)
    write_sweep(out, sweep, record)
    return record, outcome


def sweep_record(sweep: Sweep, outcome: Outcome) -> dict[str, Any]:
    """`results.json`: the sweep, every task by key, every setting averaged over its seeds."""
    tasks = {key: dict(outcome.results[key]) for key in sorted(outcome.results)}
    _share_bounds(tasks.values())
    return {
        "format_version": FORMAT_VERSION,
        "versions": versions(),
        "sweep": sweep.record(),
        "groups": _groups(sweep, list(tasks.values())),
        "tasks": [{"key": key, **result} for key, result in tasks.items()],
        "failed": dict(sorted(outcome.failed.items())),
    }


def write_sweep(out: Path, sweep: Sweep, record: Mapping[str, Any]) -> None:
    """Write results.json and results.csv, each atomically."""
    with kept_safe(out), atomic_write(out / "results.json") as file:
        file.write(json.dumps(record, indent=1, allow_nan=False) + "\n")
    text = StringIO()
    rows = csv.writer(text, lineterminator="\n")
    rows.writerow(HEADER)
    done = {task["key"]: task for task in record["tasks"]}
    for task in sorted(sweep_tasks(sweep), key=lambda task: task.key):
        place = [task.settings[name] for name in ("source", "seed", "solver", "lam", "alpha")]
        result = done.get(task.key)
        if result is None:
            rows.writerow([task.key, *place, "failed", *[""] * len(FIGURES)])
        else:
            figures = (_cell(figure(result)) for figure in FIGURES.values())
            rows.writerow([task.key, *place, result["status"], *figures])
    with kept_safe(out), atomic_write(out / "results.csv", newline="") as file:
        file.write(text.getvalue())


def _cell(value: Any) -> str:
    return "" if value is None else repr(value)


def _share_bounds(results: Iterable[dict[str, Any]]) -> None:
    """Add `open` and `open_share`, from the least bound of the cell that covers the policy."""
    cells: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
    for result in results:
        place = tuple(result[name] for name in ("source", "seed", "lam", "alpha"))
        cells.setdefault(place, []).append(result)
    for cell in cells.values():
        for result in cell:
            mixed = any(isinstance(action, dict) for _, _, action in result["policy"])
            valid = [r for r in cell if not mixed or r["bound_covers"] != Covers.DETERMINISTIC]
            best = min(valid, key=lambda r: float(r["bound"]))
            value = result["static"]["objective"]
            # Rounding must not make a proven optimum exceed its bound.
            bound = Bound(max(best["bound"], value), Covers(best["bound_covers"]), "")
            result["open"] = bound.value - value
            result["open_share"] = gap_share(bound, value, result["uniform_value"])


def _groups(sweep: Sweep, results: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """One entry for each (source, solver, λ, α), in the order of the sweep."""
    groups: dict[tuple[Any, ...], list[Mapping[str, Any]]] = {}
    for task in sweep_tasks(sweep):
        groups.setdefault(tuple(task.settings[name] for name in PLACE), [])
    for result in results:
        groups[tuple(result[name] for name in PLACE)].append(result)
    return [
        dict(zip(PLACE, place, strict=True)) | {"n": len(members), **_averages(members)}
        for place, members in groups.items()
    ]


def _averages(members: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    return {name: average([FIGURES[name](member) for member in members]) for name in AVERAGED}


def average(values: Sequence[float | None]) -> dict[str, float | None] | None:
    """Mean and half-width of its 95 % interval (Student's t); None where a figure is unknown.

    Examples
    --------
    >>> average([1.0, 3.0])
    {'mean': 2.0, 'half_width': 12.70...}
    >>> average([1.0])
    {'mean': 1.0, 'half_width': None}
    """
    from scipy.stats import t as student

    known = np.array([value for value in values if value is not None], dtype=np.float64)
    if known.size == 0 or known.size < len(values):
        return None
    half = None
    if known.size > 1:
        error = float(known.std(ddof=1)) / float(np.sqrt(known.size))
        half = float(student.ppf((1 + LEVEL) / 2, known.size - 1)) * error
    return {"mean": float(known.mean()), "half_width": half}
