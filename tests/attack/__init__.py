"""A standing attack on what is promised: `make attack`, or `python -m tests.attack --minutes 60`.

Each promise has a module here that tries to break it, over and over, with seeds that are new every
time. A module holds `PROMISES`; the list of modules is in `__main__`.
"""

from __future__ import annotations

import contextlib
import io
import os
import signal
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

import numpy as np

# One attempt: None where the promise held, else what was tried and what came of it.
Attack = Callable[[np.random.Generator], str | None]


@dataclass(frozen=True)
class Promise:
    """Something promised, and how to try to break it.

    Attributes
    ----------
    name : str
        For `--only`.
    text : str
        What is promised, as the table says it.
    prepare : callable
        Makes what the attack needs in a folder of its own, and returns the attack. Processes are
        forked after that, and share the folder: each works in its `own_place`.
    share : float
        Of the time, in parts.
    most : int or None
        Attempts after which enough was tried.
    block : int or None
        Attempts that share a process, whose memory is limited: what they leave in it then goes.
    """

    name: str
    text: str
    prepare: Callable[[Path], Attack]
    share: float = 1.0
    most: int | None = None
    block: int | None = None


@dataclass(frozen=True)
class Said:
    """What a command line came to: its exit code and all it wrote."""

    code: int
    out: str
    err: str
    seconds: float


class TooLong(BaseException):
    """A command did not end in time; no `except Exception` of the package can take it."""


@contextlib.contextmanager
def within(seconds: float) -> Iterator[None]:
    """Raise `TooLong` where the block works longer, or does nothing for ten times that."""
    clocks = ((signal.ITIMER_PROF, signal.SIGPROF, 1), (signal.ITIMER_REAL, signal.SIGALRM, 10))

    def ring(*_: object) -> NoReturn:
        raise TooLong(f"took more than {seconds:g} s")

    before = [signal.signal(sign, ring) for _, sign, _ in clocks]
    for clock, _, times in clocks:
        signal.setitimer(clock, times * seconds)
    try:
        yield
    finally:
        for (clock, sign, _), old in zip(clocks, before, strict=True):
            signal.setitimer(clock, 0.0)
            signal.signal(sign, old)


def own_place(folder: Path) -> Path:
    """Where this process works in a folder that several share."""
    return folder / f"case-{os.getpid()}"


def say(*words: str | Path) -> Said:
    """Run a command line in this process."""
    from softrobust.cli.main import run

    out, err, began = io.StringIO(), io.StringIO(), time.monotonic()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = run([str(word) for word in words])
    return Said(code, out.getvalue(), err.getvalue(), time.monotonic() - began)


def must(*words: str | Path) -> Said:
    """Run a command line that has to succeed."""
    said = say(*words)
    if said.code != 0:
        raise RuntimeError(f"{' '.join(map(str, words))}: {said.err}")
    return said
