"""The policy state by state as plain values, ready for a template.

Every recommended action carries what it rests on: how often it was seen in that state, and the
share of the posterior there that is prior and not data (`FittedDirichlet.prior_share`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, final

import numpy as np
from numpy.typing import NDArray

from softrobust._core.arrays import FloatArray
from softrobust.data import END
from softrobust.posterior import FittedDirichlet
from softrobust.report import words
from softrobust.report.compare import SAME
from softrobust.report.counts import SMALL, Seen
from softrobust.report.svg import LETTER, dot, line, picture, rect, text
from softrobust.report.words import count, label, percent
from softrobust.returns import occupancies, uniform_value
from softrobust.study.rules import Rules, simplify

if TYPE_CHECKING:
    from softrobust.data.labels import Labels
    from softrobust.models.policy import Policy
    from softrobust.posterior import FittedPosterior
    from softrobust.problem import Problem
    from softrobust.report.compare import Compared
    from softrobust.report.counts import Seen


MOST_ROWS, SUMMARY_ROWS = 1000, 200
MOST_MIXED = 5  # actions listed where a policy randomizes


@final
@dataclass(frozen=True, slots=True)
class Choice:
    """One action in one state; `seen`, `of_all`, `prior` are texts, empty where not known."""

    action: str
    chance: str
    seen: str
    of_all: str
    prior: str
    few: bool


@final
@dataclass(frozen=True, slots=True)
class Row:
    """One state of the policy.

    `key` is its index, `nominal` is empty where nominal does the same, `usual` is what practice
    does most often there, `rank` sorts by how often the action was seen.
    """

    key: int
    state: str
    choices: tuple[Choice, ...]
    more: int
    nominal: str
    usual: str
    unusual: bool
    time: str
    share: float
    rank: int


@final
@dataclass(frozen=True, slots=True)
class PolicyTable:
    """The policy as rows, and the sentences around them."""

    rows: tuple[Row, ...]
    intro: tuple[str, ...]
    cut: str
    undecided: tuple[str, ...]
    undecided_more: int
    ends: bool
    has_seen: bool
    has_prior: bool
    has_nominal: bool
    has_practice: bool


def policy_table(
    problem: Problem,
    compared: Sequence[Compared],
    seen: Seen | None,
    posterior: FittedPosterior | None,
    time: FloatArray,
) -> PolicyTable:
    """The table of the chosen policy; above 1000 states the 200 most visited ones.

    Parameters
    ----------
    time : (n_states,)
        Share of discounted time there, as `time_share` gives it.
    """
    policy, states = compared[0].policy, problem.models.states
    prior = posterior.prior_share if isinstance(posterior, FittedDirichlet) else None
    decided = np.asarray(policy.decided)
    index = np.flatnonzero(decided)
    shown = index
    if len(states) > MOST_ROWS and index.size > SUMMARY_ROWS:
        shown = index[np.argsort(-time[index], kind="stable")[:SUMMARY_ROWS]]
    nominal = next((c.policy for c in compared[1:] if c.nominal), None)
    practice = next((c.policy for c in compared[1:] if c.practice), None)
    differs = _differs(policy, nominal)
    unusual = _unusual(policy, practice)
    rows = tuple(
        _row(int(s), policy, nominal if differs[s] else None, practice, seen, prior,
             float(time[s]), bool(unusual[s]))
        for s in shown
    )  # fmt: skip
    left = [states[int(s)] for s in np.flatnonzero(~decided) if states[int(s)] != END]
    return PolicyTable(
        rows=rows,
        intro=_intro(index, policy, nominal, practice, differs, unusual, seen),
        cut=_cut(index, shown, time),
        undecided=tuple(label(name) for name in left[:SUMMARY_ROWS]),
        undecided_more=max(0, len(left) - SUMMARY_ROWS),
        ends=any(states[int(s)] == END for s in np.flatnonzero(~decided)),
        has_seen=seen is not None,
        has_prior=prior is not None,
        has_nominal=nominal is not None and bool(differs[index].any()),
        has_practice=practice is not None,
    )


def time_share(problem: Problem, policy: Policy) -> FloatArray:
    """(n_states,): share of discounted time in each state, (1 − γ)·h averaged over the models."""
    h = problem.models.f @ occupancies(problem, policy)
    return np.asarray((1 - problem.gamma) * h)


def _differs(policy: Policy, other: Policy | None) -> NDArray[np.bool_]:
    """Where the chance of some action differs by more than rounding."""
    if other is None:
        return np.zeros(len(policy.states), bool)
    return np.asarray((np.abs(policy.probs - other.probs) > SAME).any(axis=1))


def _unusual(policy: Policy, practice: Policy | None) -> NDArray[np.bool_]:
    """Where the policy does not take what practice does most often."""
    if practice is None:
        return np.zeros(len(policy.states), bool)
    usual = np.take_along_axis(policy.probs, practice.decision[:, None], axis=1)[:, 0]
    return np.asarray((usual < 1 - SAME) & practice.decided)


def _row(
    s: int,
    policy: Policy,
    other: Policy | None,
    practice: Policy | None,
    seen: Seen | None,
    prior: FloatArray | None,
    time: float,
    unusual: bool,
) -> Row:
    """One state; `other` is the nominal policy where it differs, else None."""
    taken = _by_chance(policy.probs[s])
    return Row(
        key=s,
        state=label(policy.states[s]),
        choices=tuple(_choice(s, int(a), policy, seen, prior) for a in taken[:MOST_MIXED]),
        more=max(0, taken.size - MOST_MIXED),
        nominal="" if other is None else _mix(other, s),
        usual=_usual(s, practice, seen),
        unusual=unusual,
        time=percent(time),
        share=time,
        rank=0 if seen is None else seen.rank(s, int(taken[0])),
    )


def _by_chance(probs: FloatArray) -> NDArray[np.intp]:
    taken = np.flatnonzero(probs > 0)
    return taken[np.argsort(-probs[taken], kind="stable")]


def _choice(s: int, a: int, policy: Policy, seen: Seen | None, prior: FloatArray | None) -> Choice:
    p = float(policy.probs[s, a])
    share = np.nan if prior is None else float(prior[s, a])
    hidden = seen is not None and seen.hides_pair(s, a)  # the share gives the count away
    return Choice(
        action=label(policy.actions[a]),
        chance="" if p == 1 else percent(p),
        seen="" if seen is None else seen.times(s, a),
        of_all="" if seen is None else seen.of_all(s),
        prior="–" if hidden else "" if np.isnan(share) else percent(share),
        few=seen is not None and seen.few(s, a),
    )


def _mix(policy: Policy, s: int) -> str:
    """What a policy does in a state, in a few words."""
    taken = _by_chance(policy.probs[s])
    if taken.size == 1:
        return label(policy.actions[int(taken[0])])
    parts = [
        f"{label(policy.actions[int(a)])} {percent(float(policy.probs[s, a]))}"
        for a in taken[:MOST_MIXED]
    ]
    return ", ".join(parts) + (", …" if taken.size > MOST_MIXED else "")


def _usual(s: int, practice: Policy | None, seen: Seen | None) -> str:
    """What is done most often, and how often where that may be said."""
    if practice is None or not practice.decided[s]:
        return "–"
    a = int(np.argmax(practice.probs[s]))
    share = "" if seen is None or seen.hides(s) else f" {percent(float(practice.probs[s, a]))}"
    return label(practice.actions[a]) + share


def _cut(index: NDArray[np.intp], shown: NDArray[np.intp], time: FloatArray) -> str:
    """What a summarised table shows."""
    if shown.size == index.size:
        return ""
    return (
        f"The table shows {shown.size:,} of the {index.size:,} states with a decision, those "
        "where the policy spends most of its discounted time "
        f"({percent(float(time[shown].sum()))} of it)"
    )


def _intro(
    index: NDArray[np.intp],
    policy: Policy,
    nominal: Policy | None,
    practice: Policy | None,
    differs: NDArray[np.bool_],
    unusual: NDArray[np.bool_],
    seen: Seen | None,
) -> tuple[str, ...]:
    """Sentences above the table."""
    lines = []
    of_all = f"of {count(index.size, 'state')} with a decision"
    if nominal is not None and index.size:
        n = int(differs[index].sum())
        lines.append(
            f"It differs from the nominal policy in {n:,} {of_all}."
            if n
            else "The nominal policy does the same in every state."
        )
    if practice is not None and index.size:
        n = int(unusual[index].sum())
        lines.append(
            f"It differs from what is usually done in {n:,} {of_all}."
            if n
            else "It does what is usually done in every state."
        )
    if seen is not None and index.size:
        few = ((policy.probs[index] > 0) & (seen.n[index] < SMALL)).any(axis=1)
        if few.any():
            lines.append(
                f"In {count(int(few.sum()), 'state')} it takes an action that was seen fewer than "
                f"{SMALL} times there (marked ⚠): treat these with care."
            )
    return tuple(lines)


# --------------------------------------------------------------------------------------------------
# The policy as a map: a column for each state, a row for each action.
#
# The shade of a cell says how often the action was seen there (no shade: never). A filled disc is
# what the policy does, a ring what nominal would do, a bar what is usually done.

MOST_STATES, MOST_ACTIONS = 120, 45
FEWEST_STATES = 2
WIDTH, LEAST_WIDTH = 920.0, 160.0
SHADES = (5, 10, 20, 50, 100)  # a cell is one shade stronger from each of these counts on
LONGEST = 22


def policy_map(
    problem: Problem, policy: Policy, nominal: Policy | None, practice: Policy | None,
    seen: Seen | None,
) -> str:  # fmt: skip
    """The map as SVG; empty where there are too many states or actions to see any."""
    index = np.flatnonzero(np.asarray(policy.decided))
    n_actions = problem.n_actions
    if not FEWEST_STATES <= index.size <= MOST_STATES or n_actions > MOST_ACTIONS:
        return ""
    states, actions = problem.models.states, problem.models.actions
    names = [_short(actions[a]) for a in range(n_actions)]
    gutter = 12 + LETTER * max(len(name) for name in names)
    cell = min((WIDTH - gutter) / index.size, 44.0)
    height = min(26.0, max(12.0, 360.0 / n_actions))
    width = gutter + cell * index.size
    every = max(1, int(np.ceil(13 / height)))
    parts = []
    for a in range(n_actions):
        if a % every == 0:
            parts.append(text(gutter - 8, 4 + (a + 0.5) * height + 4, names[a], anchor="end"))
        for i, s in enumerate(index):
            x, y = gutter + i * cell, 4 + a * height
            parts.append(_cell(problem, int(s), a, x, y, cell, height, seen))
    for i, s in enumerate(index):
        x = gutter + (i + 0.5) * cell
        parts += _marks(int(s), x, cell, height, policy, nominal, practice)
    bottom = 4 + n_actions * height
    parts += _below(states, index, gutter, cell, bottom)
    return picture(max(width, gutter + LEAST_WIDTH), bottom + 22, parts, "map")


def _cell(
    problem: Problem, s: int, a: int, x: float, y: float, w: float, h: float, seen: Seen | None
) -> str:
    state, action = problem.models.states[s], problem.models.actions[a]
    allowed = bool(problem.models.available[s, a])
    hover = f"{state}, {action}"
    shade = "n0" if not allowed else "n1"
    if seen is not None:
        hover += f": seen {seen.times(s, a)}"
        rank = seen.rank(s, a)
        if rank > 0 or seen.suppress:
            shade = f"n{1 + sum(rank >= edge for edge in SHADES)}"
        else:
            shade = "n0"
    return rect(x + 0.5, y + 0.5, w - 1, h - 1, f"cell {shade}", hover)


def _marks(
    s: int, x: float, cell: float, height: float, policy: Policy, nominal: Policy | None,
    practice: Policy | None,
) -> list[str]:  # fmt: skip
    r = min(cell, height) * 0.27
    parts = []

    def middle(a: int) -> float:
        return 4 + (a + 0.5) * height

    if practice is not None and practice.decided[s]:
        y = middle(int(practice.decision[s])) + min(cell, height) * 0.42
        parts.append(line(x - cell * 0.3, y, x + cell * 0.3, y, "usual"))
    if nominal is not None:
        parts.append(dot(x, middle(int(nominal.decision[s])), r + 2, "ring"))
    for a in np.flatnonzero(policy.probs[s] > 0):
        p = float(policy.probs[s, a])
        hover = "" if p == 1 else percent(p)
        parts.append(dot(x, middle(int(a)), r * float(np.sqrt(p)), "own", hover))
    return parts


def _below(
    states: Labels, index: NDArray[np.intp], gutter: float, cell: float, y: float
) -> list[str]:
    """Names of states, as many as have room, inside the picture."""
    names = [_short(states[int(s)]) for s in index]
    room = LETTER * max(len(name) for name in names) + 6
    every = max(1, int(np.ceil(room / cell)))
    end = gutter + max(cell * index.size, LEAST_WIDTH)
    parts = []
    for i in range(0, len(names), every):
        half = LETTER * len(names[i]) / 2
        at = max(half, min(gutter + (i + 0.5) * cell, end - half))
        parts.append(text(at, y + 16, names[i], anchor="middle"))
    return parts


def _short(name: str) -> str:
    return name if len(name) <= LONGEST else name[: LONGEST - 1] + "…"


# --------------------------------------------------------------------------------------------------
# The policy as a short list of rules with the exact price of simplicity (`rules`).

LEAVES = 6
TRIES = 600  # evaluations that finding the rules takes, at most about
MOST_LOSS = 0.1  # of what the policy gains over acting at random
FEWEST_RULED = 6


@final
@dataclass(frozen=True, slots=True)
class RuleList:
    """Rules as lines, indented by spaces, and what they cost."""

    lines: tuple[str, ...]
    sentence: str


def rules_within(problem: Problem, policy: Policy, each: float, seconds: float) -> Rules | None:
    """Rules for the policy; None where they would take long, or there is nothing to shorten."""
    decided = np.asarray(policy.decided)
    if each * TRIES > seconds or int(decided.sum()) < FEWEST_RULED or not policy.deterministic:
        return None
    if not (problem.allowed[decided].sum(axis=1) > 1).any():
        return None
    return simplify(problem, policy, most_leaves=LEAVES)


def rule_list(problem: Problem, rules: Rules | None) -> RuleList | None:
    """The rules where they say nearly the same as the policy; otherwise the sentence alone."""
    if rules is None:
        return None
    gain = rules.full_value - uniform_value(problem)
    decided = np.asarray(rules.policy.decided)
    short = 2 * (rules.n_leaves + len(rules.exceptions)) <= int(decided.sum())
    if rules.loss <= MOST_LOSS * max(gain, 0.0) + 1e-12:
        if not short:  # a list as long as the table helps nobody
            return None
        lines = tuple(words.label(line) for line in rules.lines())
        return RuleList(lines, f"As rules: {rules.sentence()}")
    return RuleList(
        (),
        f"No short list of rules comes close: {words.count(rules.n_leaves, 'rule')} would lose "
        f"{rules.loss:.3g} by the objective.",
    )
