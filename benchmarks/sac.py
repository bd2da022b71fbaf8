"""Soft actor-critic: one update at the sizes of the paper's table, on this machine's processor.

The same update on an accelerator against two cores beside it is `python -m benchmarks.sac_gpu`.
"""

from __future__ import annotations

import time
from collections.abc import Iterator

from benchmarks.registry import Figure, case
from benchmarks.sac_gpu import beside, prepared

AGENTS = 5


@case("sac-update")
def update(smoke: bool) -> Iterator[Figure]:
    """150 × 50 × 100 next states and a step of each network, on 2 cores; and its memory."""
    what = "SAC update, 150 × 50 × 100, 2 cores"
    if smoke:
        step, state = prepared(1, None, small=True)
        begin = time.perf_counter()
        step(state)
        yield Figure(f"{what} (small)", "the clock", time.perf_counter() - begin, "s")
        return
    one, several = beside("--numpy"), beside("--agents", str(AGENTS))
    ratio = one["numpy_seconds"] / one["seconds"]
    yield Figure(what, "NumPy, target values alone", ratio, "times faster")
    yield Figure(what, "the clock", one["seconds"], "s")
    yield Figure("peak memory of that process", "the limit", one["peak_gib"], "GiB", "≤ 4")
    yield Figure(
        f"peak memory, {AGENTS} agents side by side", "the limit", several["peak_gib"], "GiB", "≤ 4"
    )
