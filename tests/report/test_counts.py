"""`--suppress-small`: no count below five can be read off the page, nor what it follows from."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from softrobust._core.notes import SMALL, Count, Level, Note, Total, read_notes
from softrobust.certificate import certify
from softrobust.data import TransitionLog
from softrobust.posterior import DirichletPosterior
from softrobust.problem import Problem
from softrobust.report.counts import Seen, command_shown, count_text
from softrobust.report.policy import policy_table
from softrobust.report.sentences import WORDS, in_words, sentence
from softrobust.report.study_words import check_sentence
from softrobust.solvers.base import Solution
from softrobust.solvers.baselines.behaviour import Behaviour
from softrobust.solvers.baselines.nominal import Nominal
from softrobust.study.checks import Check, Verdict
from softrobust.study.review import review
from softrobust.study.value_of_data import DataFound, DataValue
from tests.report.builders import from_log, make_page, stock_log, uniform
from tests.report.data_facts import DATA_FACTS
from tests.report.note_facts import CHECK_FACTS, NOTE_FACTS


def test_counts_are_typed_by_their_names() -> None:
    parts = [{"n_seen": 7}]
    note = Note("x", Level.INFO, {"n_seen": 3, "models": 3, "n_rows": 300, "parts": parts})
    assert type(note["n_seen"]) is Count
    assert type(note["n_rows"]) is Total
    assert type(note["models"]) is int
    assert type(note["parts"][0]["n_seen"]) is Count
    hidden = note.without_small_counts()
    assert dict(hidden.facts) == {
        "n_seen": None, "models": 3, "n_rows": None, "parts": [{"n_seen": 7}],
    }  # fmt: skip
    assert Note.from_dict(note.to_dict()) == note
    [old] = read_notes(["Three rows were dropped."])
    assert in_words([old]) == ["Three rows were dropped."]
    assert "Three" not in " ".join(in_words([old], suppress=True))


def test_every_code_has_facts_to_be_tested_with() -> None:
    assert set(NOTE_FACTS) | set(DATA_FACTS) == set(WORDS)


def varied(facts: Any, n: int, name: str = "") -> Any:
    """The same facts with every count set to n, and every text about n."""
    if isinstance(facts, dict):
        return {key: varied(value, n, key) for key, value in facts.items()}
    if isinstance(facts, list):
        return [varied(value, n, name) for value in facts]
    if name.startswith("n_"):
        return n
    return f"{n} rows" if name == "text" else list(range(n)) if name == "rows" else facts


@pytest.mark.parametrize("code", NOTE_FACTS)
def test_no_note_tells_small_counts_apart(code: str) -> None:
    """Sentences that hide a count are the same whatever it is; shown, each code has its words."""
    notes = [Note(code, facts=varied(NOTE_FACTS[code], n)) for n in range(1, SMALL)]
    hidden = {" ".join(in_words([note], suppress=True)) for note in notes}
    assert len(hidden) == 1
    assert "None" not in hidden.pop()
    assert sentence(Note(code, facts=NOTE_FACTS[code]))


@pytest.mark.parametrize("name", CHECK_FACTS)
def test_no_check_tells_small_counts_apart(name: str) -> None:
    code, verdict, facts = CHECK_FACTS[name]
    hidden = {
        check_sentence(Check(code, verdict, varied(facts, n)).without_small_counts())
        for n in range(1, SMALL)
    }
    assert len(hidden) == 1
    assert "None" not in hidden.pop()
    assert check_sentence(Check(code, verdict, facts))


def test_totals_are_hidden_whatever_their_size() -> None:
    words = [in_words([Note("duplicate_rows_summed", facts={"n_rows": n})], True) for n in (2, 900)]
    assert words[0] == words[1]


def test_single_counts() -> None:
    assert [count_text(n, True) for n in (0, 4, 5, 1200)] == ["<5", "<5", "5", "1,200"]
    assert count_text(4, False) == "4"
    command = "softrobust solve 'my log.csv' --min-count 3 --seed 3"
    assert command_shown(command, True) == "softrobust solve 'my log.csv' --min-count … --seed 3"
    assert command_shown(command, False) == command


def test_what_a_state_may_say() -> None:
    seen = Seen(np.array([[3, 20], [7, 8]]), suppress=True)
    # "20 of 23" would give 3 away.
    assert (seen.times(0, 0), seen.times(0, 1), seen.of_all(0)) == ("<5", "20", "")
    assert seen.hides(0)
    assert not seen.hides(1)
    assert seen.rank(0, 0) == Seen(np.array([[0, 20]]), suppress=True).rank(0, 0)
    assert Seen(np.array([[3, 20]])).of_all(0) == "23"


def rare(n: int) -> Check:
    facts = {"share": 0.2, "fewer_than": 5, "state": "n=1", "action": "wait", "n_seen": n}
    return Check("rare_pairs", Verdict.CAUTION, facts)


def test_the_page_hides_small_counts_everywhere() -> None:
    log = stock_log(60)
    problem, test, posterior = from_log(log)
    counts = np.asarray(log.pair_counts)
    assert ((counts > 0) & (counts < 5)).any()
    plain, hidden = (
        make_page(problem, [uniform(problem)], test, log, posterior, checks=[rare(2)],
                  suppress_small=suppress).html
        for suppress in (False, True)
    )  # fmt: skip
    assert re.search(r'[⚠ ][0-4]<span class="wide"> of \d', plain)
    assert "seen 2 times" in plain
    assert not re.search(r"\b[0-4](<[^>]*>)? of \d+<", hidden)
    assert not re.search(r"seen [0-4]\b", hidden)
    assert "&lt;5" in hidden
    # Sorting would order by count, the prior's share gives it away, and so do shares of practice.
    assert not re.search(r'data-v="[1-4]"', hidden)
    found = review(problem, uniform(problem), test, log, posterior)
    table = policy_table(found, Seen.of(log, suppress=True))
    few = [choice for row in table["rows"] for choice in row["choices"] if choice["few"]]
    assert few
    assert {choice["seen"] for choice in few} == {"<5"}
    assert all("%" not in row["usual"] for row in table["rows"] if (counts[row["key"]] < 5).any())


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
    replay = dict(CHECK_FACTS["replay"][2]) | {"n_episodes": log.n_rows}
    page = make_page(
        problem, solutions, log=log, posterior=DirichletPosterior(min_count=2).fit(log),
        certificate=certify(problem, solutions[0].policy, time_limit=0),
        checks=[rare(int(n[0, 1])), Check("replay", Verdict.FINE, replay)],
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
