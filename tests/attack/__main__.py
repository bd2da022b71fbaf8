"""Run the attacks and print the table: promise, tried, broken.

python -m tests.attack --minutes 60                    all promises, new seeds
python -m tests.attack --only files --tries 10000      one promise, so often
python -m tests.attack --only files --seed 7 --case 31 one attempt again
python -m tests.attack --workers 16                    so many processes share the attempts
python -m tests.attack --docs docs/attack.md           keep the table with its date
python -m tests.attack --docs docs/attack.md --add     the same, with the attempts kept before
python -m tests.attack --docs a.md --merge b.md c.md   no attack: add what other machines tried
"""

from __future__ import annotations

import argparse
import datetime
import json
import multiprocessing
import multiprocessing.connection
import os
import resource
import secrets
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

for name in ("OMP_NUM_THREADS", "NUMBA_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ.setdefault(name, "1")  # before anything is imported: children are forked
os.environ.setdefault("NUMBA_THREADING_LAYER", "workqueue")  # which can be forked

import numpy as np  # noqa: E402

from tests.attack import Attack, Promise, TooLong  # noqa: E402

MODULES = ("certificates", "files", "kills", "together", "strangers")
SHOWN = 400  # characters of what is said of one that broke
TOLD = 500  # cases after which it is told how many
MEMORY = 16 * 2**30  # bytes that a block of attempts may address,
LEAST_MEMORY = 6 * 2**30  # or its part of what there is, but so many
MOST_DEATHS = 100  # processes that are started anew
STOPPED: list[bool] = []  # whether somebody wants an end
MARK, END = "<!-- table -->", "<!-- end -->"
MOST = 10**6  # cases of one promise


@dataclass
class Tally:
    """What came of the attempts on one promise."""

    promise: Promise
    tried: int = 0
    broken: list[str] = field(default_factory=list)
    seconds: float = 0.0

    def row(self, seed: int, workers: int) -> Row:
        """For the table, with its date."""
        lacking = [name for name in ("highspy", "openpyxl") if find_spec(name) is None]
        how = f"{datetime.datetime.now(datetime.UTC).date()}, seed {seed}, {workers} processes"
        how += f" without {' and '.join(lacking)}" if lacking else ""
        return Row(self.tried, len(self.broken), self.seconds / 60, how)


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


@dataclass(frozen=True)
class Work:
    """The attempts on one promise, of which each process takes every so-manieth case."""

    promise: Promise
    attack: Attack
    seed: int
    until: float
    notes: Path  # a file for each process: the case that begins, then the case and what broke
    memory: int

    def attempt(self, number: int) -> str | None:
        """One case."""
        return one(self.attack, np.random.default_rng([self.seed, number]))

    def cases(self, place: int, cases: range) -> None:
        """Until time or cases are used up; what came of it is noted down at once."""
        if self.promise.block is not None:
            cases = cases[: self.promise.block]
            resource.setrlimit(resource.RLIMIT_AS, (self.memory, self.memory))
        with (self.notes / str(place)).open("a", encoding="utf-8", buffering=1) as file:
            for number in cases:
                if time.monotonic() > self.until:
                    return
                file.write(f"{number}\n")
                file.write(f"{json.dumps([number, self.attempt(number)])}\n")

    def noted(self, place: int) -> tuple[int, list[tuple[int, str | None]]]:
        """The case that began last (−1: none has), and what came of those that ended."""
        path = self.notes / str(place)
        lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
        ended = [json.loads(line) for line in lines if line.endswith("]")]
        begun = [int(line) for line in lines if line.isdigit()]
        return begun[-1] if begun else -1, [(number, fault) for number, fault in ended]


def crew(work: Work, cases: range, workers: int) -> list[tuple[int, str]]:
    """The cases, shared among processes that are forked from this one: those that died, and where.

    One that dies has broken the promise at the case it was at, and another takes its place, as it
    does at the end of a block.
    """
    fork = multiprocessing.get_context("fork")

    def begin(place: int, todo: range) -> None:
        for sign in (signal.SIGTERM, signal.SIGINT):
            signal.signal(sign, signal.SIG_DFL)
        work.cases(place, todo)

    def start(place: int, todo: range) -> Any:
        process = fork.Process(target=begin, args=(place, todo))
        process.start()
        return process

    share = {place: cases[place::workers] for place in range(workers)}
    running = {place: start(place, todo) for place, todo in share.items()}
    died: list[tuple[int, str]] = []
    told = 0
    try:
        while running:
            multiprocessing.connection.wait([p.sentinel for p in running.values()], timeout=20.0)
            for place, process in list(running.items()):
                if process.is_alive():
                    continue
                process.join()
                del running[place]
                at = work.noted(place)[0]
                if process.exitcode:
                    died.append((at, f"the process of the attack ended with {process.exitcode}"))
                left = [n for n in share[place] if n > at]
                late = time.monotonic() > work.until or len(died) >= MOST_DEATHS
                if at >= 0 and left and not late:
                    running[place] = start(place, range(left[0], cases.stop, workers))
            done = sum(len(work.noted(place)[1]) for place in share)
            if done // TOLD > told:
                told = done // TOLD
                print(f"{work.promise.name}: {done} tried …", flush=True)
    except KeyboardInterrupt:  # what is noted down counts; there is no time for more
        STOPPED.append(True)
    for process in running.values():
        process.kill()
        process.join()
    return died


def share_out(tally: Tally, seed: int, seconds: float, cases: range, workers: int) -> None:
    """The attempts on one promise, in so many processes; what they need is made here once."""
    began, home = time.monotonic(), Path.cwd()
    promise, workers = tally.promise, min(workers, len(cases))
    memory = min(MEMORY, os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // workers)
    with tempfile.TemporaryDirectory(prefix="softrobust-attack-") as folder:
        notes = Path(folder) / "notes"
        notes.mkdir()
        try:
            os.chdir(folder)
            attack = promise.prepare(Path(folder))
            print(f"{promise.name}: ready in {time.monotonic() - began:.0f} s", flush=True)
            work = Work(promise, attack, seed, began + seconds, notes, max(memory, LEAST_MEMORY))
            found: list[tuple[int, str | None]] = []
            if len(cases) > 1:
                found += crew(work, cases, workers)
            else:  # where a debugger may look
                work.cases(0, cases)
            for place in range(workers):
                found += work.noted(place)[1]
        finally:
            os.chdir(home)
    for number, fault in sorted(found, key=lambda case: case[0]):
        if fault is not None:
            line = f"--only {promise.name} --seed {seed} --case {number}: {fault}"
            tally.broken.append(line)
            print(f"BROKEN {line[: SHOWN if len(cases) > 1 else None]}", flush=True)
    tally.tried, tally.seconds = len(found), time.monotonic() - began


@dataclass(frozen=True)
class Row:
    """A row of the table: attempts of one run, or of several."""

    tried: int
    broken: int
    minutes: float
    how: str  # when, by which seed, in how many processes

    def __add__(self, other: Row) -> Row:
        how = self.how if other.how in self.how else f"{self.how}; {other.how}"
        minutes = self.minutes + other.minutes
        return Row(self.tried + other.tried, self.broken + other.broken, minutes, how)


HEAD = "| promise | tried | broken | minutes | when |\n| --- | ---: | ---: | ---: | --- |"


def table(rows: Mapping[str, Row]) -> str:
    """What was tried and what broke, as Markdown."""
    return "\n".join([HEAD] + [
        f"| {text} | {r.tried:,} | {r.broken} | {r.minutes:.1f} | {r.how} |"
        for text, r in rows.items()
    ])  # fmt: skip


def read_table(page: Path) -> dict[str, Row]:
    """The rows that a page holds, by promise."""
    rows: dict[str, Row] = {}
    kept = page.read_text(encoding="utf-8").partition(MARK)[2].partition(END)[0]
    for line in kept.splitlines():
        text, *cells = (cell.strip() for cell in line.strip("| ").split(" | "))
        if len(cells) == 4 and cells[0].replace(",", "").isdigit():
            tried = int(cells[0].replace(",", ""))
            rows[text] = Row(tried, int(cells[1]), float(cells[2]), cells[3])
    return rows


def keep(page: Path, rows: Mapping[str, Row], add: bool) -> None:
    """Put rows in the place of those of the same promises, or add them; others stay."""
    kept = read_table(page)
    for text, row in rows.items():
        kept[text] = kept[text] + row if add and text in kept else row
    head, _, rest = page.read_text(encoding="utf-8").partition(MARK)
    order = [p.text for p in promises()]
    kept = {t: kept[t] for t in [*order, *(t for t in kept if t not in order)] if t in kept}
    tail = END + rest.partition(END)[2] if END in rest else f"{END}\n"
    page.write_text(f"{head}{MARK}\n\n{table(kept)}\n\n{tail}", encoding="utf-8")


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
    parser.add_argument("--docs", type=Path, help="the page whose rows are written anew")
    parser.add_argument("--add", action="store_true", help="to what the page has of a promise")
    parser.add_argument("--merge", type=Path, nargs="+", help="pages to add to --docs, and no more")
    given = parser.parse_args()
    if given.merge:
        if given.docs is None:
            parser.error("--merge adds to the page that --docs names")
        for page in given.merge:
            keep(given.docs, read_table(page), add=True)
        print(table(read_table(given.docs)))
        return 0
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # `timeout` may end it as Ctrl-C does
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
        if seconds > 0.0 and not STOPPED:
            share_out(tally, seed, seconds, cases, given.workers)
        p = tally.promise
        print(f"{p.name}: {tally.tried} tried, {len(tally.broken)} broken", flush=True)
        if given.docs and tally.tried:  # at once, so that an end before time loses no promise
            keep(given.docs, {p.text: tally.row(seed, given.workers)}, given.add)
    print(f"\n{table({t.promise.text: t.row(seed, given.workers) for t in tallies})}")
    return int(any(tally.broken for tally in tallies))


if __name__ == "__main__":
    sys.exit(main())
