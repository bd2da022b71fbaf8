"""The picture of figure 3: densities with lanes of marks below."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from softrobust.experiments.figures import new_figure, plain
from softrobust.experiments.methods import LOOKS
from softrobust.objective import cvar
from softrobust.reporting.plots import Curve, x_range

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

LINES = {"static": "-", "bcr": (0, (5, 2)), "nominal": (0, (1.5, 1.5))}
WORDS = {
    "static": "static soft-robust, λ = ½",
    "bcr": "BCR, full sets",
    "nominal": "nominal (mean model)",
}


def draw(numbers: Mapping[str, Any]) -> Figure:
    """One log as in the paper, and all logs together on held-out models."""
    figure = new_figure(9.6, 4.0)
    left, right = figure.subplots(1, 2)
    logs, alpha = numbers["logs"], numbers["alpha"]
    first = {name: np.array(logs[0]["returns"][name]["training"]) for name in WORDS}
    pooled = {
        name: np.concatenate([log["returns"][name]["held-out"] for log in logs]) for name in WORDS
    }
    _panel(left, first, alpha, f"data seed {logs[0]['seed']}, training models")
    _panel(right, pooled, alpha, f"{len(logs)} logs, held-out models")
    handles, labels = left.get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper center", ncols=3, frameon=False, fontsize=9)
    return figure


def _panel(axes: Axes, returns: Mapping[str, Any], alpha: float, title: str) -> None:
    curves = {name: Curve(z, np.full(z.size, 1 / z.size)) for name, z in returns.items()}
    limits = x_range(list(curves.values()))
    x = np.linspace(*limits, 500)
    shapes = {name: c.density(x) for name, c in curves.items()}
    top = max(float(y.max()) for y in shapes.values())
    for i, (name, y) in enumerate(shapes.items()):
        colour = LOOKS[name].colour
        axes.plot(x, y / top, color=colour, linestyle=LINES[name], linewidth=2, label=WORDS[name])
        lane = -0.08 * (i + 1)
        low, mean = cvar(returns[name], None, alpha), float(np.mean(returns[name]))
        axes.plot([low, mean], [lane, lane], color=colour, linewidth=1.2)
        axes.plot([low], [lane], "D", color=colour, markersize=6)
        axes.plot([mean], [lane], "o", color=colour, markersize=6.5)
    axes.axhline(0, color="#999999", linewidth=0.8)
    axes.set_ylim(-0.08 * (len(shapes) + 1), 1.05)
    axes.set_yticks([])
    axes.set_xlabel("return (dollars, discounted)")
    axes.set_title(title, fontsize=10)
    plain(axes, "x")
    axes.spines["left"].set_visible(False)
