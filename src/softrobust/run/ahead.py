"""Compile on a second core what a command will need later.

The first run anywhere compiles its kernels, half of them for certificates, which come last. So a
helper (`kernels._jit.compile_beside`) bounds, solves and certifies a tiny problem: through the same
calls, so that it compiles the same kernels for the same types. Whoever needs a kernel that the
other is compiling waits for it.
"""

from __future__ import annotations

import os
import sys
import threading
from contextlib import suppress

import numpy as np

from softrobust.bounds.best import best_bound
from softrobust.certificate.posterior import LEAST
from softrobust.data import TransitionLog
from softrobust.errors import SoftRobustError
from softrobust.kernels.resemblance import Learned, blend_weights, draw_models, fill_ways
from softrobust.run.options import Options
from softrobust.run.setup import set_up
from softrobust.run.solve import certified, choose
from softrobust.solvers.base import solve
from softrobust.solvers.exact.local_search import LocalSearch
from softrobust.solvers.improve import Improve
from softrobust.solvers.registry import make_solver

S, A, ROWS, MODELS = 4, 2, 60, 12  # of the tiny problem


def compile_draws() -> None:
    """What the learned prior needs while its bases are compiled elsewhere: no row, no draw."""
    rng, i, x, X = np.random.default_rng(0), np.zeros(1, int), np.zeros(1), np.zeros((1, 1))
    columns = np.zeros(4, int)[::2]  # a column of a table
    p = Learned(i[1:], i, columns, x, x, np.zeros(1, bool), i[1:], X, X, x, x)
    blend_weights(X[:, :0], x[:0], 0, 1.0, x)
    fill_ways(rng, p, x, 1.0, 0.5, np.zeros((1, 2)), X)
    draw_models(rng, p, X[None], X[None], i[1:], i[1:], 0, x)


def compile_for(solver: str | None) -> None:
    """Bound, solve and certify a tiny problem; ends with the process that holds standard input."""
    threading.Thread(target=lambda: (sys.stdin.read(), os._exit(0)), daemon=True).start()
    compile_draws()
    rng = np.random.default_rng(0)
    s, a, to = rng.integers(S, size=ROWS), rng.integers(A, size=ROWS), rng.integers(S, size=ROWS)
    log = TransitionLog.from_arrays(
        [f"n={i}" for i in s], [f"a{i}" for i in a], [f"n={i}" for i in to],
        rewards=rng.normal(size=ROWS), episodes=np.arange(ROWS) // 6,
    )  # fmt: skip
    plain = Options(gamma=0.9, posterior="dirichlet", n_models=MODELS)
    with suppress(SoftRobustError):  # a solver that wants something else than a plain table
        setup = set_up(log, plain)
        made = make_solver(solver or Improve.name, log=log, posterior=setup.posterior)
        if isinstance(made, Improve):  # its rivals; by itself it needs the learned prior
            best_bound(setup.problem)
            solution = solve(setup.problem, LocalSearch(starts=1))
        else:
            solution = solve(setup.problem, made)
            best_bound(setup.problem)
        certified(setup, solution, 0, LEAST, 1)
        choose(log, None if isinstance(made, Improve) else made, gamma=0.9, n_models=MODELS)
