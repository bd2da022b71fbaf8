"""The frontier as a table and as a picture."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import TYPE_CHECKING, Any

from softrobust.data.files import atomic_write
from softrobust.objective import SoftRobust

if TYPE_CHECKING:
    from softrobust.tradeoff import Frontier, FrontierPoint

COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#e69f00")
HEADER = (
    "alpha", "lam", "mean", "cvar", "var", "objective", "bound", "bound_covers", "gap_share",
    "status", "policy", "dominated", "price", "changed",
)  # fmt: skip


def frontier_rows(frontier: Frontier) -> list[list[Any]]:
    """One row per point, as in the CSV; α outermost."""
    return [_row(p) for j in range(len(frontier.alphas)) for p in frontier.column(j)]


def _row(p: FrontierPoint) -> list[Any]:
    c = p.certificate
    return [
        p.alpha, p.lam, p.mean, p.cvar, c.static["var"], c.static["objective"], c.bound.value,
        str(c.bound.covers), c.gap_share, str(p.status), p.policy_id, p.dominated, p.price,
        " ".join(p.changed),
    ]  # fmt: skip


def save_frontier_csv(frontier: Frontier, path: str | Path) -> None:
    """Write the table, atomically."""
    with atomic_write(path, "w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(HEADER)
        rows.writerows(frontier_rows(frontier))


def plot_frontier(frontier: Frontier, axes: Any = None) -> Any:
    """Mean against CVaR, one curve per α, λ beside the points; returns the matplotlib axes."""
    if axes is None:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure

        figure = Figure(figsize=(7.2, 4.6), layout="constrained")
        FigureCanvasAgg(figure)
        axes = figure.add_subplot()
    for j, alpha in enumerate(frontier.alphas):
        _curve(axes, frontier, j, alpha)
    axes.set_xlabel("bad case: average return over the worst models (CVaR)")
    axes.set_ylabel("average return over all models")
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(color="#dddddd", linewidth=0.6)
    axes.set_axisbelow(True)
    axes.margins(0.12, 0.14)
    axes.legend(frameon=False, loc="best")
    return axes


def _curve(axes: Any, frontier: Frontier, j: int, alpha: float) -> None:
    colour = COLOURS[j % len(COLOURS)]
    chosen = frontier.chosen(j)
    words = SoftRobust(1.0, alpha).words
    x, y = [p.cvar for p in chosen], [p.mean for p in chosen]
    axes.plot(
        x, y, "-o", color=colour, markersize=5, linewidth=1.4, label=f"{words} (α = {alpha:g})"
    )
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
    for path in paths:
        with atomic_write(path, "wb") as file:
            kind = Path(path).suffix.lstrip(".")
            axes.figure.savefig(file, format=kind, dpi=150, metadata=_undated(kind))


def _undated(kind: str) -> dict[str, Any] | None:
    """No date in the file: the same frontier is the same file."""
    return {"Date": None} if kind == "svg" else None
