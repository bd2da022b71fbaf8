"""The registry of benchmark cases: every figure is a ratio against a named rival in the same run.

A case is a function of `smoke` that yields `Figure`s. Times are taken interleaved (ours, rival,
ours, …), in processor time where one core works, and the least of each counts, so that a busy
machine hurts both alike. With `smoke` a case
runs once, small; its figures then mean nothing, only that it still runs.

To add one: write it in a module of this folder, decorate it with `@case("name")`, and import the
module in `__main__`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

CaseFunction = Callable[[bool], Iterator["Figure"]]
CASES: dict[str, CaseFunction] = {}


@dataclass(frozen=True, slots=True)
class Figure:
    """One line of the table.

    Attributes
    ----------
    what, rival : str
        What was measured, and against whom.
    ratio : float
        In the sense of `unit`: "times faster", "of the rival's time", "passes", …
    target : str
        What the project set out to reach, "" where nothing was promised.
    """

    what: str
    rival: str
    ratio: float
    unit: str
    target: str = ""
    note: str = ""

    @property
    def met(self) -> bool | None:
        """Whether the target is met; None without one."""
        if not self.target:
            return None
        sign, value = self.target.split()
        return self.ratio >= float(value) if sign == "≥" else self.ratio <= float(value)

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {**asdict(self), "met": self.met}


def case(name: str) -> Callable[[CaseFunction], CaseFunction]:
    """Register a case under a name."""

    def register(function: CaseFunction) -> CaseFunction:
        CASES[name] = function
        return function

    return register


def race(
    smoke: bool, *runners: Callable[[], object], seconds: float = 2.0, wall: bool = False
) -> list[float]:
    """The least time of each runner, run in turns for about `seconds` in all (once if smoke).

    Processor time, so that what else runs on the machine does not count against the longer of two
    runs; `wall` time where several cores work.
    """
    clock = time.perf_counter if wall else time.process_time
    for run in runners:  # compile, and warm the caches
        run()
    best = [float("inf")] * len(runners)
    start, rounds = time.perf_counter(), 0
    while rounds < (1 if smoke else 3) or (
        not smoke and time.perf_counter() - start < seconds and rounds < 200
    ):
        for i, run in enumerate(runners):
            begin = clock()
            run()
            best[i] = min(best[i], clock() - begin)
        rounds += 1
    return best


def machine() -> str:
    """Processor, cores, caches and memory, in words."""
    fields: dict[str, str] = {}
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        key, _, value = line.partition(":")
        fields.setdefault(key.strip(), value.strip())
    cores = Path("/proc/cpuinfo").read_text().count("processor\t")
    memory = Path("/proc/meminfo").read_text().splitlines()[0].split()[1]
    return (
        f"{fields.get('model name', 'unknown processor')}, {cores} cores, last-level cache "
        f"{cache_bytes() // 2**20} MiB, {int(memory) / 2**20:.0f} GiB of memory"
    )


def cache_bytes() -> int:
    """The size of the largest cache of the first processor."""
    sizes = [32 * 2**20]
    for path in Path("/sys/devices/system/cpu/cpu0/cache").glob("index*/size"):
        text = path.read_text().strip()
        sizes.append(int(text[:-1]) * {"K": 2**10, "M": 2**20}[text[-1]])
    return max(sizes)
