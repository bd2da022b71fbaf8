"""A sweep: every solver on every (λ, α, seed, source), one task each.

Within a source all solvers, λ and α of one seed meet the same log and the same draws, so that they
can be compared pair by pair; what a solver draws itself has a seed of its own. No clock takes part:
solvers stop at nodes or of themselves, so a result is the same wherever and whenever it is made.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import groupby, product
from pathlib import Path
from typing import TYPE_CHECKING, Any, final

import numpy as np

from softrobust.certificate import Certificate, certify
from softrobust.domains import make_domain
from softrobust.domains.base import TabularDomain
from softrobust.errors import InputError, SolverError
from softrobust.objective import SoftRobust
from softrobust.pipeline import Options, set_up
from softrobust.posterior import FittedPosterior
from softrobust.problem import Problem
from softrobust.returns import policy_return
from softrobust.runner.plan import versions
from softrobust.runner.sweep_file import Source, Sweep
from softrobust.runner.tasks import Task, task_key, task_seed
from softrobust.solvers.base import Solution, Status, solve
from softrobust.solvers.registry import make_solver

if TYPE_CHECKING:
    from softrobust.data import TransitionLog
    from softrobust.models.model_set import ModelSet
    from softrobust.models.policy import Policy

FUNCTION = "softrobust.runner.sweep:solve_one"
CLOCKS = (Status.TIME_LIMIT, Status.INTERRUPTED)


def sweep_tasks(sweep: Sweep) -> list[Task]:
    """The tasks; those that share their data stand together, so that a worker makes it once."""
    return [
        _task(sweep, source, seed, lam, alpha, solver)
        for source in sweep.sources
        for seed in sweep.seeds
        for alpha, lam, solver in product(sweep.alphas, sweep.lambdas, sweep.solvers)
    ]


def _task(sweep: Sweep, source: Source, seed: int, lam: float, alpha: float, solver: str) -> Task:
    return Task(
        key=task_key(source.name, f"seed{seed}", solver, f"lam{_short(lam)}",
                     f"alpha{_short(alpha)}"),
        function=FUNCTION,
        settings={
            "source": source.name,
            "domain": source.domain,
            "source_settings": dict(source.settings),
            "seed": seed,
            "root": sweep.seed,
            "solver": solver,
            "lam": lam,
            "alpha": alpha,
            "models": sweep.models,
            "heldout": sweep.heldout,
            "node_limit": sweep.node_limit,
        },
        files=source.files,
    )  # fmt: skip


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
    domain: str | None,
    source_settings: Mapping[str, Any],
    seed: int,
    root: int,
    solver: str,
    lam: float,
    alpha: float,
    models: int,
    heldout: int,
    node_limit: int,
    **files: Path,
) -> dict[str, Any]:
    """One task of a sweep: draw (or find) the data, solve, certify, and put it down."""
    data_seed = task_seed(root, source, seed)
    solver_seed = task_seed(root, source, seed, solver)  # one luck for all λ and α: they compare
    known = {"domain": domain, "settings": source_settings, "seed": data_seed, "models": models}
    places = {name: str(path) for name, path in files.items()}
    data = _data(json.dumps(known | {"heldout": heldout, "files": places}, sort_keys=True))
    problem = replace(data.problem, objective=SoftRobust(lam, alpha))
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
    return {
        "source": source,
        "seed": seed,
        "solver": solver,
        "lam": lam,
        "alpha": alpha,
        "data_seed": data_seed,
        "solver_seed": solver_seed,
        **_figures(solution, certificate),
        "true_return": _true_return(data, solution.policy),
        "policy": list(_stretches(solution.policy)),
        "versions": versions(),
    }


def _figures(solution: Solution, certificate: Certificate) -> dict[str, Any]:
    """All numbers but those of a clock."""
    nodes = solution.stats.get("nodes")
    return {
        "status": str(solution.status),
        "gamma": solution.gamma,
        "n_models": solution.n_models,
        "model_value": solution.model_value,
        "nodes": None if nodes is None else int(nodes),
        "notes": list(solution.stats.get("notes", [])),
        **certificate.to_dict(),
    }


def _true_return(data: Data, policy: Policy) -> float | None:
    """ρ(π, P*) where the world is known: what no method gets to see."""
    return None if data.true is None else float(policy_return(data.true, policy)[0])


def _stretches(policy: Policy) -> Iterator[list[Any]]:
    """[first state, last state, action] for neighbours alike; a mixture names its probabilities."""
    decided = [int(s) for s in np.flatnonzero(policy.decided)]
    # A state without a recommendation ends a stretch: s − i rises there.
    alike = [(s - i, tuple(policy.probs[s].tolist()), s) for i, s in enumerate(decided)]
    for (_, row), group in groupby(alike, lambda entry: entry[:2]):
        states = [policy.states[s] for _, _, s in group]
        mix = {policy.actions[a]: p for a, p in enumerate(row) if p > 0}
        yield [states[0], states[-1], next(iter(mix)) if len(mix) == 1 else mix]


@lru_cache(maxsize=2)
def _data(known: str) -> Data:
    """The problem and all that belongs to it, made once for the tasks that share it."""
    given = json.loads(known)
    counts = given["models"], given["heldout"]
    if given["domain"] is not None:
        return _from_domain(given["domain"], given["settings"], given["seed"], *counts)
    return _from_log(given["files"], given["settings"], given["seed"], *counts)


def _from_domain(
    name: str, settings: Mapping[str, Any], seed: int, models: int, heldout: int
) -> Data:
    """The log, posterior and draws of this seed, as `domain.split_problem(seed)` has them."""
    domain = make_domain(name, **settings)
    if not isinstance(domain, TabularDomain):
        raise InputError(f"The domain '{name}' has continuous states.")
    log = domain.collect(np.random.default_rng(np.random.SeedSequence(seed).spawn(2)[0]))
    fitted = domain.posterior().fit(log)
    if not isinstance(fitted, FittedPosterior):
        raise InputError(f"The posterior of {name} does not draw tables.")
    problem, test = domain.split_problem(seed, models, heldout, fitted=fitted)
    if test is None:
        raise InputError("A sweep needs held-out models: set heldout ≥ 1.")
    return Data(problem, test, log, fitted, Problem(domain.true_model()))


def _from_log(
    files: Mapping[str, str], settings: Mapping[str, Any], seed: int, models: int, heldout: int
) -> Data:
    """The log with its Dirichlet posterior, as `softrobust solve` sets it up."""
    log = Path(files["log"])
    given: dict[str, Any] = {name: Path(path) for name, path in files.items() if name != "log"}
    options = Options(n_models=models, n_test=heldout, seed=seed, **settings, **given)
    setup = set_up(log, options)
    if setup.log is None or setup.posterior is None or setup.heldout is None:
        raise InputError(
            f"{log.name} holds models, and a sweep draws its own from a log for every "
            "seed. Use softrobust frontier for models."
        )
    return Data(setup.problem, setup.heldout, setup.log, setup.posterior, None)
