"""What it costs to import the package and to ask for help, against `import numpy`."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

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
    if not smoke:
        began = time.perf_counter()
        with tempfile.TemporaryDirectory() as cache, tempfile.TemporaryDirectory() as out:
            env = os.environ | {"NUMBA_CACHE_DIR": cache}  # as in a fresh environment
            words = ["solve", str(LOG), "--gamma", "0.9", "--out", f"{out}/run", "--quiet"]
            code = f"from softrobust.cli.main import run; run({words!r})"
            subprocess.run([sys.executable, "-c", code], check=True, env=env)
        first = time.perf_counter() - began
        yield Figure("the first solve", "15 seconds", first / 15, "of it", "≤ 1", f"{first:.1f} s")
    yield Figure("softrobust --help", "0.6 seconds", shown / 0.6, "of it", "≤ 1", f"{shown:.2f} s")
