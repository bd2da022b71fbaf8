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


def timed(words: Sequence[str], cache: str) -> tuple[float, float]:
    """Seconds on the wall and on processors of one command, helpers included."""
    code = f"from softrobust.cli.main import run; run({list(words)!r})"
    began, before = time.perf_counter(), os.times()
    env = os.environ | {"NUMBA_CACHE_DIR": cache}
    subprocess.run([sys.executable, "-c", code], check=True, env=env, stdout=subprocess.DEVNULL)
    wall, after = time.perf_counter() - began, os.times()
    used = after.children_user + after.children_system
    return wall, used - before.children_user - before.children_system


def commands() -> dict[str, list[str]]:
    """The commands a stranger may begin with: the default, every solver, and other verbs."""
    from softrobust.solvers.registry import SOLVERS

    ask = [str(LOG), "--gamma", "0.9", "--out", "{out}"]
    found = {"solve": ["solve", *ask]}
    found |= {f"solve --solver {name}": ["solve", *ask, "--solver", name] for name in SOLVERS}
    found["frontier"] = ["frontier", *ask]
    found["evaluate"] = ["evaluate", "{run}", "--policy", "{run}/policy.csv"]
    return found | {"check": ["check", "{run}"]}


def first_run(name: str, words: Sequence[str]) -> Figure:
    """With nothing compiled, as in a fresh environment, and once more."""
    with tempfile.TemporaryDirectory() as folder:
        run, cache = f"{folder}/run", f"{folder}/cache"
        if "{run}" in words:
            timed(["solve", str(LOG), "--gamma", "0.9", "--out", run], f"{folder}/other")
        wall, used = timed([w.format(run=run, out=f"{folder}/1") for w in words], cache)
        again, _ = timed([w.format(run=run, out=f"{folder}/2") for w in words], cache)
    most = 15 if name == "solve" else 20
    note = f"{wall:.1f} s, {used:.1f} s of processors; the next {again:.1f} s"
    return Figure(f"first run: {name}", f"{most} seconds", wall / most, "of it", "≤ 1", note)


@case("first-run")
def first_runs(smoke: bool) -> Iterator[Figure]:
    """On two processors, which is what the targets are for."""
    if smoke:
        yield first_run("--help", ["--help"])
        return
    all_ = os.sched_getaffinity(0)
    os.sched_setaffinity(0, sorted(all_)[:2])
    try:
        for name, words in commands().items():
            yield first_run(name, words)
    finally:
        os.sched_setaffinity(0, all_)


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
            wall, used = timed(words, os.environ.get("NUMBA_CACHE_DIR", ""))
        peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 2**20
        what = f"solve, {n} rows, {n_states} states × 4 actions"
        yield Figure(what, "the clock", wall, "s", "≤ 30", f"{used:.1f} s of processors")
        yield Figure(
            what, "memory", 2**30 * peak / 1e9, "GB", "≤ 1.2", "of the largest process so far"
        )
