"""`problem.npz`: a problem as later commands need it, without the log it came from."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np

from softrobust.data.npz import read_npz, rewards_from_arrays, rewards_to_arrays, write_npz
from softrobust.errors import InputError
from softrobust.models.files import FORMAT_VERSION, models_from_arrays, models_to_arrays
from softrobust.objective import make_objective
from softrobust.problem import Problem

PROBLEM_FORMAT = "softrobust-problem"


def save_problem(path: str | Path, problem: Problem) -> None:
    """Write the problem, atomically."""
    arrays = models_to_arrays(replace(problem.models, rewards=None))
    arrays |= rewards_to_arrays(problem.rewards)
    arrays |= {
        "p0": problem.p0,
        "gamma": np.array(problem.gamma),
        "allowed": problem.allowed,
        "lam": np.array(problem.objective.lam),
        "alpha": np.array(problem.objective.alpha),
        "criterion": np.array(problem.objective.criterion),
    }
    write_npz(path, PROBLEM_FORMAT, FORMAT_VERSION, arrays)


def load_problem(path: str | Path) -> Problem:
    """Read what `save_problem` wrote."""
    arrays = read_npz(path, PROBLEM_FORMAT, FORMAT_VERSION)
    models = replace(models_from_arrays(arrays, path), rewards=None)
    try:
        return Problem(
            models,
            rewards=rewards_from_arrays(arrays),
            p0=arrays["p0"],
            gamma=float(arrays["gamma"]),
            allowed=arrays["allowed"],
            objective=make_objective(
                str(arrays.get("criterion", "soft-robust")),
                float(arrays["lam"]),
                float(arrays["alpha"]),
            ),
        )
    except InputError:
        raise
    except (KeyError, TypeError, ValueError) as error:
        raise InputError(
            f"The file {Path(path).name} lacks or garbles an array of the problem ({error}). "
            "Write it again."
        ) from None
