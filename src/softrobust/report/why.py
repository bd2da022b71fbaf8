"""Section: why. The models that the policy is protected against, and each state's alternatives.

The worst-case weights ξ ∈ Ξ attain ρ^S (eq. 4.2): they are the same for every state, and are shown
once, as stems at the models' returns. For single states the page lists every allowed action with
the exact change of objective, mean and bad case after exchanging it, and the value of taking it
once, over all models and over the worst (`study.explain`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from softrobust.report.plots import MARGIN, Curve, x_range
from softrobust.report.svg import Scale, axis_below, line, picture, text
from softrobust.report.verdict import price
from softrobust.report.words import Figures, label, percent
from softrobust.study.compare import SAME
from softrobust.study.explain import same_everywhere

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from softrobust.problem import Problem
    from softrobust.report.counts import Seen
    from softrobust.study.explain import Explanation
    from softrobust.study.review import Review

SHOWN_MODELS = 5
MOST_STEMS = 300
WIDTH, FLOOR = 460.0, 96.0
EVEN = (
    "All models give this policy the same return: none is worse than another, and there is no "
    "worst case to guard against."
)
HOW = "`softrobust explain RUN --state LABEL` explains any state."
TOO_LARGE = f"This problem is too large to explain single states here: {HOW}"
SOME_STATES = f"Shown are states that differ from nominal and those met most: {HOW}"


def why(found: Review, seen: Seen | None, number: Figures) -> dict[str, Any]:
    """The section."""
    problem, chosen = found.problem, found.chosen
    xi = np.asarray(problem.objective.worst_case(chosen.train, problem.models.f))
    even = same_everywhere(chosen.train, problem.models.f)
    states = [_state(s, e, problem, seen) for s, e in found.reasons.items()]
    apart = [state["key"] for state in states if "nominal" in state["differs"]]
    left = "" if found.every_state else SOME_STATES if states else TOO_LARGE
    return {
        "lead": EVEN if even and problem.n_models > 1 else _lead(problem, xi),
        "price": price(chosen, found.nominal, problem.objective, number),
        "svg": _stems(problem, chosen.train, xi),
        "alt": "Weight of every model in the worst case, at the return it gives.",
        "heads": ("model", "weight ξ", *(c.short for c in found.compared[:3])),
        "models": [] if even else _models(found, xi, number),
        "states": states,
        # The state that stands open: the first that differs from nominal, else the first.
        "first": next(iter([*apart, *found.reasons]), None),
        "left_out": left,
    }


def _lead(problem: Problem, xi: NDArray[np.float64]) -> str:
    objective, f = problem.objective, problem.models.f
    if problem.n_models == 1:
        return "There is one model, and with it no worst case to guard against."
    if np.abs(xi - f).max() <= 1e-12:
        return (
            "No model counts more than its own weight: only the average matters here "
            f"(λ = {objective.lam:g}, α = {objective.alpha:g})."
        )
    heavy = xi > f * (1 + 1e-9)
    return (
        "The policy is judged as if nature made the models it fares worst in more likely: "
        f"{int(heavy.sum()):,} of {problem.n_models:,} models carry "
        f"{percent(float(xi[heavy].sum()))} of the weight ξ (how much each model counts then). "
        "They are the ones it is protected against."
    )


def _models(found: Review, xi: NDArray[np.float64], number: Figures) -> list[tuple[str, ...]]:
    """The models of most added weight: number, ξ, and what each policy earns there."""
    shown = found.compared[:3]
    added = np.round(xi - found.problem.models.f, 12)  # equal weights are equal despite rounding
    order = np.lexsort((found.chosen.train, -added))[:SHOWN_MODELS]
    return [
        (str(int(i)), percent(float(xi[i])), *(number(float(c.train[i])) for c in shown))
        for i in order
        if xi[i] > 0
    ]


def _stems(problem: Problem, returns: NDArray[np.float64], xi: NDArray[np.float64]) -> str:
    """A stem for each model, as high as its weight ξ: those above their own weight stand out.

    Where models are many, every k-th by return is drawn.
    """
    f = problem.models.f
    x = Scale(*x_range([Curve(returns, f)]), MARGIN, WIDTH - MARGIN)
    order = np.argsort(returns, kind="stable")
    live = order[(xi[order] > 0) | (f[order] > 0)]
    parts = [text(0, 12, "weight ξ of each model ↑", "soft")]
    for i in live[:: max(1, int(np.ceil(live.size / MOST_STEMS)))]:
        at, height = x(float(returns[i])), (FLOOR - 26) * float(xi[i] / xi.max())
        look = "stem heavy" if xi[i] > f[i] * (1 + 1e-9) else "stem"
        parts.append(line(at, FLOOR, at, FLOOR - height, look))
    parts += axis_below(x, FLOOR)
    parts.append(text(x.end, FLOOR + 34, "return of this policy there →", "soft", "end"))
    return picture(WIDTH, FLOOR + 40, parts, "stems")


def _state(s: int, e: Explanation, problem: Problem, seen: Seen | None) -> dict[str, Any]:
    """One state; with suppressed counts, nothing that gives one of them away."""
    usual = max((o for o in e.options if o.practice), key=lambda o: o.practice or 0, default=None)
    apart = {"nominal": next((o for o in e.options if o.nominal), None), "practice": usual}
    moves = "; ".join(
        f"{label(x.next_state)} {percent(x.mean)} → {percent(x.worst)}" for x in e.shifts
    )
    if seen is not None and seen.hides_pair(s, problem.models.actions.index(e.action)):
        moves = ""  # (prior + count)/(strength + all counts) gives the counts away
    return {
        "key": s,
        "about": e,
        "differs": " and ".join(
            name for name, o in apart.items() if o is not None and o.chosen < 1 - SAME
        ),
        "practice": seen is not None and not seen.hides(s),
        "moves": moves,
    }
