"""Section: why. What it is protected against, and each state's alternatives.

For single states the page lists every allowed action with the exact change of objective, mean and
bad case after exchanging it, and the value of taking it once, over all models and over the worst
(`study.explain`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from softrobust.report.policy import changed
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
    usual = changed(found.chosen.policy, found.practice and found.practice.policy, seen)
    states = [_state(s, e, bool(usual[s]), found.problem, seen) for s, e in found.reasons.items()]
    apart = [state["key"] for state in states if "nominal" in state["differs"]]
    return {
        "nominal": nominal_sentence(found.nominal and found.nominal.versus, number),
        "states": states,
        # The state that stands open: the first that differs from nominal, else the first.
        "first": next(iter([*apart, *found.reasons]), None),
        "left_out": "" if found.every_state else SOME_STATES if states else TOO_LARGE,
    }


def _state(
    s: int, e: Explanation, unusual: bool, problem: Problem, seen: Seen | None
) -> dict[str, Any]:
    """One state; with suppressed counts, nothing that gives one of them away."""
    nominal = next((o for o in e.options if o.nominal), None)
    apart = {"nominal": nominal is not None and nominal.chosen < 1 - SAME, "practice": unusual}
    hidden = seen is not None and seen.hides(s)
    moves = "; ".join(
        f"{label(x.next_state)} {percent(x.mean)} → {percent(x.worst)}" for x in e.shifts
    )
    taken = [problem.models.actions.index(name) for name in e.mix]
    if seen is not None and any(seen.hides_pair(s, a) for a in taken):
        moves = ""  # (prior + count)/(strength + all counts) gives the counts away
    return {
        "key": s,
        "about": e,
        "does": " or ".join(
            label(name) + ("" if e.action or hidden else f" ({percent(p)})")
            for name, p in e.mix.items()
        ),
        "differs": " and ".join(name for name, differs in apart.items() if differs),
        "practice": seen is not None and not hidden,
        "moves": moves,
    }
