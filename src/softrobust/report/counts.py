"""Counts of the log as they may be shown.

With `suppress`, no count from one to four can be read off the page or worked out from it. A pair's
count is shown as "<5" for all of 0 … 4. What it would follow from is left out with it: totals of a
state and of the log (the total over pairs seen five times or more is shown instead, which adds
nothing), shares of practice, the share of the prior (strength over strength + count), probabilities
of next states, the least count of a pair that is considered, the order and the shade of cells,
totals in notes, and the rows themselves (a rule on typed facts: `_core.notes`). So two logs that
differ in small counts only give the same words.

That a pair was *never* seen may be known: where a run leaves such pairs out, that one is there says
it was seen. Returns are figures of models, not counts, and stay, and so does the data's hash.
"""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from typing import final

import numpy as np
from numpy.typing import NDArray

from softrobust._core.notes import SMALL, Count
from softrobust.data import TransitionLog

HIDDEN = f"<{SMALL}"


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

    def of_all(self, s: int) -> str:
        """The count of all actions there; empty where a small count would follow from it."""
        return "" if self.suppress else f"{int(self.n[s].sum()):,}"

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
    return HIDDEN if suppress and Count(n).small else f"{n:,}"


def command_shown(command: str, suppress: bool) -> str:
    """The command that makes a run again; the least count of a pair could give one away."""
    if not suppress:
        return command
    words = shlex.split(command)
    for i, word in enumerate(words[:-1]):
        if word == "--min-count" and words[i + 1] in ("2", "3", "4"):
            words[i + 1] = "…"
    return shlex.join(words).replace("'…'", "…")
