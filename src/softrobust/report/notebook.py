"""In a notebook: a solution, a certificate and a log as small pieces of HTML.

The objects themselves know nothing of HTML: their `_repr_html_` asks here. Every label is escaped,
styles are inline (a notebook has no style sheet of ours), colours are the notebook's own.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from softrobust.report.words import STATUS, count, label, percent, tidy

if TYPE_CHECKING:
    from softrobust.certificate import Certificate, Estimate
    from softrobust.data import TransitionLog
    from softrobust.data.labels import Labels
    from softrobust.solvers.base import Solution


SHOWN = 12
BOX = "font-variant-numeric:tabular-nums;line-height:1.5;max-width:46em"
SOFT = "opacity:.7;font-size:.92em"
CELL = "text-align:{side};padding:.15em .9em .15em 0"


def solution_html(solution: Solution) -> str:
    """What it is worth, how far from the best, and the first states of its policy."""
    o, gap = solution.objective, solution.gap_share
    figures = [
        ("objective", f"{solution.static_value:.6g}"),
        ("bad case", f"{o.words}, which counts {percent(o.lam)} (λ = {o.lam:g})"),
        ("discount", f"γ = {solution.gamma:g}"),
        ("models", f"{solution.n_models:,}"),
        ("status", STATUS[solution.status]),
    ]
    if solution.bound is not None:
        size = max(abs(solution.bound.value), abs(solution.static_value))
        met = solution.bound.value - solution.static_value <= max(solution.rounding, 1e-6 * size)
        left = "an unknown share" if gap is None else percent(gap)
        open_ = "nothing" if met and (gap is None or gap <= 1e-6) else left
        figures.append(
            (
                "bound",
                f"{solution.bound.value:.6g} for any {solution.bound.covers.words}; not excluded: "
                f"{open_} of what is to be gained over acting at random",
            )
        )
    policy = solution.policy
    index = np.flatnonzero(np.asarray(policy.decided))
    rows = [
        [label(policy.states[int(s)]), _does(policy.probs[s], policy.actions)]
        for s in index[:SHOWN]
    ]
    more = f"… and {index.size - SHOWN:,} more states" if index.size > SHOWN else ""
    return _box(
        f"Solution by {solution.solver}",
        _pairs(figures) + _table(["state", "do"], rows) + _soft(more),
    )


def _does(probs: NDArray[np.float64], actions: Labels) -> str:
    taken = np.flatnonzero(probs > 0)
    if taken.size == 1:
        return label(actions[int(taken[0])])
    order = taken[np.argsort(-probs[taken], kind="stable")]
    parts = [f"{label(actions[int(a)])} {percent(float(probs[a]))}" for a in order[:4]]
    return ", ".join(parts) + (", …" if order.size > 4 else "")


def certificate_html(certificate: Certificate) -> str:
    """Sentences, and the figures on training and held-out models."""
    sentences = "".join(
        f'<p style="margin:.3em 0">{escape(tidy(text))}</p>' for text in certificate.sentences()
    )
    names = ("objective", "mean", "var", "cvar")
    rows = [[f"{certificate.n_models:,} models", *(f"{certificate.static[n]:.6g}" for n in names)]]
    held = certificate.heldout
    if held is not None:
        cells = [_estimate(getattr(held, name)) for name in names]
        rows.append([f"{held.n_models:,} held out", *cells])
    return _box("Certificate", sentences + _table(["", "objective", "mean", "VaR", "CVaR"], rows))


def _estimate(e: Estimate) -> str:
    if e.low is None or e.high is None:
        return f"{e.value:.6g}"
    return f"{e.value:.6g} [{e.low:.5g}, {e.high:.5g}]"


def log_html(log: TransitionLog) -> str:
    """Sizes, the first rows, and what was assumed on reading."""
    seen = int((np.asarray(log.pair_counts) > 0).sum())
    left = int((~np.asarray(log.sinks)).sum()) * log.n_actions
    title = (
        f"{count(log.n_rows, 'transition')}, {count(log.n_states, 'state')}, "
        f"{count(log.n_actions, 'action')}; {seen:,} of {left:,} pairs seen"
    )
    head = ["state", "action", "next state"] + ([] if log.reward is None else ["reward"])
    rows = []
    for i in range(min(5, log.n_rows)):
        row = [
            log.states[int(log.s[i])],
            log.actions[int(log.a[i])],
            log.states[int(log.s_next[i])],
        ]
        rows.append([label(cell) for cell in row])
        if log.reward is not None:
            rows[-1].append(f"{float(log.reward[i]):.6g}")
    more = f"… and {log.n_rows - 5:,} more rows" if log.n_rows > 5 else ""
    notes = "".join(f"<li>{escape(note)}</li>" for note in log.notes)
    return _box(title, _table(head, rows) + _soft(more) + f'<ul style="{SOFT}">{notes}</ul>')


# -- pieces ------------------------------------------------------------------------------------


def _box(title: str, body: str) -> str:
    return f'<div style="{BOX}"><strong>{escape(title)}</strong>{body}</div>'


def _soft(text: str) -> str:
    return f'<div style="{SOFT}">{escape(text)}</div>' if text else ""


def _pairs(pairs: Iterable[tuple[str, str]]) -> str:
    return "".join(
        f'<div><span style="{SOFT}">{escape(name)}</span> {escape(value)}</div>'
        for name, value in pairs
    )


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    if not rows:
        return ""

    def line(cells: Sequence[str], tag: str) -> str:
        return "".join(
            f'<{tag} style="{CELL.format(side="left")}">{escape(cell)}</{tag}>' for cell in cells
        )

    body = "".join(f"<tr>{line(row, 'td')}</tr>" for row in rows)
    return f"<table><thead><tr>{line(head, 'th')}</tr></thead><tbody>{body}</tbody></table>"


# --------------------------------------------------------------------------------------------------
# Pictures for a notebook: a policy, a certificate and a log on matplotlib axes.

ACCENT, GREY = "#0b5f93", "#6b7380"
MOST_LABELS, LONGEST = 24, 18
MOST_STATES = 2000  # columns of a picture: beyond these a pixel would stand for several states


def plot_solution(solution: Solution, axes: Any = None) -> Any:
    """The probability of every action in every state with a decision."""
    policy = solution.policy
    index = np.flatnonzero(np.asarray(policy.decided))
    axes = _grid(policy.probs[index].T, policy.states, policy.actions, index, axes, top=1.0)
    axes.set_title(f"{solution.solver}: what it does", loc="left", fontsize=10)
    return axes


def plot_log(log: TransitionLog, axes: Any = None) -> Any:
    """How often every action was seen in every state that was left; shades by the logarithm."""
    counts = np.asarray(log.pair_counts)
    index = np.flatnonzero(counts.sum(axis=1) > 0)
    shade = np.log1p(counts[index].T)
    axes = _grid(shade, log.states, log.actions, index, axes, top=float(shade.max()))
    most = int(counts.max())
    axes.set_title(
        f"{count(log.n_rows, 'transition')}: how often seen, up to {most:,} times",
        loc="left",
        fontsize=10,
    )
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
    axes.set_title(title, loc="left", fontsize=10)
    axes.set_ylim(-0.55, 2.5)
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.tick_params(axis="y", length=0)
    return axes


def _whisker(axes: Any, e: Estimate, y: float) -> None:
    low = e.value if e.low is None else e.low
    high = e.value if e.high is None else e.high
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
    short = name if len(name) <= LONGEST else name[: LONGEST - 1] + "…"
    return short.replace("$", r"\$")


def _axes(axes: Any, size: tuple[float, float]) -> Any:
    if axes is not None:
        return axes
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=size, layout="constrained")
    FigureCanvasAgg(figure)
    return figure.add_subplot()
