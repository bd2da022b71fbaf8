"""A rehearsal of a run, on processes or a cluster: every world is a task of its own."""

from __future__ import annotations

import json
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from softrobust.data import read_log
from softrobust.errors import InputError
from softrobust.problem import load_problem
from softrobust.run.folder import prior_settings
from softrobust.run.jobs import Task, run_tasks
from softrobust.solvers.registry import make_solver
from softrobust.study.rehearsal import WORLDS, Rehearsal, Stage, repetition, summary
from softrobust.study.solved import need_log

if TYPE_CHECKING:
    from softrobust.run.folder import Run


def rehearse_one(problem: Path, log: Path, posterior: Path, **settings: Any) -> dict[str, Any]:
    """One repetition; the function that tasks name."""
    return repetition(_stage(problem, log, posterior), **settings)


@lru_cache(maxsize=2)
def _stage(problem: Path, log: Path, posterior: Path) -> Stage:
    record = json.loads(posterior.read_text(encoding="utf-8"))
    seen = read_log(log)
    return Stage.of(load_problem(problem), seen, prior_settings(record, "the run").fit(seen))


def rehearse(
    folder: Run,
    out: Path,
    times: int = 200,
    *,
    world: str = "posterior",
    solver: str = "local-search",
    draws: int = 400,
    seed: int = 0,
    workers: int | None = None,
    cluster: str | None = None,
    resume: bool = False,
    progress: bool | None = None,
) -> Rehearsal:
    """Rehearse a run `times` times; results are kept in `out`, one file each."""
    need_log(folder, "A rehearsal")
    if world not in WORLDS:
        raise InputError(f"Worlds are drawn from the {' or the '.join(WORLDS)}; it got '{world}'.")
    if times < 1:
        raise InputError(f"A rehearsal is done at least once; times is {times}.")
    make_solver(solver, log=folder.log)  # an unknown name is refused before any work
    files = {
        "problem": folder.path / "problem.npz",
        "log": folder.path / "log.parquet",
        "posterior": folder.path / "posterior.json",
    }
    settings = {"world": world, "solver": solver, "draws": draws, "seed": seed,
                "models": folder.problem.n_models}  # fmt: skip
    tasks = [
        Task(f"world{i}", "softrobust.run.rehearsal:rehearse_one", {**settings, "number": i}, files)
        for i in range(times)
    ]
    done = run_tasks(
        tasks, out, workers=workers, cluster=cluster, resume=resume, progress=progress,
        title="rehearsal",
    )  # fmt: skip
    if not done.results:
        why = next(iter(done.failed.values()), "")
        raise InputError(f"No rehearsal came to an end: {why}")
    return summary(list(done.results.values()), world, len(done.failed))
