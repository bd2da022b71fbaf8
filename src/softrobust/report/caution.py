"""Section: what caution costs. The frontier of mean against CVaR, with the chosen policy on it.

Each point is the best policy found for one λ (see `tradeoff`); neighbouring λ with the same policy
are one point. The page marks where the chosen policy, nominal and practice lie, and lists for every
point what it earns and where it acts otherwise than the chosen one.
"""

from __future__ import annotations

import csv
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, final

import numpy as np

from softrobust._core.files import atomic_write
from softrobust.errors import InputError
from softrobust.objective import SoftRobust
from softrobust.report import words
from softrobust.report.compare import SAME, Compared
from softrobust.report.svg import Labeller, Scale, axis_below, dot, line, mark, path, picture, text

if TYPE_CHECKING:
    from softrobust.models.policy import Policy
    from softrobust.problem import Problem
    from softrobust.study.frontier import Frontier, FrontierPoint


WIDTH, HEIGHT = 460.0, 300.0
SHOWN_CHANGES = 6


@final
@dataclass(frozen=True, slots=True)
class Step:
    """One policy of the frontier: the λ it is best for, what it earns, what it does otherwise."""

    lams: str
    low: float
    high: float
    mean: str
    bad: str
    more_mean: str
    more_bad: str
    changes: tuple[str, ...]
    n_changes: int
    chosen: bool
    dominated: bool

    @property
    def said(self) -> str:
        """The point in words, for a reader who moves along the frontier."""
        if self.chosen:
            return f"λ {self.lams}: this policy."
        more = f" and {self.n_more:,} more" if self.n_more else ""
        return (
            f"λ {self.lams}: {self.more_mean} on average, {self.more_bad} in the bad case. "
            f"Acts otherwise in {'; '.join(self.changes)}{more}."
        )

    @property
    def n_more(self) -> int:
        """States that act otherwise and are not named."""
        return self.n_changes - len(self.changes)


@final
@dataclass(frozen=True, slots=True)
class Caution:
    """The section; with `reason` alone where there is no frontier."""

    reason: str = ""
    lead: str = ""
    svg: str = ""
    alt: str = ""
    proven: str = ""
    outside: tuple[str, ...] = ()
    steps: tuple[Step, ...] = ()
    lams: tuple[float, float] = (0.0, 1.0)
    own: float = 0.0
    where: str = ""


def caution(
    problem: Problem,
    compared: Sequence[Compared],
    frontier: Frontier | str | None,
    number: words.Figures,
) -> Caution | None:
    """The section; None where nothing was asked for."""
    if frontier is None:
        return None
    if isinstance(frontier, str):
        return Caution(reason=frontier)
    points = _column(problem, frontier)
    groups = _groups(points)
    chosen = compared[0]
    if len(groups) == 1:
        return Caution(lead=_lead(problem, groups, number), proven=_proven(points))
    steps = tuple(_step(problem, group, chosen, number) for group in groups)
    svg, outside = _picture(problem, groups, compared, number)
    return Caution(
        lead=_lead(problem, groups, number),
        svg=svg,
        alt=_alt(groups, number),
        proven=_proven(points),
        outside=tuple(outside),
        steps=steps,
        lams=(points[0].lam, points[-1].lam),
        own=_own_lam(problem, steps),
        where=_where(problem, chosen),
    )


def _own_lam(problem: Problem, steps: Sequence[Step]) -> float:
    """Where the slider starts: the question's own λ, or one that this policy is the best for."""
    lam = problem.objective.lam
    own = next((step for step in steps if step.chosen), None)
    return lam if own is None else min(max(lam, own.low), own.high)


def _where(problem: Problem, chosen: Compared) -> str:
    """Which models these figures are of."""
    text = f"All figures here are on the {words.count(problem.n_models, 'model')} it was chosen on"
    if chosen.heldout is None:
        return f"{text}."
    return f"{text}; on held-out models such differences can shrink or turn."


def _column(problem: Problem, frontier: Frontier) -> list[FrontierPoint]:
    alpha = problem.objective.alpha
    if alpha not in frontier.alphas:
        raise InputError(
            f"The frontier is for α = {', '.join(f'{a:g}' for a in frontier.alphas)}, and the "
            f"problem has α = {alpha:g}. Compute it with alphas=({alpha:g},)."
        )
    return frontier.column(frontier.alphas.index(alpha))


def _groups(points: Sequence[FrontierPoint]) -> list[list[FrontierPoint]]:
    """Neighbouring λ with the same policy."""
    out: list[list[FrontierPoint]] = []
    for p in points:
        if out and out[-1][-1].policy_id == p.policy_id:
            out[-1].append(p)
        else:
            out.append([p])
    return out


def _lams(group: Sequence[FrontierPoint]) -> str:
    first, last = group[0].lam, group[-1].lam
    return f"{first:g}" if first == last else f"{first:g} to {last:g}"


def _step(
    problem: Problem, group: Sequence[FrontierPoint], chosen: Compared, number: words.Figures
) -> Step:
    p = group[0]
    changed = _changed(problem, chosen.policy, p.policy)
    states, actions = problem.models.states, problem.models.actions
    names = tuple(
        f"{words.label(states[s])}: {words.label(actions[int(p.policy.decision[s])])}"
        for s in changed[:SHOWN_CHANGES]
    )
    return Step(
        lams=_lams(group),
        low=group[0].lam,
        high=group[-1].lam,
        mean=number(p.mean),
        bad=number(p.cvar),
        more_mean=words.signed(p.mean - chosen.static["mean"], number),
        more_bad=words.signed(p.cvar - chosen.static["cvar"], number),
        changes=names,
        n_changes=len(changed),
        chosen=not changed,
        dominated=p.dominated,
    )


def _changed(problem: Problem, chosen: Policy, other: Policy) -> list[int]:
    apart = (np.abs(chosen.probs - other.probs) > SAME).any(axis=1) & problem.decided
    return [int(s) for s in np.flatnonzero(apart)]


def _lead(
    problem: Problem, groups: Sequence[Sequence[FrontierPoint]], number: words.Figures
) -> str:
    first, last = groups[0][0], groups[-1][-1]
    if len(groups) == 1:
        return (
            "One policy is the best for every λ that was tried: there is nothing to trade between "
            "the average and the bad case."
        )
    return (
        f"From no caution (λ = {first.lam:g}) to the most (λ = {last.lam:g}), the average goes "
        f"from {number(first.mean)} to {number(last.mean)}, and the bad case "
        f"({problem.objective.words}) from {number(first.cvar)} to {number(last.cvar)}. Further "
        "right is safer, further up is better on average."
    )


def _alt(groups: Sequence[Sequence[FrontierPoint]], number: words.Figures) -> str:
    parts = [f"λ {_lams(g)}: {number(g[0].cvar)} and {number(g[0].mean)}" for g in groups]
    return "Bad case and average of the best policies. " + "; ".join(parts) + "."


def _proven(points: Sequence[FrontierPoint]) -> str:
    left = [p.certificate for p in points if not p.certificate.nothing_better]
    shares = [1.0 if c.gap_share is None else c.gap_share for c in left]
    if not shares:
        return "Every point is proven to be the best deterministic policy for its λ."
    if max(shares) <= 1e-3:
        return (
            "Every point is proven to be the best deterministic policy for its λ, to within 0.1 % "
            "of what is to be gained over acting at random."
        )
    return (
        "Points are the best that were found in the time given; up to "
        f"{words.percent(max(shares))} of what is to be gained over acting at random is not "
        "excluded by proof."
    )


# -- the picture -------------------------------------------------------------------------------


def _picture(
    problem: Problem,
    groups: Sequence[Sequence[FrontierPoint]],
    compared: Sequence[Compared],
    number: words.Figures,
) -> tuple[str, list[str]]:
    """The SVG, and a sentence for each policy that lies too far away to be drawn."""
    chosen = compared[0].static
    xs = [g[0].cvar for g in groups] + [chosen["cvar"]]
    ys = [g[0].mean for g in groups] + [chosen["mean"]]
    near, outside = [], []
    for c in compared[1:]:
        if c.same_policy(compared[0]):
            continue
        if _near(c.static["cvar"], xs) and _near(c.static["mean"], ys):
            near.append(c)
        else:
            outside.append(
                f"{c.name.capitalize()} lies outside the picture: {number(c.static['mean'])} on "
                f"average, {number(c.static['cvar'])} in the bad case."
            )
    x_range, y_range = (
        _padded([*xs, *(c.static["cvar"] for c in near)]),
        _padded([*ys, *(c.static["mean"] for c in near)]),
    )
    gutter = 10 + 6.1 * max(len(t) for _, t in Scale(*y_range, 0, 1).ticks(4))
    x = Scale(*x_range, gutter, WIDTH - 10)
    y = Scale(*y_range, HEIGHT - 44, 24)
    parts = [text(0, 12, "average over all models ↑", "soft")]
    for value, words_ in y.ticks(4):
        parts += [line(gutter, y(value), x.end, y(value), "grid")]
        parts += [text(gutter - 6, y(value) + 4, words_, anchor="end")]
    parts += axis_below(x, HEIGHT - 44, 4)
    parts.append(
        text(x.end, HEIGHT - 6, f"average over {problem.objective.words} →", "soft", "end")
    )
    parts += _points(groups, compared, near, x, y, number)
    return picture(WIDTH, HEIGHT, parts, "frontier"), outside


def _points(
    groups: Sequence[Sequence[FrontierPoint]],
    compared: Sequence[Compared],
    near: Sequence[Compared],
    x: Scale,
    y: Scale,
    number: words.Figures,
) -> list[str]:
    places = [(x(g[0].cvar), y(g[0].mean)) for g in groups]
    best = [at for at, g in zip(places, groups, strict=True) if not g[0].dominated]
    parts = [path(sorted(best), "front")] if len(best) > 1 else []
    labels = Labeller(WIDTH, HEIGHT - 46)
    static = compared[0].static
    own = (x(static["cvar"]), y(static["mean"]))
    for place in [*places, own, *((x(c.static["cvar"]), y(c.static["mean"])) for c in near)]:
        labels.keep_clear(*place, 5)
    labels.keep_line_clear(sorted(best))
    mine = next((g for g in groups if own == (x(g[0].cvar), y(g[0].mean))), None)
    called = "this policy" if mine is None else f"this policy, λ {_lams(mine)}"
    names = [labels.place(*own, called, "name k1", gap=11)]
    for c in near:
        at = (x(c.static["cvar"]), y(c.static["mean"]))
        parts.append(mark(*at, "■", "mark other", _hover(c.name, c.static, number)))
        names.append(labels.place(*at, c.name, "name k2"))
    for i, (place, group) in enumerate(zip(places, groups, strict=True)):
        p = group[0]
        hover = f"λ = {_lams(group)}: mean {number(p.mean)}, CVaR {number(p.cvar)}"
        parts.append(dot(*place, 4.2, "point", hover, f' data-i="{i}"'))
        if group is not mine:
            names.append(labels.place(*place, f"λ {_lams(group)}", "soft"))
    parts.append(dot(*own, 6.5, "own", _hover("this policy", static, number)))
    return [*parts, *names]


def _hover(name: str, static: dict[str, float], number: words.Figures) -> str:
    return f"{name}: mean {number(static['mean'])}, CVaR {number(static['cvar'])}"


def _near(value: float, others: Sequence[float]) -> bool:
    """Whether drawing it would not press the frontier into a corner."""
    low, high = min(others), max(others)
    room = 1.5 * (high - low)
    return low - room <= value <= high + room


def _padded(values: Sequence[float]) -> tuple[float, float]:
    low, high = min(values), max(values)
    size = max(abs(low), abs(high))
    pad = 0.14 * (high - low) if high - low > 1e-9 * size else (0.05 * size or 1.0)
    return low - pad, high + pad


# --------------------------------------------------------------------------------------------------
# The frontier as a table and as a picture.

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
    for target in paths:
        with atomic_write(target, "wb") as file:
            kind = Path(target).suffix.lstrip(".")
            axes.figure.savefig(file, format=kind, dpi=150, metadata=_undated(kind))


def _undated(kind: str) -> dict[str, Any] | None:
    """No date in the file: the same frontier is the same file."""
    return {"Date": None} if kind == "svg" else None
