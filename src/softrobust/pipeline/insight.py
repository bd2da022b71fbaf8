"""The value of data for a run: on the models it holds, or on fresh draws of its posterior."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from softrobust.insight import DataValue, value_of_data
from softrobust.insight.value_of_data import DATA_SETS
from softrobust.pipeline.folder import Folder, redraw
from softrobust.solvers.behaviour import behaviour_policy

if TYPE_CHECKING:
    from softrobust.problem import Problem


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
