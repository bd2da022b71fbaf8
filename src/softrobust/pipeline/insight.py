"""The value of data for a run: on the models it holds, or on fresh draws of its posterior."""

from __future__ import annotations

from typing import TYPE_CHECKING

from softrobust.insight import DataValue, value_of_data
from softrobust.pipeline.folder import Folder, redraw
from softrobust.solvers.behaviour import behaviour_policy

if TYPE_CHECKING:
    from softrobust.problem import Problem


def data_values(
    folder: Folder, observations: int = 10, draws: int = 200, seed: int = 0
) -> tuple[Problem, tuple[DataValue, ...]]:
    """The problem the values were computed on, and the values, the best first.

    A run from a log draws `draws` models anew; a run from models has only those it was given.
    """
    problem = folder.problem
    also, independent = [], False
    if folder.log is not None and folder.posterior is not None:
        problem = problem.with_models(redraw(folder, draws, 200 + seed))
        also, independent = [behaviour_policy(problem, folder.log)[0]], True  # Dirichlet rows
    policy = folder.solution.policy
    return problem, value_of_data(
        problem, policy, observations, also=also, independent=independent, seed=seed
    )
