"""Mean against the bad case, a curve for each method, λ beside the points."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from softrobust.experiments.curves import MODELS
from softrobust.experiments.figures import new_figure, plain
from softrobust.experiments.intervals import Interval
from softrobust.experiments.labels import grouped, place
from softrobust.experiments.methods import LOOKS

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

PANEL = (4.9, 4.3)
CLOSER = "closer, "
CLOSE = 0.25  # of the width: curves that take less get a closer look


def draw(numbers: Mapping[str, Any]) -> Figure:
    """A row of panels (training, held-out) for each variant, and a closer look where needed."""
    rows = [row for label, v in numbers["variants"].items() for row in _rows(label, _seen(v))]
    figure = new_figure(2 * PANEL[0], PANEL[1] * len(rows) + 0.7)
    panels = figure.subplots(len(rows), 2, squeeze=False)
    shown: dict[str, Any] = {}
    for line, (title, points, near) in zip(panels, rows, strict=True):
        for axes, models in zip(line, MODELS, strict=True):
            shown |= _panel(axes, points, models, numbers["tail_words"], near)
            axes.set_title(f"{title}{models} models", fontsize=10)
    names = [name for name in LOOKS if name in shown]
    figure.legend(
        [shown[name] for name in names], [LOOKS[name].label for name in names],
        loc="outside upper center", ncols=3, frameon=False, fontsize=8.5,
    )  # fmt: skip
    figure.canvas.draw()  # the layout must be final before labels are placed in pixels
    figure.set_layout_engine("none")
    for i, line in enumerate(panels):
        closer = i + 1 < len(rows) and CLOSER in rows[i + 1][0]  # labels of the others are there
        for axes, models in zip(line, MODELS, strict=True):
            _label(axes, rows[i][1], models, {"bcr"} if closer else set(LOOKS))
    return figure


Row = tuple[str, dict[str, Any], dict[str, Any]]  # title, curves, curves that set the limits


def _seen(variant: Mapping[str, Any]) -> dict[str, Any]:
    """The curves that go into the picture; the tables have all of them."""
    return {name: c for name, c in variant["points"].items() if not LOOKS[name].hidden}


def _rows(label: str, points: dict[str, Any]) -> list[Row]:
    """All curves; and, where BCR's alone makes the others a dot, a closer look at those."""
    title = f"{label}: " if label else ""
    near = {name: curve for name, curve in points.items() if name != "bcr"}
    if all(_range(near, m) > CLOSE * _range(points, m) for m in MODELS):
        return [(title, points, points)]
    return [(title, points, points), (f"{title}{CLOSER}", points, near)]


def _range(points: Mapping[str, Any], models: str) -> float:
    at = [p[models]["cvar"]["value"] for curve in points.values() for p in curve]
    return float(max(at) - min(at))


def _panel(
    axes: Axes, points: Mapping[str, Any], models: str, tail_words: str, near: Mapping[str, Any]
) -> dict[str, Any]:
    shown = {}
    for i, (name, curve) in enumerate(points.items()):
        look = LOOKS[name]
        x = [p[models]["cvar"]["value"] for p in curve]
        y = [p[models]["mean"]["value"] for p in curve]
        _crosses(axes, [p[models] for p in curve], look.colour)
        (shown[name],) = axes.plot(
            x, y, color=look.colour, marker=look.marker, markersize=6.5, linewidth=1.3,
            markeredgecolor="white", markeredgewidth=0.6, zorder=3 if name != "nominal" else 4 + i,
        )  # fmt: skip
    axes.set_xlabel(f"average return over {tail_words}")
    axes.set_ylabel("average return over all models")
    _limits(axes, near, models)
    axes.locator_params(nbins=6)
    plain(axes)
    return shown


def _limits(axes: Axes, points: Mapping[str, Any], models: str) -> None:
    """Room for the points and their labels; a long interval may leave the picture."""
    for key, put in (("cvar", axes.set_xlim), ("mean", axes.set_ylim)):
        at = [p[models][key]["value"] for curve in points.values() for p in curve]
        room = 0.16 * max(max(at) - min(at), 1e-3 * max(abs(a) for a in at), 1e-9)
        put(min(at) - room, max(at) + room)


def _crosses(axes: Axes, points: list[Mapping[str, Any]], colour: str) -> None:
    """Intervals of the paired difference to the nominal policy, drawn about the average."""
    from matplotlib.collections import LineCollection

    lines = []
    for p in points:
        x, y = p["cvar"]["value"], p["mean"]["value"]
        i, j = (Interval.from_dict(p[key]["less_nominal"]) for key in ("cvar", "mean"))
        if i.n > 1:
            lines.append([(x + i.low - i.value, y), (x + i.high - i.value, y)])
            lines.append([(x, y + j.low - j.value), (x, y + j.high - j.value)])
    axes.add_collection(
        LineCollection(lines, colors=colour, linewidths=0.9, alpha=0.4), autolim=False
    )


def _label(axes: Axes, points: Mapping[str, Any], models: str, names: set[str]) -> None:
    labels, avoid = [], []
    (x0, x1), (y0, y1) = axes.get_xlim(), axes.get_ylim()
    for name, curve in points.items():
        x = [p[models]["cvar"]["value"] for p in curve]
        y = [p[models]["mean"]["value"] for p in curve]
        avoid += list(zip(x, y, strict=True))
        if curve[0]["lam"] is not None and name in names:
            made = grouped(axes, x, y, [p["lam"] for p in curve], LOOKS[name].colour)
            labels += [a for a in made if x0 <= a.x <= x1 and y0 <= a.y <= y1]
    place(axes, labels, np.array(avoid))
