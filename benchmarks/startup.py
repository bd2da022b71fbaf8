"""What it costs to import the package and to ask for help, against `import numpy`."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator

from benchmarks.registry import Figure, case


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
