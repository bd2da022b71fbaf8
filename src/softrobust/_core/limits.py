"""Time limits inside long computations: they look at the clock between two chunks of models.

A compiled loop cannot be stopped, not even by Ctrl-C. So work on many models is cut into chunks of
a fraction of a second, and between two of them the caller's `Deadline` is asked.

A command is bounded as a whole (`within`): whoever does work that can be done without asks for the
time that is left (`time_bound`), does less of it, and leaves the name of what was cut.
"""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from functools import partial
from pathlib import Path
from typing import Annotated, Any, final

import numpy as np

from softrobust._core.settings import real
from softrobust.errors import InputError

CHUNK_SECONDS = 0.2  # between two looks at the clock, about
TRIAL_SHARE, ENOUGH = (
    0.02,
    0.05,
)  # of the time left, and seconds: a trial that took so long shows much
_ended = -math.inf  # when somebody asked for what there is: limits set before are over


@final
class OutOfTime(Exception):  # noqa: N818 (not an error: the caller has an answer already)
    """The caller's time is over; what was being computed is incomplete and lost."""


def chunks(n: int, first: int = 1) -> Iterator[slice]:
    """0 … n in slices of about `CHUNK_SECONDS`; an interrupt is served between two."""
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
    """A time limit in seconds from now; None never passes.

    With `of_work`, in seconds of work of this thread: a limit that nobody asked for, which is to
    end at the same place however busy the machine is.
    """

    __slots__ = ("_began", "_clock", "cut", "limit", "start")

    def __init__(self, limit: float | None = None, of_work: bool = False) -> None:
        check_time_limit(limit)
        self.limit = limit
        self.start = time.monotonic()
        self._clock = time.thread_time if of_work else time.monotonic
        self._began = self._clock()
        self.cut: list[str] = []  # what there was less of for want of time

    @property
    def elapsed(self) -> float:
        """Seconds since the start."""
        return self._clock() - self._began

    @property
    def left(self) -> float:
        """Seconds left, at least 0; infinite without a limit."""
        if self.limit is None:
            return math.inf
        return 0.0 if self.start <= _ended else max(0.0, self.limit - self.elapsed)

    @property
    def passed(self) -> bool:
        """Whether the limit is over."""
        return self.left == 0.0

    def check(self) -> None:
        """Raise `OutOfTime` once the limit is over."""
        if self.passed:
            raise OutOfTime

    def end(self) -> None:
        """Let the time be over now, that of every other limit too: the best so far is wanted."""
        global _ended
        self.limit, _ended = self.elapsed, time.monotonic()

    def part(self, share: float) -> Deadline:
        """A deadline after a share of the time left; never, where there is no limit."""
        return self if self.limit is None else Deadline(max(share * self.left, 1e-9))

    def affords(self, what: str, wanted: int, each: float, share: float, least: int = 1) -> int:
        """How many of `wanted` things fit into a share of the time left, at `each` seconds."""
        if self.limit is None or wanted * each <= share * self.left:
            return wanted
        self.note(what)
        return max(min(wanted, least), min(wanted, int(share * self.left / max(each, 1e-9))))

    def seconds_each(self, run: Callable[[int], object], few: int, most: int) -> float:
        """Seconds that one of many things takes, where `run` does as many as it is told.

        The first few show it if they take a while. Else the next do, since the first compile and
        fill caches, and more and more of them until they outweigh what every call takes.
        """
        n, first = min(few, most), True
        while True:
            began = time.monotonic()
            run(n)
            took = time.monotonic() - began
            if took >= TRIAL_SHARE * self.left or (not first and (took >= ENOUGH or n == most)):
                return took / n
            n, first = n if first else min(4 * n, most), False

    def note(self, what: str) -> None:
        """Write down what was cut."""
        if self.limit is not None and what not in self.cut:
            self.cut.append(what)

    def at_least(self, seconds: float) -> Deadline:
        """The same deadline, or so many seconds from now if that is later."""
        return self if self.left >= seconds else Deadline(seconds)


def check_time_limit(limit: Any) -> None:
    """Seconds, or None; infinite is none."""
    hint = "Give seconds, such as 60, or leave it out."
    if limit is not None:
        real("time_limit", limit, above=0, infinite=True, hint=hint)


def generator(seed: Any) -> np.random.Generator:
    """Random numbers by a seed, or the generator that was given."""
    try:
        return np.random.default_rng(seed)
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
Seed = Annotated[int | np.random.Generator, lambda _, seed: generator(seed)]
Gap = Annotated[float, partial(real, least=0, hint="Give a share of the value, such as 1e-6.")]
File = Annotated[str | Path, _check_folder]


NO_LIMIT = Deadline()
_BOUND: ContextVar[Deadline] = ContextVar("bound", default=NO_LIMIT)


def time_bound() -> Deadline:
    """The time limit of what is being done."""
    return _BOUND.get()


def within(seconds: float | None) -> AbstractContextManager[Deadline]:
    """Bound all that runs inside by so many seconds, or by the outer bound where that is sooner."""
    outer = time_bound()
    least = outer.left if seconds is None else min(seconds, outer.left)
    own = outer if math.isinf(least) else Deadline(max(least, 1e-9))
    own = Deadline() if own is NO_LIMIT else own  # one that can be ended
    own.cut = own.cut if outer.limit is None else outer.cut
    return _bounded(own)


def unbounded() -> AbstractContextManager[Deadline]:
    """Let what runs inside take its time: results that are kept must not depend on a clock."""
    return _bounded(NO_LIMIT)


@contextmanager
def _bounded(by: Deadline) -> Iterator[Deadline]:
    mark = _BOUND.set(by)
    try:
        yield by
    finally:
        _BOUND.reset(mark)


INTERVAL = 0.2  # seconds between two refreshes of a live line


_WATCHERS: list[Callable[[str], None]] = []


@contextmanager
def watched(watcher: Callable[[str], None]) -> Iterator[None]:
    """Tell `watcher` whatever would stand on a live line, as often, terminal or none."""
    _WATCHERS.append(watcher)
    try:
        yield
    finally:
        _WATCHERS.remove(watcher)


@final
class LiveLine:
    """A line on standard error, rewritten at most five times a second."""

    __slots__ = ("active", "shown", "width")

    def __init__(self) -> None:
        self.active = sys.stderr is not None and sys.stderr.isatty()
        self.shown = 0.0
        self.width = 0

    def update(self, text: str | Callable[[], str]) -> None:
        """Show the text, unless the last one is too recent or there is nobody to read it."""
        now = time.monotonic()
        if not (self.active or _WATCHERS) or now - self.shown < INTERVAL:
            return
        self.shown = now
        line = text if isinstance(text, str) else text()
        for watcher in _WATCHERS:
            watcher(line)
        if not self.active:
            return
        sys.stderr.write("\r" + line.ljust(self.width))
        sys.stderr.flush()
        self.width = len(line)

    def clear(self) -> None:
        """Wipe the line."""
        if self.active and self.width:
            sys.stderr.write("\r" + " " * self.width + "\r")
            sys.stderr.flush()
            self.width = 0


_STAGE: list[LiveLine] = []


def stage(name: str = "") -> None:
    """Name what a command is doing, on a terminal; nothing wipes the line."""
    line = _STAGE[0] if _STAGE else LiveLine()
    _STAGE[:] = [line]
    line.shown = 0.0
    if name:
        line.update(f"{name} …")
    else:
        line.clear()
