"""Counts of the log as they may be shown.

With `suppress`, no count below five can be read off the page: not the count itself ("<5" stands for
all of 0 … 4), and nothing that it follows from: totals of a state, shares of practice, the share of
the prior (strength over strength + count), the order or the shade of cells. Figures of models are
not counts and stay; where a run leaves out pairs never seen, that a pair is there says it was seen.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, final

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from softrobust.data import TransitionLog

SMALL = 5
HIDDEN = f"<{SMALL}"
_NOUNS = r"times?|episodes?|episode starts?|rows?|transitions?|observations?|visits?|steps?"
# "(seen 3 times)", "the 2 episode starts", "spot seen 1 → 4 times": counts inside sentences.
_SAID = re.compile(rf"(?<![\d.,−-])[0-4](?= (?:observed )?(?:{_NOUNS})\b|\s*→\s*(?:\d+|<5) times)")
_WORDS = re.compile(r"\bseen (?:once|twice|never)\b")


@final
@dataclass(frozen=True, slots=True, eq=False)
class Seen:
    """How often each pair was seen, (n_states, n_actions)."""

    n: NDArray[np.int64]
    suppress: bool = False

    @classmethod
    def of(cls, log: TransitionLog | None, suppress: bool = False) -> Seen | None:
        """The counts of a log; None without one."""
        return None if log is None else cls(np.asarray(log.pair_counts), suppress)

    def times(self, s: int, a: int) -> str:
        """The count of a pair."""
        return count_text(int(self.n[s, a]), self.suppress)

    def of_all(self, s: int, a: int) -> str:
        """The count of a pair, and of all actions there where that may be said."""
        if self.suppress:
            return self.times(s, a)
        return f"{int(self.n[s, a]):,} of {int(self.n[s].sum()):,}"

    def few(self, s: int, a: int) -> bool:
        """Whether little is known of the pair."""
        return int(self.n[s, a]) < SMALL

    def hides(self, s: int) -> bool:
        """Whether some count of the state must not be known, so that shares must not either."""
        return self.suppress and bool((self.n[s] < SMALL).any())

    def rank(self, s: int, a: int) -> int:
        """A number to sort and to shade by, equal for all counts that are not shown."""
        n = int(self.n[s, a])
        return n if not self.suppress or n >= SMALL else 0


def count_text(n: int, suppress: bool) -> str:
    """A count as it may be shown."""
    return HIDDEN if suppress and n < SMALL else f"{n:,}"


def said(sentence: str, suppress: bool) -> str:
    """A sentence of another part (a note, a check), its small counts hidden."""
    if not suppress:
        return sentence
    return _WORDS.sub(f"seen {HIDDEN} times", _SAID.sub(HIDDEN, sentence))
