"""Pictures on matplotlib axes, for notebooks and files: a policy, a certificate, a log, a frontier.

Each function draws on the axes it is given, or makes its own, and returns them.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from softrobust._core.files import atomic_write
from softrobust.objective import SoftRobust
from softrobust.report.words import count, measure, shorten

if TYPE_CHECKING:
    from softrobust.certificate import Certificate, Estimate
    from softrobust.data import TransitionLog
    from softrobust.data.labels import Labels
    from softrobust.solvers.base import Solution
    from softrobust.study.frontier import Frontier

ACCENT, GREY = "#0b5f93", "#6b7380"
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#e69f00")
MOST_LABELS, LONGEST = 24, 18
MOST_STATES = 2000  # columns of a picture: beyond these a pixel would stand for several states


def plot_solution(solution: Solution, axes: Any = None) -> Any:
    """The probability of every action in every state with a decision."""
    policy = solution.policy
    index = np.flatnonzero(np.asarray(policy.decided))
    probs, does = policy.probs, "what it does"
    if probs.ndim == 3:
        probs, does = probs.mean(axis=0), f"what it does, on average over {len(probs)} steps"
    axes = _grid(probs[index].T, policy.states, policy.actions, index, axes, top=1.0)
    axes.set_title(f"{solution.solver}: {does}", loc="left", fontsize=10)
    return axes


def plot_log(log: TransitionLog, axes: Any = None) -> Any:
    """How often every action was seen in every state that was left; shades by the logarithm."""
    counts = np.asarray(log.pair_counts)
    index = np.flatnonzero(counts.sum(axis=1) > 0)
    shade = np.log1p(counts[index].T)
    axes = _grid(shade, log.states, log.actions, index, axes, top=float(shade.max()))
    rows, most = count(log.n_rows, "transition"), int(counts.max())
    axes.set_title(f"{rows}: how often seen, up to {most:,} times", loc="left", fontsize=10)
    return axes


def plot_certificate(certificate: Certificate, axes: Any = None) -> Any:
    """Mean, bad case and objective against the bound, on training and held-out models."""
    axes = _axes(axes, (7.2, 2.4))
    held = certificate.heldout
    for y, name in ((2, "mean"), (1, "cvar"), (0, "objective")):
        axes.plot([certificate.static[name]], [y + 0.12], "o", color=ACCENT, markersize=6)
        if held is not None:
            _whisker(axes, getattr(held, name), y - 0.12)
    bad = f"bad case:\n{certificate.objective.words}"
    axes.set_yticks([2, 1, 0], ["mean", bad, "objective"])
    axes.plot([certificate.bound.value] * 2, [-0.3, 0.45], "-", color=ACCENT, linewidth=1.2)
    axes.annotate(
        "bound", (certificate.bound.value, 0.45), textcoords="offset points", xytext=(3, -4),
        fontsize=8, color=ACCENT,
    )  # fmt: skip
    title = f"{certificate.n_models:,} models"
    if held is not None:
        title += f"; hollow: {held.n_models:,} held out, 95 % intervals"
    title += "" if certificate.objective.against is None else f"; {measure(certificate.objective)}"
    axes.set_title(title, loc="left", fontsize=10)
    axes.set_ylim(-0.55, 2.5)
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.tick_params(axis="y", length=0)
    return axes


def _whisker(axes: Any, e: Estimate, y: float) -> None:
    low, high = (e.value if end is None else end for end in (e.low, e.high))
    axes.plot([low, high], [y, y], "-", color=GREY, linewidth=1.4)
    axes.plot([e.value], [y], "o", color=GREY, markerfacecolor="none", markersize=6)


def _grid(
    values: NDArray[np.float64],
    states: Labels,
    actions: Labels,
    index: NDArray[np.intp],
    axes: Any,
    top: float,
) -> Any:
    """Shades on actions × states, with as many names as can be read."""
    if index.size > MOST_STATES:
        index, values = index[:MOST_STATES], values[:, :MOST_STATES]
    axes = _axes(axes, (7.2, 1.2 + 0.22 * min(max(len(actions), 3), 24)))
    if not index.size:
        axes.text(0.5, 0.5, "no state in which something is decided", ha="center", va="center")
        axes.set_axis_off()
        return axes
    axes.imshow(values, aspect="auto", cmap="Blues", vmin=0.0, vmax=top or 1.0)
    names = [states[int(s)] for s in index]
    wide = min(len(names), MOST_LABELS) * max(min(len(name), LONGEST) for name in names) > 90
    _names(axes.set_xticks, names, rotation=90 if wide else 0)
    _names(axes.set_yticks, list(actions))
    axes.tick_params(length=0, labelsize=8)
    for side in axes.spines.values():
        side.set_visible(False)
    return axes


def _names(set_ticks: Any, names: list[str], **look: Any) -> None:
    step = max(1, int(np.ceil(len(names) / MOST_LABELS)))
    at = range(0, len(names), step)
    set_ticks(list(at), [_plain(names[i]) for i in at], **look)


def _plain(name: str) -> str:
    """A label as matplotlib should write it: short, and a dollar is a dollar."""
    return shorten(name, LONGEST).replace("$", r"\$")


def _axes(axes: Any, size: tuple[float, float]) -> Any:
    if axes is not None:
        return axes
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=size, layout="constrained")
    FigureCanvasAgg(figure)
    return figure.add_subplot()


def plot_frontier(frontier: Frontier, axes: Any = None) -> Any:
    """Mean against CVaR, one curve per α, λ beside the points."""
    axes = _axes(axes, (7.2, 4.6))
    for j, alpha in enumerate(frontier.alphas):
        _curve(axes, frontier, j, alpha)
    of = measure(frontier.points[0][0].certificate.objective)
    axes.set_xlabel(f"bad case: average {of} over the worst models (CVaR)")
    axes.set_ylabel(f"average {of} over all models")
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(color="#dddddd", linewidth=0.6)
    axes.set_axisbelow(True)
    axes.margins(0.12, 0.14)
    axes.legend(frameon=False, loc="best")
    return axes


def _curve(axes: Any, frontier: Frontier, j: int, alpha: float) -> None:
    colour = COLOURS[j % len(COLOURS)]
    chosen = frontier.chosen(j)
    name = f"{SoftRobust(1.0, alpha).words} (α = {alpha:g})"
    x, y = [p.cvar for p in chosen], [p.mean for p in chosen]
    axes.plot(x, y, "-o", color=colour, markersize=5, linewidth=1.4, label=name)
    dominated = [p for p in frontier.column(j) if p.dominated]
    if dominated:
        axes.plot([p.cvar for p in dominated], [p.mean for p in dominated], "x", color=colour,
                  markersize=5, alpha=0.5)  # fmt: skip
    for k, p in enumerate(chosen):
        same = [q.lam for q in frontier.column(j) if q.policy_id == p.policy_id]
        text = f"{same[0]:g}" if len(same) == 1 else f"{same[0]:g}–{same[-1]:g}"
        axes.annotate(
            f"λ = {text}" if k in (0, len(chosen) - 1) else text, (p.cvar, p.mean),
            textcoords="offset points", xytext=(4, 5), fontsize=8, color=colour, rotation=35,
        )  # fmt: skip


def save_frontier_plot(frontier: Frontier, *paths: str | Path) -> None:
    """Write the picture, as SVG and PNG by the endings of the names, atomically."""
    axes = plot_frontier(frontier)
    for target in paths:
        with atomic_write(target, "wb") as file:
            kind = Path(target).suffix.lstrip(".")
            # No date in the file: the same frontier is the same file.
            undated = {"Date": None} if kind == "svg" else None
            axes.figure.savefig(file, format=kind, dpi=150, metadata=undated)
