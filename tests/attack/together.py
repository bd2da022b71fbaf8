"""Two processes in one folder, and a disk that is full: files are whole, or not there."""

from __future__ import annotations

import os
import resource
import shutil
from pathlib import Path
from typing import Any

import numpy as np

from tests.attack import Attack, Promise, must, own_place, say
from tests.attack.files import make_whole
from tests.attack.kills import LINES, SOLVE, state
from tests.attack.mutate import pick

# Lines that may meet in one folder; what each leaves there when it comes last.
WRITERS = tuple(f"{SOLVE} run --seed {seed} --solver nominal --force" for seed in (1, 2))
READERS = (
    "report run --quick", "apply run --state s1", "check run", "inspect run",
    "evaluate run --policy guide.csv",
)  # fmt: skip
TASKS = ("sweep sweep.toml --out sw --workers 0", "rehearse run --times 2 --workers 0")


def _child(line: str, errors: Path) -> int:
    """Say a line in a child, its words on the error stream to a file."""
    child = os.fork()
    if child == 0:
        said = say(*line.split())
        errors.write_text(said.err, encoding="utf-8")
        os._exit(said.code)
    return child


def prepare_two(folder: Path) -> Attack:
    """One folder of inputs and runs; every attempt starts two processes in a copy of it."""
    home, case = make_whole(folder, more=False), own_place(folder)
    ends: dict[str, Any] = {}
    for line in (*WRITERS, *TASKS):
        shutil.copytree(home, case)
        os.chdir(case)
        must(*line.split())
        ends[line] = state(Path("sw" if "sweep" in line else "run"))
        os.chdir(home)
        shutil.rmtree(case)

    def attack(rng: np.random.Generator) -> str | None:
        case = own_place(folder)
        shutil.rmtree(case, ignore_errors=True)
        shutil.copytree(home, case)
        os.chdir(case)
        kind = int(rng.integers(3))
        first = pick(rng, TASKS if kind == 2 else WRITERS)
        second = pick(rng, WRITERS) if kind == 0 else first if kind == 2 else pick(rng, READERS)
        children = [_child(line, Path(f"words{i}.txt")) for i, line in enumerate((first, second))]
        codes = [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]
        words = [Path(f"words{i}.txt").read_text(encoding="utf-8") for i in range(2)]
        os.chdir(folder)
        what = f"`{first}` beside `{second}`: "
        if kind == 2:
            lines = " ".join(" ".join(words).split())
            if 0 not in codes or (2 in codes and "Another run is writing" not in lines
                                  and "exists already" not in lines):  # fmt: skip
                return f"{what}{codes} {lines}"
            found = state(case / ("sw" if "sweep" in first else "run"))
            return None if found == ends[first] else f"{what}the results are others"
        if codes != [0, 0]:
            return f"{what}{codes} {words}"
        found = state(case / "run")
        for extra in ("checks.json",):
            found.pop(extra, None)
        wanted = [ends[line] for line in (first, second) if line in ends]
        return None if found in wanted else f"{what}the folder is a mixture of two runs"

    return attack


def prepare_full(folder: Path) -> Attack:
    """Files may not grow beyond some bytes, as on a disk that is full."""
    home = make_whole(folder)

    def attack(rng: np.random.Generator) -> str | None:
        line, target, more = pick(rng, LINES)
        case = own_place(folder)
        os.chdir(folder)
        shutil.rmtree(case, ignore_errors=True)
        shutil.copytree(home, case)
        os.chdir(case)
        before = state(Path(target)) if Path(target).exists() else None
        room = int(10 ** rng.uniform(0.0, 5.0))
        soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (room, hard))
        try:
            said = say(*line.split())
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        what = f"`{line}` with room for {room} bytes: "
        if said.code == 0:
            return None
        words = " ".join(said.err.split())
        if "This is a bug" in words or "Traceback" in words or not words:
            return f"{what}{said.code} {words}"
        kept = ("run", "fresh", "drawn.npz", "rules.csv", "run/report.html", "plain/checks.json")
        if target in kept and Path(target).exists() and state(Path(target)) != before:
            return f"{what}what was there before has changed"
        left = [p for p in case.iterdir() if p.name.startswith(".") and "search" not in p.name]
        if left:
            return f"{what}{left[0].name} was left behind"
        said = say(*line.split(), *(more.split() if Path(target).exists() else []))
        return None if said.code == 0 else f"{what}cannot be said again: {said.err}"

    return attack


PROMISES = (
    Promise("two", "two processes in one folder leave one whole run", prepare_two, 0.6, 300),
    Promise("full", "a full disk is said, and what was there stays", prepare_full, 0.6, 300),
)
