"""An inspection on the screen: tables and colour for a person, plain text in a pipe."""

from __future__ import annotations

import json
import sys
import textwrap
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console

    from softrobust.inspection import Grid, Inspection, Section

WIDTH = 100
BAR = 36


def print_inspection_json(found: Inspection) -> None:
    """Everything as one JSON object."""
    sys.stdout.write(json.dumps(found.as_record(), indent=1, allow_nan=False) + "\n")


def print_inspection(found: Inspection) -> None:
    """What the file is, its sections, what to look at, and what to run."""
    from rich.console import Console
    from rich.text import Text

    console = Console(highlight=False)
    if not console.is_terminal:
        console = Console(highlight=False, width=WIDTH)
    _say(console, found.headline, "bold", "")
    for section in found.sections:
        _section(console, section)
    if found.findings:
        console.print(Text("\nWorth a look", style="bold cyan"))
        for finding in found.findings:
            _say(console, finding.sentence, "", "  ! ", mark="bold yellow")
    if found.steps:
        console.print(Text("\nRun next", style="bold cyan"))
        for step in found.steps:
            _say(console, step.why, "dim", "  # ")
            # Never wrapped by us: a command must survive being copied.
            console.print(Text("  " + step.line, style="bold green"), soft_wrap=True)
        if any("--gamma" in step.line for step in found.steps):
            words = "--gamma says how much a reward one step later counts: it is yours to choose."
            _say(console, words, "dim", "  ")
    console.print()


def _section(console: Console, section: Section) -> None:
    from rich.text import Text

    console.print(Text(f"\n{section.title}", style="bold cyan"))
    for sentence in section.sentences:
        inner = len(sentence) - len(sentence.lstrip())
        _say(console, sentence.lstrip(), "dim" if inner else "", "  " + " " * inner)
    if section.grid is not None:
        if section.sentences and console.is_terminal:
            console.print()
        _grid(console, section.grid)
    if section.bars:
        _bars(console, section.bars)


def _say(console: Console, words: str, style: str, indent: str, mark: str = "") -> None:
    from rich.text import Text

    width = min(console.width, WIDTH)
    whole = words.replace(" %", "\u00a0%")  # a number stays with its sign
    filled = textwrap.fill(
        whole, width, initial_indent=indent, subsequent_indent=" " * len(indent),
        break_long_words=False, break_on_hyphens=False,
    )  # fmt: skip
    text = Text(filled.replace("\u00a0%", " %"), style=style)
    if mark:
        text.stylize(mark, 0, len(indent))
    console.print(text, soft_wrap=True)


def _grid(console: Console, grid: Grid) -> None:
    from rich import box
    from rich.padding import Padding
    from rich.table import Table
    from rich.text import Text

    if not console.is_terminal:
        _plain_grid(grid)
        return
    table = Table(box=box.SIMPLE_HEAD, header_style="bold", pad_edge=False, show_edge=False)
    for j, name in enumerate(grid.header):
        right = grid.counts and j > 0
        table.add_column(
            Text(name), justify="right" if right else "left", no_wrap=right, overflow="fold"
        )
    for row in grid.rows:
        cells = [
            Text(cell, style=_shade(cell) if grid.counts and j else "")
            for j, cell in enumerate(row)
        ]
        table.add_row(*cells)
    console.print(Padding(table, (0, 0, 0, 2)))


def _plain_grid(grid: Grid) -> None:
    """Columns in line and nothing else, for files and other programs."""
    lines = (grid.header, *grid.rows)
    widths = [max(len(line[j]) for line in lines) for j in range(len(grid.header))]
    for line in lines:
        cells = [
            f"{cell:>{width}}" if grid.counts and j else f"{cell:<{width}}"
            for j, (cell, width) in enumerate(zip(line, widths, strict=True))
        ]
        print(("  " + "  ".join(cells)).rstrip())


def _shade(count: str) -> str:
    """Red where nothing was seen, yellow where little was."""
    if not count.isdigit():
        return "red"
    return "yellow" if int(count) < 5 else ""


def _bars(console: Console, bars: tuple[tuple[str, int], ...]) -> None:
    from rich.text import Text

    from softrobust.inspection.result import percent

    most = max(n for _, n in bars)
    total = sum(n for _, n in bars)
    label = min(max(len(name) for name, _ in bars), 30)
    digits = len(str(most))
    for name, n in bars:
        short = name if len(name) <= label else f"{name[: label - 1]}…"
        bar = "█" * round(BAR * n / most) or ("▏" if n else "")
        line = Text(f"  {short:>{label}}  {n:>{digits}}  ")
        line.append(bar, style="blue")
        line.append(f" {percent(n, total)}" if n else "", style="dim")
        console.print(line, soft_wrap=True)
