"""The command line that makes a run again, as far as the run knows it.

Files are named without their folders: where they lie says more of a machine than of the run.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from softrobust.objective import Percentile
from softrobust.solvers.registry import DEFAULT_SECONDS, SOLVERS

if TYPE_CHECKING:
    from softrobust.pipeline.setup import Options
    from softrobust.problem import Problem
    from softrobust.solvers.base import Solver

FLAGS = {"n_test": "test-models", "reward_table": "reward-table", "per_cell": "per-cell",
         "reward_default": "reward-default", "min_count": "min-count"}  # fmt: skip
GIVEN = ("columns", "states", "initial", "weights", "heldout", "reward_table", "reward_default",
         "allowed", "normalise", "n_test", "strength", "per_cell", "support",
         "min_count")  # fmt: skip


def solve_command(source: str, problem: Problem, options: Options, drawn: bool) -> str:
    """`softrobust solve FILE …` with the question spelled out, and every option that was given.

    Parameters
    ----------
    drawn : bool
        Whether models were drawn from the posterior of a log, so that their number is an option.
    """
    words = ["softrobust", "solve", source, *_question(problem)]
    if drawn:
        words += ["--models", str(problem.n_models)]
    for name in options.given(*GIVEN):
        words += [f"--{FLAGS.get(name, name)}", *_value(getattr(options, name))]
    return shlex.join([*words, "--seed", str(options.seed)])


def problem_command(run: str, solver: str, seed: int) -> str:
    """The same for a run that started from models: its folder has the problem itself."""
    words = ["softrobust", "solve", f"{run}/problem.npz", "--seed", str(seed)]
    return shlex.join([*words, "--solver", solver]) if solver in SOLVERS else ""


def with_solver(command: str, solver: Solver) -> str:
    """The solver's part; nothing for a solver that the command line does not know."""
    if not command or solver.name not in SOLVERS:
        return ""
    words = ["--solver", solver.name]
    limit = getattr(solver, "time_limit", None)
    if limit is not None and limit != DEFAULT_SECONDS:
        words += ["--time-limit", f"{limit:g}"]
    return f"{command} {shlex.join(words)}"


def _question(problem: Problem) -> list[str]:
    objective = problem.objective
    words = ["--gamma", repr(problem.gamma)]
    if isinstance(objective, Percentile):
        words += ["--objective", objective.criterion]
    else:
        words += ["--lambda", repr(objective.lam)]
    return [*words, "--alpha", repr(objective.alpha)]


def _value(value: object) -> list[str]:
    if value is True:
        return []
    if isinstance(value, Mapping):
        return [",".join(f"{key}={name}" for key, name in value.items())]
    return [value.name if isinstance(value, Path) else str(value)]
