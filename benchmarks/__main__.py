"""`python -m benchmarks`: run the registry, print the table, write JSON and RESULTS.md.

python -m benchmarks                 all cases; writes RESULTS.json and RESULTS.md beside this file
python -m benchmarks s-game grid     some cases; their rows are replaced
python -m benchmarks --smoke         every case once, small; printed only
"""

from __future__ import annotations

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # "one core" must mean one

import argparse
import json
import platform
import sys
import time
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path

from benchmarks.registry import CASES, Figure, machine

MODULES = (
    "startup",
    "rect_kernels",
    "rect_solves",
    "rect_scaling",
    "static_optimum",
    "horizon",
    "tradeoff",
    "posteriors",
    "stream",
    "continuous",
    "sac",
    "app",
)
HERE = Path(__file__).resolve().parent


def table(figures: Sequence[Figure]) -> str:
    """Markdown."""
    lines = [
        "| what | rival | ratio | target | met | note |",
        "| --- | --- | ---: | ---: | --- | --- |",
    ]
    for x in figures:
        met = {None: "", True: "yes", False: "no"}[x.met]
        ratio = f"{x.ratio:.3g}" if x.ratio < 1000 else f"{x.ratio:.0f}"
        lines.append(f"| {x.what} | {x.rival} | {ratio} {x.unit} | {x.target} | {met} | {x.note} |")
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run cases."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("cases", nargs="*", help="names or beginnings of names")
    parser.add_argument("--smoke", action="store_true", help="once, small, untimed")
    parser.add_argument("--list", action="store_true", help="print the names of the cases")
    options = parser.parse_args(arguments)
    for module in MODULES:
        import_module(f"benchmarks.{module}")
    chosen = [
        name
        for name in CASES
        if not options.cases or any(name.startswith(c) for c in options.cases)
    ]
    if options.list or not chosen:
        print("\n".join(CASES))
        return 0 if options.list else 2
    results: dict[str, list[Figure]] = {}
    for name in chosen:
        begin = time.perf_counter()
        results[name] = list(CASES[name](options.smoke))
        print(f"{name}: {time.perf_counter() - begin:.1f} s", file=sys.stderr, flush=True)
    print(table([x for figures in results.values() for x in figures]))
    if not options.smoke:
        write(results)
    return 0


def write(results: dict[str, list[Figure]]) -> None:
    """Put the cases just run into RESULTS.json, and RESULTS.md afresh."""
    import numba
    import numpy as np
    import scipy

    versions = (
        f"Python {platform.python_version()}, numpy {np.__version__}, "
        f"scipy {scipy.__version__}, numba {numba.__version__}"
    )
    path = HERE / "RESULTS.json"
    cases: dict[str, list[dict[str, object]]] = (
        json.loads(path.read_text(encoding="utf-8"))["cases"] if path.exists() else {}
    )
    cases |= {name: [x.as_dict() for x in figures] for name, figures in results.items()}
    cases = {name: cases[name] for name in CASES if name in cases}
    record = {"machine": machine(), "versions": versions, "cases": cases}
    path.write_text(json.dumps(record, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    figures = [
        Figure(**{k: v for k, v in x.items() if k != "met"})  # type: ignore[arg-type]
        for c in cases.values()
        for x in c
    ]
    (HERE / "RESULTS.md").write_text(
        "# Benchmarks\n\n"
        f"Machine: {machine()}. {versions}. One core unless a line says otherwise.\n\n"
        "Every figure is a ratio within one run, ours and the rival measured in turns; `make\n"
        "bench` repeats them. A target is what the project set out to reach.\n\n"
        + table(figures) + "\n",
        encoding="utf-8",
    )  # fmt: skip


if __name__ == "__main__":
    raise SystemExit(main())
