"""Results on the terminal: colour where a person looks, plain in a pipe."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from softrobust.pipeline import Run


def print_json(run: Run) -> None:
    """`solution.json` on stdout."""
    from softrobust.certificate import solution_record

    record = solution_record(run.solution, run.certificate)
    sys.stdout.write(json.dumps(record, indent=1, allow_nan=False) + "\n")


def print_summary(run: Run, out: Path | None) -> None:
    """The summary, wrapped to the terminal."""
    import textwrap

    from rich.console import Console
    from rich.text import Text

    from softrobust.pipeline import summary_lines

    console = Console(highlight=False, soft_wrap=True)
    width = min(console.width, 100)
    styles = {"head": "bold", "text": "", "note": "dim", "row": "cyan"}
    for kind, line in summary_lines(run):
        first = {"head": "\n", "note": "  · "}.get(kind, "  ")
        rest = "" if kind == "head" else " " * len(first)
        body = textwrap.fill(line, width, initial_indent=first.strip("\n"), subsequent_indent=rest)
        console.print(Text(("\n" if kind == "head" else "") + body, style=styles[kind]))
    if out is not None:
        console.print(Text(f"\nWritten to {out}: open {out / 'report.html'} in a browser."))
