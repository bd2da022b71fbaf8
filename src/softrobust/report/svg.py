"""Pictures by hand: a few elements of SVG, round ticks, and labels that keep their distance.

A picture is plain SVG without scripts, sized by its viewBox and coloured by classes of the page's
style sheet, so that one picture serves light, dark and print. Every text is escaped here. Outside
the page (a notebook, a file for a paper) the rules of that sheet become attributes of the elements;
PNG and PDF are the same elements on matplotlib's canvas.
"""

import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape
from importlib import resources
from itertools import pairwise
from pathlib import Path
from typing import Any, final
from xml.etree import ElementTree

from softrobust._core.files import atomic_write
from softrobust.errors import InputError
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
        raw = (self.high - self.low) / most
        power = 10.0 ** math.floor(math.log10(raw))  # steps are 1, 2, 2.5, 5 times such
        step = next(m * power for m in (1, 2, 2.5, 5, 10) if m * power >= raw * (1 - 1e-9))
        first, last = math.ceil(self.low / step - 1e-9), math.floor(self.high / step + 1e-9)
        return [(i * step, tick_text(i * step, step)) for i in range(first, last + 1)]


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


@final
class Picture(str):
    """An <svg> element for a page that has the style sheet; elsewhere it brings its own look."""

    __slots__ = ()

    def _repr_svg_(self) -> str:
        return standalone(self)

    def save(self, *paths: str | Path) -> None:
        """Write it as SVG, PNG or PDF, by the endings of the names, atomically."""
        for path in paths:
            kind = Path(path).suffix.lstrip(".").lower()
            if kind not in ("svg", "png", "pdf"):
                raise InputError(f"A picture is written as .svg, .png or .pdf; it got '{path}'.")
            alone = standalone(self)
            with atomic_write(path, "wb") as file:
                file.write(alone.encode()) if kind == "svg" else _on_canvas(alone, file, kind)


def picture(
    width: float, height: float, parts: Iterable[str], style: str, title: str, about: str = ""
) -> Picture:
    """The <svg> element; `title` and `about` say what it shows to those who cannot see it."""
    body = "\n".join(part for part in parts if part)
    size = f"{_n(width)} {_n(height)}"
    return Picture(
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {size}" width="{_n(width)}" '
        f'class="{style}" role="img"><title>{escape(title)}</title>'
        f"<desc>{escape(about)}</desc>\n{body}\n</svg>"
    )


def line(x1: float, y1: float, x2: float, y2: float, style: str) -> str:
    """A straight line."""
    return path([(x1, y1), (x2, y2)], style)


def lines(ends: Sequence[tuple[tuple[float, float], tuple[float, float]]], style: str) -> str:
    """Straight lines as one element."""
    steps = "".join(f"M{_n(a)} {_n(b)}L{_n(c)} {_n(d)}" for (a, b), (c, d) in ends)
    return f'<path class="{style}" d="{steps}"/>'


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
    return f"<{opening}><title>{escape(hover)}</title></{name}>" if hover else f"<{opening}/>"


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
            top, right, bottom = y + dy - 10, left + long, y + dy + 3
            inside = left >= 0 and top >= 0 and right <= self.width and bottom <= self.height
            if inside and all(
                right <= a or c <= left or bottom <= b or d <= top for a, b, c, d in self.taken
            ):
                self.taken.append((left, top, right, bottom))
                return text(x + dx, y + dy, words, style, anchor)
        return ""


# -- outside the page --------------------------------------------------------------------------

_ELEMENT = re.compile(r'<(svg|path|circle|rect|text)\b((?:[^>"]|"[^"]*")*?)(/?)>')
_SHOWN = ("fill", "stroke", "stroke-width", "stroke-dasharray", "fill-opacity", "stroke-opacity",
          "font-size", "font-weight")  # fmt: skip


def standalone(svg: str) -> str:
    """The picture with the style sheet's light colours as attributes of its elements."""
    sheet = resources.files("softrobust.report").joinpath("style.css").read_text(encoding="utf-8")
    root = dict(re.findall(r"(--\w+):\s*([^;]+);", sheet[: sheet.index("@media")]))
    drawn = sheet[sheet.index("/* pictures */") : sheet.index("/* end of pictures */")]
    rules: list[tuple[tuple[int, bool, int], str, set[str], list[tuple[str, str]]]] = []
    for names, body in re.findall(r"([^{}]+)\{([^{}]*)\}", re.sub(r"/\*.*?\*/", "", drawn)):
        pairs = [part.split(":", 1) for part in body.split(";") if ":" in part]
        for name in names.split(","):
            tag, *classes = name.split()[-1].split(".")
            rank = (len(classes), tag != "", len(rules))
            rules.append((rank, tag, set(classes), [(k.strip(), v.strip()) for k, v in pairs]))
    rules.sort(key=lambda rule: rule[0])

    def looked_up(found: re.Match[str]) -> str:
        tag, given, end = found.groups()
        own = set(" ".join(re.findall(r'class="([^"]*)"', given)).split())
        look: dict[str, str] = dict(root)
        for _, name, classes, pairs in rules:
            if name in ("", tag) and classes <= own:
                look.update(pairs)
        more = ' font-family="sans-serif"' if tag == "svg" else ""
        for name in _SHOWN if tag != "svg" else ():
            value = look.get(name, "")
            while "var(" in value:
                value = re.sub(r"var\((--\w+)\)", lambda m: look[m[1]], value)
            more += f' {name}="{value}"' if value else ""
        return f"<{tag}{given}{more}{end}>"

    return _ELEMENT.sub(looked_up, svg)


def _on_canvas(svg: str, file: Any, kind: str) -> None:
    """Draw the few elements that our pictures have with matplotlib, for PNG and PDF."""
    from matplotlib import patches
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure
    from matplotlib.path import Path as Outline

    root = ElementTree.fromstring(svg)
    _, _, width, height = map(float, root.attrib["viewBox"].split())
    figure = Figure(figsize=(width / 72, height / 72))
    FigureCanvasAgg(figure)
    axes = figure.add_axes((0, 0, 1, 1), xlim=(0, width), ylim=(height, 0))
    axes.set_axis_off()
    for e in root.iter():
        tag, at = e.tag.rpartition("}")[2], e.attrib
        place = [float(at[k]) for k in ("x", "y", "cx", "cy", "width", "height", "r") if k in at]
        if tag == "text":
            side = {"middle": "center", "end": "right"}.get(at.get("text-anchor", ""), "left")
            words, size = (e.text or "").replace("$", r"\$"), float(at["font-size"][:-2])
            axes.text(place[0], place[1], words, ha=side, va="baseline", color=at["fill"],
                      size=size, weight="bold" if "font-weight" in at else "normal")  # fmt: skip
            continue
        if tag == "path":
            codes = re.findall("[ML]", at["d"])
            ends = [tuple(map(float, p.split())) for p in re.split("[MLZ]", at["d"]) if p]
            kinds = [Outline.MOVETO if code == "M" else Outline.LINETO for code in codes]
            shape: Any = patches.PathPatch(Outline(ends, kinds))
        elif tag == "rect":
            shape = patches.Rectangle((place[0], place[1]), place[2], place[3])
        elif tag == "circle":
            shape = patches.Circle((place[0], place[1]), place[2])
        else:
            continue
        fill, dashes = at.get("fill", "none"), at.get("stroke-dasharray")
        shape.set_facecolor((fill, float(at.get("fill-opacity", 1))) if fill != "none" else fill)
        shape.set_edgecolor(at.get("stroke", "none"))
        shape.set_linewidth(float(at.get("stroke-width", 1)))
        if dashes:
            shape.set_linestyle((0, tuple(map(float, dashes.split()))))
        axes.add_patch(shape)
    undated = {"CreationDate": None} if kind == "pdf" else None  # the same picture, the same file
    figure.savefig(file, format=kind, dpi=200, metadata=undated)
