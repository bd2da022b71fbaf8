"""Tasks for the tests of the runner: small functions that are found by name."""

from __future__ import annotations

import os
import signal
import sys
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np

from softrobust.run.jobs import Task


def square(x: float) -> dict[str, Any]:
    return {"x": x, "square": x * x, "draw": np.random.default_rng(int(x)).random()}


def slow_square(x: float, seconds: float) -> dict[str, Any]:
    time.sleep(seconds)
    return square(x)


def many(n: int = 30, seconds: float = 0.15) -> list[Task]:
    settings = [{"x": x, "seconds": seconds} for x in range(n)]
    return [Task(f"sq{s['x']}", "tests.run.jobs.jobs:slow_square", s) for s in settings]


def fail(x: float) -> dict[str, Any]:
    print("a word before the fall", file=sys.stderr)
    raise ZeroDivisionError(f"no result for {x}")


def die(x: float) -> dict[str, Any]:
    os.kill(os.getpid(), signal.SIGKILL)
    return {"x": x}


def die_once(x: float, folder: str) -> dict[str, Any]:
    """Killed in the midst of the first attempt; the next one finds the mark and lives."""
    mark = Path(folder) / f"died-{x}"
    if not mark.exists():
        mark.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return square(x)


def chatty(x: float) -> dict[str, Any]:
    print('{"key": "nonsense"}')
    print("noise", file=sys.stderr)
    return {"x": x, "threads": os.environ.get("NUMBA_NUM_THREADS")}


def count_lines(log: Path, times: int) -> dict[str, Any]:
    return {"lines": times * len(log.read_text(encoding="utf-8").splitlines())}


def warns(x: float) -> dict[str, Any]:
    warnings.warn(f"{x} is a strange\nnumber", stacklevel=2)
    return square(x)


def long_result(n: int) -> dict[str, Any]:
    return {"text": "x" * n}


def infinite() -> dict[str, Any]:
    return {"x": float("inf")}


def needs_mark(mark: str) -> dict[str, Any]:
    if not Path(mark).exists():
        raise FileNotFoundError(mark)
    return {"found": True}


def overwrite(path: str) -> dict[str, Any]:
    Path(path).write_text("something else\n", encoding="utf-8")
    return {}


def gives_in() -> dict[str, Any]:
    """Like a solver: Ctrl-C ends the work with what there is."""
    try:
        time.sleep(30)
    except KeyboardInterrupt:
        return {"status": "interrupted"}
    return {"status": "optimal"}


def note_and_sleep(folder: str) -> dict[str, Any]:
    (Path(folder) / "pid.part").write_text(str(os.getpid()), encoding="utf-8")
    (Path(folder) / "pid.part").rename(Path(folder) / "pid")
    time.sleep(60)
    return {}
