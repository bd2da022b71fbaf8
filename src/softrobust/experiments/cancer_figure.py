"""The picture of figure 5: mean against CVaR on either models, and the learning curves."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from softrobust.experiments.figures import COLOURS, INK, new_figure, plain
from softrobust.experiments.labels import Label, place, short

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

SRVI = COLOURS[1]
LOOKS = {
    "srvi": ("SRVI (λ beside the mark)", SRVI, "s"),
    "rpvi-control": ("worst-model value iteration", COLOURS[6], "p"),
    "sr-sac": ("SR-SAC (hollow: its most probable actions)", COLOURS[0], "o"),
    "r-sac": ("R-SAC (hollow alike)", COLOURS[2], "^"),
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
    """Every policy; what lies close together once more, larger, with λ beside the marks."""
    _marks(axes, numbers, word, size=9)
    axes.set_xlabel("mean return over models")
    axes.set_ylabel(f"CVaR at α = {numbers['alpha']:g}: worst {100 * (1 - numbers['alpha']):.0f} %")
    axes.set_title(f"{word} models", fontsize=10)
    plain(axes)
    inset = axes.inset_axes((0.4, 0.1, 0.57, 0.58))
    _marks(inset, numbers, word, size=7)
    near = np.concatenate(
        [_points(found, word) for name, found in numbers["scores"].items() if _close(name)]
    )
    low, high = near.min(axis=0), near.max(axis=0)
    pad = 0.16 * (high - low)
    inset.set_xlim(low[0] - pad[0], high[0] + pad[0])
    inset.set_ylim(low[1] - pad[1], high[1] + pad[1])
    inset.tick_params(labelsize=7)
    inset.set_facecolor("white")
    axes.indicate_inset_zoom(inset, edgecolor=INK, alpha=0.35)
    labels = []
    for lam in numbers["lams"]:
        x, y = _points(numbers["scores"][f"srvi {lam:g}"], word).mean(axis=0)
        labels.append(Label(float(x), float(y), short(lam), SRVI))
    place(inset, labels, near)


def _points(found: Mapping[str, Any], word: str) -> NDArray[np.float64]:
    """(n_agents, 2) mean and CVaR."""
    return np.column_stack([found[word][measure] for measure in ("mean", "cvar")])


def _close(name: str) -> bool:
    """Whether a policy belongs into the enlarged part: SR-SAC lies far below the others."""
    return name.partition(" ")[0] in ("srvi", "rpvi-control", "r-sac")


def _marks(axes: Axes, numbers: Mapping[str, Any], word: str, size: float) -> None:
    for name, found in numbers["scores"].items():
        base, _, form = name.partition(" ")
        if base not in LOOKS:
            continue  # never and always treating lie far outside
        text, colour, marker = LOOKS[base]
        points = _points(found, word)
        face = "white" if form == "greedy" else colour
        axes.plot(*points.T, marker, color=colour, markersize=3.5, alpha=0.45, linestyle="")
        first = base != "srvi" or form == f"{numbers['lams'][0]:g}"
        axes.plot(
            *points.mean(axis=0), marker, markeredgecolor=colour, markerfacecolor=face,
            markersize=size, linestyle="", label=text if first and form != "greedy" else None,
        )  # fmt: skip


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
