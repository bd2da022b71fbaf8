"""Tables as they go into Markdown, CSV and JSON; a cell is text, a number, or an interval."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, final

from softrobust.paper.claims import Interval

Cell = str | float | int | Interval | None


@final
@dataclass(frozen=True, slots=True, eq=False)
class Table:
    """A title, a line on how to read it, columns, and rows of cells."""

    title: str
    note: str
    columns: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]

    @classmethod
    def of(cls, title: str, note: str, columns: Sequence[str], rows: Sequence[Any]) -> Table:
        """From any sequences."""
        return cls(title, note, tuple(columns), tuple(tuple(row) for row in rows))

    def markdown(self) -> str:
        """Numbers to four figures, intervals in brackets."""
        lines = [f"**{self.title}**", "", self.note, ""] if self.note else [f"**{self.title}**", ""]
        lines.append("| " + " | ".join(self.columns) + " |")
        left = [any(isinstance(row[j], str) for row in self.rows) for j in range(len(self.columns))]
        lines.append("|" + "|".join(" :--- " if x else " ---: " for x in left) + "|")
        lines += ["| " + " | ".join(_shown(cell) for cell in row) + " |" for row in self.rows]
        return "\n".join(lines) + "\n"

    def csv(self) -> str:
        """All figures; an interval takes three columns."""
        n = len(self.columns)
        wide = [any(isinstance(row[j], Interval) for row in self.rows) for j in range(n)]
        out = io.StringIO()
        writer = csv.writer(out, lineterminator="\n")
        names = zip(self.columns, wide, strict=True)
        writer.writerow([n for name, w in names for n in _names(name, w)])
        for row in self.rows:
            pairs = zip(row, wide, strict=True)
            writer.writerow([x for cell, w in pairs for x in _spread(cell, w)])
        return out.getvalue()

    def as_dict(self) -> dict[str, Any]:
        """For results.json."""
        rows = [[c.as_dict() if isinstance(c, Interval) else c for c in row] for row in self.rows]
        head = {"title": self.title, "note": self.note, "columns": list(self.columns)}
        return head | {"rows": rows}

    @classmethod
    def from_dict(cls, d: Mapping[str, Any]) -> Table:
        """The inverse of `as_dict`."""
        rows = [
            [Interval.from_dict(c) if isinstance(c, dict) else c for c in row] for row in d["rows"]
        ]
        return cls.of(d["title"], d["note"], d["columns"], rows)


def figure_of(x: float) -> str:
    """Four figures, thousands set apart, no exponent in the ordinary range.

    Examples
    --------
    >>> figure_of(2344.474), figure_of(-0.01234), figure_of(0.0)
    ('2 344', '-0.01234', '0')
    """
    if x == 0:
        return "0"
    if abs(x) >= 1000 and abs(x) < 1e7:
        return f"{x:,.0f}".replace(",", " ")
    return f"{x:.4g}"


def interval_of(i: Interval) -> str:
    """The value with its limits, as in `12.3 [11.9, 12.7]`."""
    if i.n < 2:
        return f"{figure_of(i.value)} (one value)"
    return f"{figure_of(i.value)} [{figure_of(i.low)}, {figure_of(i.high)}]"


def _shown(cell: Cell) -> str:
    if cell is None:
        return "–"
    if isinstance(cell, Interval):
        return interval_of(cell)
    if isinstance(cell, float):
        return figure_of(cell)
    return str(cell).replace("|", "\\|")


def _names(name: str, wide: bool) -> list[str]:
    return [name, f"{name} low", f"{name} high"] if wide else [name]


def _spread(cell: Cell, wide: bool) -> list[Any]:
    if isinstance(cell, Interval):
        return [cell.value, cell.low, cell.high]
    return [cell, None, None] if wide else [cell]
