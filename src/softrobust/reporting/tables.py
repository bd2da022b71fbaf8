"""Tables as plain values, ready for a template: the policy state by state, and policies compared.

Every recommended action carries what it rests on: how often it was seen in that state, and the
share of the posterior there that is prior and not data (`FittedDirichlet.prior_share`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, final

import numpy as np
from numpy.typing import NDArray

from softrobust.data import END
from softrobust.posterior import FittedDirichlet
from softrobust.reporting.compare import SAME
from softrobust.reporting.words import Figures, count, label, percent
from softrobust.returns import occupancies

if TYPE_CHECKING:
    from softrobust.data import TransitionLog
    from softrobust.models.policy import Policy
    from softrobust.objective import Objective
    from softrobust.posterior import FittedPosterior
    from softrobust.problem import Problem
    from softrobust.reporting.compare import Compared

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]

MOST_ROWS, SUMMARY_ROWS = 1000, 200
MOST_MIXED = 5  # actions listed where a policy randomizes
FEW = 5  # observations below which an action rests on little data


@final
@dataclass(frozen=True, slots=True)
class Choice:
    """One action in one state; `seen` and `prior` are texts, empty where not known."""

    action: str
    chance: str
    seen: str
    prior: str
    few: bool


@final
@dataclass(frozen=True, slots=True)
class Row:
    """One state of the policy; `nominal` is empty where nominal does the same."""

    state: str
    choices: tuple[Choice, ...]
    more: int
    nominal: str
    time: str


@final
@dataclass(frozen=True, slots=True)
class PolicyTable:
    """The policy as rows, and the sentences around them."""

    rows: tuple[Row, ...]
    intro: tuple[str, ...]
    undecided: tuple[str, ...]
    undecided_more: int
    ends: bool
    has_seen: bool
    has_prior: bool
    has_nominal: bool


def policy_table(
    problem: Problem,
    chosen: Compared,
    nominal: Compared | None,
    log: TransitionLog | None,
    posterior: FittedPosterior | None,
) -> PolicyTable:
    """The table of the chosen policy; above 1000 states the 200 most visited ones."""
    policy, states = chosen.policy, problem.models.states
    seen = None if log is None else np.asarray(log.pair_counts)
    prior = posterior.prior_share if isinstance(posterior, FittedDirichlet) else None
    time = time_share(problem, policy)
    decided = np.asarray(policy.decided)
    index = np.flatnonzero(decided)
    shown = index
    if len(states) > MOST_ROWS and index.size > SUMMARY_ROWS:
        shown = index[np.argsort(-time[index], kind="stable")[:SUMMARY_ROWS]]
    other = None if nominal is None else nominal.policy
    differs = _differs(policy, other)
    rows = tuple(_row(int(s), policy, other, seen, prior, time, bool(differs[s])) for s in shown)
    ends = any(states[int(s)] == END for s in np.flatnonzero(~decided))
    left = [states[int(s)] for s in np.flatnonzero(~decided) if states[int(s)] != END]
    return PolicyTable(
        rows=rows,
        intro=_intro(index, shown, time, policy, other, differs, seen),
        undecided=tuple(label(name) for name in left[:SUMMARY_ROWS]),
        undecided_more=max(0, len(left) - SUMMARY_ROWS),
        ends=ends,
        has_seen=seen is not None,
        has_prior=prior is not None,
        has_nominal=other is not None and bool(differs[index].any()),
    )


def time_share(problem: Problem, policy: Policy) -> FloatArray:
    """(n_states,): share of discounted time in each state, (1 − γ)·h of the mean model."""
    h = occupancies(problem.mean_problem(), policy)[0]
    return np.asarray((1 - problem.gamma) * h)


def _differs(policy: Policy, other: Policy | None) -> NDArray[np.bool_]:
    """Where the chance of some action differs by more than rounding."""
    if other is None:
        return np.zeros(len(policy.states), bool)
    return np.asarray((np.abs(policy.probs - other.probs) > SAME).any(axis=1))


def _row(
    s: int,
    policy: Policy,
    other: Policy | None,
    seen: IntArray | None,
    prior: FloatArray | None,
    time: FloatArray,
    differs: bool,
) -> Row:
    taken = _by_chance(policy.probs[s])
    choices = tuple(_choice(s, int(a), policy, seen, prior) for a in taken[:MOST_MIXED])
    nominal = "" if other is None or not differs else _mix(other, s)
    more = max(0, taken.size - MOST_MIXED)
    return Row(label(policy.states[s]), choices, more, nominal, percent(float(time[s])))


def _by_chance(probs: FloatArray) -> NDArray[np.intp]:
    taken = np.flatnonzero(probs > 0)
    return taken[np.argsort(-probs[taken], kind="stable")]


def _choice(
    s: int, a: int, policy: Policy, seen: IntArray | None, prior: FloatArray | None
) -> Choice:
    p = float(policy.probs[s, a])
    share = np.nan if prior is None else float(prior[s, a])
    return Choice(
        action=label(policy.actions[a]),
        chance="" if p == 1 else percent(p),
        seen="" if seen is None else f"{int(seen[s, a]):,} of {int(seen[s].sum()):,}",
        prior="" if np.isnan(share) else percent(share),
        few=seen is not None and int(seen[s, a]) < FEW,
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


def _intro(
    index: NDArray[np.intp],
    shown: NDArray[np.intp],
    time: FloatArray,
    policy: Policy,
    other: Policy | None,
    differs: NDArray[np.bool_],
    seen: IntArray | None,
) -> tuple[str, ...]:
    """Sentences above the table."""
    lines = []
    if shown.size < index.size:
        lines.append(
            f"The table shows {shown.size:,} of the {index.size:,} states with a decision, those "
            f"where the policy spends most of its discounted time "
            f"({percent(float(time[shown].sum()))} of it); policy.csv has all of them."
        )
    if other is not None and index.size:
        n = int(differs[index].sum())
        lines.append(
            f"It differs from the nominal policy in {n:,} of "
            f"{count(index.size, 'state')} with a decision."
            if n
            else "The nominal policy does the same in every state."
        )
    if seen is not None and index.size:
        few = ((policy.probs[index] > 0) & (seen[index] < FEW)).any(axis=1)
        if few.any():
            lines.append(
                f"In {count(int(few.sum()), 'state')} it takes an action that was seen fewer than "
                f"{FEW} times there (marked ⚠): treat these with care."
            )
    return tuple(lines)


@final
@dataclass(frozen=True, slots=True)
class ComparedRow:
    """One policy in the table of figures; each cell is (value, ends of the interval)."""

    name: str
    chosen: bool
    ink: str
    cells: tuple[tuple[str, tuple[str, ...]], ...]


def figures_table(
    compared: Sequence[Compared], number: Figures, *, fresh: bool, inks: Sequence[str]
) -> tuple[ComparedRow, ...]:
    """objective, mean, VaR and CVaR of every policy, on training or held-out models."""
    rows = []
    for i, c in enumerate(compared):
        keys = ("objective", "mean", "var", "cvar")
        if fresh:
            assert c.heldout is not None  # asked for only where there are held-out models
            estimates = [getattr(c.heldout, key) for key in keys]
            cells = tuple((number(e.value), number.interval(e)) for e in estimates)
        else:
            cells = tuple((number(c.static[key]), ()) for key in keys)
        rows.append(ComparedRow(c.name, c.chosen, inks[i] if i < len(inks) else "", cells))
    return tuple(rows)


def figure_names(objective: Objective) -> tuple[tuple[str, str], ...]:
    """Heads of the columns of `figures_table`, and what they mean."""
    if objective.tail == 0:
        edge = bad = objective.words
    elif objective.tail == 1:
        edge, bad = "the best model", "average over all models"
    else:
        edge, bad = f"where {objective.words} end", "average of these"
    return (
        ("objective", "what was maximised"),
        ("mean ●", "average over all models"),
        ("VaR ▲", edge),
        ("CVaR ◆", bad),
    )
