"""Finite horizons: evaluating a policy over H steps against reading its rows H times.

The rows that a policy uses, S·N of S numbers, are what no evaluation can do without: each step
reads them all. The rival is a compiled sum over them, H times. A policy with a rule for each step
uses other rows at every step; its rival reads those, where they lie.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np

from benchmarks.registry import Figure, case, race
from softrobust.kernels._jit import FINITE, kernel
from softrobust.models.model_set import ModelSet
from softrobust.problem import Problem
from softrobust.returns import horizon_values_of
from softrobust.solvers.base import solve
from softrobust.solvers.baselines.multi_model import CADP
from softrobust.solvers.exact.local_search import LocalSearch


@kernel(fastmath=FINITE)
def read_rows(prob: Any, decisions: Any, S: int, A: int, N: int) -> float:
    """The sum of the dense rows (s, decisions[t, s]) of all models, step after step."""
    total = 0.0
    for t in range(decisions.shape[0]):
        for s in range(S):
            k = s * A + decisions[t, s]
            row = prob[k * N * S : (k + 1) * N * S]
            for i in range(row.size):
                total += row[i]
    return total


@case("horizon")
def horizon(smoke: bool) -> Iterator[Figure]:
    """Dense models of the size of pest control, γ = 1."""
    S, A, N, H = (5, 2, 4, 3) if smoke else (51, 5, 100, 50)
    rng = np.random.default_rng(0)
    models = ModelSet.from_dense(rng.dirichlet(np.ones(S), size=(N, S, A)))
    problem = Problem(models, rewards=rng.normal(size=(S, A)), gamma=1.0, horizon=H)
    one, many = rng.integers(0, A, S), rng.integers(0, A, (H, S))
    stationary, timed = problem.policy(one), problem.timed_policy(many)
    same, size = np.tile(one, (H, 1)), f"{S} × {A} × {N}, H = {H}"
    for name, policy, rows, target in (
        ("stationary", stationary, same, "≤ 2"),
        ("timed", timed, many, "≤ 2"),
    ):
        ours, reads = race(
            smoke,
            partial(horizon_values_of, problem, policy),
            partial(read_rows, models.prob, rows, S, A, N),
        )
        note = f"{1e3 * ours:.2f} ms, reads {1e3 * reads:.2f} ms"
        what = f"evaluate a {name} policy, {size}"
        yield Figure(what, f"{H} reads of its rows", ours / reads, "times", target, note)
    local = solve(problem, LocalSearch(starts=2, time_limit=60))
    cadp = solve(problem, CADP(robust=True))
    share = local.static_value / cadp.static_value
    note = f"{local.static_value:.4g} in {local.stats['seconds']:.1f} s"
    yield Figure(f"local search, timed, {size}", "CADP", share, "of its value", "≥ 1", note)
