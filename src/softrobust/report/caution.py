"""Section: what caution costs. The frontier of mean against CVaR, with the chosen policy on it.

Each point is the best policy found for one λ (`study.frontier`); neighbouring λ with the same
policy are one point. The page marks where the chosen policy, nominal and practice lie, and lists
for every point what it earns and where it acts otherwise than the chosen one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from softrobust._core.notes import Note
from softrobust.errors import InputError
from softrobust.report.data_words import TEXTS
from softrobust.report.pictures import Spot, alike, frontier_svg, lams, spots
from softrobust.report.sentences import sentence
from softrobust.report.words import Figures, bad_case, count, label, measure, percent
from softrobust.study.compare import SAME

if TYPE_CHECKING:
    from softrobust.report.svg import Picture
    from softrobust.study.frontier import Frontier, FrontierPoint
    from softrobust.study.review import Review

SHOWN_CHANGES = 6
Group = list["FrontierPoint"]


def caution(found: Review, number: Figures) -> dict[str, Any] | None:
    """The section; None where nothing was asked for."""
    if found.frontier is None:
        return None
    if isinstance(found.frontier, Note):
        return {"reason": sentence(found.frontier)}
    points = _column(found, found.frontier)
    groups = alike(points)
    if len(groups) == 1:
        one = TEXTS["page"]["one_policy"]
        return {"reason": "", "lead": one, "steps": (), "small": _proven(points)}
    steps = [_step(found, group, number) for group in groups]
    first, last = groups[0][0], groups[-1][-1]
    own = next((step for step in steps if step["chosen"]), None)
    lam = found.problem.objective.lam
    return {
        "reason": "",
        "lead": f"From no caution (λ = {first.lam:g}) to the most (λ = {last.lam:g}), the average "
        f"goes from {number(first.mean)} to {number(last.mean)}, and the bad case "
        f"({bad_case(found.problem.objective)}) from {number(first.cvar)} to {number(last.cvar)}.",
        "svg": _picture(found, points),
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


def _picture(found: Review, points: Group) -> Picture:
    """The frontier, with this policy, nominal and practice on it."""
    goal, chosen = found.problem.objective, found.chosen
    own = Spot("this policy", chosen.static["mean"], chosen.static["cvar"])
    others = [
        Spot(c.name, c.static["mean"], c.static["cvar"])
        for c in found.compared[1:]
        if not c.same_policy(chosen)
    ]
    return frontier_svg([(goal.words, spots(points))], others, own, measure(goal))


def _step(found: Review, group: Group, number: Figures) -> dict[str, Any]:
    """One policy of the frontier: the λ it is best for, what it earns, what it does otherwise."""
    p, chosen, own = group[0], found.chosen, lams(group)
    apart = np.abs(chosen.policy.probs - p.policy.probs) > SAME
    changed = np.flatnonzero(apart.any(axis=1) & found.problem.decided)
    models = found.problem.models
    names = [
        f"{label(models.states[int(s)])}: {label(models.actions[int(p.policy.decision[s])])}"
        for s in changed[:SHOWN_CHANGES]
    ]
    mean = number.signed(p.mean - chosen.static["mean"])
    bad = number.signed(p.cvar - chosen.static["cvar"])
    told = f"λ {own}: this policy."
    if changed.size:
        more = f" and {changed.size - len(names):,} more" if changed.size > len(names) else ""
        told = (
            f"λ {own}: {mean} on average, {bad} in the bad case. Acts otherwise in "
            f"{'; '.join(names)}{more}."
        )
    return {
        "lams": own, "low": group[0].lam, "high": group[-1].lam, "mean": number(p.mean),
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
