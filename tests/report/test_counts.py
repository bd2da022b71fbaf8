"""`--suppress-small`: no count below five can be read off the page, nor what it follows from."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from softrobust.certificate import certify
from softrobust.data import TransitionLog
from softrobust.posterior import DirichletPosterior
from softrobust.problem import Problem
from softrobust.report import DataFound, make_report
from softrobust.report.compare import compare
from softrobust.report.counts import Seen, count_text, notes_said, said
from softrobust.report.policy import policy_table, time_share
from softrobust.solvers.base import Solution
from softrobust.solvers.baselines.behaviour import Behaviour
from softrobust.solvers.baselines.nominal import Nominal
from softrobust.study.value_of_data import DataValue
from tests.report.builders import from_log, stock_log, uniform


@pytest.mark.parametrize(
    ("sentence", "shown"),
    [
        ("most of all 'spot' in 'n=1' (seen 4 times).", "(seen <5 times)."),
        ("The start distribution p0 is the 3 episode starts.", "p0 is the episode starts."),
        ("The 505 observed episodes earned 19.", "The observed episodes earned 19."),
        ("it leads there 1 time, in 1 visit", "<5 times, in <5 visits"),
        ("spot seen 1 → 4 times, wait seen 7 → 12 times", "spot seen <5 → <5 times, wait seen 7"),
        (
            "The log has 14 episodes and 1.4 observations a pair.",
            "several episodes and 1.4 observations",
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
    # "20 of 23" would give 3 away.
    assert (seen.times(0, 0), seen.times(0, 1), seen.of_all(0)) == ("<5", "20", "")
    assert seen.hides(0)
    assert not seen.hides(1)
    assert seen.rank(0, 0) == Seen(np.array([[0, 20]]), suppress=True).rank(0, 0)
    assert Seen(np.array([[3, 20]])).of_all(0) == "23"


def test_the_page_hides_small_counts_everywhere() -> None:
    log = stock_log(60)
    problem, test, posterior = from_log(log)
    counts = np.asarray(log.pair_counts)
    assert ((counts > 0) & (counts < 5)).any()
    checks = [{"name": "rare", "verdict": "caution", "sentence": "x (seen 2 times)."}]
    plain, hidden = (
        make_report(problem, [uniform(problem)], test, log, posterior, checks=checks,
               suppress_small=suppress).html
        for suppress in (False, True)
    )  # fmt: skip
    assert re.search(r'[⚠ ][0-4]<span class="wide"> of \d', plain)
    assert "seen 2 times" in plain
    assert not re.search(r"\b[0-4](<[^>]*>)? of \d+<", hidden)
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


def test_remarks_on_reading_the_log_lose_their_numbers() -> None:
    log = replace(
        stock_log(60),
        p0_source="the first visits of 286 ids (14 more begin where no transition is known)",
        remarks=(
            "2912 rows of v2.csv: 2900 visits of 300 ids, from 2022-01-05 to 2024-03-15.",
            "18 missing cells of 'bp 2' take the last value known (rows 303, 341 and 16 more).",
            "4 missing cells of 'bp': the state is unknown there (rows 98, 416).",
            "1 terminal row leads to the state '(end)'.",
            "646 rewards (sum 1479) in steps that are no transitions: not used.",
        ),
    )
    shown = notes_said(log.notes, log, suppress=True)
    assert shown[:3] == [
        "Several rows of v2.csv: several visits of several ids, from 2022-01-05 to 2024-03-15.",
        "Several missing cells of 'bp 2' take the last value known.",
        "Several rewards in steps that are no transitions: not used.",
    ]
    assert "286" not in " ".join(shown)
    assert "fewer than 5 rows are left out" in shown[-1]
    assert notes_said(log.notes, log, suppress=False) == list(log.notes)


def small_log(small: tuple[int, int], ended: int) -> TransitionLog:
    """A/x 20, A/y and C/y small, B/x 30, B/y 25; `ended` of B/x end an episode."""
    rows = [("A", "x", "B")] * 20 + [("B", "x", "C")] * 30 + [("B", "y", "A")] * 25
    rows += [("C", "x", "A")] * 12 + [("A", "y", "C")] * small[0] + [("C", "y", "B")] * small[1]
    s, a, s_next = zip(*rows, strict=True)
    ends = [20 <= i < 20 + ended for i in range(len(rows))]
    reward = [1.0 if action == "x" else 2.0 for action in a]
    return TransitionLog.from_arrays(s, a, s_next, reward, terminals=ends)


def small_page(log: TransitionLog, problem: Problem, solutions: list[Solution]) -> str:
    """The page on fixed models: what can differ between logs is what the log's counts show."""
    n = np.asarray(log.pair_counts)
    checks = [
        {"name": "rare", "verdict": "caution", "sentence": f"'y' in 'A' (seen {n[0, 1]} times)."},
        {"name": "replay", "verdict": "fine", "sentence": f"The {log.n_rows} observed episodes."},
    ]
    page = make_report(
        problem, solutions, log=log, posterior=DirichletPosterior(min_count=2).fit(log),
        certificate=certify(problem, solutions[0].policy, time_limit=0), checks=checks,
        suppress_small=True,
        data=DataFound(10, (DataValue(0, 1, 2.0, 1.0, 3.0, 0.2, 50.0),)), seconds=60.0,
        settings={"command": "softrobust solve log.csv --min-count 2 --seed 0"},
    )  # fmt: skip
    return page.html.replace(log.data_hash, "")


@given(
    small=st.tuples(st.integers(1, 4), st.integers(1, 4)),
    ended=st.integers(1, 4),
)
@settings(max_examples=12, deadline=None)
def test_no_small_count_follows_from_the_page(small: tuple[int, int], ended: int) -> None:
    """Logs that differ in small counts only give the same page, so that none can be worked out."""
    base = small_log((3, 2), 2)
    problem, _, _ = from_log(base)
    solutions = [uniform(problem), Nominal().solve(problem), Behaviour(base).solve(problem)]
    shown = small_page(small_log(small, ended), problem, solutions)
    assert shown == small_page(base, problem, solutions)
    assert "at least 87 observed transitions" in shown
    assert f"{base.n_rows} " not in re.sub(r"<(style|script|svg).*?</\1>", "", shown, flags=re.S)
