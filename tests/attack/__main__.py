"""Run the attacks and print the table: promise, tried, broken.

python -m tests.attack --minutes 60                    all promises, new seeds
python -m tests.attack --only files --tries 10000      one promise, so often
python -m tests.attack --only files --seed 7 --case 31 one attempt again
python -m tests.attack --workers 16                    so many processes share the attempts
python -m tests.attack --docs docs/attack.md           keep the table with its date
"""

from __future__ import annotations

import argparse
import datetime
import multiprocessing
import os
import resource
import secrets
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass, field
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

for name in ("OMP_NUM_THREADS", "NUMBA_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ.setdefault(name, "1")  # before anything is imported: children are forked
os.environ.setdefault("NUMBA_THREADING_LAYER", "workqueue")  # which can be forked

import numpy as np  # noqa: E402

from softrobust._core import __version__  # noqa: E402
from tests.attack import Attack, Promise, TooLong  # noqa: E402

MODULES = ("certificates", "files", "kills", "together", "strangers")
SHOWN = 400  # characters of what is said of one that broke
FEW, TOLD = 20, 500  # cases that a process takes at a time; after how many it is told how many
MEMORY = 16 * 2**30  # bytes that an attempt may address where it has a process of its own
MOST = 10**6  # cases of one promise


@dataclass
class Tally:
    """What came of the attempts on one promise."""

    promise: Promise
    tried: int = 0
    broken: list[str] = field(default_factory=list)
    seconds: float = 0.0


def promises() -> list[Promise]:
    """All of them, in the order of the modules."""
    found: list[Promise] = []
    for module in MODULES:
        found += import_module(f"tests.attack.{module}").PROMISES
    return found


def one(attack: Attack, rng: np.random.Generator) -> str | None:
    """One attempt: what broke, if anything."""
    try:
        return attack(rng)
    except (Exception, TooLong):
        return traceback.format_exc()


def apart(attack: Attack, rng: np.random.Generator) -> str | None:
    """The same in a child with so much memory: one that dies is a promise that broke."""
    told, tell = os.pipe()
    child = os.fork()
    if child == 0:
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
        with os.fdopen(tell, "w", encoding="utf-8", errors="replace") as pipe:
            pipe.write(one(attack, rng) or "")
        os._exit(0)
    os.close(tell)
    with os.fdopen(told, encoding="utf-8") as pipe:
        fault = pipe.read()
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    return fault or (f"the process ended with {code}" if code else None)


def attempts(
    promise: Promise, attack: Attack, seed: int, until: float, cases: range
) -> tuple[int, list[str]]:
    """Try to break one promise until time or cases are used up: how often, and what broke."""
    tried, broken = 0, []
    for number in cases:
        if time.monotonic() > until:
            break
        rng = np.random.default_rng([seed, number])
        fault = apart(attack, rng) if promise.apart else one(attack, rng)
        tried += 1
        if fault is not None:
            broken.append(f"--only {promise.name} --seed {seed} --case {number}: {fault}")
            print(f"BROKEN {broken[-1][: SHOWN if len(cases) > 1 else None]}", flush=True)
    return tried, broken


def share_out(tally: Tally, seed: int, seconds: float, cases: range, workers: int) -> None:
    """The attempts on one promise, in so many processes.

    What they need is made here once. They are forked from a process that has compiled what they
    need, and draw cases a few at a time, so that none of them waits for another at the end.
    """
    began, home = time.monotonic(), Path.cwd()
    until, promise = began + seconds, tally.promise
    with tempfile.TemporaryDirectory(prefix="softrobust-attack-") as folder:
        try:
            os.chdir(folder)
            attack = promise.prepare(Path(folder))
            print(f"{promise.name}: ready in {time.monotonic() - began:.0f} s", flush=True)
            few = max(1, min(FEW, len(cases) // (4 * workers)))
            parts = [cases[i : i + few] for i in range(0, len(cases), few)]
            work = partial(attempts, promise, attack, seed, until)
            if workers == 1 or len(cases) == 1:
                _gather(tally, map(work, parts))
            else:
                fork = multiprocessing.get_context("fork")
                with ProcessPoolExecutor(workers, fork, _given.append, (work,)) as pool:
                    _gather(tally, (f.result() for f in as_completed(
                        [pool.submit(_forked, part) for part in parts])))  # fmt: skip
        finally:
            os.chdir(home)
    tally.seconds = time.monotonic() - began


_given: list[Callable[[range], tuple[int, list[str]]]] = []  # what a forked process is to do


def _forked(cases: range) -> tuple[int, list[str]]:
    return _given[-1](cases)


def _gather(tally: Tally, found: Iterable[tuple[int, list[str]]]) -> None:
    for tried, broken in found:
        before = tally.tried // TOLD
        tally.tried += tried
        tally.broken += broken
        if tally.tried // TOLD > before:
            print(f"{tally.promise.name}: {tally.tried} tried …", flush=True)


def table(tallies: Sequence[Tally]) -> str:
    """What was tried and what broke, as Markdown."""
    rows = ["| promise | tried | broken | minutes |", "| --- | ---: | ---: | ---: |"]
    for t in tallies:
        rows.append(f"| {t.promise.text} | {t.tried:,} | {len(t.broken)} | {t.seconds / 60:.1f} |")
    return "\n".join(rows)


def main() -> int:
    """Attack; the exit code is 1 where anything broke."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--minutes", type=float, help="for all of them together (default 60)")
    parser.add_argument("--only", help="names of promises, with commas")
    parser.add_argument(
        "--tries", type=int, help="attempts on each (without --minutes, however long)"
    )
    parser.add_argument("--seed", type=int, help="of an earlier attack; new by default")
    parser.add_argument("--case", type=int, help="one attempt again, with --only and --seed")
    parser.add_argument("--workers", type=int, default=1, help="processes")
    parser.add_argument("--docs", type=Path, help="the page whose table is written anew")
    given = parser.parse_args()
    seed = secrets.randbits(32) if given.seed is None else given.seed
    found = promises()
    if given.only:
        asked = given.only.split(",")
        unknown = sorted(set(asked) - {p.name for p in found})
        if unknown:
            parser.error(f"there is no promise {unknown[0]}; there are {[p.name for p in found]}")
        found = [p for p in found if p.name in asked]
    print(f"seed {seed}: {', '.join(p.name for p in found)}", flush=True)
    tallies = [Tally(promise) for promise in found]
    minutes = given.minutes if given.minutes or given.tries else 60.0
    until = time.monotonic() + (minutes or np.inf) * 60
    for i, tally in enumerate(tallies):  # what one leaves of its time the others have
        parts = sum(p.share for p in found[i:])
        seconds = max(until - time.monotonic(), 0.0) * tally.promise.share / parts
        most = given.tries or tally.promise.most or MOST
        cases = range(most) if given.case is None else range(given.case, given.case + 1)
        share_out(tally, seed, seconds, cases, given.workers)
        p = tally.promise
        print(f"{p.name}: {tally.tried} tried, {len(tally.broken)} broken", flush=True)
    print(f"\n{table(tallies)}")
    if given.docs:
        keep(given.docs, tallies, seed, given.workers)
    return int(any(tally.broken for tally in tallies))


def keep(page: Path, tallies: Sequence[Tally], seed: int, workers: int) -> None:
    """Put the table, its date and its seed in the place of the last one."""
    lacking = [name for name in ("highspy", "openpyxl") if find_spec(name) is None]
    how = f"{workers} processes" if workers > 1 else "one process"
    how += f", without {' and '.join(lacking)}" if lacking else ""
    mark = "<!-- table -->"
    head, _, _ = page.read_text(encoding="utf-8").partition(mark)
    date = datetime.datetime.now(datetime.UTC).date()
    line = f"{date}, softrobust {__version__}, seed {seed}, {how}:"
    page.write_text(f"{head}{mark}\n\n{line}\n\n{table(tallies)}\n", encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
