"""What an inspection found: sections to read, findings to look at, and what to run next."""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, final

import numpy as np
import numpy.typing as npt

from softrobust.data import TransitionLog
from softrobust.data.visit_report import Finding, Ledger


@final
class Grid(NamedTuple):
    """A table for the screen; `counts` are shaded by how often something was seen."""

    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    counts: bool = False


@final
class Section(NamedTuple):
    """A heading, sentences below it, and perhaps a table or a histogram."""

    title: str
    sentences: tuple[str, ...] = ()
    grid: Grid | None = None
    bars: tuple[tuple[str, int], ...] = ()


@final
class Step(NamedTuple):
    """A command to run next, and what it does."""

    why: str
    line: str


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Inspection:
    """All that is said of a file.

    Attributes
    ----------
    source : str
        The file's name.
    kind : str
        "log", "visits", "models", "problem", "run", …
    headline : str
        What it is, in one sentence.
    sections : sequence of Section
    findings : sequence of Finding
        What is suspicious.
    steps : sequence of Step
        Commands to run next; each works as it stands.
    blocked : str
        Why the file cannot be solved as it is, and what to do; empty if it can.
    record : dict
        The same as plain values.
    """

    source: str
    kind: str
    headline: str
    sections: Sequence[Section] = ()
    findings: Sequence[Finding] = ()
    steps: Sequence[Step] = ()
    blocked: str = ""
    record: dict[str, Any] = field(default_factory=dict)

    def as_record(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return {
            "source": self.source,
            "kind": self.kind,
            "headline": self.headline,
            **self.record,
            "findings": [f._asdict() | {"sentence": f.sentence} for f in self.findings],
            "blocked": self.blocked or None,
            "next": [step._asdict() for step in self.steps],
        }


def percent(part: float, whole: float) -> str:
    """A share for a person: "40 %", and never "0 %" or "100 %" of what is not."""
    share = 100 * part / whole if whole else 0.0
    if 0 < share < 1:
        return "under 1 %"
    if 99 < share < 100:
        return "over 99 %"
    return f"{share:.0f} %"


def several(n: int, one: str, many: str = "") -> str:
    """A number with its noun: 1 state, 3 states."""
    return f"{n} {one if n == 1 else many or one + 's'}"


# --------------------------------------------------------------------------------------------------
# What looks wrong in a log of transitions, with the rows to look at.
#
# Nothing here is an error: a log may well be like this. It is what a careful person would ask about
# before believing a number computed from it.

RARE = 5
_PLAIN = re.compile(r"[\W_]+")
# Numbers that people write where a value is missing.
_CODES = (-1.0, -9.0, -99.0, -999.0, -9999.0, 99.0, 999.0, 9999.0, 99999.0)


def log_findings(log: TransitionLog) -> list[Finding]:
    """All that is suspicious about a log."""
    ledger = Ledger()
    _chains(log, ledger)
    if log.reward is not None:
        for words, places in odd_numbers(log.reward):
            ledger.add("odd_rewards", f"{{reward|rewards}} {words}", log.rows, places)
        if log.n_rows > 1 and np.ptp(log.reward) == 0:
            ledger.count(
                "equal_rewards", log.n_rows, "rewards are all equal: there is nothing to gain"
            )
    for noun, names in (("states", log.states), ("actions", log.actions)):
        for twins in alike(names):
            listed = " and ".join(f"'{name}'" for name in twins)
            words = f"{noun} differ only in case or signs, and may be one: {listed}"
            ledger.count("alike", len(twins), words)
    _actions(log, ledger)
    if log.n_rows > 10 and 3 * int(log.visited.sum()) > log.n_rows:
        ledger.count(
            "many_states",
            int(log.visited.sum()),
            f"states for {log.n_rows} rows: most are seen too seldom to learn from",
        )
    return ledger.findings


def _chains(log: TransitionLog, ledger: Ledger) -> None:
    """Rows of an episode that do not begin where the row before ended."""
    if log.episode is None:
        return
    order = np.argsort(log.episode, kind="stable")
    first, second = order[:-1], order[1:]
    same = log.episode[first] == log.episode[second]
    ended = np.zeros(first.size, dtype=bool)
    if log.end is not None:
        ended = same & (log.s_next[first] == log.end)
        words = "{row follows|rows follow} the end of the episode"
        ledger.add("after_end", words, log.rows, second[ended])
    torn = same & ~ended & (log.s_next[first] != log.s[second])
    words = (
        "{row does|rows do} not begin in the state in which the row before in the episode ended "
        "(rows may be missing or out of order)"
    )
    ledger.add("torn", words, log.rows, second[torn])


def _actions(log: TransitionLog, ledger: Ledger) -> None:
    if log.n_actions == 1:
        ledger.count(
            "one_action", 1, f"action only ('{log.actions[0]}'): there is nothing to choose"
        )
    times = log.pair_counts.sum(axis=0)
    rare = np.flatnonzero((times > 0) & (times < RARE))
    if rare.size and log.n_actions > 1:
        words = f"{{action was|actions were}} seen fewer than {RARE} times: "
        ledger.count("rare_actions", rare.size, words + log.actions.shortened(rare))
    if log.n_actions > 50:
        ledger.count(
            "many_actions",
            log.n_actions,
            "actions: a policy chooses among few; put similar ones (doses) together",
        )


def odd_numbers(values: npt.NDArray[np.float64]) -> Iterator[tuple[str, npt.NDArray[np.int64]]]:
    """Numbers far from the others, and codes for "missing" among them: (words, places)."""
    known = values[np.isfinite(values)]
    if known.size < 10:
        return
    middle = float(np.median(known))
    low, high = np.quantile(known, [0.05, 0.95])
    reach = 5 * max(float(high - low), 1e-9 * max(1.0, abs(middle)))
    far = np.isfinite(values) & (np.abs(values - middle) > reach)
    if not far.any() or far.sum() > 0.02 * known.size:
        return
    codes = far & np.isin(values, _CODES)
    if codes.any():
        shown = ", ".join(f"{v:g}" for v in np.unique(values[codes])[:3])
        words = f"{{looks|look}} like a code for «missing» ({shown})"
        yield words, np.flatnonzero(codes)
    rest = far & ~codes
    if rest.any():
        shown = ", ".join(f"{v:g}" for v in np.unique(values[rest])[:3])
        words = f"{{lies|lie}} far from the others, which are mostly {low:g} to {high:g} ({shown})"
        yield words, np.flatnonzero(rest)


def alike(names: Iterable[str]) -> Iterator[Sequence[str]]:
    """Names that are the same but for case, spaces and punctuation; signs beside digits count."""
    groups: dict[Any, list[str]] = {}
    for name in names:
        plain = _PLAIN.sub("", name).casefold()
        if plain and not any(sign.isdigit() for sign in plain):
            groups.setdefault(plain, []).append(name)
    yield from (group for group in groups.values() if len(group) > 1)


# --------------------------------------------------------------------------------------------------
# What a log shows of the pairs (s, a): how often each was seen, and what was usually done.
#
# A pair never seen has no estimate of its own, and one seen a few times has a vague one; both are
# where a policy that looks good may only be lucky. Counted are the states in which some action was
# seen; "(end)" and states that only end a log are none of them.

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
