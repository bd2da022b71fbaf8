"""In a notebook: a solution, a certificate and a log as small pieces of HTML.

The objects themselves know nothing of HTML: their `_repr_html_` asks here. Every label is escaped,
styles are inline (a notebook has no style sheet of ours), colours are the notebook's own.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from softrobust.reporting.words import STATUS, count, label, percent, tidy

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
