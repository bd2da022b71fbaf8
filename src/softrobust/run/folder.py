"""A run folder read back: all that `check`, `rehearse`, `update`, `explain` and `report` need."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, final

import numpy as np

from softrobust.certificate import load_solution
from softrobust.data import read_log
from softrobust.errors import InputError
from softrobust.models.files import load_models
from softrobust.posterior import DirichletPosterior, FittedPosterior
from softrobust.problem import load_problem

if TYPE_CHECKING:
    from softrobust.data import TransitionLog
    from softrobust.models.model_set import ModelSet
    from softrobust.problem import Problem
    from softrobust.solvers.base import Solution

SETTINGS = ("strength", "per_cell", "support", "min_count")


@final
@dataclass(frozen=True, slots=True, eq=False)
class Folder:
    """What a run folder holds.

    `log` and `posterior` are None where the run started from models. `seed` is the run's own, so
    that the same draws can be made again.
    """

    path: Path
    problem: Problem
    solution: Solution
    record: dict[str, Any]
    heldout: ModelSet | None
    log: TransitionLog | None
    posterior: FittedPosterior | None
    seed: int

    def need_log(self, what: str) -> tuple[TransitionLog, FittedPosterior]:
        """The log and the posterior, or an error that says what for."""
        if self.log is None or self.posterior is None:
            raise InputError(
                f"{what} needs the log, and '{self.path}' has no log.parquet with posterior.json: "
                "the run started from models, or the files were removed. Solve the log itself: "
                "softrobust solve log.csv --gamma … --out run"
            )
        return self.log, self.posterior


def load_run(path: str | Path) -> Folder:
    """Read a run folder that `softrobust solve --out` wrote."""
    folder = Path(path)
    if not folder.is_dir():
        raise InputError(
            f"There is no run folder '{folder}'. Give the folder that `softrobust solve … --out` "
            "wrote."
        )
    if not (folder / "problem.npz").exists():
        raise InputError(f"'{folder}' is not a run folder: it has no problem.npz.")
    solution = load_solution(folder)
    record = json.loads((folder / "solution.json").read_text(encoding="utf-8"))
    log = read_log(folder / "log.parquet") if (folder / "log.parquet").exists() else None
    drawn = _record(folder / "posterior.json")
    posterior = None
    if log is not None and drawn is not None:
        posterior = dirichlet_settings(drawn, folder).fit(log)
    heldout = folder / "heldout.npz"
    return Folder(
        path=folder,
        problem=load_problem(folder / "problem.npz"),
        solution=solution,
        record=record,
        heldout=load_models(heldout) if heldout.exists() else None,
        log=log,
        posterior=posterior,
        seed=0 if drawn is None else int(drawn.get("seed", 0)),
    )


def _record(path: Path) -> dict[str, Any] | None:
    if not path.exists():
        return None
    try:
        out = json.loads(path.read_text(encoding="utf-8"))
    except (UnicodeDecodeError, json.JSONDecodeError) as error:
        raise InputError(f"{path} cannot be read ({error}). Solve again with --force.") from None
    if not isinstance(out, dict):
        raise InputError(f"{path} is not a posterior record. Solve again with --force.")
    return out


def dirichlet_settings(drawn: dict[str, Any], folder: Path | str) -> DirichletPosterior:
    """The settings that `posterior.json` records."""
    if drawn.get("posterior") != DirichletPosterior.name:
        raise InputError(
            f"The run in '{folder}' used the posterior '{drawn.get('posterior')}', which cannot be "
            "fitted again from the folder."
        )
    if drawn.get("support") == "mask":
        raise InputError(f"The run in '{folder}' used a support mask, which the folder lacks.")
    return DirichletPosterior(**{name: drawn[name] for name in SETTINGS})


def redraw(folder: Folder, n_models: int, seed: int) -> ModelSet:
    """Fresh draws of the run's posterior: not those it was solved or tested on."""
    _, posterior = folder.need_log("Drawing models again")
    entropy = np.random.SeedSequence([folder.seed, seed, 0x5EED])
    return posterior.sample(n_models, np.random.default_rng(entropy))
