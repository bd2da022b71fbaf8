"""Run the attacks and print the table: promise, tried, broken.

python -m tests.attack --minutes 60                    all promises, new seeds
python -m tests.attack --only files --tries 10000      one promise, so often
python -m tests.attack --only files --seed 7 --case 31 one attempt again
python -m tests.attack --docs docs/attack.md           keep the table with its date
"""

from __future__ import annotations

import argparse
import datetime
import os
import secrets
import sys
import tempfile
import time
import traceback
from collections.abc import Sequence
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path

for name in ("OMP_NUM_THREADS", "NUMBA_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ.setdefault(name, "1")  # before anything is imported: children are forked
os.environ.setdefault("NUMBA_THREADING_LAYER", "workqueue")  # which can be forked

import numpy as np  # noqa: E402

from softrobust._core import __version__  # noqa: E402
from tests.attack import Promise, TooLong  # noqa: E402

MODULES = ("certificates", "files", "kills", "together", "strangers")
SHOWN = 400  # characters of what is said of one that broke


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


def attempt(tally: Tally, seed: int, seconds: float, tries: int | None, case: int | None) -> None:
    """Try to break one promise until the time or the number is used up."""
    began, most = time.monotonic(), tries or tally.promise.most
    home = Path.cwd()
    with tempfile.TemporaryDirectory(prefix="softrobust-attack-") as folder:
        try:
            os.chdir(folder)
            attack = tally.promise.prepare(Path(folder))
            number = case or 0
            while case is None or number == case:
                rng = np.random.default_rng([seed, number])
                try:
                    broken = attack(rng)
                except (Exception, TooLong):
                    broken = traceback.format_exc()
                tally.tried += 1
                if broken is not None:
                    again = f"--only {tally.promise.name} --seed {seed} --case {number}"
                    tally.broken.append(f"{again}: {broken}")
                    print(
                        f"BROKEN {tally.broken[-1][: SHOWN if case is None else None]}", flush=True
                    )
                number += 1
                if tally.tried % 500 == 0:
                    print(f"{tally.promise.name}: {tally.tried} tried …", flush=True)
                enough = most is not None and tally.tried >= most
                if enough or (tries is None and time.monotonic() - began > seconds):
                    break
        finally:
            os.chdir(home)
    tally.seconds = time.monotonic() - began


def table(tallies: Sequence[Tally]) -> str:
    """What was tried and what broke, as Markdown."""
    rows = ["| promise | tried | broken | minutes |", "| --- | ---: | ---: | ---: |"]
    for t in tallies:
        rows.append(f"| {t.promise.text} | {t.tried:,} | {len(t.broken)} | {t.seconds / 60:.1f} |")
    return "\n".join(rows)


def main() -> int:
    """Attack; the exit code is 1 where anything broke."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--minutes", type=float, default=60.0)
    parser.add_argument("--only", help="names of promises, with commas")
    parser.add_argument("--tries", type=int, help="attempts, instead of minutes")
    parser.add_argument("--seed", type=int, help="of an earlier attack; new by default")
    parser.add_argument("--case", type=int, help="one attempt again, with --only and --seed")
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
    parts = sum(p.share for p in found)
    print(f"seed {seed}: {', '.join(p.name for p in found)}", flush=True)
    tallies = [Tally(promise) for promise in found]
    for tally in tallies:
        seconds = given.minutes * 60 * tally.promise.share / parts
        attempt(tally, seed, seconds, given.tries, given.case)
        p = tally.promise
        print(f"{p.name}: {tally.tried} tried, {len(tally.broken)} broken", flush=True)
    print(f"\n{table(tallies)}")
    if given.docs:
        keep(given.docs, tallies, seed)
    return int(any(tally.broken for tally in tallies))


def keep(page: Path, tallies: Sequence[Tally], seed: int) -> None:
    """Put the table, its date and its seed in the place of the last one."""
    mark = "<!-- table -->"
    head, _, _ = page.read_text(encoding="utf-8").partition(mark)
    date = datetime.datetime.now(datetime.UTC).date()
    line = f"{date}, softrobust {__version__}, seed {seed}:"
    page.write_text(f"{head}{mark}\n\n{line}\n\n{table(tallies)}\n", encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
