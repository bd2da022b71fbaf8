"""`--suppress-small`: no count below five can be read off the page, nor what it follows from."""

from __future__ import annotations

import re

import numpy as np
import pytest

from softrobust.reporting import report
from softrobust.reporting.compare import compare
from softrobust.reporting.counts import Seen, count_text, said
from softrobust.reporting.tables import policy_table, time_share
from tests.reporting.builders import from_log, stock_log, uniform


@pytest.mark.parametrize(
    ("sentence", "shown"),
    [
        ("most of all 'spot' in 'n=1' (seen 4 times).", "(seen <5 times)."),
        ("The start distribution p0 is the 3 episode starts.", "the <5 episode starts."),
        ("spot seen 1 → 4 times, wait seen 7 → 12 times", "spot seen <5 → <5 times, wait seen 7"),
        (
            "The log has 14 episodes and 1.4 observations a pair.",
            "14 episodes and 1.4 observations",
        ),
        ("it was seen once.", "it was seen <5 times."),
        ("0.3 of models, 3 states, 4 pairs", "0.3 of models, 3 states, 4 pairs"),
    ],
)
def test_counts_in_sentences(sentence: str, shown: str) -> None:
    assert shown in said(sentence, suppress=True)
    assert said(sentence, suppress=False) == sentence


def test_single_counts() -> None:
    assert [count_text(n, True) for n in (0, 4, 5, 1200)] == ["<5", "<5", "5", "1,200"]
    assert count_text(4, False) == "4"


def test_what_a_state_may_say() -> None:
    seen = Seen(np.array([[3, 20], [7, 8]]), suppress=True)
    assert (seen.times(0, 0), seen.of_all(0, 1)) == ("<5", "20")  # "20 of 23" would give 3 away
    assert seen.hides(0)
    assert not seen.hides(1)
    assert seen.rank(0, 0) == Seen(np.array([[0, 20]]), suppress=True).rank(0, 0)
    assert Seen(np.array([[3, 20]])).of_all(0, 1) == "20 of 23"


def test_the_page_hides_small_counts_everywhere() -> None:
    log = stock_log(60)
    problem, test, posterior = from_log(log)
    counts = np.asarray(log.pair_counts)
    assert ((counts > 0) & (counts < 5)).any()
    checks = [{"name": "rare", "verdict": "caution", "sentence": "x (seen 2 times)."}]
    plain, hidden = (
        report(problem, [uniform(problem)], test, log, posterior, checks=checks,
               suppress_small=suppress).html
        for suppress in (False, True)
    )  # fmt: skip
    assert re.search(r"[⚠ ][0-4] of \d", plain)
    assert "seen 2 times" in plain
    assert not re.search(r"\b[0-4] of \d+<", hidden)
    assert not re.search(r"seen [0-4]\b", hidden)
    assert "&lt;5" in hidden
    assert "Counts below 5 are not shown." in hidden
    # Sorting would order by count, the prior's share gives it away, and so do shares of practice.
    assert not re.search(r'data-v="[1-4]"', hidden)
    compared = compare(problem, uniform(problem), test, log)
    seen = Seen.of(log, suppress=True)
    table = policy_table(
        problem, compared, seen, posterior, time_share(problem, compared[0].policy)
    )
    few = [choice for row in table.rows for choice in row.choices if choice.few]
    assert few
    assert {choice.prior for choice in few} == {"–"}
    assert all("%" not in row.usual for row in table.rows if (counts[row.key] < 5).any())
