"""Pictures: one style, light background, saved as SVG and PNG without a date in the file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from softrobust.data.files import atomic_write
from softrobust.experiments.intervals import Interval

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

INK, GRID = "#222222", "#e3e3e3"
# Okabe and Ito (2008): told apart with any colour vision.
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#555555", "#8c6d1f")


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


def intervals_of(d: Mapping[str, Any]) -> dict[str, Interval]:
    """Intervals by name from their JSON."""
    return {name: Interval.from_dict(value) for name, value in d.items()}


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
