"""Models as a stream: how many are needed, what they cost, and that memory stays where it is.

`python -m benchmarks.stream [SECONDS]` prints the table N against held-out objective, gap and time
for the bundled log and the paper's worlds (docs/certificate.md).
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from importlib.util import find_spec
from itertools import product
from multiprocessing import get_context
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.registry import Figure, case
from benchmarks.startup import timed, write_rows
from softrobust.certificate import certify_posterior
from softrobust.domains import Inventory, PestControl, RiverSwim
from softrobust.objective import SoftRobust
from softrobust.posterior import Draws
from softrobust.posterior.base import CHECKING, CHOOSING, fit_quietly
from softrobust.posterior.sampling import CREW
from softrobust.problem import Problem
from softrobust.returns import policy_return, returns_of
from softrobust.run import Options, choose, set_up
from softrobust.run.jobs import Crew
from softrobust.solvers import LocalSearch

LOG = Path(__file__).resolve().parent.parent / "examples" / "pest_log.csv"
HELD, SEED = 20_000, 20_261_116
SIZES = (100, 300, 1000, 3000, 10_000)


def _million(posterior: str, million: int) -> tuple[float, float]:
    """Seconds for so many draws of the bundled problem, and this process's memory so far in GiB."""
    setup = set_up(LOG, Options(gamma=0.9, n_models=100, posterior=posterior))
    policy = LocalSearch(starts=2).solve(setup.problem).policy
    returns_of(setup.problem, policy, Draws.of(setup.posterior, 200, 1))  # kernels are compiled
    began = time.perf_counter()
    x = returns_of(setup.problem, policy, Draws.of(setup.posterior, million, SEED)).x
    took = time.perf_counter() - began
    assert x.size == million
    return took, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20


@case("stream")
def stream(smoke: bool) -> Iterator[Figure]:
    """Draws of the bundled problem by the million, and the whole line as N grows."""
    million = 2000 if smoke else 1_000_000
    alone = ProcessPoolExecutor(1, get_context("spawn"))  # other cases' memory is not this one's
    with alone:
        for name in ("dirichlet", "learned"):
            took, peak = alone.submit(_million, name, million).result()
            what = f"{million} draws evaluated, posterior {name}"
            yield Figure(what, "the clock", took, "s", "≤ 20")
    yield Figure("its process", "memory", peak, "GiB", "≤ 1")
    few, many = (200, 400) if smoke else (10_000, 100_000)
    _whole(few)  # kernels are compiled
    pairs = [_whole(few) for _ in range(1 if smoke else 7)]
    small, share = median(w for w, _ in pairs), median(w / own for w, own in pairs)
    large, _ = _whole(many)
    note = f"median of {len(pairs)}"
    yield Figure(f"whole solve, {many} models", f"{few} models", large / small, "times", "≤ 12")
    yield Figure(f"whole solve, {few} models", "drawing and solver", share, "times", "≤ 2", note)
    began = time.perf_counter()
    run = choose(str(LOG), gamma=0.9, n_models=20 if smoke else None)
    took = time.perf_counter() - began
    under = run.certificate.posterior
    share = float("nan") if under is None or under.gap_share is None else under.gap_share
    note = f"{run.problem.n_models} models"
    yield Figure("bundled log, open under the posterior", "the gain", share, "", "≤ 0.01", note)
    yield Figure("bundled log, whole solve", "the clock", took, "s", "≤ 60")


def _whole(n: int) -> tuple[float, float]:
    """Seconds of the whole default line on n models, and of its drawing and solver alone.

    Drawing is all of `set_up`: the log is read, the posterior fitted, n models drawn. The solver is
    `Improve.solve`: choice, halves of the log, promise, the answer's value on the n models. What is
    left to the line is certificates, held-out draws, replications and rivals.
    """
    began = time.perf_counter()
    choose(str(LOG), gamma=0.9, n_models=n)
    whole = time.perf_counter() - began
    began = time.perf_counter()
    setup = set_up(LOG, Options(gamma=0.9, n_models=n))
    from softrobust.solvers.improve import Improve

    Improve(setup.log).solve(setup.problem)
    return whole, time.perf_counter() - began


@case("crew")
def crew(smoke: bool) -> Iterator[Figure]:
    """A stream on two workers against one: processes of this machine, and Dask where it is.

    One, two, one, two, …: what else the machine does meets both alike, and the median of the
    ratios of neighbours is the figure. Only who is measured is up, since idle clusters look around
    many times a second. Two processes that only share the machine, each with half of the stream,
    are in every round too: no crew can be faster.
    """
    n, rounds = (5000, 1) if smoke else (100_000, 7)
    setup = set_up(LOG, Options(gamma=0.9, n_models=100))
    policy = LocalSearch(starts=2).solve(setup.problem).policy

    def evaluated(team: Crew, n: int, seed: int) -> float:
        mark, began = CREW.set(team), time.perf_counter()
        returns_of(setup.problem, policy, Draws.of(setup.posterior, n, seed))
        CREW.reset(mark)
        return time.perf_counter() - began

    def times_faster(hired: Callable[[int], AbstractContextManager[Crew]]) -> tuple[float, str]:
        """Median ratios of one worker to two, and of one bare process to two."""
        pairs, bare = [], []
        for i in range(rounds):
            took = []
            for k in (1, 2):
                with hired(k) as team:
                    evaluated(team, 5000 * k, 1)  # each worker learns what its draws will need
                    took.append(evaluated(team, n, SEED + i))
            pairs.append(took[0] / took[1])
            bare.append(share([n], SEED + i) / share([n // 2, n // 2], SEED + i))
        return median(pairs), f"two bare processes {median(bare):.2f}; medians of {rounds}"

    with _bare() as share:
        found, note = times_faster(lambda k: Crew(workers=k))
        yield Figure(f"{n} draws, two processes", "one process", found, "times faster", note=note)
        if not smoke and find_spec("distributed") is not None:
            found, note = times_faster(_on_dask)
            what = f"{n} draws, two Dask workers"
            yield Figure(what, "one", found, "times faster", "≥ 1.7", note)


ONE_THREAD = {"NUMBA_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}


@contextmanager
def _bare() -> Iterator[Callable[[Sequence[int], int], float]]:
    """Seconds that processes of one thread, told nothing but a size and a seed, take for parts."""
    words = [sys.executable, "-c", "from benchmarks.stream import evaluate_alone as e; e()"]
    pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    where: dict[str, Any] = {"cwd": LOG.parent.parent, "env": os.environ | ONE_THREAD}
    with (
        subprocess.Popen(words, **pipes, **where) as one,
        subprocess.Popen(words, **pipes, **where) as two,
    ):

        def share(parts: Sequence[int], seed: int) -> float:
            began = time.perf_counter()
            asked = list(zip((one, two), parts, strict=False))
            for process, n in asked:
                print(n, seed, file=process.stdin, flush=True)
            for process, _ in asked:
                assert process.stdout is not None
                assert process.stdout.readline()
            return time.perf_counter() - began

        share([5000, 5000], 1)
        yield share


def evaluate_alone() -> None:
    """Evaluate as many draws as each line of the input says, by the seed that it says."""
    setup = set_up(LOG, Options(gamma=0.9, n_models=100))
    policy = LocalSearch(starts=2).solve(setup.problem).policy
    for line in sys.stdin:
        n, seed = map(int, line.split())
        returns_of(setup.problem, policy, Draws.of(setup.posterior, n, seed))
        print("done", flush=True)


@contextmanager
def _on_dask(workers: int) -> Iterator[Crew]:
    """A crew on a scheduler of its own with so many workers of one thread."""
    import dask
    import distributed

    with (
        dask.config.set({"distributed.nanny.pre-spawn-environ": ONE_THREAD}),
        distributed.LocalCluster(
            n_workers=workers, threads_per_worker=1, processes=True, dashboard_address=None
        ) as cluster,
        Crew(cluster=cluster.scheduler_address) as team,
    ):
        yield team


LIMITS = (20, 5)  # seconds


@case("limits")
def limits(smoke: bool) -> Iterator[Figure]:
    """The whole of every verb with a time limit, on logs that leave much open and on models."""
    sizes, seconds = (((5, 2),), (1,)) if smoke else (((300, 2), (3000, 10)), LIMITS)
    for (n_states, each), limit in product(sizes, seconds):
        with tempfile.TemporaryDirectory() as folder:
            write_rows(Path(folder) / "log.csv", n_states * each, n_states, 4)
            write_rows(Path(folder) / "new.csv", n_states, n_states, 4)
            for name, words in _limited(folder).items():
                wall, used = timed([*words, "--time-limit", str(limit)])
                what = f"{name}, {n_states} states × 4, {each} rows a state"
                most, note = f"≤ {1.1 * limit + 5:g}", f"{used:.1f} s of processors"
                yield Figure(what, f"limit of {limit} s", wall, "s", most, note)


def _limited(folder: str) -> dict[str, list[str]]:
    """The verbs that have a time limit: those of a log, of models and of a run."""
    log, run, models = f"{folder}/log.csv", f"{folder}/run", f"{folder}/models.npz"
    timed(["sample", log, "--models", "100", "--out", models])
    ask = ["--gamma", "0.95"]
    others = "exact,randomized,local-search,s-rect,nominal"
    return {
        "solve": ["solve", log, *ask, "--out", run],
        "solve --solver exact": ["solve", log, *ask, "--solver", "exact"],
        "solve --solver randomized": ["solve", log, *ask, "--solver", "randomized"],
        "solve --posterior dirichlet": ["solve", log, *ask, "--posterior", "dirichlet"],
        "solve of models": ["solve", models, *ask],
        "frontier": ["frontier", log, *ask],
        "frontier of models": ["frontier", models, *ask],
        "rehearse": ["rehearse", run],
        "update": ["update", run, f"{folder}/new.csv", "--out", f"{folder}/updated"],
        "compare": ["compare", run, "--solvers", others],
    }


# --------------------------------------------------------------------------------------------------
# N against held-out objective, gap and time.


WORLDS = {"pest": PestControl, "riverswim": RiverSwim, "inventory": Inventory}
BUNDLED = "bundled log"


def question(name: str) -> tuple[Any, Problem]:
    """Posterior and problem of a name; the problem's models are to be drawn."""
    if name == BUNDLED:
        setup = set_up(LOG, Options(gamma=0.9, n_models=2))
        return setup.posterior, setup.problem
    world = WORLDS[name]()
    fitted = fit_quietly(world.posterior(), world.collect(0))
    models = fitted.share(CHOOSING).sample(2, 0)
    return fitted, world.problem_on(models, SoftRobust(0.5, 0.9))


def rows(name: str, posterior: Any, problem: Problem, seconds: float) -> Iterator[list[str]]:
    """One row for each N, as long as a solve takes less than `seconds`."""
    held = posterior.share(CHECKING)
    n_held = HELD if held.pool is None else held.pool
    fresh = Draws.of(held, n_held, SEED)
    took = 0.0
    for n in SIZES:
        pool = posterior.share(CHOOSING)
        if 4 * took > seconds or (pool.pool is not None and n > pool.pool):
            return
        began = time.process_time()
        there = problem.with_models(Draws.of(pool, n, 0).models)
        found = LocalSearch(time_limit=seconds).solve(there)
        took = time.process_time() - began
        x = returns_of(there, found.policy, fresh)
        worth = there.objective.value(x.x, x.f)
        own = there.objective.value(policy_return(there, found.policy), there.models.f)
        began = time.process_time()
        under = certify_posterior(
            there, found.policy, posterior, None, 10, seconds, 1, n_models=min(n, 3000)
        )
        looked = time.process_time() - began
        gap, share = under.paired_gap, under.gap_share
        cells = (
            "—" if gap is None else f"{gap:.3g}",
            "—" if share is None else f"{100 * share:.2g} %",
        )
        yield [name, str(n), f"{own:.5g}", f"{worth:.5g}", *cells, f"{took:.1f} + {looked:.1f}"]


def main(arguments: Sequence[str]) -> None:
    """Print the table, row by row; names may follow the seconds."""
    seconds = float(arguments[0]) if arguments else 60.0
    head = [
        "problem",
        "N",
        "on the N",
        "held out",
        "gap",
        "of the gain",
        "processor s: solve + look",
    ]
    print("| " + " | ".join(head) + " |\n|" + " --- |" * len(head), flush=True)
    for name in arguments[1:] or (BUNDLED, *WORLDS):
        for row in rows(name, *question(name), seconds):
            print("| " + " | ".join(row) + " |", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
