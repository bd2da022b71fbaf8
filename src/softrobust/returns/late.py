"""Time limits inside long computations: they look at the clock between two chunks of models.

A compiled loop cannot be stopped, not even by Ctrl-C. So work on many models is cut into chunks of
a fraction of a second, and between two of them the caller's `late()` is asked.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import final

Late = Callable[[], bool]

CHUNK_SECONDS = 0.2  # between two looks at the clock, about


@final
class OutOfTime(Exception):  # noqa: N818 (not an error: the caller has an answer already)
    """The caller's time is over; what was being computed is incomplete and lost."""


def chunks(n: int, first: int = 1) -> Iterator[slice]:
    """0 … n in slices that take about `CHUNK_SECONDS` each, judged by the last one; `first` long.

    An interrupt is served between two slices.
    """
    start, length = 0, max(first, 1)
    while start < n:
        began = time.monotonic()
        stop = min(start + length, n)
        yield slice(start, stop)
        took = time.monotonic() - began
        start = stop
        # At most twice as long as the last: a fast slice says little about a slow one.
        length = max(first, int(length * min(2.0, CHUNK_SECONDS / max(took, 1e-6))))


def check(late: Late | None) -> None:
    """Raise `OutOfTime` once it is late."""
    if late is not None and late():
        raise OutOfTime
