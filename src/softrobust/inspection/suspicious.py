"""What looks wrong in a log of transitions, with the rows to look at.

Nothing here is an error: a log may well be like this. It is what a careful person would ask about
before believing a number computed from it.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from softrobust.data import TransitionLog
from softrobust.data.trajectories_report import Finding, Ledger

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
