"""Kills: whatever verb that writes is killed at whatever moment, nothing is lost.

A child process is killed at one of the moments when it opens, moves or removes a file, or after
some time. Then every run folder is the old one or the new one, whole; and the same line, once more,
comes to what it would have come to without the kill.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

from tests.attack import Attack, Promise, must, own_place, say
from tests.attack.files import QUICK, make_whole
from tests.attack.mutate import pick

# Of a line: the folder or file that it writes, and what is added to say it once more.
SOLVE = f"solve log.csv {' '.join(QUICK)} --out"
LINES: tuple[tuple[str, str, str], ...] = (
    (f"{SOLVE} fresh --seed 3 --solver nominal", "fresh", "--force"),
    (f"{SOLVE} run --seed 3 --solver nominal --force", "run", ""),
    (f"{SOLVE} run --seed 3 --posterior dirichlet --solver exact --force", "run", ""),
    ("solve models.npz --gamma 0.9 --out run --force", "run", ""),
    ("update run new.csv --out fresh", "fresh", "--force"),
    ("evaluate run --policy guide.csv --out fresh", "fresh", "--force"),
    ("check plain", "plain/checks.json", ""),
    ("report run --quick", "run/report.html", ""),
    ("rules run --out rules.csv", "rules.csv", ""),
    ("sample log.csv --models 5 --out drawn.npz --save post.npz", "drawn.npz", ""),
    ("frontier log.csv --gamma 0.9 --models 3 --lambdas 0,1 --out fr --force", "fr", ""),
    ("rehearse run --times 3 --workers 0", "run/rehearsal", "--resume"),
    ("sweep sweep.toml --out sw --workers 0", "sw", "--resume"),
    ("collect pest-control --out collected.csv", "collected.csv", ""),
)
EVENTS = frozenset({"open", "os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.chmod"})
LONGEST = 4.0  # seconds after which a kill by the clock comes at the latest


def plain(value: Any) -> Any:
    """A record without its clocks."""
    if isinstance(value, dict):
        return {k: plain(v) for k, v in value.items() if "seconds" not in k and k != "trace"}
    return [plain(v) for v in value] if isinstance(value, list) else value


def state(target: Path) -> Any:
    """What a line has written, without clocks: by name, JSON read and arrays by their bytes.

    Hidden folders do not count: no reader looks into what was not yet moved.
    """
    if target.is_dir():
        skipped = ("timings.jsonl", "report.html", "frontier.png", "frontier.svg")
        found = [p for p in sorted(target.rglob("[!.]*")) if p.is_file() and p.name not in skipped]
        found = [p for p in found if "/." not in str(p.relative_to(target.parent))]
        return {str(p.relative_to(target)): state(p) for p in found}
    if target.suffix == ".json":
        return plain(json.loads(target.read_text(encoding="utf-8")))
    if target.suffix == ".npz":  # zip archives know the hour
        with np.load(target, allow_pickle=False) as file:
            return {name: (x.dtype.str, x.shape, x.tobytes()) for name, x in file.items()}
    return target.read_bytes()


def killed(words: list[str], at: int | None, after: float) -> bool:
    """Run a line in a child that dies at its `at`-th touch of a file here, or after some seconds.

    Returns whether it was killed before its end.
    """
    child = os.fork()
    if child == 0:
        if at is not None:
            here, left = str(Path.cwd()), [at]

            def watch(event: str, arguments: tuple[Any, ...]) -> None:
                if event in EVENTS and _inside(here, arguments):
                    left[0] -= 1
                    if left[0] < 0:
                        os.kill(os.getpid(), signal.SIGKILL)

            sys.addaudithook(watch)
        os._exit(say(*words).code)
    if at is None:
        time.sleep(after)
        os.kill(child, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    return os.WIFSIGNALED(status)


def _inside(here: str, arguments: tuple[Any, ...]) -> bool:
    first = arguments[0] if arguments else None
    if not isinstance(first, str | os.PathLike):
        return False
    path = os.path.abspath(os.fspath(first))
    reads = len(arguments) > 1 and arguments[1] in ("r", "rb")
    return isinstance(path, str) and path.startswith(here) and not reads


def touches(words: list[str]) -> int:
    """How often a line touches files here; it is run once, in a child."""
    told, tell = os.pipe()
    child = os.fork()
    if child == 0:
        here, seen = str(Path.cwd()), [0]

        def count(event: str, arguments: tuple[Any, ...]) -> None:
            seen[0] += event in EVENTS and _inside(here, arguments)

        sys.addaudithook(count)
        say(*words)
        os.write(tell, str(seen[0]).encode())
        os._exit(0)
    os.close(tell)
    with os.fdopen(told) as pipe:
        found = int(pipe.read())
    os.waitpid(child, 0)
    return found


def prepare(folder: Path) -> Attack:
    """Run folders and inputs, whole; what every line comes to, and how many moments it has."""
    home = make_whole(folder)
    known: dict[str, tuple[Any, Any, int]] = {}

    def fresh() -> None:
        case = own_place(folder)
        os.chdir(folder)
        shutil.rmtree(case, ignore_errors=True)
        shutil.copytree(home, case)
        os.chdir(case)

    def attack(rng: np.random.Generator) -> str | None:
        line, target, more = pick(rng, LINES)
        words = line.split()
        if line not in known:
            fresh()
            before = state(Path(target)) if Path(target).exists() else None
            must(*words)
            whole = state(Path(target))
            fresh()
            known[line] = (before, whole, touches(words))
        before, whole, moments = known[line]
        fresh()
        at = int(rng.integers(moments + 1)) if rng.random() < 0.8 else None
        after = float(rng.uniform(0.0, 1.0)) ** 2 * LONGEST
        killed(words, at, after)
        what = f"`{line}` killed at {f'touch {at}' if at is not None else f'{after:.2f} s'}"
        fault = _unread(target, before, whole)
        if fault is None:
            said = say(*words, *(more.split() if Path(target).exists() else []))
            if said.code != 0:
                fault = f"cannot be said again: {said.err.strip()}"
            elif state(Path(target)) != whole:
                fault = "comes to something else when it is said again"
        return None if fault is None else f"{what}: {fault}"

    return attack


def _unread(target: str, before: Any, whole: Any) -> str | None:
    """What is wrong with the run folders after a kill, if anything."""
    from softrobust.run import load_run

    for run in ("run", "plain", target):
        if (Path(run) / "solution.json").exists() or run != target:
            load_run(run)
    path, kept = Path(target), ("run", "fresh", "drawn.npz", "rules.csv")
    if target in kept and path.exists() and state(path) not in (before, whole):
        return "neither what was there before nor the new one"
    return None


PROMISES = (
    Promise("kills", "a verb that is killed loses nothing, and goes on", prepare, 1.0, 300),
)
