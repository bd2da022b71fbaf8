"""Notes on data in words: the wording is pinned in `data_words.txt`, one line a sentence."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from softrobust._core.notes import Note
from softrobust.cli.options import bins_of_words, split_words
from softrobust.data import TrajectoryRules, TransitionLog, markov_check
from softrobust.errors import InputError
from softrobust.report.commands import command_line, flags, join_words
from softrobust.report.inspection import markov_words
from softrobust.report.sentences import TEXTS, sentence
from tests.report.data_facts import DATA_FACTS

GOLDEN = Path(__file__).with_name("data_words.txt")
CASES = [(code, facts) for code, every in DATA_FACTS.items() for facts in every]


def test_every_code_has_words_and_facts() -> None:
    assert set(DATA_FACTS) == set(TEXTS["data"])


def test_the_wording() -> None:
    """After a change on purpose, write the text below to `data_words.txt` and read the diff."""
    lines = []
    for code, facts in CASES:
        note = Note(code, facts=facts)
        lines.append(f"{code}: {sentence(note)}")
        if note.without_small_counts() != note:
            lines.append(f"{code} (hidden): {sentence(note.without_small_counts())}")
    assert "\n".join(lines) + "\n" == GOLDEN.read_text(encoding="utf-8")


@pytest.mark.parametrize(("code", "facts"), CASES)
def test_hidden_counts_cannot_be_told(code: str, facts: dict[str, Any]) -> None:
    """Whatever a hidden count is, and in whichever rows: the words are the same."""
    counted = {name: 1 for name in facts if name.startswith("n_")}
    others = dict.fromkeys(counted, 4)
    rows = {"rows": [2]} if "rows" in facts else {}
    texts = {
        sentence(Note(code, facts=facts | rows | few).without_small_counts())
        for few in (counted, others)
    }
    assert len(texts) == 1
    if "rows" in facts:
        assert not re.search(r"\(rows? \d", texts.pop())


def test_words_that_hold_braces_are_no_template() -> None:
    note = Note("guessed_role", facts={"role": "id", "column": "{0}{x}", "others": []})
    assert sentence(note) == "'{0}{x}' is taken for the id."


# -------------------------------------------------------------------- commands
def test_rules_as_words_read_back() -> None:
    rules = TrajectoryRules(
        id="who", time="t", action="a b", measurements=("x,y", "z"), bins={"z": [7], "x,y": 3},
        grid="7d", fill="carry", missing_action="none", reward="r",
    )  # fmt: skip
    words = flags(rules.given())
    given = dict(zip(words[::2], words[1::2], strict=True))
    assert split_words(given["--measurements"]) == ["x,y", "z"]
    assert bins_of_words(given["--bins"]) == {"z": [7.0], "x,y": 3}
    assert given["--fill"] == "carry"
    assert "--duplicates" not in given
    line = command_line("inspect", "v.csv", rules.given())
    assert line.startswith("softrobust inspect v.csv --id who --time t --action 'a b' ")
    with pytest.raises(InputError, match="hba1c=7:8:9"):
        bins_of_words("x")
    with pytest.raises(InputError, match="object in memory"):
        flags({"bins": object()})


@settings(max_examples=100, deadline=None)
@given(st.lists(st.text(min_size=1, max_size=5).map(str.strip).filter(bool), min_size=1))
def test_words_with_commas(words: list[str]) -> None:
    kept = [word for word in words if not set(word) & set("\r\n\x00")]
    if kept:
        assert split_words(join_words(kept)) == kept


# -------------------------------------------------------------------- is the state enough?
def test_markov_checks_in_words() -> None:
    gain = {"before": "state", "column": "", "gain": 0.1, "error": 0.01, "helps": True}
    column = gain | {"before": "column", "column": "bp", "gain": 0.05}
    facts = {"verdict": "helps", "n_transitions": 500, "n_groups": 40, "gains": [gain, column]}
    words = " ".join(markov_words(facts))
    assert "not Markov" in words
    assert "10.5 %" in words
    assert "adding the previous value of 'bp' to the measurements: alone it gives 50 %" in words
    assert "No single column" in " ".join(markov_words(facts | {"gains": [gain]}))
    assert "by a trace" in " ".join(markov_words(facts | {"verdict": "a trace"}))
    assert "No sign" in " ".join(markov_words(facts | {"verdict": "no sign"}))
    bare = TransitionLog.from_arrays([0, 1], [0, 0], [1, 0])
    assert "no episodes" in " ".join(markov_words(markov_check(bare).to_dict()))
    short = TransitionLog.from_arrays([0, 1], [0, 0], [1, 0], episodes=[0, 0])
    assert "100 of 10 are needed" in " ".join(markov_words(markov_check(short).to_dict()))
