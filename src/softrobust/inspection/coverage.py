"""What a log shows of the pairs (s, a): how often each was seen, and what was usually done.

A pair never seen has no estimate of its own, and one seen a few times has a vague one; both are
where a policy that looks good may only be lucky. Counted are the states in which some action was
seen; "(end)" and states that only end a log are none of them.
"""

from typing import Any

import numpy as np

from softrobust.data import TransitionLog
from softrobust.inspection.result import Grid, Section, percent, several

FEW = 5
MOST_STATES, MOST_ACTIONS = 24, 8


def coverage_section(log: TransitionLog) -> Section:
    """How well the pairs are covered, with the counts themselves where they fit."""
    facts = coverage_record(log)
    seen, never, few = facts["pairs_seen"], facts["pairs_never_seen"], facts["pairs_seen_few"]
    total = seen + never
    sentences = [
        f"{several(facts['states'], 'state')} with {several(log.n_actions, 'action')} make "
        f"{several(total, 'pair')}: {never} ({percent(never, total)}) were never seen, and of the "
        f"{seen} that were, {few} ({percent(few, seen)}) were seen fewer than {FEW} times."
    ]
    if never:
        sentences.append(
            "A policy is chosen among pairs that were seen (--min-count 0 of `softrobust solve` "
            "adds the others, with the prior alone to judge them)."
        )
    if min_count_flags(log):
        sentences.append(
            "Rewards of one pair vary, and models know only their mean: "
            f"--min-count {FEW} leaves out pairs that a lucky row or two could make look best."
        )
    return Section("Coverage of states and actions", tuple(sentences), _counts(log))


def min_count_flags(log: TransitionLog) -> tuple[str, ...]:
    """`--min-count 5` where rewards are noisy, some pairs seldom seen, and no state has only such.

    The posterior says how vague the transitions of a pair are; of its rewards it has the mean.
    """
    if log.rewards is None or "noisy" not in log.rewards.note:
        return ()
    counts = log.pair_counts[~log.sinks]
    seldom = (counts > 0) & (counts < FEW)
    if seldom.any() and (counts >= FEW).any(axis=1).all():
        return ("--min-count", str(FEW))
    return ()


def coverage_record(log: TransitionLog) -> dict[str, Any]:
    """Coverage in numbers."""
    counts = log.pair_counts[~log.sinks]
    return {
        "rows": log.n_rows,
        "states": int((~log.sinks).sum()),
        "actions": log.n_actions,
        "pairs_seen": int((counts > 0).sum()),
        "pairs_never_seen": int((counts == 0).sum()),
        "pairs_seen_few": int(((counts > 0) & (counts < FEW)).sum()),
        "few": FEW,
    }


def _counts(log: TransitionLog) -> Grid | None:
    states = np.flatnonzero(~log.sinks)
    if states.size > MOST_STATES or log.n_actions > MOST_ACTIONS:
        return None
    counts = log.pair_counts
    rows = [
        (log.states[int(s)], *(str(n) if n else "·" for n in counts[s].tolist())) for s in states
    ]
    return Grid(("times seen", *log.actions), tuple(rows), counts=True)


def behaviour_section(log: TransitionLog) -> Section:
    """What was usually done."""
    facts = behaviour_record(log)
    shares = [(name, n) for name, n in facts["actions"].items()]
    usual = percent(facts["rows_with_usual_action"], log.n_rows)
    alone = facts["states_with_one_action"]
    sentences = [
        f"In {usual} of the rows the action was the usual one of its state.",
        f"In {several(alone, 'state')} of {facts['states']} only one action was ever seen: there "
        "the log says nothing about doing otherwise."
        if alone
        else "In every state more than one action was seen.",
    ]
    if len(shares) > 12:
        shares = [*shares[:11], (f"{len(shares) - 11} more", sum(n for _, n in shares[11:]))]
    return Section("What was done", tuple(sentences), bars=tuple(shares))


def behaviour_record(log: TransitionLog) -> dict[str, Any]:
    """Behaviour in numbers."""
    counts = log.pair_counts
    left = counts[~log.sinks]
    by_action = counts.sum(axis=0)
    order = np.argsort(-by_action, kind="stable")
    return {
        "states": int(left.shape[0]),
        "actions": {log.actions[int(a)]: int(by_action[a]) for a in order},
        "rows_with_usual_action": int(left.max(axis=1).sum()),
        "states_with_one_action": int(((left > 0).sum(axis=1) == 1).sum()),
    }
