"""Runs with continuous states that tests of the page share: made by the whole line, small."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from softrobust.data.continuous import ContinuousLog
from softrobust.models.gaussian import save_gaussian
from softrobust.report import Report
from softrobust.run import Options, Run, choose, run_page, set_up
from softrobust.solvers.continuous.srvi import SRVI
from tests.continuous_instances import linear_models

QUICK = SRVI(iterations=4, episodes=6, batch=60, ridge=0.1, seed=0)


def vector_log(
    variables: Sequence[str] = ("x", "y"), actions: Sequence[str] = ("0", "1"), seed: int = 0
) -> ContinuousLog:
    """Twelve episodes of ten steps; the last action is taken the more often the larger x_0 is."""
    rng = np.random.default_rng(seed)
    d, A = len(variables), len(actions)
    s = np.empty((12, 11, d))
    s[:, 0] = rng.uniform(0.5, 1.5, size=(12, d))
    a = np.empty((12, 10), np.int64)
    for t in range(10):
        keen = rng.random(12) < 1 / (1 + np.exp(-4 * (s[:, t, 0] - 1)))
        a[:, t] = np.where(keen, A - 1, rng.integers(0, max(A - 1, 1), size=12))
        push = 0.3 * a[:, t, None] / max(A - 1, 1)
        s[:, t + 1] = 0.7 * s[:, t] + push + 0.05 * rng.normal(size=(12, d))
    reward = s[:, 1:, 0] - 0.1 * a
    return ContinuousLog.from_arrays(
        s[:, :-1].reshape(-1, d), [actions[int(i)] for i in a.ravel()], s[:, 1:].reshape(-1, d),
        reward.ravel(), np.repeat(np.arange(12), 10), variables=variables, action_names=actions,
    )  # fmt: skip


def vector_run(folder: Path, log: ContinuousLog | None, **options: object) -> Run:
    """Solved from a log, or from models where there is none."""
    if log is None:
        path = folder / "models.npz"
        save_gaussian(path, linear_models(6))
        given = dict(options)
    else:
        path = folder / "log.csv"
        log.save_csv(path)
        given = {"gamma": 0.8, "n_models": 8, "n_test": 12, **options}
    setup = set_up(path, Options(continuous=True, **given))  # type: ignore[arg-type]
    return choose(setup, QUICK, seed=0, episodes=4)


def vector_page(folder: Path, log: ContinuousLog | None, **options: object) -> Report:
    return run_page(vector_run(folder, log, **options), folder / "report.html", name="run")
