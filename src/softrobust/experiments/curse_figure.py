"""The picture of figure 1: surprises by policy and estimate, and by the number of draws."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from softrobust.experiments.figures import (
    COLOURS,
    INK,
    bar,
    intervals_of,
    lane_labels,
    new_figure,
    plain,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


def draw(numbers: Mapping[str, Any]) -> Figure:
    """Two panels."""
    figure = new_figure(9.6, 4.0)
    left, right = figure.subplots(1, 2, width_ratios=[2.1, 1])
    means = intervals_of(numbers["average"])
    _policies(left, means, numbers["main"])
    _sizes(right, means, numbers["sizes"])
    return figure


def _policies(axes: Axes, means: Mapping[str, Any], main: int) -> None:
    from softrobust.experiments.optimizers_curse import ESTIMATES, POLICIES

    lane_labels(axes, list(POLICIES.values()))
    marks = zip(ESTIMATES, COLOURS, ("o", "s", "D"), (-0.22, 0.0, 0.22), strict=False)
    for estimate, colour, marker, shift in marks:
        for y, name in enumerate(POLICIES):
            bar(axes, means[f"{name}/{estimate}"], y + shift, colour, marker)
        axes.plot([], [], marker=marker, linestyle="", color=colour, label=ESTIMATES[estimate])
    axes.axvline(0, color=INK, linewidth=0.9)
    axes.set_xlabel("average surprise: true return − announced return")
    axes.set_title(f"three estimates of each policy's return (N = {main})", fontsize=10)
    axes.legend(
        frameon=False, fontsize=8.5, loc="lower center", bbox_to_anchor=(0.5, 1.06), ncols=3
    )
    plain(axes, "x")


def _sizes(axes: Axes, means: Mapping[str, Any], sizes: list[int]) -> None:
    for key, colour, label in (
        ("N={}", COLOURS[6], "true return"),
        ("N={}/fresh", COLOURS[2], "fresh value"),
    ):
        found = [means[key.format(n)] for n in sizes]
        shift = 1.0 if key == "N={}" else 1.08
        x = [n * shift for n in sizes]
        y = [i.value for i in found]
        axes.errorbar(
            x, y, yerr=[[i.value - i.low for i in found], [i.high - i.value for i in found]],
            color=colour, marker="o", markersize=5, linewidth=1.4, label=f"{label} − training",
        )  # fmt: skip
    axes.axhline(0, color=INK, linewidth=0.9)
    axes.set_xscale("log")
    axes.set_xticks(sizes, [str(n) for n in sizes])
    axes.minorticks_off()
    axes.set_xlabel("training draws N")
    axes.set_title("static policy, λ = 0, by N", fontsize=10)
    axes.legend(frameon=False, fontsize=8.5, loc="lower center", bbox_to_anchor=(0.5, 1.07))
    plain(axes)
