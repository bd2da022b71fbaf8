"""Scaling: 1k, 10k, 100k states of four actions, ten next states, fifty models, on all cores.

Processor time, which a busy machine changes least; the note has the clock's.
"""

from __future__ import annotations

import resource
import time
from collections.abc import Iterator
from functools import partial

import numpy as np

from benchmarks.rect_solves import KINDS, solve
from benchmarks.rectangles import scattered
from benchmarks.registry import Figure, case, race
from benchmarks.rivals import read_streams
from softrobust.kernels.sweeps import S_GAME, S_NATURE, SA_NATURE
from softrobust.returns.rectangular_sweeps import Sweeps
from softrobust.solvers.base import Deadline
from softrobust.solvers.rectangular.rectangular import iterate, nominal_start


def peak_gib() -> float:
    """The largest resident memory of this process so far."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20


def compile_threads(kind: int) -> None:
    small = scattered(400)  # sparse enough for Krylov steps, whose import takes its time
    sweeps = Sweeps(small)
    sweeps.threads = True
    iterate(sweeps, kind, nominal_start(sweeps), 1e-8, Deadline(None), 100)
    sweeps.run(S_NATURE if kind == S_GAME else SA_NATURE, np.zeros(400))


@case("scaling")
def scaling(smoke: bool) -> Iterator[Figure]:
    for S in (50, 100) if smoke else (1_000, 10_000, 100_000):
        p = scattered(S)
        size = p.models.prob.nbytes
        (read,) = race(smoke, partial(read_streams, p.models.prob), seconds=1)
        for kind, solver in KINDS:
            compile_threads(kind)  # before the clock starts
            seconds = wall = np.inf
            for _ in range(1 if smoke else max(1, 10_000 // S)):
                begin, clock = time.process_time(), time.perf_counter()
                sweeps, answer = solve(p, kind)
                seconds = min(seconds, time.process_time() - begin)
                wall = min(wall, time.perf_counter() - clock)
            assert answer.tol <= 1e-8
            yield Figure(
                f"{solver}, {S} × 4 × 50, ten next states, a pass over P",
                "one-core read of the same bytes",
                seconds / sweeps.passes / read,
                "of the rival's time",
                "",
                f"{seconds:.2f} s on the processors, {wall:.2f} s by the clock, and "
                f"{sweeps.passes:.1f} passes to {answer.tol:.0e}; "
                f"{size / 1e9:.2f} GB; {1e9 * seconds / sweeps.passes / (size / 8):.2f} ns "
                f"a probability and pass; peak memory {peak_gib():.1f} GiB",
            )
        assert np.isfinite(answer.v).all()
