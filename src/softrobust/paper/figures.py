"""Pictures: one style, light background, saved as SVG and PNG without a date in the file.

Short labels stand beside points so that none hides another. Greedy, in pixels: every label tries
places around its point, near ones first, and takes the one that overlaps least with the points and
with the labels placed before; where it had to move away, a thin line leads back. Points that fall
together are labelled once, with the range of their λ.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from softrobust._core.arrays import FloatArray
from softrobust._core.files import atomic_write
from softrobust.paper.claims import Interval

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


INK, GRID = "#222222", "#e3e3e3"
# Okabe and Ito (2008): told apart with any colour vision.
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#555555", "#8c6d1f")
ANGLES = np.deg2rad([35, 145, -35, -145, 90, -90, 0, 180, 60, 120, -60, -120])
RADII = (11.0, 17.0, 25.0, 35.0, 47.0)
TOGETHER = 5.0  # pixels (at 100 per inch) within which points share a label
FONT = 7.5


def new_figure(width: float, height: float) -> Figure:
    """An empty figure in inches that no window shows."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained", facecolor="white")
    FigureCanvasAgg(figure)
    return figure


def plain(axes: Axes, grid: str = "both") -> None:
    """No box, a light grid behind the marks."""
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(color=GRID, linewidth=0.7, axis=grid)  # type: ignore[arg-type]
    axes.set_axisbelow(True)
    axes.tick_params(labelsize=9)


def bar(axes: Axes, i: Interval, y: float, colour: str, marker: str = "o", **more: Any) -> None:
    """A dot with a horizontal interval at height y."""
    if i.n > 1:
        axes.plot([i.low, i.high], [y, y], color=colour, linewidth=1.8, solid_capstyle="butt")
    axes.plot([i.value], [y], marker=marker, color=colour, markersize=6, linestyle="", **more)


def save(figure: Figure, *paths: str | Path) -> None:
    """Write the picture by the endings of the names, atomically and without a date."""
    from matplotlib import rc_context

    for path in map(Path, paths):
        kind = path.suffix.lstrip(".")
        dated: dict[str, Any] | None = {"Date": None} if kind == "svg" else None
        style = {"svg.hashsalt": path.parent.name, "svg.fonttype": "none"}
        with rc_context(style), atomic_write(path, "wb") as file:
            figure.savefig(file, format=kind, dpi=130, metadata=dated)


def lane_labels(axes: Axes, labels: Sequence[str]) -> None:
    """Rows from top to bottom with their names."""
    axes.set_yticks(range(len(labels)), labels)
    axes.set_ylim(len(labels) - 0.45, -0.55)


class Label(NamedTuple):
    """A point in data coordinates with its text and colour."""

    x: float
    y: float
    text: str
    colour: str


def short(lam: float) -> str:
    """λ as it stands beside a point: 0, .25, 1."""
    return f"{lam:g}".removeprefix("0") if 0 < lam < 1 else f"{lam:g}"


def grouped(
    axes: Axes, x: Sequence[float], y: Sequence[float], lams: Sequence[float], colour: str
) -> list[Label]:
    """Labels of one curve: neighbours along λ that fall together share one."""
    at = axes.transData.transform(np.column_stack([x, y]))
    out: list[Label] = []
    start = 0
    for i in range(1, len(lams) + 1):
        if i < len(lams) and np.hypot(*(at[i] - at[start])) <= TOGETHER:
            continue
        name = short(lams[start])
        text = name if i == start + 1 else f"{name}–{short(lams[i - 1])}"
        out.append(Label(float(x[start]), float(y[start]), text, colour))
        start = i
    return out


def place(axes: Axes, labels: Sequence[Label], avoid: FloatArray) -> None:
    """Write the labels; `avoid` (n, 2) are the points in data coordinates.

    Call it when the limits of the axes are final.
    """
    points = axes.transData.transform(avoid)
    box = axes.get_window_extent()
    taken: list[FloatArray] = []
    for label in labels:
        here = axes.transData.transform((label.x, label.y))
        size = np.array([0.62 * FONT * len(label.text) + 2, FONT + 3]) * axes.figure.dpi / 72
        best, cost = here, np.inf
        for r in RADII:
            for angle in ANGLES:
                reach = r + 0.5 * size[0] * abs(np.cos(angle))
                centre = here + reach * np.array([np.cos(angle), np.sin(angle)])
                c = _cost(centre, size, taken, points, box) + 0.15 * r
                if c < cost:
                    best, cost = centre, c
        taken.append(np.concatenate([best - size / 2, best + size / 2]))
        line = {"arrowstyle": "-", "color": label.colour, "lw": 0.5, "shrinkB": 2}
        far = float(np.hypot(*(best - here))) > RADII[1] + 14
        axes.annotate(
            label.text, (label.x, label.y), xytext=tuple((best - here) * 72 / axes.figure.dpi),
            textcoords="offset points", ha="center", va="center", fontsize=FONT,
            color=label.colour, zorder=6, arrowprops=line if far else None,
            bbox={"boxstyle": "square,pad=0.08", "fc": "white", "ec": "none", "alpha": 0.7},
        )  # fmt: skip


def _cost(
    centre: FloatArray, size: FloatArray, taken: list[FloatArray], points: FloatArray, box: object
) -> float:
    low, high = centre - size / 2, centre + size / 2
    cost = 0.0
    for other in taken:
        overlap = np.minimum(high, other[2:]) - np.maximum(low, other[:2])
        if (overlap > 0).all():
            cost += 40.0 + float(overlap.prod())
    inside = ((points > low - 3) & (points < high + 3)).all(axis=1)
    cost += 25.0 * float(inside.sum())
    x0, y0, x1, y1 = box.extents  # type: ignore[attr-defined]
    if low[0] < x0 or low[1] < y0 or high[0] > x1 or high[1] > y1:
        cost += 60.0
    return cost
