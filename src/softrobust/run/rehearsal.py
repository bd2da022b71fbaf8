"""A rehearsal of a run, on processes or a cluster: every world is a task of its own."""

from functools import lru_cache
from pathlib import Path
from typing import Any

from softrobust._core.limits import time_bound
from softrobust._core.notes import Level, Note
from softrobust._core.schema import read_json
from softrobust.certificate.record import write_json
from softrobust.data import TransitionLog, read_log
from softrobust.errors import InputError
from softrobust.posterior import FittedDirichlet, FittedLearned
from softrobust.problem import Problem, load_problem
from softrobust.run.folder import FIT, Run, fitted_again
from softrobust.run.jobs import Task, run_tasks
from softrobust.solvers.registry import SOLVERS, make_solver
from softrobust.study import foreign
from softrobust.study.foreign import FEWEST, SUMMARY, ForeignRehearsal
from softrobust.study.rehearsal import WORLDS, Rehearsal, Stage, repetition, summary
from softrobust.study.solved import need_log, need_stationary

TIMES, SAMPLED = 200, 20  # worlds of an exact posterior, and of one that a sampler learns anew
LAST = 1.0  # seconds to end processes and to write
FILES = {"problem": "problem.npz", "log": "log.parquet", "posterior": "posterior.json"}


def rehearse_one(
    problem: Path, log: Path, posterior: Path, fit: Path | None = None, **settings: Any
) -> dict[str, Any]:
    """One repetition with another posterior than the learned one; a function that tasks name."""
    return repetition(_stage(problem, log, posterior, fit), **settings)


def rehearse_foreign(problem: Path, log: Path, **settings: Any) -> dict[str, Any]:
    """One repetition of the default line; a function that tasks name."""
    return foreign.repetition(*_files(problem, log), **settings)


@lru_cache(maxsize=2)
def _files(problem: Path, log: Path) -> tuple[Problem, TransitionLog]:
    return load_problem(problem), read_log(log)


@lru_cache(maxsize=2)
def _stage(problem: Path, log: Path, posterior: Path, fit: Path | None) -> Stage:
    record = read_json(posterior)
    solved, seen = _files(problem, log)
    return Stage.of(solved, seen, fitted_again(record, seen, fit or posterior))


def rehearse(
    folder: Run,
    out: Path,
    times: int | None = None,
    *,
    world: str | None = None,
    solver: str | None = None,
    draws: int = 400,
    seed: int = 0,
    workers: int | None = None,
    cluster: str | None = None,
    resume: bool = False,
    progress: bool | None = None,
    time_limit: float | None = None,
) -> Rehearsal | ForeignRehearsal | Note:
    """Rehearse a run in `times` worlds; results are kept in `out`, one file each, and a summary.

    A note says so where the time was over before any world was done.

    A run with the learned posterior is rehearsed by its solver, in worlds of its posterior and in
    foreign ones (`study.foreign`); one with another posterior by `solver` in worlds of that, or
    (Dirichlet) of its prior (`study.rehearsal`).
    """
    _, posterior = need_log(folder, "A rehearsal")
    if times is not None and times < 1:
        raise InputError(f"A rehearsal is done at least once; times is {times}.")
    default = isinstance(posterior, FittedLearned)
    plan = _default_plan if default else _own_plan
    tasks, name = plan(folder, times, world, solver, draws, seed)
    bound = time_bound()  # of the whole command, which has read the run by now
    left = time_limit if time_limit is None else min(time_limit, max(bound.left - LAST, 1e-3))
    done = run_tasks(
        tasks, out, workers=workers, cluster=cluster, resume=resume, progress=progress,
        title="rehearsal", time_limit=left,
    )  # fmt: skip
    if not done.results:
        for why in done.failed.values():
            raise InputError(f"No rehearsal came to an end: {why}")
        return Note("no_world_in_time", Level.CAUTION, {"seconds": time_limit})
    results, failed = list(done.results.values()), len(done.failed)
    found = ForeignRehearsal.of(results, failed) if default else summary(results, name, failed)
    write_json(out / SUMMARY, found.to_dict())
    return found


def _default_plan(
    folder: Run, times: int | None, world: str | None, solver: str | None, _draws: int, seed: int
) -> tuple[list[Task], str]:
    """Worlds of all kinds in turn, so that a time limit leaves as many of each."""
    if solver is None:  # the run's own, whose policies are like this one
        need_stationary(folder.solution.policy, "A rehearsal")
    solver = solver or (folder.solution.solver if folder.solution.solver in SOLVERS else None)
    if solver is None:
        raise InputError(
            f"The policy of '{folder.solution.solver}' was handed in, and a rehearsal chooses anew "
            "in every world. Name the solver that chooses.",
            arguments=("solver",),
        )
    make_solver(solver, log=folder.log)  # an unknown name is refused before any work
    kinds = foreign.kinds_of(folder.log)
    if world is not None and world not in kinds:
        raise InputError(
            f"Worlds of this run are {', '.join(kinds)}, or all of them; it got '{world}'."
        )
    chosen = kinds if world is None else (world,)
    files = {name: folder.path / FILES[name] for name in ("problem", "log")}
    return [
        Task(
            f"world{i}",
            "softrobust.run.rehearsal:rehearse_foreign",
            {"number": i, "kind": chosen[i % len(chosen)], "seed": seed, "solver": solver},
            files,
        )
        for i in range(times or FEWEST * len(chosen))
    ], ""


def _own_plan(
    folder: Run, times: int | None, world: str | None, solver: str | None, draws: int, seed: int
) -> tuple[list[Task], str]:
    world, solver = world or WORLDS[0], solver or "local-search"
    known = WORLDS if isinstance(folder.posterior, FittedDirichlet) else WORLDS[:1]
    if world not in known:
        raise InputError(f"Worlds are drawn from the {' or the '.join(known)}; it got '{world}'.")
    if not folder.posterior.settings.learns:
        raise InputError(
            "A rehearsal learns from the log of every world, and the posterior "
            f"'{folder.posterior.settings.name}' was sampled elsewhere: it cannot."
        )
    make_solver(solver, log=folder.log)  # an unknown name is refused before any work
    files = {name: folder.path / file for name, file in FILES.items()}
    if (folder.path / FIT).exists():
        files["fit"] = folder.path / FIT
    usual = TIMES if folder.posterior.pool is None else SAMPLED
    settings = {"world": world, "solver": solver, "draws": draws, "seed": seed,
                "models": folder.problem.n_models}  # fmt: skip
    return [
        Task(f"world{i}", "softrobust.run.rehearsal:rehearse_one", {**settings, "number": i}, files)
        for i in range(times or usual)
    ], world
