"""Time limits inside long computations: they look at the clock between two chunks of models.

A compiled loop cannot be stopped, not even by Ctrl-C. So work on many models is cut into chunks of
a fraction of a second, and between two of them the caller's `Deadline` is asked.
"""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Annotated, Any, final

import numpy as np

from softrobust._core.settings import real
from softrobust.errors import InputError

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


class Deadline:
    """A time limit in seconds from now; None never passes."""

    __slots__ = ("limit", "start")

    def __init__(self, limit: float | None = None) -> None:
        check_time_limit(limit)
        self.limit = limit
        self.start = time.monotonic()

    @property
    def elapsed(self) -> float:
        """Seconds since the start."""
        return time.monotonic() - self.start

    @property
    def left(self) -> float:
        """Seconds left, at least 0; infinite without a limit."""
        return math.inf if self.limit is None else max(0.0, self.limit - self.elapsed)

    @property
    def passed(self) -> bool:
        """Whether the limit is over."""
        return self.left == 0.0

    def check(self) -> None:
        """Raise `OutOfTime` once the limit is over."""
        if self.passed:
            raise OutOfTime

    def part(self, share: float) -> Deadline:
        """A deadline after a share of the time left; never, where there is no limit."""
        return self if self.limit is None else Deadline(max(share * self.left, 1e-9))

    def at_least(self, seconds: float) -> Deadline:
        """The same deadline, or so many seconds from now if that is later."""
        return self if self.left >= seconds else Deadline(seconds)


def check_time_limit(limit: Any) -> None:
    """Seconds, or None; infinite is none."""
    hint = "Give seconds, such as 60, or leave it out."
    if limit is not None:
        real("time_limit", limit, above=0, infinite=True, hint=hint)


def _check_seed(_: str, seed: Any) -> None:
    try:
        np.random.default_rng(seed)
    except (TypeError, ValueError) as error:
        raise InputError(
            f"seed must be a whole number ≥ 0 or a numpy Generator; it is {seed!r} ({error})."
        ) from None


def _check_folder(name: str, path: Any) -> None:
    if not isinstance(path, (str, Path)):
        raise InputError(f"{name} must be a file name; it is {path!r}.")
    if not Path(path).resolve().parent.is_dir():
        raise InputError(f"There is no folder for the {name} '{path}'. Create it first.")


# What the settings of searches are, for `settings.check_fields`.
Seconds = Annotated[float, lambda _, limit: check_time_limit(limit)]
Seed = Annotated[int | np.random.Generator, _check_seed]
Gap = Annotated[float, partial(real, least=0, hint="Give a share of the value, such as 1e-6.")]
File = Annotated[str | Path, _check_folder]


NO_LIMIT = Deadline()
INTERVAL = 0.2  # seconds between two refreshes of a live line


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

    def update(self, text: str | Callable[[], str]) -> None:
        """Show the text, unless the last one is too recent or there is no terminal."""
        now = time.monotonic()
        if not self.active or now - self.shown < INTERVAL:
            return
        self.shown = now
        line = text if isinstance(text, str) else text()
        sys.stderr.write("\r" + line.ljust(self.width))
        sys.stderr.flush()
        self.width = len(line)

    def clear(self) -> None:
        """Wipe the line."""
        if self.active and self.width:
            sys.stderr.write("\r" + " " * self.width + "\r")
            sys.stderr.flush()
            self.width = 0
