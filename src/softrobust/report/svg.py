"""Pictures by hand: a few elements of SVG, round ticks, and labels that keep their distance.

A picture is plain SVG without scripts, sized by its viewBox and coloured by classes of the page's
style sheet, so that one picture serves light, dark and print. Every text is escaped here.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape
from itertools import pairwise
from typing import final

from softrobust.report.words import MINUS

SHAPES: dict[str, list[tuple[float, float]]] = {
    "◆": [(0, -1.25), (1.25, 0), (0, 1.25), (-1.25, 0)],
    "▲": [(0, -1.2), (1.2, 1.0), (-1.2, 1.0)],
    "■": [(-1, -1), (1, -1), (1, 1), (-1, 1)],
}
LETTER = 6.1  # width of a letter at the pictures' 11 units, on average and generously


@final
@dataclass(frozen=True, slots=True)
class Scale:
    """Maps values from `low` to `high` onto positions from `start` to `end`."""

    low: float
    high: float
    start: float
    end: float

    def __call__(self, value: float) -> float:
        """The position of a value."""
        share = (value - self.low) / (self.high - self.low)
        return self.start + share * (self.end - self.start)

    def ticks(self, most: int = 5) -> list[tuple[float, str]]:
        """Round values inside the range, at most `most`, with their texts."""
        step = _round_step((self.high - self.low) / most)
        first, last = math.ceil(self.low / step - 1e-9), math.floor(self.high / step + 1e-9)
        return [(i * step, tick_text(i * step, step)) for i in range(first, last + 1)]


def _round_step(raw: float) -> float:
    """The next of 1, 2, 2.5, 5 times a power of ten."""
    power = 10.0 ** math.floor(math.log10(raw))
    return next(m * power for m in (1, 2, 2.5, 5, 10) if m * power >= raw * (1 - 1e-9))


def tick_text(value: float, step: float) -> str:
    """A tick with the decimals that its step needs."""
    if abs(value) < 1e-9 * step:
        return "0"
    place = math.floor(math.log10(step) + 1e-9)  # of the last digit that tells neighbours apart
    if abs(step / 10**place - 2.5) < 1e-6:
        place -= 1
    if abs(value) >= 1e7 or step < 1e-5:
        digits = math.floor(math.log10(abs(value)) + 1e-9) - place + 1
        text = f"{value:.{max(digits, 1)}g}"
    else:
        text = f"{value:,.{max(-place, 0)}f}"
    return text.replace("-", MINUS, 1) if text.startswith("-") else text


def picture(width: float, height: float, parts: Iterable[str], style: str = "") -> str:
    """The <svg> element; what it shows is said in words beside it."""
    kind = f' class="{style}"' if style else ""
    body = "\n".join(part for part in parts if part)
    size = f"{_n(width)} {_n(height)}"
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {size}" width="{_n(width)}"{kind} '
        f'aria-hidden="true" focusable="false">\n{body}\n</svg>'
    )


def line(x1: float, y1: float, x2: float, y2: float, style: str) -> str:
    """A straight line."""
    return f'<path class="{style}" d="M{_n(x1)} {_n(y1)}L{_n(x2)} {_n(y2)}"/>'


def path(points: Sequence[tuple[float, float]], style: str, close: bool = False) -> str:
    """A line through points; closed, an area."""
    steps = "L".join(f"{_n(x)} {_n(y)}" for x, y in points)
    return f'<path class="{style}" d="M{steps}{"Z" if close else ""}"/>'


def text(x: float, y: float, words: str, style: str = "", anchor: str = "start") -> str:
    """Words at a place; `anchor` is start, middle or end."""
    kind = f' class="{style}"' if style else ""
    side = "" if anchor == "start" else f' text-anchor="{anchor}"'
    return f'<text x="{_n(x)}" y="{_n(y)}"{kind}{side}>{escape(words)}</text>'


def rect(
    x: float, y: float, width: float, height: float, style: str, hover: str = "", more: str = ""
) -> str:
    """A box; `hover` is shown by the browser when a pointer rests on it."""
    size = f'x="{_n(x)}" y="{_n(y)}" width="{_n(width)}" height="{_n(height)}"'
    return _with_title(f'rect class="{style}" {size}{more}', "rect", hover)


def dot(x: float, y: float, r: float, style: str, hover: str = "", more: str = "") -> str:
    """A disc."""
    place = f'cx="{_n(x)}" cy="{_n(y)}" r="{_n(r)}"'
    return _with_title(f'circle class="{style}" {place}{more}', "circle", hover)


def mark(x: float, y: float, shape: str, style: str, hover: str = "", r: float = 4.2) -> str:
    """● mean, ▲ VaR, ◆ CVaR, ■ another policy."""
    if shape == "●":
        return dot(x, y, r, style, hover)
    around = SHAPES[shape]
    steps = "L".join(f"{_n(x + r * dx)} {_n(y + r * dy)}" for dx, dy in around)
    return _with_title(f'path class="{style}" d="M{steps}Z"', "path", hover)


def _with_title(opening: str, name: str, hover: str) -> str:
    if not hover:
        return f"<{opening}/>"
    return f"<{opening}><title>{escape(hover)}</title></{name}>"


def axis_below(scale: Scale, y: float, most: int = 5) -> list[str]:
    """A line with ticks and their texts below it; texts keep inside the picture."""
    parts = [line(scale.start, y, scale.end, y, "axis")]
    for value, words in scale.ticks(most):
        x = scale(value)
        half = LETTER * len(words) / 2
        at = min(max(x, scale.start + half), scale.end - half)
        parts += [line(x, y, x, y + 4, "axis"), text(at, y + 16, words, anchor="middle")]
    return parts


def grid(x: Scale, y: Scale, most: int, most_x: int = 6) -> list[str]:
    """Lines at the ticks of y, with their texts on the left, and the axis of x below."""
    parts = []
    for value, words in y.ticks(most):
        parts.append(line(x.start, y(value), x.end, y(value), "grid"))
        parts.append(text(x.start - 6, y(value) + 4, words, "soft", "end"))
    return parts + axis_below(x, y.start, most_x)


def _n(x: float) -> str:
    """A coordinate, to a tenth of a unit."""
    return f"{x:.1f}".removesuffix(".0")


@final
class Labeller:
    """Places words beside points so that they cover neither each other nor a point."""

    def __init__(self, width: float, height: float) -> None:
        self.width, self.height = width, height
        self.taken: list[tuple[float, float, float, float]] = []

    def keep_clear(self, x: float, y: float, r: float) -> None:
        """Nothing may be written over this disc."""
        self.taken.append((x - r, y - r, x + r, y + r))

    def keep_line_clear(self, points: Sequence[tuple[float, float]]) -> None:
        """Nothing may be written over the line through these points."""
        for (x1, y1), (x2, y2) in pairwise(points):
            n = max(1, int(math.hypot(x2 - x1, y2 - y1) / 5))
            for i in range(n + 1):
                self.keep_clear(x1 + (x2 - x1) * i / n, y1 + (y2 - y1) * i / n, 1.5)

    def place(self, x: float, y: float, words: str, style: str = "", gap: float = 9.0) -> str:
        """The words beside (x, y); nothing where there is no room on any side."""
        long = LETTER * len(words)
        for dx, dy, anchor in (
            (gap, -gap + 4, "start"), (gap, gap + 6, "start"), (-gap, -gap + 4, "end"),
            (-gap, gap + 6, "end"), (0.0, -gap - 2, "middle"), (0.0, gap + 10, "middle"),
        ):  # fmt: skip
            left = x + dx - {"start": 0.0, "middle": long / 2, "end": long}[anchor]
            box = (left, y + dy - 10, left + long, y + dy + 3)
            if self._free(box):
                self.taken.append(box)
                return text(x + dx, y + dy, words, style, anchor)
        return ""

    def _free(self, box: tuple[float, float, float, float]) -> bool:
        left, top, right, bottom = box
        if left < 0 or top < 0 or right > self.width or bottom > self.height:
            return False
        return all(right <= a or c <= left or bottom <= b or d <= top for a, b, c, d in self.taken)
