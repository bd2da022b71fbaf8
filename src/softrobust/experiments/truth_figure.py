"""The picture of `truth`: regrets above, kept promises below, a column for each world."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from softrobust.experiments.figures import COLOURS, INK, bar, lane_labels, new_figure, plain
from softrobust.experiments.intervals import mean_interval
from softrobust.experiments.promises import Promise, promises
from softrobust.experiments.truth_tables import LABELS, coverage, strict_level, worst_interval
from softrobust.experiments.worlds import WORLDS

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

GREY = "#8a8a8a"


def draw(numbers: Mapping[str, Any]) -> Figure:
    """Two rows of panels."""
    worlds = numbers["worlds"]
    said = promises(numbers["alpha"], numbers["n_train"], numbers["n_test"])
    strict = strict_level(said, worlds)
    figure = new_figure(3.0 + 2.1 * len(worlds), 9.4)
    panels = figure.subplots(2, len(worlds), squeeze=False, height_ratios=[len(LABELS), len(said)])
    for j, (name, world) in enumerate(worlds.items()):
        _regrets(panels[0, j], world)
        _promises(panels[1, j], world, said, strict)
        panels[0, j].set_title(f"{WORLDS[name].words}\n{len(world['best'])} pairs", fontsize=10)
        for axes, labels in (
            (panels[0, j], LABELS.values()),
            (panels[1, j], [p.words for p in said]),
        ):
            lane_labels(axes, list(labels) if j == 0 else [""] * len(labels))
            plain(axes, "both")
            axes.tick_params(axis="y", length=0, labelsize=8.5)
    return figure


def _regrets(axes: Axes, world: Mapping[str, Any]) -> None:
    for y, method in enumerate(LABELS):
        regret = np.asarray(world["regret"][method])
        colour = COLOURS[1] if method.startswith("static") else COLOURS[0]
        bar(axes, mean_interval(regret), y - 0.14, colour)
        bar(axes, worst_interval(regret), y + 0.14, colour, markerfacecolor="white")
    # Roots keep both the small regrets and the large ones in sight, and 0 on the axis.
    axes.set_xscale("function", functions=(lambda x: np.sqrt(np.maximum(x, 0.0)), np.square))
    axes.set_xlim(left=0)
    axes.locator_params(axis="x", nbins=3)
    axes.set_xlabel("regret: average ●, worst tenth ○", fontsize=9)


def _promises(axes: Axes, world: Mapping[str, Any], said: Sequence[Promise], strict: float) -> None:
    for y, promise in enumerate(said):
        i = coverage(world, promise)
        if promise.level is None:
            bar(axes, i, y, GREY)
            continue
        broken = coverage(world, promise, strict).high < promise.level
        axes.plot([promise.level] * 2, [y - 0.36, y + 0.36], color=INK, linewidth=2)
        bar(axes, i, y, COLOURS[1] if broken else COLOURS[2])
    axes.set_xlim(0, 1.03)
    axes.set_xticks([0, 0.5, 0.9], ["0", "½", "0.9"])
    axes.set_xlabel("share of pairs", fontsize=9)
