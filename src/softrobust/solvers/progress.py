"""One live line on a terminal, and nothing in a pipe."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import final

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
