"""The picture of figure 5: mean against CVaR on either models, and the learning curves."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from softrobust.experiments.figures import COLOURS, INK, new_figure, plain

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

LOOKS = {
    "srvi": ("SRVI (λ beside the mark)", COLOURS[1], "s"),
    "rpvi-control": ("worst-model value iteration", COLOURS[6], "p"),
    "sr-sac": ("SR-SAC", COLOURS[0], "o"),
    "r-sac": ("R-SAC", COLOURS[2], "^"),
}


def draw(numbers: Mapping[str, Any]) -> Figure:
    """Two panels of returns and one of training."""
    figure = new_figure(12.6, 4.2)
    left, middle, right = figure.subplots(1, 3)
    for axes, word in ((left, "training"), (middle, "held-out")):
        _returns(axes, numbers, word)
    _curves(right, numbers)
    figure.legend(
        *left.get_legend_handles_labels(), loc="outside upper center", ncols=4, frameon=False,
        fontsize=9,
    )  # fmt: skip
    return figure


def _returns(axes: Axes, numbers: Mapping[str, Any], word: str) -> None:
    for name, found in numbers["scores"].items():
        base, _, form = name.partition(" ")
        if base not in LOOKS:
            continue  # never and always treating lie far outside
        text, colour, marker = LOOKS[base]
        x, y = (np.asarray(found[word][measure]) for measure in ("mean", "cvar"))
        face = "white" if form == "greedy" else colour
        axes.plot(x, y, marker, color=colour, markersize=3.5, alpha=0.45, linestyle="")
        first = base != "srvi" or form == f"{numbers['lams'][0]:g}"
        axes.plot(
            x.mean(), y.mean(), marker, markeredgecolor=colour, markerfacecolor=face,
            markersize=9, linestyle="", label=text if first and form != "greedy" else None,
        )  # fmt: skip
        if base == "srvi":
            axes.annotate(
                form, (float(x.mean()), float(y.mean())), xytext=(8, 6), fontsize=8.5,
                textcoords="offset points", color=colour,
            )  # fmt: skip
    axes.set_xlabel("mean return over models")
    axes.set_ylabel(f"CVaR at α = {numbers['alpha']:g}: worst {100 * (1 - numbers['alpha']):.0f} %")
    axes.set_title(f"{word} models", fontsize=10)
    plain(axes)


def _curves(axes: Axes, numbers: Mapping[str, Any]) -> None:
    for name in ("sr-sac", "r-sac"):
        curve = numbers["training"][name]["curve"]
        _, colour, _ = LOOKS[name]
        for row in curve["returns"]:
            axes.plot(curve["iteration"], row, color=colour, linewidth=0.8, alpha=0.6)
    axes.axhline(0, color=INK, linewidth=0.7)
    axes.set_xlabel("iteration")
    axes.set_ylabel("return of training episodes (mean model)")
    axes.set_title(f"actor-critics on {numbers['training']['sr-sac']['device']}", fontsize=10)
    plain(axes)
