"""Section: what caution costs. The frontier of mean against CVaR, with the chosen policy on it.

Each point is the best policy found for one λ (`study.frontier`); neighbouring λ with the same
policy are one point. The page marks where the chosen policy, nominal and practice lie, and lists
for every point what it earns and where it acts otherwise than the chosen one.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import TYPE_CHECKING, Any

import numpy as np

from softrobust._core.notes import Note
from softrobust.errors import InputError
from softrobust.report.sentences import sentence
from softrobust.report.svg import Labeller, Scale, dot, grid, mark, path, picture, text
from softrobust.report.words import Figures, bad_case, count, label, measure, percent
from softrobust.study.compare import SAME

if TYPE_CHECKING:
    from softrobust.study.compare import Compared
    from softrobust.study.frontier import Frontier, FrontierPoint
    from softrobust.study.review import Review

WIDTH, HEIGHT = 460.0, 300.0
SHOWN_CHANGES = 6
ONE_POLICY = (
    "One policy is the best for every λ that was tried: there is nothing to trade between the "
    "average and the bad case."
)
Group = list["FrontierPoint"]


def caution(found: Review, number: Figures) -> dict[str, Any] | None:
    """The section; None where nothing was asked for."""
    if found.frontier is None:
        return None
    if isinstance(found.frontier, Note):
        return {"reason": sentence(found.frontier)}
    points = _column(found, found.frontier)
    groups = _groups(points)
    if len(groups) == 1:
        return {"reason": "", "lead": ONE_POLICY, "steps": (), "small": _proven(points)}
    steps = [_step(found, group, number) for group in groups]
    parts = [f"λ {_lams(g)}: {number(g[0].cvar)} and {number(g[0].mean)}" for g in groups]
    first, last = groups[0][0], groups[-1][-1]
    own = next((step for step in steps if step["chosen"]), None)
    lam = found.problem.objective.lam
    return {
        "reason": "",
        "lead": f"From no caution (λ = {first.lam:g}) to the most (λ = {last.lam:g}), the average "
        f"goes from {number(first.mean)} to {number(last.mean)}, and the bad case "
        f"({bad_case(found.problem.objective)}) from {number(first.cvar)} to {number(last.cvar)}.",
        "svg": _picture(found, groups, number),
        "alt": "Bad case and average of the best policies. " + "; ".join(parts) + ".",
        "steps": steps,
        "lams": (points[0].lam, points[-1].lam),
        # Where the slider starts: the question's own λ, or one that this policy is the best for.
        "own": lam if own is None else float(min(max(lam, own["low"]), own["high"])),
        "small": f"Differences are to this policy, on the {count(found.problem.n_models, 'model')} "
        f"it was chosen on; on others they can shrink or turn. {_proven(points)}",
    }


def _column(found: Review, frontier: Frontier) -> Group:
    alpha = found.problem.objective.alpha
    if alpha not in frontier.alphas:
        raise InputError(
            f"The frontier is for α = {', '.join(f'{a:g}' for a in frontier.alphas)}, and the "
            f"problem has α = {alpha:g}. Compute it with alphas=({alpha:g},)."
        )
    return frontier.column(frontier.alphas.index(alpha))


def _groups(points: Group) -> list[Group]:
    """Neighbouring λ with the same policy."""
    return [list(group) for _, group in groupby(points, lambda p: p.policy_id)]


def _lams(group: Group) -> str:
    first, last = group[0].lam, group[-1].lam
    return f"{first:g}" if first == last else f"{first:g} to {last:g}"


def _step(found: Review, group: Group, number: Figures) -> dict[str, Any]:
    """One policy of the frontier: the λ it is best for, what it earns, what it does otherwise."""
    p, chosen, lams = group[0], found.chosen, _lams(group)
    apart = np.abs(chosen.policy.probs - p.policy.probs) > SAME
    changed = np.flatnonzero(apart.any(axis=1) & found.problem.decided)
    models = found.problem.models
    names = [
        f"{label(models.states[int(s)])}: {label(models.actions[int(p.policy.decision[s])])}"
        for s in changed[:SHOWN_CHANGES]
    ]
    mean = number.signed(p.mean - chosen.static["mean"])
    bad = number.signed(p.cvar - chosen.static["cvar"])
    told = f"λ {lams}: this policy."
    if changed.size:
        more = f" and {changed.size - len(names):,} more" if changed.size > len(names) else ""
        told = (
            f"λ {lams}: {mean} on average, {bad} in the bad case. Acts otherwise in "
            f"{'; '.join(names)}{more}."
        )
    return {
        "lams": lams, "low": group[0].lam, "high": group[-1].lam, "mean": number(p.mean),
        "bad": number(p.cvar), "more_mean": mean, "more_bad": bad, "n_changes": int(changed.size),
        "chosen": not changed.size, "dominated": p.dominated, "told": told,
    }  # fmt: skip


def _proven(points: Group) -> str:
    """What no proof excludes at some point, as a share of what is to be gained."""
    left = [p.certificate for p in points if not p.certificate.nothing_better]
    most = max((1.0 if c.gap_share is None else c.gap_share for c in left), default=0.0)
    if most <= 1e-3:
        return "Every point is proven to be the best deterministic policy for its λ (to 0.1 %)."
    return (
        f"Points are the best that were found in the time given; up to {percent(most)} of what is "
        "to be gained over acting at random is not excluded by proof."
    )


# -- the picture -------------------------------------------------------------------------------


def _picture(found: Review, groups: list[Group], number: Figures) -> str:
    """The frontier, with the policies that do not lie too far away to be drawn."""
    chosen = found.chosen.static
    xs = [g[0].cvar for g in groups] + [chosen["cvar"]]
    ys = [g[0].mean for g in groups] + [chosen["mean"]]
    near = [
        c
        for c in found.compared[1:]
        if not c.same_policy(found.chosen)
        and _near(c.static["cvar"], xs)
        and _near(c.static["mean"], ys)
    ]
    x_range = _padded([*xs, *(c.static["cvar"] for c in near)])
    y_range = _padded([*ys, *(c.static["mean"] for c in near)])
    gutter = 10 + 6.1 * max(len(t) for _, t in Scale(*y_range, 0, 1).ticks(4))
    x = Scale(*x_range, gutter, WIDTH - 10)
    y = Scale(*y_range, HEIGHT - 44, 24)
    of = "" if found.problem.objective.against is None else f" ({measure(found.problem.objective)})"
    parts = [text(0, 12, f"average over all models{of} ↑", "soft"), *grid(x, y, 4)]
    below = f"average over {found.problem.objective.words} →"
    parts.append(text(x.end, HEIGHT - 6, below, "soft", "end"))
    parts += _points(found.chosen, groups, near, x, y, number)
    return picture(WIDTH, HEIGHT, parts, "frontier")


def _points(
    chosen: Compared, groups: list[Group], near: Sequence[Compared], x: Scale, y: Scale,
    number: Figures,
) -> list[str]:  # fmt: skip
    def place(mean: float, cvar: float) -> tuple[float, float]:
        return x(cvar), y(mean)

    def hover(name: str, mean: float, cvar: float) -> str:
        return f"{name}: mean {number(mean)}, CVaR {number(cvar)}"

    places = [place(g[0].mean, g[0].cvar) for g in groups]
    best = [at for at, g in zip(places, groups, strict=True) if not g[0].dominated]
    parts = [path(sorted(best), "front")] if len(best) > 1 else []
    labels = Labeller(WIDTH, HEIGHT - 46)
    figures = (chosen.static["mean"], chosen.static["cvar"])
    own, others = place(*figures), [place(c.static["mean"], c.static["cvar"]) for c in near]
    for at in [*places, own, *others]:
        labels.keep_clear(*at, 5)
    labels.keep_line_clear(sorted(best))
    mine = next((g for g, at in zip(groups, places, strict=True) if at == own), None)
    called = "this policy" if mine is None else f"this policy, λ {_lams(mine)}"
    names = [labels.place(*own, called, "name k1", gap=11)]
    for c, at in zip(near, others, strict=True):
        about = hover(c.name, c.static["mean"], c.static["cvar"])
        parts.append(mark(*at, "■", "mark other", about))
        names.append(labels.place(*at, c.name, "name k2"))
    for i, (at, group) in enumerate(zip(places, groups, strict=True)):
        about = hover(f"λ = {_lams(group)}", group[0].mean, group[0].cvar)
        parts.append(dot(*at, 4.2, "point", about, f' data-i="{i}"'))
        if group is not mine:
            names.append(labels.place(*at, f"λ {_lams(group)}", "soft"))
    parts.append(dot(*own, 6.5, "own", hover("this policy", *figures)))
    return [*parts, *names]


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
