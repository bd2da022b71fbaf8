"""Section: why. What it is protected against, and each state's alternatives.

For single states the page lists every allowed action with the exact change of objective, mean and
bad case after exchanging it, and the value of taking it once, over all models and over the worst
(`study.explain`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from softrobust.report.verdict import nominal_sentence
from softrobust.report.words import Figures, label, percent
from softrobust.study.compare import SAME

if TYPE_CHECKING:
    from softrobust.problem import Problem
    from softrobust.report.counts import Seen
    from softrobust.study.explain import Explanation
    from softrobust.study.review import Review

HOW = "`softrobust explain RUN --state LABEL` explains any state."
TOO_LARGE = f"This problem is too large to explain single states here: {HOW}"
SOME_STATES = f"Shown are states that differ from nominal and those met most: {HOW}"


def why(found: Review, seen: Seen | None, number: Figures) -> dict[str, Any]:
    """The section."""
    states = [_state(s, e, found.problem, seen) for s, e in found.reasons.items()]
    apart = [state["key"] for state in states if "nominal" in state["differs"]]
    return {
        "nominal": nominal_sentence(found.nominal and found.nominal.versus, number),
        "states": states,
        # The state that stands open: the first that differs from nominal, else the first.
        "first": next(iter([*apart, *found.reasons]), None),
        "left_out": "" if found.every_state else SOME_STATES if states else TOO_LARGE,
    }


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
