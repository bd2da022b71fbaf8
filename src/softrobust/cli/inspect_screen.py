"""An inspection on the screen: tables and colour for a person, plain text in a pipe."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING

from softrobust.cli.screen import (
    make_console,
    paragraph,
    show_table,
    styled,
    text_width,
    visible,
    wrapped,
)

if TYPE_CHECKING:
    from rich.console import Console

    from softrobust.inspection import Grid, Inspection, Section

BAR = 36  # cells of the longest bar, where there is room


def print_inspection_json(found: Inspection) -> None:
    """Everything as one JSON object."""
    sys.stdout.write(json.dumps(found.as_record(), indent=1, allow_nan=False) + "\n")


def print_inspection(found: Inspection) -> None:
    """What the file is, its sections, what to look at, and what to run."""
    console = make_console()
    paragraph(console, found.headline, "bold")
    for section in found.sections:
        _section(console, section)
    if found.findings:
        _title(console, "Worth a look")
        for finding in found.findings:
            text = styled(wrapped(console, finding.sentence, "  ! "))
            text.stylize("bold yellow", 0, 4)
            console.print(text)
    if found.steps:
        _title(console, "Run next")
        for step in found.steps:
            paragraph(console, step.why, "dim", "  # ", "    ")
            # Never wrapped by us: a command must survive being copied.
            console.print(styled("  " + step.line, "bold green"))
        if any("--gamma" in step.line for step in found.steps):
            words = "--gamma says how much a reward one step later counts: it is yours to choose."
            paragraph(console, words, "dim", "  ")
    console.print()


def _title(console: Console, words: str) -> None:
    console.print()
    console.print(styled(words, "bold cyan"))


def _section(console: Console, section: Section) -> None:
    _title(console, section.title)
    for sentence in section.sentences:
        inner = len(sentence) - len(sentence.lstrip())
        paragraph(console, sentence.lstrip(), "dim" if inner else "", "  " + " " * inner)
    if section.grid is not None:
        if section.sentences and console.is_terminal:
            console.print()
        _grid(console, section.grid)
    if section.bars:
        _bars(console, section.bars)


def _grid(console: Console, grid: Grid) -> None:
    """Counts of pairs, or a profile of columns in words."""
    rows = [
        [styled(cell, _shade(cell) if grid.counts and j else "") for j, cell in enumerate(row)]
        for row in grid.rows
    ]
    words = {0} if grid.counts else set(range(len(grid.header)))
    show_table(console, grid.header, rows, words=words, indent=2)


def _shade(count: str) -> str:
    """Red where nothing was seen, yellow where little was."""
    if not count.isdigit():
        return "red"
    return "yellow" if int(count) < 5 else ""


def _bars(console: Console, bars: tuple[tuple[str, int], ...]) -> None:
    from softrobust.inspection.result import percent

    most = max(n for _, n in bars)
    total = sum(n for _, n in bars)
    names = [visible(name) for name, _ in bars]
    label = min(max(len(name) for name in names), 30)
    digits = len(str(most))
    room = max(min(BAR, text_width(console) - label - digits - 15), 4)
    for name, (_, n) in zip(names, bars, strict=True):
        short = name if len(name) <= label else f"{name[: label - 1]}…"
        bar = "█" * round(room * n / most) or ("▏" if n else "")
        line = styled(f"  {short:>{label}}  {n:>{digits}}  ")
        line.append(bar, style="blue")
        line.append(f" {percent(n, total)}" if n else "", style="dim")
        console.print(line)
