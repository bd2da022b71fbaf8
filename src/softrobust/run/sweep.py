"""A sweep: every solver on every (λ, α, seed, source), one task each, and what came of them.

Within a source all solvers, λ and α of one seed meet the same log and the same draws, so that they
can be compared pair by pair; what a solver draws itself has a seed of its own. No clock takes part:
solvers stop at nodes or of themselves, so a result is the same wherever and whenever it is made.

The results have one row a task, and mean ± 95 % interval over seeds for each setting. `open` is how
much more than this policy the best could earn on the training models: bound − value, with the least
bound that any solver of the sweep proved for the same models, λ and α and that covers the policy,
so one solver's proof judges all. `open_share` is its share of bound − ρ^S of acting at random (None
where that is nothing).
"""

import csv
import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, reduce
from io import StringIO
from itertools import groupby, product
from operator import getitem
from pathlib import Path
from typing import Any, final

import numpy as np

from softrobust._core.files import atomic_write
from softrobust.bounds import Bound, Covers
from softrobust.certificate import certify
from softrobust.data import TransitionLog
from softrobust.domains import TabularDomain, make_domain
from softrobust.errors import InputError, SolverError
from softrobust.models import ModelSet, Policy
from softrobust.objective import NONE, PRACTICE_REFERENCE, Reference, SoftRobust
from softrobust.posterior import FittedPosterior
from softrobust.problem import Problem
from softrobust.returns import policy_return
from softrobust.returns.evaluation import AnyPolicy
from softrobust.run import Options, set_up
from softrobust.run.jobs.run import Outcome, run_tasks
from softrobust.run.jobs.store import kept_safe
from softrobust.run.jobs.tasks import Task, task_key, task_seed, versions
from softrobust.run.sweep_file import Sweep
from softrobust.solvers.base import Status, gap_share, solve
from softrobust.solvers.baselines.behaviour import behaviour_policy
from softrobust.solvers.registry import make_solver

FUNCTION = "softrobust.run.sweep:solve_one"
CLOCKS = (Status.TIME_LIMIT, Status.INTERRUPTED)
DATA = ("domain", "source_settings", "models", "heldout")
FORMAT_VERSION = 1
LEVEL = 0.95
PLACE = ("source", "solver", "lam", "alpha")
FIGURES = {  # where a task's result has them
    "objective": "static.objective",
    "mean": "static.mean",
    "cvar": "static.cvar",
    **{name: name for name in ("model_value", "bound", "gap_share", "open", "open_share")},
    "heldout_objective": "heldout.objective.value",
    "heldout_low": "heldout.objective.low",
    "heldout_high": "heldout.objective.high",
    "heldout_mean": "heldout.mean.value",
    "heldout_cvar": "heldout.cvar.value",
    "optimism": "heldout.optimism",
    "true_return": "true_return",
}
AVERAGED = (
    "objective", "mean", "cvar", "open", "heldout_objective", "heldout_mean", "heldout_cvar",
    "optimism", "true_return",
)  # fmt: skip
HEADER = ("key", "source", "seed", "solver", "lam", "alpha", "status", *FIGURES)


def sweep_tasks(sweep: Sweep) -> list[Task]:
    """The tasks; those that share their data stand together, so that a worker makes it once."""
    more = {} if sweep.reference == NONE else {"reference": sweep.reference}
    sizes = {name: getattr(sweep, name) for name in ("models", "heldout", "node_limit")}
    grid = (sweep.sources, sweep.seeds, sweep.alphas, sweep.lambdas, sweep.solvers)
    tasks = []
    for source, seed, alpha, lam, solver in product(*grid):
        words = (f"seed{seed}", solver, f"lam{_short(lam)}", f"alpha{_short(alpha)}")
        own: dict[str, Any] = {"source": source.name, "domain": source.domain}
        own |= {"source_settings": dict(source.settings), "seed": seed, "root": sweep.seed}
        own |= {"solver": solver, "lam": lam, "alpha": alpha, **sizes, **more}
        own |= {} if source.horizon is None else {"horizon": source.horizon}
        tasks.append(Task(task_key(source.name, *words), FUNCTION, own, source.files))
    return tasks


def _short(value: float) -> str:
    """0.5 as 0.5 and 1.0 as 1, with all digits where they are needed."""
    return f"{value:g}" if float(f"{value:g}") == value else repr(value)


@final
@dataclass(frozen=True, slots=True, eq=False)
class Data:
    """What all tasks of one source and seed share."""

    problem: Problem
    heldout: ModelSet
    log: TransitionLog
    posterior: FittedPosterior
    true: Problem | None


def solve_one(
    *,
    source: str,
    seed: int,
    root: int,
    solver: str,
    lam: float,
    alpha: float,
    node_limit: int,
    reference: str | Path = NONE,
    **given: Any,
) -> dict[str, Any]:
    """One task of a sweep: draw (or find) the data, solve, certify, and put it down.

    `given` is what the data are made of: `DATA`, a horizon if there is one, and files by name.
    """
    data_seed = task_seed(root, source, seed)
    solver_seed = task_seed(root, source, seed, solver)  # one luck for all λ and α: they compare
    known = {name: given.pop(name) for name in DATA} | {"horizon": given.pop("horizon", None)}
    if isinstance(reference, Path):
        given["reference"] = reference
    known |= {"seed": data_seed, "files": given}
    data = _data(json.dumps(known, sort_keys=True, default=str))
    against: Any = reference
    if isinstance(reference, Path):  # read with the log
        against = data.problem.objective.reference
    elif reference == PRACTICE_REFERENCE:  # what the log shows, whatever the posterior
        against = Reference(reference, behaviour_policy(data.problem, data.log)[0])
    problem = replace(data.problem, objective=SoftRobust(lam, alpha, against))
    chosen = make_solver(
        solver, log=data.log, seed=solver_seed, node_limit=node_limit, posterior=data.posterior
    )
    solution = solve(problem, chosen)
    if solution.status in CLOCKS:
        raise SolverError(
            f"The solver '{solver}' stopped at '{solution.status}': its result would depend on the "
            "machine's speed. Please report this."
        )
    bounds = [] if solution.bound is None else [solution.bound]
    certificate = certify(problem, solution.policy, data.heldout, bounds, time_limit=math.inf)
    nodes = solution.stats.get("nodes")
    place = {"source": source, "seed": seed, "solver": solver, "lam": lam, "alpha": alpha}
    return place | {
        "data_seed": data_seed,
        "solver_seed": solver_seed,
        "status": str(solution.status),
        "gamma": solution.gamma,
        "n_models": solution.n_models,
        "model_value": solution.model_value,
        "nodes": None if nodes is None else int(nodes),
        "notes": list(solution.stats.get("notes", [])),
        **certificate.to_dict(),
        # ρ(π, P*) where the world is known: what no method gets to see.
        "true_return": None if data.true is None else policy_return(data.true, solution.policy)[0],
        "policy": _rows(solution.policy),
        "versions": versions(),
    }


def _rows(policy: AnyPolicy) -> list[list[Any]]:
    """The policy in stretches; one with a rule for each step has the step before each."""
    if isinstance(policy, Policy):
        return list(_stretches(policy))
    return [[t, *row] for t in range(policy.horizon) for row in _stretches(policy.at(t))]


def _stretches(policy: Policy) -> Iterator[list[Any]]:
    """[first state, last state, action] for neighbours alike; a mixture names its probabilities."""
    decided = np.flatnonzero(policy.decided).tolist()
    # A state without a recommendation ends a stretch: s − i rises there.
    alike = [(s - i, policy.mix(s), s) for i, s in enumerate(decided)]
    for (_, mix), group in groupby(alike, lambda entry: entry[:2]):
        states = [policy.states[s] for _, _, s in group]
        yield [states[0], states[-1], next(iter(mix)) if len(mix) == 1 else mix]


@lru_cache(maxsize=2)  # made once for the tasks that share it
def _data(known: str) -> Data:
    """The log, posterior and draws of this seed, as `domain.split_problem(seed)` has them."""
    given = json.loads(known)
    name, seed, horizon = given["domain"], given["seed"], given["horizon"]
    if name is None:
        return _from_log(given)
    domain = make_domain(name, **given["source_settings"])
    if not isinstance(domain, TabularDomain):
        raise InputError(f"The domain '{name}' has continuous states.")
    log = domain.collect(np.random.default_rng(np.random.SeedSequence(seed).spawn(2)[0]))
    fitted = domain.posterior().fit(log)
    if not isinstance(fitted, FittedPosterior):
        raise InputError(f"The posterior of {name} does not draw tables.")
    problem, test = domain.split_problem(seed, given["models"], given["heldout"], fitted=fitted)
    if test is None:
        raise InputError("A sweep needs held-out models: set heldout ≥ 1.")
    true = replace(Problem(domain.true_model()), horizon=horizon)
    return Data(replace(problem, horizon=horizon), test, log, fitted, true)


def _from_log(given: Mapping[str, Any]) -> Data:
    """The log with its Dirichlet posterior, as `softrobust solve` sets it up."""
    files: dict[str, Any] = {name: Path(path) for name, path in given["files"].items()}
    log, counts = files.pop("log"), {"n_models": given["models"], "n_test": given["heldout"]}
    settings = {"posterior": "dirichlet", "seed": given["seed"], "horizon": given["horizon"]}
    setup = set_up(log, Options(**counts, **settings, **given["source_settings"], **files))
    if setup.log is None or setup.posterior is None or setup.heldout is None:
        raise InputError(
            f"{log.name} holds models, and a sweep draws its own from a log for every "
            "seed. Use softrobust frontier for models."
        )
    return Data(setup.problem, setup.heldout, setup.log, setup.posterior, None)


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
        sweep_tasks(sweep), out, workers=workers, cluster=cluster, resume=resume, progress=progress,
        title="sweep",
    )  # fmt: skip
    tasks = {key: dict(outcome.results[key]) for key in sorted(outcome.results)}
    _share_bounds(tasks.values())
    record = {
        "format_version": FORMAT_VERSION,
        "versions": versions(),
        "sweep": sweep.record(),
        "groups": _groups(sweep, list(tasks.values())),
        "tasks": [{"key": key, **result} for key, result in tasks.items()],
        "failed": dict(sorted(outcome.failed.items())),
    }
    write_sweep(out, sweep, record)
    return record, outcome


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
        figures = [None if result is None else figure(result, name) for name in FIGURES]
        status = "failed" if result is None else result["status"]
        cells = ["" if value is None else repr(value) for value in figures]
        rows.writerow([task.key, *place, status, *cells])
    with kept_safe(out), atomic_write(out / "results.csv", newline="") as file:
        file.write(text.getvalue())


def _share_bounds(results: Iterable[dict[str, Any]]) -> None:
    """Add `open` and `open_share`, from the least bound of the cell that covers the policy."""
    cells: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
    order = list(Covers)  # each class contains the one before it
    for result in results:
        place = tuple(result[name] for name in ("source", "seed", "lam", "alpha"))
        cells.setdefault(place, []).append(result)
    for cell in cells.values():
        for result in cell:
            least = order.index(_class(result["policy"]))
            valid = [r for r in cell if r is result or order.index(r["bound_covers"]) >= least]
            best = min(valid, key=lambda r: float(r["bound"]))
            value = result["static"]["objective"]
            # Rounding must not make a proven optimum exceed its bound.
            bound = Bound(max(best["bound"], value), Covers(best["bound_covers"]), "")
            result["open"] = bound.value - value
            result["open_share"] = gap_share(bound, value, result["uniform_value"])


def _class(rows: Sequence[Sequence[Any]]) -> Covers:
    """The least class that has the policy of these rows."""
    if any(len(row) == 4 for row in rows):  # with a step
        return Covers.TIMED
    mixed = any(isinstance(row[-1], dict) for row in rows)
    return Covers.STATIONARY if mixed else Covers.DETERMINISTIC


def _groups(sweep: Sweep, results: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """One entry for each (source, solver, λ, α), in the order of the sweep."""
    groups: dict[tuple[Any, ...], list[Mapping[str, Any]]] = {}
    for task in sweep_tasks(sweep):
        groups.setdefault(tuple(task.settings[name] for name in PLACE), [])
    for result in results:
        groups[tuple(result[name] for name in PLACE)].append(result)
    return [
        dict(zip(PLACE, place, strict=True))
        | {"n": len(members)}
        | {name: average([figure(member, name) for member in members]) for name in AVERAGED}
        for place, members in groups.items()
    ]


def figure(result: Mapping[str, Any], name: str) -> Any:
    """A figure of a task's result."""
    return reduce(getitem, FIGURES[name].split("."), result)


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
