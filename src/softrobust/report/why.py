"""Section: why. The models that the policy is protected against, and each state's alternatives.

The worst-case weights ξ ∈ Ξ attain ρ^S (eq. 4.2): they are the same for every state, and are shown
once, as stems at the models' returns. For single states the page lists every allowed action with
the exact change of objective, mean and bad case after exchanging it, and the value of taking it
once, over all models and over the worst (`insight`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, final

import numpy as np

from softrobust.report import verdict, words
from softrobust.report.compare import SAME, Compared
from softrobust.report.counts import Seen
from softrobust.report.plots import MARGIN, Curve, x_range
from softrobust.report.svg import Scale, axis_below, line, picture, text
from softrobust.report.words import evaluation_seconds
from softrobust.study.explain import Explanation, Option, explain_many, same_everywhere

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from softrobust.data import TransitionLog
    from softrobust.problem import Problem

MOST_STATES = 24
SHOWN_MODELS = 5
MOST_STEMS = 300
WIDTH, FLOOR = 460.0, 96.0
EVEN = (
    "All models give this policy the same return: none is worse than another, and there is no "
    "worst case to guard against."
)


@final
@dataclass(frozen=True, slots=True)
class ActionRow:
    """One allowed action of a state, as texts."""

    action: str
    notes: tuple[str, ...]
    own: bool
    change: str
    change_mean: str
    change_bad: str
    mean: str
    worst: str
    seen: str
    practice: str


@final
@dataclass(frozen=True, slots=True)
class StateWhy:
    """One state: what is done, how often it is met, and the alternatives."""

    key: int
    state: str
    action: str
    visits: str
    differs: str
    rows: tuple[ActionRow, ...]
    moves: str


@final
@dataclass(frozen=True, slots=True)
class Why:
    """The section."""

    lead: str
    price: str
    svg: str
    alt: str
    heads: tuple[str, ...]
    models: tuple[tuple[str, ...], ...]
    states: tuple[StateWhy, ...]
    left_out: str
    has_seen: bool

    @property
    def first(self) -> int | None:
        """The state that stands open: the first that differs from nominal, else the first."""
        apart = (state.key for state in self.states if "nominal" in state.differs)
        return next(apart, next((state.key for state in self.states), None))


def why(
    problem: Problem,
    compared: Sequence[Compared],
    log: TransitionLog | None,
    seen: Seen | None,
    number: words.Figures,
    visits: NDArray[np.float64],
    seconds: float,
) -> Why:
    """The section, with as many states as `seconds` allow by `effort`."""
    chosen = compared[0]
    nominal = next((c for c in compared[1:] if c.nominal), None)
    wanted, all_of_them = _which(problem, compared, visits, seconds)
    found = explain_many(problem, chosen.policy, wanted, log) if wanted else []
    f = problem.models.f
    xi = np.asarray(problem.objective.worst_case(chosen.train, f))
    even = same_everywhere(chosen.train, f)
    return Why(
        lead=EVEN if even and problem.n_models > 1 else _lead(problem, xi),
        price=verdict.price(chosen, nominal, problem.objective, number),
        svg=_stems(problem, chosen, xi),
        alt="Weight of every model in the worst case, at the return it gives.",
        heads=("model", "weight ξ", *(c.short for c in compared[:3])),
        models=() if even else _models(problem, compared[:3], xi, number),
        states=tuple(
            _state(s, e, problem, seen, number) for s, e in zip(wanted, found, strict=True)
        ),
        left_out="" if all_of_them else _left_out(len(wanted)),
        has_seen=seen is not None,
    )


def _which(
    problem: Problem,
    compared: Sequence[Compared],
    visits: NDArray[np.float64],
    seconds: float,
) -> tuple[list[int], bool]:
    """The states to explain, by index: those that differ from nominal, then the most visited."""
    policy = compared[0].policy
    open_ = np.asarray(policy.decided) & (problem.allowed.sum(axis=1) > 1)
    differs = np.zeros(problem.n_states, dtype=bool)
    for c in compared[1:]:
        if c.nominal:
            differs |= (np.abs(policy.probs - c.policy.probs) > SAME).any(axis=1)
    index = np.flatnonzero(open_)
    order = index[np.lexsort((index, -visits[index], ~differs[index]))]
    options = float(problem.allowed[index].sum()) / max(index.size, 1)
    each = evaluation_seconds(problem) * max(options, 1.0)
    most = min(MOST_STATES, int(seconds / each))
    return sorted(int(s) for s in order[:most]), index.size <= most


def _left_out(shown: int) -> str:
    how = "`softrobust explain RUN --state LABEL` explains any state."
    if not shown:
        return f"This problem is too large to explain single states here: {how}"
    return f"Shown are states that differ from nominal and those met most: {how}"


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
        f"{words.percent(float(xi[heavy].sum()))} of the weight ξ (how much each model counts "
        "then). They are the ones it is protected against."
    )


def _models(
    problem: Problem, compared: Sequence[Compared], xi: NDArray[np.float64], number: words.Figures
) -> tuple[tuple[str, ...], ...]:
    """The models of most added weight: number, ξ, and what each policy earns there."""
    added = np.round(xi - problem.models.f, 12)  # equal weights are equal, whatever the rounding
    order = np.lexsort((compared[0].train, -added))[:SHOWN_MODELS]
    return tuple(
        (str(int(i)), words.percent(float(xi[i])), *(number(float(c.train[i])) for c in compared))
        for i in order
        if xi[i] > 0
    )


def _stems(problem: Problem, chosen: Compared, xi: NDArray[np.float64]) -> str:
    """A stem for each model, as high as its weight ξ: those above their own weight stand out."""
    f = problem.models.f
    curve = Curve(chosen.train, f)
    x = Scale(*x_range([curve]), MARGIN, WIDTH - MARGIN)
    shown = _thinned(chosen.train, xi, f)
    top = float(xi.max())
    parts = [text(0, 12, "weight ξ of each model ↑", "soft")]
    for i in shown:
        height = (FLOOR - 26) * float(xi[i]) / top
        look = "stem heavy" if xi[i] > f[i] * (1 + 1e-9) else "stem"
        parts.append(
            line(x(float(chosen.train[i])), FLOOR, x(float(chosen.train[i])), FLOOR - height, look)
        )
    parts += axis_below(x, FLOOR)
    parts.append(text(x.end, FLOOR + 34, "return of this policy there →", "soft", "end"))
    return picture(WIDTH, FLOOR + 40, parts, "stems")


def _thinned(z: NDArray[np.float64], xi: NDArray[np.float64], f: NDArray[np.float64]) -> list[int]:
    """Models to draw: all, or where they are many every k-th by return."""
    order = np.argsort(z, kind="stable")
    live = order[(xi[order] > 0) | (f[order] > 0)]
    step = max(1, int(np.ceil(live.size / MOST_STEMS)))
    return [int(i) for i in live[::step]]


def _state(
    s: int, e: Explanation, problem: Problem, seen: Seen | None, number: words.Figures
) -> StateWhy:
    best = next((o for o in e.options if o.nominal), None)
    usual = max((o for o in e.options if o.practice), key=_practice, default=None)
    differs = []
    if best is not None and best.chosen < 1 - SAME:
        differs.append("nominal")
    if usual is not None and usual.chosen < 1 - SAME:
        differs.append("practice")
    rows = tuple(_row(s, o, e, problem, seen, number) for o in e.options)
    moves = "; ".join(
        f"{words.label(x.next_state)} {words.percent(x.mean)} → {words.percent(x.worst)}"
        for x in e.shifts
    )
    if seen is not None and seen.hides_pair(s, problem.models.actions.index(e.action)):
        moves = ""  # (prior + count)/(strength + all counts) gives the counts away
    return StateWhy(
        s, words.label(e.state), words.label(e.action), words.percent(e.visits),
        " and ".join(differs), rows, moves,
    )  # fmt: skip


def _practice(o: Option) -> float:
    return o.practice or 0.0


def _row(
    s: int, o: Option, e: Explanation, problem: Problem, seen: Seen | None, number: words.Figures
) -> ActionRow:
    notes = []
    if 0 < o.chosen < 1:
        notes.append(words.percent(o.chosen))
    if o.nominal:
        notes.append("nominal")
    a = problem.models.actions.index(o.action)
    hidden = seen is None or seen.hides(s)
    return ActionRow(
        action=words.label(o.action),
        notes=tuple(notes),
        own=o.chosen > 0,
        change="" if o.chosen == 1 else words.signed(o.objective - e.value, number),
        change_mean="" if o.chosen == 1 else words.signed(o.mean - e.mean, number),
        change_bad="" if o.chosen == 1 else words.signed(o.cvar - e.cvar, number),
        mean=number(o.q_mean),
        worst=number(o.q_worst),
        seen="" if seen is None else seen.times(s, a),
        practice="–" if hidden or o.practice is None else words.percent(o.practice),
    )
