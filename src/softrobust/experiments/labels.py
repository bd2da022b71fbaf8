"""Short labels beside points so that none hides another: greedy, in pixels.

Every label tries places around its point, near ones first, and takes the one that overlaps least
with the points and with the labels placed before; where it had to move away, a thin line leads
back. Points that fall together are labelled once, with the range of their λ.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, final

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from matplotlib.axes import Axes

FloatArray = NDArray[np.float64]
ANGLES = np.deg2rad([35, 145, -35, -145, 90, -90, 0, 180, 60, 120, -60, -120])
RADII = (11.0, 17.0, 25.0, 35.0, 47.0)
TOGETHER = 5.0  # pixels (at 100 per inch) within which points share a label
FONT = 7.5


@final
@dataclass(frozen=True, slots=True)
class Label:
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
        _write(axes, label, here, best)


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


def _write(axes: Axes, label: Label, here: FloatArray, centre: FloatArray) -> None:
    far = float(np.hypot(*(centre - here))) > RADII[1] + 14
    axes.annotate(
        label.text,
        (label.x, label.y),
        xytext=tuple((centre - here) * 72 / axes.figure.dpi),
        textcoords="offset points",
        ha="center",
        va="center",
        fontsize=FONT,
        color=label.colour,
        bbox={"boxstyle": "square,pad=0.08", "fc": "white", "ec": "none", "alpha": 0.7},
        zorder=6,
        arrowprops={"arrowstyle": "-", "color": label.colour, "lw": 0.5, "shrinkB": 2}
        if far
        else None,
    )
