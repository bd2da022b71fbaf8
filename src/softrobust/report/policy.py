"""Section: what to do: what changes, then state by state as a table, a map and a few rules.

Every recommended action carries what it rests on: how often it was seen in that state.
"""

from collections.abc import Hashable, Iterable, Iterator, Mapping
from itertools import groupby
from typing import Any

import numpy as np
from numpy.typing import NDArray

from softrobust._core.arguments import names_arguments
from softrobust._core.arrays import BoolArray, FloatArray, IntArray
from softrobust._core.notes import SMALL
from softrobust.certificate import Certificate
from softrobust.data import END
from softrobust.data.labels import Labels
from softrobust.models.policy import Policy, TimedPolicy
from softrobust.problem import ContinuousProblem, Problem
from softrobust.report.counts import Seen
from softrobust.report.pictures import coverage_svg, strip_svg
from softrobust.report.sentences import phrase
from softrobust.report.study_words import rules_sentence
from softrobust.report.svg import Picture
from softrobust.report.verdict import advised
from softrobust.report.words import label, percent
from softrobust.study.compare import SAME, Compared
from softrobust.study.review import Review

MOST_ROWS, SUMMARY_ROWS = 1000, 200
MOST_MIXED = 5  # actions listed where a policy randomizes
MOST_SPANS = 6  # stretches of steps that are listed of a state
MOST_CHANGES = 4  # stretches of states that are listed
MOST_NAMED = 3  # states in which practice becomes a rule, or in which it shifts a little
CHANGED = 0.1  # share of decisions in a state that must differ from practice to be worth telling
Stretch = tuple[str, str, list[int]]


def stretches(
    policy: Policy, practice: Policy | None, states: Iterable[int], seen: Seen | None = None
) -> list[Stretch]:
    """(where, what, states) for neighbouring states in which the same is done."""
    same = {s: (tuple(policy.probs[s]), _purer(policy, practice, s)) for s in states}
    return [
        (_span(policy.states, index), does(policy, practice, index[0], seen), index)
        for index in neighbours(same)
    ]


def neighbours(same: Mapping[int, Hashable]) -> Iterator[list[int]]:
    """States that follow one another, and of which the same is said."""
    # s − i rises where one is passed over.
    keys = [(key, s - i, s) for i, (s, key) in enumerate(same.items())]
    for _, group in groupby(keys, lambda entry: entry[:2]):
        yield [s for *_, s in group]


def does(policy: Policy, practice: Policy | None, s: int, seen: Seen | None = None) -> str:
    """What a policy does in a state; "always" where that is what is usually done."""
    return f"{'always ' * _purer(policy, practice, s)}{mixed(policy, s, seen)}"


def _purer(policy: Policy, practice: Policy | None, s: int) -> bool:
    """Whether what is usually done is now done always."""
    if practice is None or policy.probs[s].max() < 1 - SAME:
        return False
    return bool(practice.decided[s] and policy.probs[s].argmax() == practice.probs[s].argmax())


def _span(states: Labels, index: list[int]) -> str:
    first, last = (label(states[s]) for s in (index[0], index[-1]))
    return {1: first, 2: f"{first}, {last}"}.get(len(index), f"{first} … {last}")


def mixed(policy: Policy, s: int, seen: Seen | None = None) -> str:
    """What a policy does in a state, in a few words."""
    taken = _by_chance(policy.probs[s])
    parts = []
    for a in taken[:MOST_MIXED].tolist():
        share = _chance(policy, s, a, seen)
        parts.append(label(policy.actions[a]) + (f" ({share})" if share else ""))
    return " or ".join(parts) + (" or …" if taken.size > MOST_MIXED else "")


def _chance(policy: Policy, s: int, a: int, seen: Seen | None) -> str:
    """The chance of an action; where practice goes on it is practice's, which may be hidden."""
    p = float(policy.probs[s, a])
    return "" if p == 1 or (seen is not None and seen.hides(s)) else percent(p)


def seen_there(counts: IntArray, policy: Policy, states: list[int]) -> str:
    """How often the action was seen; of a mixture, every one of its actions by itself."""
    times = counts[states][:, _by_chance(policy.probs[states[0]])[:MOST_MIXED]]
    ends = zip(times.min(axis=0), times.max(axis=0), strict=True)
    spans = [f"{low}" if low == high else f"{low} to {high}" for low, high in ends]
    return f"seen {' and '.join(spans)} time{'' if spans == ['1'] else 's'} there"


def changed(policy: Policy, practice: Policy | None, seen: Seen | None = None) -> BoolArray:
    """(n_states,) where more than one decision in ten is another than practice's.

    Where shares of practice are hidden: where its usual action is not the policy's.
    """
    if practice is None:
        return np.zeros(len(policy.states), bool)
    apart = 0.5 * np.abs(policy.probs - practice.probs).sum(axis=1) > CHANGED
    if seen is not None and seen.suppress:
        apart = policy.decision != practice.decision
    return np.asarray(apart & policy.decided & practice.decided)


def changes(
    policy: Policy, practice: Policy | None, seen: Seen | None = None, most: int = MOST_CHANGES
) -> tuple[list[Stretch], str]:
    """At most so many stretches of states, and what is done in the others, in a sentence."""
    decided = np.asarray(policy.decided)
    shown = decided if practice is None else changed(policy, practice, seen)
    found = stretches(policy, practice, map(int, np.flatnonzero(shown)), seen)
    left = sum(len(index) for *_, index in found[most:])
    rest = [phrase("to_do.left", n=left)] if left else []
    if practice is None:
        return found[:most], " ".join(rest)
    apart = np.abs(policy.probs - practice.probs).max(axis=1) > SAME
    hidden = seen is not None and seen.suppress
    near = np.zeros_like(decided) if hidden else apart & decided & practice.decided & ~shown
    index = list(map(int, np.flatnonzero(near)))
    purer = [label(policy.states[s]) for s in index if _purer(policy, practice, s)]
    mixes = {s: text for s in index if (text := _shifts(policy, practice, s))}
    new = int((decided & ~practice.decided).sum())
    others = int(decided.sum() - shown.sum()) - len(purer) - len(mixes) - new
    if new:
        rest.append(phrase("to_do.new", n=new))
    if mixes:
        groups = [(_span(policy.states, i), mixes[i[0]], len(i)) for i in neighbours(mixes)]
        told = "; ".join(f"in {where}: {what}" for where, what, _ in groups[:MOST_NAMED])
        left = sum(n for *_, n in groups[MOST_NAMED:])
        rest.append(phrase("to_do.shifts", told=told, more=left))
    if purer or others:
        named = {"names": ", ".join(purer[:MOST_NAMED]), "more": max(len(purer) - MOST_NAMED, 0)}
        rest.append(phrase("to_do.rest", first=not (found or new or mixes), **named))
    return found[:most], " ".join(rest)


def _shifts(policy: Policy, practice: Policy, s: int) -> str:
    """What a mixture does a little more or less often than practice; empty where none is told."""
    if _purer(policy, practice, s):
        return ""
    before, after = practice.probs[s], policy.probs[s]
    told = [
        f"{label(policy.actions[a])} {percent(float(after[a]))} (now {percent(float(before[a]))})"
        for a in np.argsort(-np.abs(after - before).round(9), kind="stable").tolist()
        if percent(float(after[a])) != percent(float(before[a]))
    ]
    return ", ".join(told[:MOST_NAMED]) + ", …" * (len(told) > MOST_NAMED)


def to_do(c: Certificate, problem: Problem | ContinuousProblem) -> str:
    """What a list of changes is: advice, or only what the policy would do."""
    return "What to do" if advised(c, problem) else "What this policy does"


def timed_rows(policy: TimedPolicy) -> tuple[list[tuple[str, str]], str]:
    """What is done step after step in neighbouring states alike, and how many more there are."""
    states = map(int, np.flatnonzero(np.asarray(policy.decided)))
    found = list(neighbours({s: policy.probs[:, s].tobytes() for s in states}))
    told = [(_span(policy.states, i), f"steps {spans(policy, i[0])}") for i in found[:MOST_CHANGES]]
    left = sum(map(len, found[MOST_CHANGES:]))
    return told, phrase("to_do.left", n=left) if left else ""


def spans(policy: TimedPolicy, s: int) -> str:
    """What is done in a state, step after step: at most `MOST_SPANS` stretches of steps."""
    parts = [label(part) for part in policy.spans(s)]
    return "; ".join(parts[:MOST_SPANS]) + ("; …" if len(parts) > MOST_SPANS else "")


def what_to_do(found: Review, seen: Seen | None) -> dict[str, Any]:
    """The first screen's part: the states in which something changes."""
    timed = found.chosen.solution.policy
    do = {"title": to_do(found.certificate, found.problem)}
    if isinstance(timed, TimedPolicy):
        rows, rest = timed_rows(timed)
        return do | {"rows": rows, "rest": rest, "rules": ()}
    told, rest = changes(found.chosen.policy, _policy(found.practice), seen)
    rules = rule_list(found)
    if rules and found.rules and found.rules.same and 0 < len(rules["lines"]) <= MOST_CHANGES:
        return do | {"rows": (), "rest": "", "rules": rules["lines"]}
    return do | {"rows": [(where, what) for where, what, _ in told], "rest": rest, "rules": ()}


def policy_table(found: Review, seen: Seen | None) -> dict[str, Any]:
    """The table of the chosen policy; above 1000 states the 200 most visited ones."""
    policy, states, time = found.chosen.policy, found.problem.models.states, found.visits
    nominal, practice = _policy(found.nominal), _policy(found.practice)
    timed, decided = found.chosen.solution.policy, np.asarray(policy.decided)
    index, cut = np.flatnonzero(decided), ""
    shown = index
    if len(states) > MOST_ROWS and index.size > SUMMARY_ROWS:
        shown = index[np.argsort(-time[index], kind="stable")[:SUMMARY_ROWS]]
        share = percent(float(time[shown].sum()))
        cut = phrase("to_do.cut", n=shown.size, of=index.size, share=share)
    unusual, other = changed(policy, practice, seen), policy if nominal is None else nominal
    differs = np.asarray((np.abs(policy.probs - other.probs) > SAME).any(axis=1))
    rows = []
    for s in map(int, shown):
        taken = _by_chance(policy.probs[s])
        rows.append(
            {
                "key": s,
                "state": label(states[s]),
                "choices": [_choice(s, int(a), policy, seen) for a in taken[:MOST_MIXED]],
                "more": max(0, taken.size - MOST_MIXED),
                "steps": spans(timed, s) if isinstance(timed, TimedPolicy) else "",
                # Empty where nominal does the same.
                "nominal": mixed(nominal, s) if nominal is not None and differs[s] else "",
                "usual": _usual(s, practice, seen),
                "unusual": bool(unusual[s]),
                "share": float(time[s]),
                # Sorts by how often the action was seen.
                "rank": 0 if seen is None else seen.rank(s, int(taken[0])),
            }
        )
    idle = [states[int(s)] for s in np.flatnonzero(~decided)]
    left = [name for name in idle if name != END]
    return {
        "rows": rows,
        "timed": isinstance(timed, TimedPolicy),
        "intro": [] if seen is None or not index.size else _intro(index, found, unusual, seen),
        "cut": cut,
        "undecided": [label(name) for name in left[:SUMMARY_ROWS]],
        "undecided_more": max(0, len(left) - SUMMARY_ROWS),
        "ends": END in idle,
        "has_nominal": nominal is not None and bool(differs[index].any()),
        "has_practice": practice is not None,
    }


def _policy(c: Compared | None) -> Policy | None:
    return None if c is None else c.policy


def _by_chance(probs: FloatArray) -> NDArray[np.intp]:
    """The actions that are taken, the most probable first."""
    taken = np.flatnonzero(probs > 0)
    return taken[np.argsort(-probs[taken], kind="stable")]


def _choice(s: int, a: int, policy: Policy, seen: Seen | None) -> dict[str, Any]:
    """One action in one state; its texts are empty where they are not known."""
    return {
        "action": label(policy.actions[a]),
        "chance": _chance(policy, s, a, seen),
        "seen": "" if seen is None else seen.times(s, a),
        "of_all": "" if seen is None else seen.of_all(s),
        "few": seen is not None and seen.few(s, a),
    }


def _usual(s: int, practice: Policy | None, seen: Seen | None) -> str:
    """What is done most often, and how often where that may be said."""
    if practice is None or not practice.decided[s]:
        return "–"
    a = int(np.argmax(practice.probs[s]))
    share = "" if seen is None or seen.hides(s) else f" {percent(float(practice.probs[s, a]))}"
    return label(practice.actions[a]) + share


def _intro(index: NDArray[np.intp], found: Review, unusual: BoolArray, seen: Seen) -> list[str]:
    """Sentences above the table."""
    policy, practice = found.chosen.policy, _policy(found.practice)
    apart = practice is not None and np.abs(policy.probs - practice.probs)[index].max() > SAME
    told = {"n": int(unusual[index].sum()), "of": index.size, "near": apart and not seen.suppress}
    lines = [phrase("to_do.differs", **told)]
    few = int(((policy.probs[index] > 0) & (seen.n[index] < SMALL)).any(axis=1).sum())
    return [*lines, phrase("to_do.few", n=few, small=SMALL)] if few else lines


# -- the policy in pictures --------------------------------------------------------------------


@names_arguments
def picture_changes(policy: Policy, practice: Policy | None, seen: Seen | None = None) -> Picture:
    """The states in which something is to be decided; filled where that is no longer practice."""
    if practice is None:
        return Picture("")
    index, apart = np.flatnonzero(np.asarray(policy.decided)), changed(policy, practice, seen)
    before, after = practice.decision, policy.decision
    now = [practice.actions[int(before[s])] if practice.decided[s] else "" for s in index]
    then = [
        f"{'always ' * _purer(policy, practice, s)}{label(policy.actions[int(after[s])])}"
        if apart[s]
        else None
        for s in index.tolist()
    ]
    return strip_svg([policy.states[int(s)] for s in index], now, then)


def policy_map(found: Review, seen: Seen | None) -> Picture:
    """What is done in every state, on the shades of how often it was seen."""
    policy, models = found.chosen.policy, found.problem.models
    nominal, practice = _policy(found.nominal), _policy(found.practice)
    index = np.flatnonzero(np.asarray(policy.decided))
    own = policy.probs[index]
    if seen is not None:  # where practice goes on, sizes of discs would tell its shares
        hidden = np.array([seen.hides(int(s)) for s in index], bool)
        own = np.where(hidden[:, None] & (own > 0), 1 / (own > 0).sum(axis=1)[:, None], own)
    usual = None
    if practice is not None:
        usual = np.where(practice.decided, practice.decision, -1)[index]
    return coverage_svg(
        [models.states[int(s)] for s in index],
        list(models.actions),
        None if seen is None else Seen(seen.n[index], seen.suppress),
        np.asarray(models.available)[index],
        own,
        None if nominal is None else nominal.decision[index],
        usual,
    )


# -- the policy as a short list of rules with the exact price of simplicity --------------------

MOST_LOSS = 0.1  # of what the policy gains over acting at random


def rule_list(found: Review) -> dict[str, Any] | None:
    """The rules where they say nearly the same as the policy; otherwise the sentence alone."""
    rules = found.rules
    if rules is None or (rules.kept and rules.same and rules.n_leaves == 1):
        return None  # "do what is done now" was said
    gain = rules.full_value - found.certificate.uniform_value
    if rules.loss > MOST_LOSS * max(gain, 0.0) + 1e-12:
        return {"sentence": phrase("to_do.no_rules", r=rules), "lines": ()}
    length = 2 * (rules.n_leaves + len(rules.exceptions))
    if length > int(np.asarray(rules.policy.decided).sum()):
        return None  # a list as long as the table helps nobody
    lines = [label(line) for line in rules.lines()]
    promised = found.certificate.promise is not None
    return {"sentence": f"As rules: {rules_sentence(rules, promised)}", "lines": lines}
