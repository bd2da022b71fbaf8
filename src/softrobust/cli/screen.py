r"""The screen: the one place where text leaves for a terminal or a pipe.

Labels, paths and reasons come from files, so nothing in them is an instruction: no markup, no
emoji codes, no control characters (they are shown as \x1b and the like). A table fits the width or
stands as one block per row; a figure is never cut.
"""

from __future__ import annotations

import os
import re
import sys
import textwrap
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import Console, JustifyMethod
    from rich.text import Text

WIDTH = 100  # of running text, at most
LEAST = 10  # cells that a column of words keeps
GAP = 2  # between two columns
# C0 and C1 controls but the newline, and marks that turn the direction of what follows.
_CONTROL = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\u2028\u2029]")


def make_console(error: bool = False) -> Console:
    """A console that shows text as it is; its width is that of the terminal, or COLUMNS."""
    from rich.console import Console

    from softrobust._core.limits import stage

    stage()
    return Console(stderr=error, markup=False, highlight=False, emoji=False, soft_wrap=True)


def visible(text: str) -> str:
    r"""Text without control characters: each is written out, ESC as \x1b."""

    def written(found: re.Match[str]) -> str:
        code = ord(found.group())
        return f"\\x{code:02x}" if code < 256 else f"\\u{code:04x}"

    return _CONTROL.sub(written, text)


def styled(text: str, style: str = "") -> Text:
    """Text for a console, with controls written out."""
    from rich.text import Text

    return Text(visible(text), style=style)


def table_width(console: Console) -> int | None:
    """Cells a table may take; None in a pipe whose reader has named no width (COLUMNS)."""
    if console.is_terminal or os.environ.get("COLUMNS", "").isdigit():
        return console.width
    return None


def text_width(console: Console) -> int:
    """Cells a line of running text may take."""
    return min(table_width(console) or WIDTH, WIDTH)


def say(text: str = "", *, error: bool = False, style: str = "") -> None:
    """One line (or several), as it is: not wrapped, not cut."""
    make_console(error).print(styled(text, style))


def print_record(record: Any) -> None:
    """Plain values as JSON on stdout (which writes controls out by itself)."""
    from softrobust._core.limits import stage

    stage()
    import json

    sys.stdout.write(json.dumps(record, indent=1, allow_nan=False) + "\n")


def say_exactly(text: str) -> None:
    """A label for a script: untouched in a pipe, with controls written out on a terminal."""
    print(visible(text) if sys.stdout.isatty() else text)


def paragraph(
    console: Console, words: str, style: str = "", indent: str = "", rest: str | None = None
) -> None:
    """A sentence, wrapped; `indent` begins the first line, `rest` the others."""
    console.print(styled(wrapped(console, words, indent, rest), style))


def wrapped(console: Console, words: str, indent: str = "", rest: str | None = None) -> str:
    """The text of a paragraph; a number stays with its sign and names stay whole."""
    rest = " " * len(indent) if rest is None else rest
    whole = visible(words.replace("`", "")).replace(" %", "\u00a0%")
    filled = textwrap.fill(
        whole, text_width(console), initial_indent=indent, subsequent_indent=rest,
        break_long_words=False, break_on_hyphens=False,
    )  # fmt: skip
    return plain(filled)


def plain(words: str) -> str:
    """A sentence as a terminal shows it: plain spaces, no marks of code."""
    return words.translate({0x60: None, 0xA0: " ", 0x202F: " "})


def show_table(
    console: Console,
    head: Sequence[str],
    rows: Sequence[Sequence[str | Text]],
    *,
    words: Collection[int] = (0,),
    styles: Sequence[str] = (),
    indent: int = 0,
) -> None:
    """Rows under a head, or one block per row where the width is too small for that.

    Columns in `words` stand to the left and are folded where need be; the others hold figures,
    which stand to the right and stay whole. A newline in a head gives it two lines.
    """
    from rich.cells import cell_len
    from rich.padding import Padding
    from rich.table import Table
    from rich.text import Text

    cells = [[c if isinstance(c, Text) else styled(c) for c in row] for row in rows]
    table = Table(box=None, padding=(0, GAP, 0, 0), pad_edge=False, header_style="dim")
    least = []
    for j, name in enumerate(head):
        lines = name.split("\n") + [line for row in cells for line in row[j].plain.split("\n")]
        longest = max(cell_len(line) for line in lines)
        least.append(min(longest, LEAST) if j in words else longest)
        side: JustifyMethod = "left" if j in words else "right"
        table.add_column(styled(name), justify=side, overflow="fold", min_width=least[-1])
    for i, row in enumerate(cells):
        table.add_row(*row, style=styles[i] if styles else None)
    limit = table_width(console)
    if limit is not None and indent + sum(least) + GAP * (len(least) - 1) > limit:
        _blocks(console, head, cells, words, styles, indent, limit)
        return
    if limit is None:  # nobody has said how wide a line may be
        console.width = 10_000
    console.print(Padding(table, (0, 0, 0, indent), expand=False), soft_wrap=False)


def _blocks(
    console: Console, head: Sequence[str], cells: Sequence[Sequence[Text]], words: Collection[int],
    styles: Sequence[str], indent: int, limit: int,
) -> None:  # fmt: skip
    """Each row as a block: its first cell, then a line for each figure."""
    from rich.text import Text

    names = [name.replace("\n", " ") for name in head]
    longest = max(len(name) for name in names[1:])
    margin = " " * (indent + 2)
    first = Text("·")
    for i, row in enumerate(cells):
        style = styles[i] if styles and styles[i] else "bold"
        if row[0].plain.strip():  # a blank one repeats the one above it
            first = row[0] if 0 in words else Text(f"{names[0]} ") + row[0]
        for line in first.copy().wrap(console, max(limit - indent, 1), overflow="fold"):
            line.rstrip()
            console.print(Text(" " * indent, style=style).append_text(line))
        for name, cell in zip(names[1:], row[1:], strict=True):
            if not cell.plain.strip():
                continue
            head_text = f"{margin}{name.ljust(longest)}  "
            if len(head_text) + cell.cell_len > limit:
                console.print(Text(f"{margin}{name}", style="dim"))
                head_text = f"{margin}  "
            console.print(Text().append(head_text, "dim").append_text(cell))
