"""Counts of the log as they may be shown.

With `suppress`, no count from one to four can be read off the page or worked out from it. A pair's
count is shown as "<5" for all of 0 … 4. What it would follow from is left out with it: totals of a
state and of the log (the total over pairs seen five times or more is shown instead, which adds
nothing), shares of practice, the share of the prior (strength over strength + count), probabilities
of next states, the least count of a pair that is considered, the order and the shade of cells,
numbers of rows in notes, and the rows themselves. So two logs that differ in small counts only give
the same words.

That a pair was *never* seen may be known: where a run leaves such pairs out, that one is there says
it was seen. Returns are figures of models, not counts, and stay, and so does the data's hash.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, final

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from softrobust.data import TransitionLog

SMALL = 5
HIDDEN = f"<{SMALL}"
MANY = "several"
_NUMBER = r"(?<![\w.,…:=/–−-])\d[\d,]*(?![\w…:=/–]|[.,]\d|-\d|\s*%)"
# "(seen 3 times)", "2 visits", "spot seen 1 → 4 times": small counts inside sentences.
_FEW = re.compile(rf"(?<![\d.,−-])[0-4](?=\s*→\s*(?:\d+|{HIDDEN}) times)")
_PAIR = re.compile(r"(?<![\d.,−-])[0-4] ((?:observed )?(?:time|observation|visit|step)s?)\b")
# Rows and episodes of the log: a total gives away what is missing in a sum of counts.
_TOTAL = re.compile(
    rf"(\b[Tt]he )?{_NUMBER} ((?:observed )?(?:episode start|episode|row|transition)s?)\b"
)
_WORDS = re.compile(r"\bseen (?:once|twice|never)\b")
_QUOTED = re.compile(r"('[^']*')")
_ASIDE = re.compile(r" \((?:rows? [^)]*|sum [^)]*)\)")
_SPAN = re.compile(r"(\bfrom \S+ to [^\s,]+)")
_ANY = re.compile(_NUMBER)


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

    def hides_pair(self, s: int, a: int) -> bool:
        """Whether this count must not be known, nor what a model says of the pair's next states."""
        return self.suppress and self.few(s, a)

    def rank(self, s: int, a: int) -> int:
        """A number to sort and to shade by, equal for all counts that are not shown."""
        n = int(self.n[s, a])
        return n if not self.suppress or n >= SMALL else 0


def count_text(n: int, suppress: bool) -> str:
    """A count as it may be shown."""
    return HIDDEN if suppress and n < SMALL else f"{n:,}"


def said(sentence: str, suppress: bool) -> str:
    """A sentence of another part (a check, a caution), its small counts and its totals hidden."""
    if not suppress:
        return sentence
    sentence = _FEW.sub(HIDDEN, sentence)
    sentence = _PAIR.sub(lambda found: f"{HIDDEN} {_plural(found[1])}", sentence)
    sentence = _TOTAL.sub(_total, sentence)
    return _WORDS.sub(f"seen {HIDDEN} times", sentence)


def _total(found: re.Match[str]) -> str:
    """After "the" nothing takes the number's place, elsewhere "several" does."""
    return (found[1] or f"{MANY} ") + _plural(found[2])


def _plural(noun: str) -> str:
    """A single one would be told by its grammar."""
    return noun if noun.endswith("s") else f"{noun}s"


def notes_said(notes: Iterable[str], log: TransitionLog | None, suppress: bool) -> list[str]:
    """Notes as they may be shown: those on reading the log without numbers of rows."""
    if not suppress or log is None:
        return [said(note, suppress) for note in notes]
    start = f"The start distribution p0 is {log.p0_source}."
    out, left = [], 0
    for note in notes:
        if note == start and "uniform over" not in log.p0_source:
            out.append("The start distribution p0 is that of the log's own starts.")
        elif note in log.remarks:
            shown = _remark(note)
            out += [] if shown is None else [shown]
            left += shown is None
        else:
            out.append(said(note, suppress))
    if left:
        out.append(
            f"Notes on the reading of the log that concern fewer than {SMALL} rows are left out."
        )
    return out


def _remark(note: str) -> str | None:
    """A remark on the reading of the log without its counts; None where one of them is small.

    Grammar tells one row from several, so that such a remark goes as a whole.
    """
    parts = _QUOTED.split(_ASIDE.sub("", note))  # labels, at the odd places, keep their digits
    for i in range(0, len(parts), 2):
        pieces = _SPAN.split(parts[i])
        for j in range(0, len(pieces), 2):
            found = [int(n.replace(",", "")) for n in _ANY.findall(pieces[j])]
            if any(0 < n < SMALL for n in found):
                return None
            pieces[j] = _ANY.sub(MANY, pieces[j])
        parts[i] = "".join(pieces)
    text = "".join(parts)
    return text[:1].upper() + text[1:]
