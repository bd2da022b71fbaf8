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
    from rich.console import Console
    from rich.text import Text

WIDTH = 100  # of running text, at most
LEAST = 10  # cells that a column of words keeps
GAP = 2  # between two columns
# C0 and C1 controls but the newline, and marks that turn the direction of what follows.
_CONTROL = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\u2028\u2029]")


def make_console(error: bool = False) -> Console:
    """A console that shows text as it is; its width is that of the terminal, or COLUMNS."""
    from rich.console import Console

    return Console(stderr=error, markup=False, highlight=False, emoji=False, soft_wrap=True)


def visible(text: str) -> str:
    r"""Text without control characters: each is written out, ESC as \x1b."""
    return _CONTROL.sub(lambda found: _written(found.group()), text)


def _written(character: str) -> str:
    code = ord(character)
    return f"\\x{code:02x}" if code < 256 else f"\\u{code:04x}"


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

    Parameters
    ----------
    head : sequence of str
        Names of the columns; a newline in one gives it two lines.
    words : collection of int
        Columns of words: to the left, and folded where need be. The others hold figures, which
        stand to the right and stay whole.
    styles : sequence of str
        A style for each row; none by default.
    """
    from rich.text import Text

    cells = [[c if isinstance(c, Text) else styled(c) for c in row] for row in rows]
    limit = table_width(console)
    widths = _fitting(head, cells, words, None if limit is None else limit - indent)
    if widths is None:
        _blocks(console, head, cells, words, styles, indent, limit or WIDTH)
        return
    deep = max(name.count("\n") for name in head)
    tops = [styled("\n" * (deep - name.count("\n")) + name, "dim") for name in head]
    _row(console, tops, widths, words, indent, "")
    for i, row in enumerate(cells):
        _row(console, row, widths, words, indent, styles[i] if styles else "")


def _fitting(
    head: Sequence[str],
    cells: Sequence[Sequence[Text]],
    words: Collection[int],
    limit: int | None,
) -> list[int] | None:
    """Widths of the columns within the limit; None where figures would have to be cut."""
    from rich.cells import cell_len

    widths = []
    for j, name in enumerate(head):
        lines = name.split("\n") + [line for row in cells for line in row[j].plain.split("\n")]
        widths.append(max(cell_len(line) for line in lines))
    if limit is None:
        return widths
    over = sum(widths) + GAP * (len(widths) - 1) - limit
    while over > 0:
        wide = [j for j in words if widths[j] > LEAST]
        if not wide:
            return None
        j = max(wide, key=lambda j: widths[j])
        least = max(LEAST, *(widths[i] for i in wide if i != j)) if len(wide) > 1 else LEAST
        cut = min(over, max(widths[j] - least, 1))
        widths[j] -= cut
        over -= cut
    return widths


def _row(
    console: Console,
    row: Sequence[Text],
    widths: Sequence[int],
    words: Collection[int],
    indent: int,
    style: str,
) -> None:
    """One row of a table, over as many lines as its words need."""
    from rich.text import Text

    folded = [cell.wrap(console, max(widths[j], 1), overflow="fold") for j, cell in enumerate(row)]
    for i in range(max(len(lines) for lines in folded)):
        line = Text(" " * indent, style=style)
        for j, lines in enumerate(folded):
            cell = lines[i].copy() if i < len(lines) else Text()
            cell.rstrip()
            pad = " " * max(widths[j] - cell.cell_len, 0)
            line.append(" " * (GAP if j else 0))
            line.append_text(cell + Text(pad) if j in words else Text(pad) + cell)
        line.rstrip()
        console.print(line)


def _blocks(
    console: Console,
    head: Sequence[str],
    cells: Sequence[Sequence[Text]],
    words: Collection[int],
    styles: Sequence[str],
    indent: int,
    limit: int,
) -> None:
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
