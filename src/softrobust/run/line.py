"""The whole line, once: a problem is solved, compared with nominal, certified and written down."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
import warnings
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, final

import numpy as np

from softrobust._core.files import atomic_write
from softrobust.bounds.best import check_replications
from softrobust.certificate import (
    Certificate,
    certify,
    certify_posterior,
    draw_heldout,
    save_solution,
)
from softrobust.certificate.posterior import INTERVAL_SHARE, LEAST, REPLICATIONS
from softrobust.data import save_log
from softrobust.data.reward_rules import reward_noise
from softrobust.errors import InputError
from softrobust.models.files import save_models
from softrobust.posterior import FittedDirichlet
from softrobust.problem import save_problem
from softrobust.returns import policy_return
from softrobust.run.setup import Setup, with_solver
from softrobust.solvers.base import Solution, Solver, solve
from softrobust.solvers.baselines.behaviour import RARE, behaviour_policy, rare_share
from softrobust.solvers.baselines.draws import SaturationWarning
from softrobust.solvers.baselines.nominal import Nominal

if TYPE_CHECKING:
    from softrobust.data import TransitionLog
    from softrobust.models.model_set import ModelSet
    from softrobust.models.policy import Policy
    from softrobust.posterior import Diagnostics, FittedPosterior
    from softrobust.problem import Problem


MUCH = 0.1  # share of decisions on rarely seen pairs that deserves a word of caution


@final
@dataclass(frozen=True, slots=True)
class Run:
    """A solved problem with its certificate: all that a summary, a report or a folder needs."""

    setup: Setup
    solution: Solution
    nominal: Solution
    heldout: ModelSet | None
    certificate: Certificate
    seed: int
    notes: tuple[str, ...]
    command: str = ""  # what makes the same run again; empty where no command does


def run_line(setup: Setup, solver: Solver, seed: int = 0, replications: int | None = None) -> Run:
    """Solve, compare, certify.

    Held-out models are those of the set-up; a posterior that can be drawn from gives as many as
    the interval of CVaR needs, and replications that certify the policy under the posterior itself
    (0 leaves them out).
    """
    replications = _check_replications(setup, replications)
    problem = setup.problem
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SaturationWarning)  # its text is among the notes
        solution = solve(problem, solver)
    nominal = solution if solution.solver == Nominal.name else solve(problem, Nominal())
    heldout = setup.heldout
    if heldout is None and setup.posterior is not None:
        heldout = draw_heldout(setup.posterior, problem, solution.policy, setup.test_seed)
    bounds = [] if solution.bound is None else [solution.bound]
    practice = None if setup.log is None else behaviour_policy(problem, setup.log)[0]
    certificate = certify(
        problem, solution.policy, heldout, bounds, practice=practice, indicative=True
    )
    if replications and setup.posterior is not None:
        # Held-out models from a file need not be draws of this posterior.
        held = certificate.heldout if setup.heldout_drawn else None
        under = certify_posterior(
            problem, solution.policy, setup.posterior, held, replications, seed=seed
        )
        certificate = replace(certificate, posterior=under)
    own = solution.stats.get("notes", ())
    notes = (*setup.notes, *own, *_resolution(setup, solution, certificate))
    command = with_solver(setup.command, solver)
    return Run(setup, solution, nominal, heldout, certificate, seed, notes, command)


def _check_replications(setup: Setup, asked: int | None) -> int:
    """How many replications to make; an error before any work is done."""
    if asked is None:
        return REPLICATIONS if setup.posterior is not None else 0
    if setup.posterior is None and asked > 0:
        raise InputError(
            "--replications draws fresh models from the posterior of a log; the input holds "
            "models. Leave it out."
        )
    if asked != 0:
        check_replications(asked, LEAST)
    return asked


def diagnosed(posterior: FittedPosterior | None) -> Diagnostics | None:
    """Diagnostics where they cost nothing: of the closed form, some milliseconds."""
    return posterior.diagnostics() if isinstance(posterior, FittedDirichlet) else None


def thin_data(problem: Problem, policy: Policy, log: TransitionLog | None) -> list[str]:
    """Words of caution where much of the policy rests on pairs hardly seen, or on noisy rewards."""
    if log is None:
        return []
    share, _ = rare_share(problem, policy, log)
    noise = reward_noise(problem.rewards, log)
    said = []
    if noise > 0:
        said.append(
            f"Rewards of the same decision vary (standard deviation {noise:.3g}), and the models "
            "know their means only, not how vague those are: the probability above is too sure of "
            "itself, the more so where pairs were seen rarely. softrobust check and rehearse take "
            "the noise into account."
        )
    if share > MUCH:
        said.append(
            f"{100 * share:.0f} % of the policy's decisions fall on pairs seen fewer than {RARE} "
            "times. There the prior speaks louder than the data, and the best of many such pairs "
            "is often the luckiest: gains may be smaller than promised. --min-count 5 leaves such "
            "pairs out; softrobust check and rehearse tell more."
        )
    return said


def _resolution(setup: Setup, solution: Solution, certificate: Certificate) -> list[str]:
    """Say so where draws were cut short of the resolution that is aimed at."""
    held = certificate.heldout
    if setup.heldout is not None or held is None:
        return []
    returns = policy_return(setup.problem, solution.policy)
    share = held.cvar.width / max(float(np.ptp(returns)), 1e-300)
    if share <= 1.5 * INTERVAL_SHARE or np.ptp(returns) <= 1e-9 * np.abs(returns).max():
        return []
    wide = "unknown" if not np.isfinite(share) else f"{100 * share:.2g} % of the range of returns"
    return [
        f"The interval of the held-out bad case is {wide}: {held.n_models} draws were affordable "
        "(--test-models N draws more)."
    ]


def check_out(out: Path, force: bool) -> None:
    """Refuse before any work is done what could not be written afterwards."""
    if out.exists() and not force:
        raise InputError(
            f"The output folder '{out}' exists already. Choose another one, or give --force to "
            "replace the files of a run in it."
        )
    if out.exists() and not out.is_dir():
        raise InputError(f"'{out}' is a file; --out needs a folder.")
    parent = out.resolve().parent
    if not parent.is_dir():
        raise InputError(f"The folder '{out.parent}' that is to hold '{out.name}' does not exist.")
    if not os.access(parent, os.W_OK) or (out.exists() and not os.access(out, os.W_OK)):
        raise InputError(f"No permission to write '{out}'. Choose another folder.")


def write_run(run: Run, out: Path) -> None:
    """Write the run folder.

    Everything is written beside its place first: a new folder appears complete or not at all, and
    into a folder that exists (--force) each file is moved whole, once all of them are there.
    """
    from softrobust.report import make_report

    target = out.resolve()
    work = Path(tempfile.mkdtemp(prefix=f".{target.name}.", dir=target.parent))
    try:
        save_solution(work / "solution.json", run.solution, run.certificate)
        save_problem(work / "problem.npz", run.setup.problem)
        run.solution.policy.save(work / "policy.csv")
        if run.heldout is not None:
            save_models(work / "heldout.npz", run.heldout)
        if run.setup.log is not None:
            save_log(run.setup.log, work / "log.parquet")
        if run.setup.posterior is not None:
            _write_json(work / "posterior.json", _posterior_record(run))
        page = make_report(
            run.setup.problem,
            [run.solution, run.nominal] if run.nominal is not run.solution else [run.solution],
            heldout=run.heldout,
            log=run.setup.log,
            posterior=run.setup.posterior,
            certificate=run.certificate,
            notes=run.notes,
            cautions=thin_data(run.setup.problem, run.solution.policy, run.setup.log),
            diagnostics=diagnosed(run.setup.posterior),
            settings={"command": run.command, "input": run.setup.source, "seed": run.seed},
            policy_csv="policy.csv",
            hint=f"`softrobust report {out.name}` adds the frontier, the value of data and checks.",
        )
        page.save(work / "report.html")
        _move(work, target)
    finally:
        shutil.rmtree(work, ignore_errors=True)


def _posterior_record(run: Run) -> dict[str, Any]:
    """What was drawn: with log.parquet, enough to draw the same models again."""
    assert run.setup.posterior is not None
    drawn = {
        "seed": run.seed,
        "models": run.setup.problem.n_models,
        "heldout_models": None if run.heldout is None else run.heldout.n_models,
        "command": run.command,
    }
    return run.setup.posterior.describe() | drawn


def _move(work: Path, target: Path) -> None:
    os.chmod(work, 0o755)  # mkdtemp makes private folders
    if not target.exists():
        os.rename(work, target)
        return
    for stale in ("heldout.npz", "log.parquet", "posterior.json"):
        if not (work / stale).exists():
            (target / stale).unlink(missing_ok=True)
    for file in sorted(work.iterdir()):
        os.replace(file, target / file.name)


def _write_json(path: Path, record: dict[str, Any]) -> None:
    with atomic_write(path) as file:
        file.write(json.dumps(record, indent=1, allow_nan=False) + "\n")
