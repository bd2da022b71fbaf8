"""Continuous states: SRVI on cancer against the clock, the paper's draws and a non-robust fit."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from benchmarks.registry import Figure, case, race
from softrobust.domains import CancerGrowth
from softrobust.models.expectation import ClosedForm, Sampled
from softrobust.models.features import PolynomialFeatures
from softrobust.objective import SoftRobust
from softrobust.returns import simulate
from softrobust.solvers import SRVI

FRESH = """
import time
begin = time.perf_counter()
from softrobust.domains import CancerGrowth
from softrobust.solvers import SRVI
problem = CancerGrowth().problem(n_models={models})
SRVI(iterations={iterations}).solve(problem)
print(time.perf_counter() - begin)
"""


@case("srvi-cancer")
def srvi(smoke: bool) -> Iterator[Figure]:
    """The paper's settings: 50 models, 150 iterations of 30 episodes, batches of 150 states."""
    models, iterations = (5, 2) if smoke else (50, 150)
    code = FRESH.format(models=models, iterations=iterations)
    what = f"SRVI on cancer, {models} models, {iterations} iterations"
    with tempfile.TemporaryDirectory() as folder:
        # An empty cache: everything is compiled on the way. A smoke run takes what is there.
        env = os.environ if smoke else os.environ | {"NUMBA_CACHE_DIR": folder}
        done = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=True, env=dict(env)
        )
    yield Figure(f"{what}, compiled on the way", "the clock", float(done.stdout), "s", "≤ 30")

    problem = CancerGrowth().problem(n_models=models)
    few = 1 if smoke else 10
    single = replace(problem.mean_problem(), objective=SoftRobust(0.0, 0.9))
    robust, plain = race(
        smoke,
        lambda: SRVI(iterations=few).solve(problem),
        lambda: SRVI(iterations=few).solve(single),
    )
    yield Figure(
        f"an iteration of SRVI, {models} models", "fitted value iteration on the mean model",
        robust / plain, "of its time",
    )  # fmt: skip


@case("srvi-expectation")
def expectations(smoke: bool) -> Iterator[Figure]:
    """Exact expected values of one batch against averages over 100 drawn next states."""
    problem = CancerGrowth().problem(n_models=5 if smoke else 50)
    rng = np.random.default_rng(0)
    assert problem.models.seen is not None
    low, high = problem.models.seen
    s = rng.uniform(low, high, size=(150, 4))
    features = PolynomialFeatures().fit(s)
    w = rng.normal(size=15)
    exact = ClosedForm(problem.models, problem.reward, features)
    drawn = Sampled(problem.models, problem.reward, features, 100)
    ours, rival = race(
        smoke,
        lambda: exact.values(s, w, 0.9),
        lambda: drawn.values(s, w, 0.9, rng),
    )
    yield Figure(
        f"exact E[r + γv] of 150 states × 2 actions × {problem.n_models} models",
        "100 drawn next states each (the paper)", rival / ours, "times faster",
    )  # fmt: skip


@case("srvi-simulation")
def simulation(smoke: bool) -> Iterator[Figure]:
    """The tables' evaluation: 100 episodes of 30 steps on each of 100 test models."""
    n, episodes = (5, 3) if smoke else (100, 100)
    problem, test = CancerGrowth().split_problem(0, 5 if smoke else 50, n)
    policy = SRVI(iterations=2).solve(problem).policy
    simulate(problem, policy, test, 2)  # compile
    begin = time.process_time()
    simulate(problem, policy, test, episodes)
    took = time.process_time() - begin
    yield Figure(
        f"{episodes} episodes on each of {n} test models by lookahead under {problem.n_models}",
        "the clock", took, "s",
    )  # fmt: skip
