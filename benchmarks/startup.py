"""What it costs to import the package, to ask for help, and to run a command for the first time."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from benchmarks.registry import Figure, case
from softrobust.solvers.registry import SOLVERS

LOG = Path(__file__).parents[1] / "examples" / "pest_log.csv"


def seconds(code: str, runs: int) -> float:
    """The least of several fresh interpreters."""
    best = float("inf")
    for _ in range(runs):
        begin = time.perf_counter()
        subprocess.run([sys.executable, "-c", code], check=True, stdout=subprocess.DEVNULL)
        best = min(best, time.perf_counter() - begin)
    return best


@case("startup")
def startup(smoke: bool) -> Iterator[Figure]:
    runs = 1 if smoke else 7
    numpy = seconds("import numpy", runs)
    ours = seconds("import softrobust", runs)
    show = "from softrobust.cli.main import run; run(['--help'])"
    shown = seconds(show, runs)
    yield Figure("import softrobust", "import numpy", ours / numpy, "of its time", "≤ 3")
    yield Figure("softrobust --help", "0.6 seconds", shown / 0.6, "of it", "≤ 1", f"{shown:.2f} s")


def timed(words: Sequence[str], cache: str | None = None) -> tuple[float, float]:
    """Seconds on the wall and on processors of one command, helpers included."""
    code = f"from softrobust.cli.main import run; raise SystemExit(run({list(words)!r}))"
    began, before = time.perf_counter(), os.times()
    env = os.environ | ({} if cache is None else {"NUMBA_CACHE_DIR": cache})
    env.pop("PYTHONDONTWRITEBYTECODE", None)  # what is installed is there as bytecode
    subprocess.run([sys.executable, "-c", code], check=True, env=env, stdout=subprocess.DEVNULL)
    wall, after = time.perf_counter() - began, os.times()
    used = after.children_user + after.children_system
    return wall, used - before.children_user - before.children_system


SOLVE = ["solve", str(LOG), "--gamma", "0.9", "--out", "{out}"]
VECTORS = [*SOLVE, "--lambda", "0.75", "--continuous"]
VECTORS[1] = "{log}.csv"
COLLECT = ["collect", "cancer", "--out", "{log}.csv"]
# What a stranger may begin with: the default, every solver, and other verbs.
COMMANDS = {
    "first-run-default": SOLVE,
    **{f"first-run-{name}": [*SOLVE, "--solver", name] for name in SOLVERS if name != "improve"},
    **{f"first-run-{name}": [*VECTORS, "--solver", name] for name in ("srvi", "srvi-sa")},
    "first-run-frontier": ["frontier", *SOLVE[1:]],
    "first-run-evaluate": ["evaluate", "{run}", "--policy", "{run}/policy.csv"],
    "first-run-check": ["check", "{run}"],
}


def first_run(name: str, words: Sequence[str]) -> Iterator[Figure]:
    """With nothing compiled, as in a fresh environment, and once more; on two processors."""
    all_ = os.sched_getaffinity(0)
    os.sched_setaffinity(0, sorted(all_)[:2])
    with tempfile.TemporaryDirectory() as folder:
        places = {x: f"{folder}/{x}" for x in ("run", "log", "cache", "other", "1", "2")}

        def timed_in(words: Sequence[str], cache: str, out: str) -> tuple[float, float]:
            return timed([w.format(out=out, **places) for w in words], places[cache])

        try:
            if "{run}" in words:
                timed_in(SOLVE, "other", places["run"])
            if "{log}.csv" in words:
                timed_in(COLLECT, "other", "")
            wall, used = timed_in(words, "cache", places["1"])
            again, _ = timed_in(words, "cache", places["2"])
        finally:
            os.sched_setaffinity(0, all_)
    most = 15 if words == SOLVE else 20
    note = f"{wall:.1f} s, {used:.1f} s of processors; the next {again:.1f} s"
    yield Figure(
        name.replace("run-", "run: "), f"{most} seconds", wall / most, "of it", "≤ 1", note
    )


def register(name: str, words: Sequence[str]) -> None:
    """A case of its own, for each is best measured while the machine is quiet."""

    @case(name)
    def run(smoke: bool) -> Iterator[Figure]:
        if not smoke:
            yield from first_run(name, words)
        elif words == SOLVE:
            yield from first_run(name, ["--help"])


for case_name, command in COMMANDS.items():
    register(case_name, command)


def write_rows(path: Path, n_rows: int, n_states: int, n_actions: int, steps: int = 20) -> None:
    """A log of practice in a world of near moves, with noisy rewards of two digits."""
    rng, episodes = np.random.default_rng(0), max(n_rows // steps, 1)
    reach = rng.integers(-5, 6, (n_states, n_actions, 4))
    odds = rng.dirichlet(np.ones(4), (n_states, n_actions)).cumsum(axis=-1)
    worth = rng.normal(size=(n_states, n_actions)).round(2)
    s = rng.integers(0, n_states, episodes)
    with path.open("w", encoding="utf-8") as file:
        file.write("episode,state,action,next_state,reward\n")
        for _ in range(steps):
            a = rng.integers(0, n_actions, episodes)
            way = (rng.random((episodes, 1)) > odds[s, a, :3]).sum(axis=1)
            to = np.clip(s + reach[s, a, way], 0, n_states - 1)
            r = worth[s, a] + rng.normal(size=episodes).round(2)
            rows = np.column_stack([np.arange(episodes), s, a, to, r])
            np.savetxt(file, rows, fmt="%d,site %d,a%d,site %d,%.2f")
            s = to


@case("large-log")
def large_log(smoke: bool) -> Iterator[Figure]:
    """The whole command on millions of rows, in seconds of processors, and its memory."""
    n = 400 if smoke else 2_000_000
    for n_states in (4,) if smoke else (20, 50):
        with tempfile.TemporaryDirectory() as folder:
            write_rows(Path(folder) / "log.csv", n, n_states, 4)
            words = ["solve", f"{folder}/log.csv", "--gamma", "0.95", "--out", f"{folder}/run"]
            words = ["inspect", words[1]] if smoke else words
            wall, used = timed(words)
        peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 2**20
        what = f"solve, {n} rows, {n_states} states × 4 actions"
        yield Figure(what, "the clock", wall, "s", "≤ 30", f"{used:.1f} s of processors")
        yield Figure(
            what, "memory", 2**30 * peak / 1e9, "GB", "≤ 1.2", "of the largest process so far"
        )
