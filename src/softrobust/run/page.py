"""The full page of a run: what `solve` leaves out because it takes a while.

`solve` writes a page with the answer, the densities, the policy, and as much of the reasons as
takes two seconds. This one adds the frontier of mean against CVaR, what more data would be worth,
diagnostics of the posterior and the checks on record. What would take minutes is left out with a
sentence that names the command for it; whether it would is told from sizes, never by a clock.
"""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from softrobust.bounds import Covers
from softrobust.certificate import PosteriorCertificate, certify
from softrobust.errors import InputError
from softrobust.objective import SoftRobust
from softrobust.report import DataFound, Report, make_report
from softrobust.report.words import evaluation_seconds
from softrobust.run.folder import Folder, redraw
from softrobust.run.line import diagnosed, thin_data
from softrobust.run.setup import coverage_notes, problem_command
from softrobust.solvers.baselines.behaviour import behaviour_policy
from softrobust.solvers.exact.local_search import LocalSearch
from softrobust.study.frontier import frontier
from softrobust.study.value_of_data import DATA_SETS, DataValue, value_of_data

if TYPE_CHECKING:
    from softrobust.certificate import Certificate
    from softrobust.models.policy import Policy
    from softrobust.problem import Problem
    from softrobust.run.folder import Folder
    from softrobust.study.frontier import Frontier


WHY_SECONDS = 15.0  # for explanations and rules
LAMBDAS = tuple(round(0.1 * i, 1) for i in range(11))
FEW_LAMBDAS = (0.0, 0.25, 0.5, 0.75, 1.0)
EXACT_STATES, EXACT_SECONDS = 60, 45.0  # up to here every point is proven, or its gap known
MOST_SECONDS = 30.0  # estimated, beyond which a part is left out
DRAWS, POOL, PAGE_DATA_SETS = 200, 43, 400  # of the value of data
STEP = 2e-9  # seconds for one entry of its tables
POINT_SECONDS = 2.0  # of search for a point of the frontier, where none is proven


def report_run(
    folder: Folder,
    out: Path,
    *,
    quick: bool = False,
    suppress_small: bool = False,
    observations: int = 10,
) -> Report:
    """The page of a run, to be saved as `out`.

    Parameters
    ----------
    quick : bool
        Leave out the frontier, the value of data, and diagnostics that take a while.
    suppress_small : bool
        Show counts below five as "<5".
    observations : int
        How many more observations of a pair are valued.
    """
    problem, log = folder.problem, folder.log
    notes = [] if log is None else coverage_notes(log, problem)
    found = diagnosed(folder.posterior)
    if found is None and folder.posterior is not None and not quick:
        found = folder.posterior.diagnostics()
    extra: dict[str, Any] = {}
    if not quick:
        extra = {
            "frontier": frontier_of(problem, folder.solution.policy),
            "data": data_of(folder, observations),
            "seconds": WHY_SECONDS,
        }
    return make_report(
        problem,
        folder.solution,
        heldout=folder.heldout,
        log=log,
        posterior=folder.posterior,
        certificate=certificate_of(folder),
        notes=[*notes, *folder.solution.stats.get("notes", ())],
        cautions=thin_data(problem, folder.solution.policy, log),
        diagnostics=found,
        settings={
            "command": command_of(folder),
            "run": folder.path.resolve().name,
            "seed": folder.seed,
        },
        checks=checks_of(folder.path / "checks.json"),
        ask_for_checks=log is not None,
        policy_csv=_link(folder.path / "policy.csv", out),
        suppress_small=suppress_small,
        **extra,
    )


def command_of(folder: Folder) -> str:
    """What makes the run again: on record for a log, else by the problem in the folder."""
    if folder.log is None:
        name = folder.path.resolve().name
        return problem_command(name, folder.solution.solver, folder.seed)
    drawn = json.loads((folder.path / "posterior.json").read_text(encoding="utf-8"))
    return str(drawn.get("command", ""))


def certificate_of(folder: Folder) -> Certificate:
    """The certificate of the run: exact figures again, limits under the posterior as recorded."""
    problem, solution = folder.problem, folder.solution
    practice = None if folder.log is None else behaviour_policy(problem, folder.log)[0]
    bounds = [] if solution.bound is None else [solution.bound]
    made = certify(
        problem, solution.policy, folder.heldout, bounds, practice=practice, indicative=True
    )
    under = folder.record.get("posterior")
    return made if under is None else replace(made, posterior=_under(under))


def _under(record: dict[str, Any]) -> PosteriorCertificate:
    plain = ("lower", "lower_from", "upper", "upper_mean", "upper_error", "paired_gap")
    try:
        return PosteriorCertificate(
            **{name: record[name] for name in plain},
            covers=Covers(record["upper_covers"]),
            method=record["upper_method"],
            replications=record["replications"],
            n_models=record["models"],
            confidence=record["confidence"],
            reason=record["reason"],
        )
    except (KeyError, TypeError, ValueError) as error:
        raise InputError(
            f"The part 'posterior' of solution.json cannot be read ({error}). Solve again."
        ) from None


def checks_of(path: Path) -> list[dict[str, Any]] | None:
    """The checks on record; None where none were run."""
    if not path.exists():
        return None
    try:
        found = json.loads(path.read_text(encoding="utf-8"))["checks"]
    except (UnicodeDecodeError, json.JSONDecodeError, KeyError, TypeError) as error:
        raise InputError(
            f"{path} cannot be read ({error}). Run `softrobust check` again."
        ) from None
    if not isinstance(found, list):
        raise InputError(f"{path} has no list of checks. Run `softrobust check` again.")
    return found


def frontier_of(problem: Problem, policy: Policy) -> Frontier | str:
    """Mean against CVaR over λ; a sentence where it does not apply or would take long.

    `policy` is the run's own: it stands wherever it is the best.
    """
    objective = problem.objective
    if not isinstance(objective, SoftRobust):
        return "The percentile criterion has no λ, so there is no frontier of mean against CVaR."
    if problem.n_models == 1 or objective.tail == 1:
        return "Mean and bad case are the same figure here, so there is nothing to trade."
    each = evaluation_seconds(problem)
    # A point takes some ten evaluations of search, and as many for its bound.
    lams = LAMBDAS if 11 * 20 * each <= MOST_SECONDS else FEW_LAMBDAS
    if len(lams) * 20 * each > MOST_SECONDS:
        return (
            f"With {problem.n_states:,} states and {problem.n_models:,} models the frontier would "
            "take minutes: `softrobust frontier RUN/problem.npz` computes it."
        )
    lams = tuple(sorted({*lams, objective.lam}))
    if problem.n_states <= EXACT_STATES:
        return frontier(problem, lams, (objective.alpha,), time_limit=EXACT_SECONDS, also=[policy])
    solver = LocalSearch(starts=3, time_limit=POINT_SECONDS)
    return frontier(problem, lams, (objective.alpha,), solver, also=[policy])


def data_of(folder: Folder, observations: int = 10) -> DataFound | str:
    """What more data would be worth; a sentence where that does not apply or would take long."""
    problem = folder.problem
    if not isinstance(problem.objective, SoftRobust):
        return "The value of data is known for the soft-robust criterion only."
    if not problem.decided.any():
        return "There is nothing to decide, so no data would help."
    if _data_seconds(folder) > MOST_SECONDS:
        return (
            f"With {problem.n_states:,} states this would take minutes: `softrobust value-of-data "
            "RUN --draws 50` computes it with fewer draws."
        )
    try:
        return DataFound(observations, data_values(folder, observations, DRAWS)[1])
    except InputError as error:
        return f"The value of data is not known here: {error}"


def _data_seconds(folder: Folder) -> float:
    S, N = folder.problem.n_states, folder.problem.n_models
    if folder.log is not None:  # inverses of every policy and model, then exchanges of rows
        return POOL * DRAWS * (5e-10 * S**3 + 60 * PAGE_DATA_SETS * STEP)
    pairs = int((folder.problem.models.available & folder.problem.decided[:, None]).sum())
    return float(pairs * PAGE_DATA_SETS * N * POOL * STEP)


def _link(csv: Path, out: Path) -> str | None:
    """Where policy.csv lies, seen from the page; None where the path cannot be relative."""
    if not csv.exists():
        return None
    try:
        return Path(os.path.relpath(csv.resolve(), out.resolve().parent)).as_posix()
    except ValueError:  # another drive
        return None


# --------------------------------------------------------------------------------------------------
# The value of data for a run: on the models it holds, or on fresh draws of its posterior.

BATCHES = 4  # independent sets of draws: their spread is the error of the draws


def data_values(
    folder: Folder, observations: int = 10, draws: int = 200, seed: int = 0
) -> tuple[Problem, tuple[DataValue, ...]]:
    """The problem the values were computed on, and the values, the best first.

    A run from a log draws four sets of `draws` models anew and averages over them; its intervals
    hold the error of the draws. A run from models has only those it was given.
    """
    problem, policy = folder.problem, folder.solution.policy
    if folder.log is None or folder.posterior is None:
        return problem, value_of_data(problem, policy, observations, seed=seed)
    found: dict[tuple[int, int], list[DataValue]] = {}
    pairs = None
    for batch in range(BATCHES):
        fresh = problem.with_models(redraw(folder, draws, 200 + 10 * seed + batch))
        also = [behaviour_policy(fresh, folder.log)[0]]
        values = value_of_data(
            fresh, policy, observations, pairs, also, independent=True, seed=seed + batch,
            data_sets=DATA_SETS // BATCHES,
        )  # fmt: skip
        pairs = [(v.s, v.a) for v in values]
        for v in values:
            found.setdefault((v.s, v.a), []).append(v)
    merged = [_merged(values) for values in found.values()]
    return problem, tuple(sorted(merged, key=lambda v: -v.value))


def _merged(values: list[DataValue]) -> DataValue:
    """The mean over batches, with Student's interval of their spread."""
    from scipy.stats import t as student

    each = np.array([v.value for v in values])
    half = float(student.ppf(0.975, each.size - 1) * each.std(ddof=1) / np.sqrt(each.size))
    mean = float(each.mean())
    return replace(
        values[0],
        value=mean,
        low=max(mean - half, 0.0),
        high=mean + half,
        changes=float(np.mean([v.changes for v in values])),
        effective_size=float(np.median([v.effective_size for v in values])),
    )
