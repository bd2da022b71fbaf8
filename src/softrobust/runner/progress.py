"""How far a run is: a bar with the time left on a terminal, nothing in a pipe unless asked for."""

from __future__ import annotations

import sys
import time
from typing import Any, Self, final

EVERY = 10.0  # seconds between two plain lines


@final
class Meter:
    """Counts finished tasks on the error stream.

    `show` is None for "a bar where a person looks", True for plain lines where nobody seems to,
    False for silence.
    """

    def __init__(self, total: int, done: int, title: str, show: bool | None) -> None:
        self.total, self.done, self.failed, self.title = total, done, 0, title or "tasks"
        terminal = sys.stderr is not None and sys.stderr.isatty()
        self.fancy = terminal and show is not False and done < total
        self.plain = bool(show) and not terminal
        self.bar: Any = None
        self.row: Any = None
        self.began = self.said = time.monotonic()
        self.here = done

    def __enter__(self) -> Self:
        if self.fancy:
            from rich.console import Console
            from rich.progress import (
                BarColumn,
                MofNCompleteColumn,
                Progress,
                TextColumn,
                TimeElapsedColumn,
                TimeRemainingColumn,
            )

            self.bar = Progress(
                TextColumn("{task.description}"),
                BarColumn(bar_width=None),
                MofNCompleteColumn(),
                TextColumn("[red]{task.fields[failed]}[/red]"),
                TimeElapsedColumn(),
                TextColumn("left"),
                TimeRemainingColumn(),
                console=Console(stderr=True),
                transient=True,
                redirect_stdout=False,
                redirect_stderr=False,
                speed_estimate_period=600.0,
            )
            self.bar.start()
            self.row = self.bar.add_task(
                self.title, total=self.total, completed=self.done, failed=""
            )
        return self

    def __exit__(self, *_: object) -> None:
        if self.bar is not None:
            self.bar.stop()

    def step(self, ok: bool) -> None:
        """One more task has ended."""
        self.done += 1
        self.failed += not ok
        if self.bar is not None:
            failed = f"{self.failed} failed" if self.failed else ""
            self.bar.update(self.row, advance=1, failed=failed)
        now = time.monotonic()
        if self.plain and (now - self.said >= EVERY or self.done == self.total):
            self.said = now
            print(self._line(now), file=sys.stderr, flush=True)

    def _line(self, now: float) -> str:
        failed = f", {self.failed} failed" if self.failed else ""
        left = (now - self.began) * (self.total - self.done) / max(self.done - self.here, 1)
        return f"{self.title}: {self.done} of {self.total}{failed}, about {left:.0f} s left"
