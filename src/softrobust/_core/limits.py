"""Time limits inside long computations: they look at the clock between two chunks of models.

A compiled loop cannot be stopped, not even by Ctrl-C. So work on many models is cut into chunks of
a fraction of a second, and between two of them the caller's `late()` is asked.
"""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any, final

import numpy as np

from softrobust._core.settings import real, whole
from softrobust.errors import InputError

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


# --------------------------------------------------------------------------------------------------
# Checks of the settings that the static solvers share: gap, limits and seed.


def check_gap(gap: Any) -> None:
    """A share of |static_value|."""
    real("gap", gap, least=0, hint="Give a share of the value, such as 1e-6.")


def check_node_limit(limit: Any) -> None:
    """A number of nodes, or None."""
    if limit is not None:
        whole("node_limit", limit, least=0)


def check_time_limit(limit: Any) -> None:
    """Seconds, or None; infinite is none."""
    if limit is None or (isinstance(limit, float) and limit == math.inf):
        return
    real("The time limit", limit, above=0, hint="Give seconds, such as 60, or leave it out.")


def check_seed(seed: Any) -> None:
    """Anything that makes a generator."""
    try:
        np.random.default_rng(seed)
    except (TypeError, ValueError) as error:
        raise InputError(
            f"seed must be a whole number ≥ 0 or a numpy Generator; it is {seed!r} ({error})."
        ) from None


# --------------------------------------------------------------------------------------------------
# One live line on a terminal, and nothing in a pipe.

INTERVAL = 0.2  # seconds between two refreshes


@final
class LiveLine:
    """A line on standard error that is rewritten in place, at most five times a second.

    The text is made only when it will be shown.
    """

    __slots__ = ("active", "shown", "width")

    def __init__(self) -> None:
        self.active = sys.stderr is not None and sys.stderr.isatty()
        self.shown = 0.0
        self.width = 0

    def update(self, text: Callable[[], str]) -> None:
        """Show text(), unless the last one is too recent or there is no terminal."""
        now = time.monotonic()
        if not self.active or now - self.shown < INTERVAL:
            return
        self.shown = now
        line = text()
        sys.stderr.write("\r" + line.ljust(self.width))
        sys.stderr.flush()
        self.width = len(line)

    def clear(self) -> None:
        """Wipe the line."""
        if self.active and self.width:
            sys.stderr.write("\r" + " " * self.width + "\r")
            sys.stderr.flush()
            self.width = 0
