"""Compile on a second core what a command will need later.

The first run anywhere compiles its kernels, half of them for certificates, which come last. The
moment something must be compiled, a helper is started that bounds, solves and certifies a tiny
problem: through the same calls, so that it compiles the same kernels for the same types. Whoever
needs a kernel that the other is compiling waits for it (`kernels._jit`).
"""

from __future__ import annotations

import atexit
import os
import subprocess
import sys
import threading
from contextlib import suppress
from typing import Any

import numpy as np

from softrobust.bounds.best import best_bound
from softrobust.certificate.posterior import LEAST
from softrobust.data import TransitionLog
from softrobust.errors import SoftRobustError
from softrobust.kernels._jit import beside
from softrobust.run.jobs.local import cores, isolated, worker_environment
from softrobust.run.line import certified, choose
from softrobust.run.options import Options
from softrobust.run.setup import set_up
from softrobust.solvers.base import solve
from softrobust.solvers.exact.local_search import LocalSearch
from softrobust.solvers.improve import Improve
from softrobust.solvers.registry import make_solver

BOOT = "from softrobust.run.ahead import compile_for; compile_for(sys.argv[1] or None)"
S, A, ROWS, MODELS = 4, 2, 60, 12  # of the tiny problem


def compile_beside(solver: str | None) -> None:
    """Start the helper once something must be compiled, unless there is one core only."""
    if cores() > 1:
        beside(lambda: _start(solver))


def _start(solver: str | None) -> None:
    quiet: dict[str, Any] = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    with suppress(OSError):  # no process to be had: this one compiles everything
        helper = subprocess.Popen(
            isolated(BOOT, solver or ""),
            stdin=subprocess.PIPE,
            env=os.environ | worker_environment(2),
            **quiet,
        )
        atexit.register(_end, helper)


def _end(helper: subprocess.Popen[bytes]) -> None:
    helper.kill()
    helper.wait()


def compile_for(solver: str | None) -> None:
    """Bound, solve and certify a tiny problem; ends with the process that holds standard input."""
    threading.Thread(target=lambda: (sys.stdin.read(), os._exit(0)), daemon=True).start()
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
