from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from softrobust._core.notes import Level, Note
from softrobust.certificate import Estimate
from softrobust.errors import InputError
from softrobust.objective import SoftRobust
from softrobust.report import sentences
from softrobust.report.sentences import TEXTS, in_words, speaks_against, told
from softrobust.report.verdict import promise_sentences
from softrobust.report.words import (
    LONGEST_LABEL,
    STATUS,
    Figures,
    bad_case,
    between,
    count,
    estimate,
    label,
    percent,
    plain,
    rows_and_dates,
    two_digits,
    unbroken,
)
from softrobust.solvers.base import Status
from softrobust.solvers.promise import Gain, Promise, Verdict


@pytest.mark.parametrize(
    ("sample", "value", "text"),
    [
        ([10.0, 120.0], 115.8297, "115.8"),
        ([10_009.8, 10_014.8], 10_012.3, "10,012.300"),
        ([-5.0, 1.0], -3.14159, "−3.142"),
        ([-5.0, 1.0], -1e-9, "0.000"),
        ([0.0, 0.0], 0.0, "0"),
        ([1e6, 9e6], 1234567.8, "1,234,568"),
        ([1e15, 2e15], 1.5e15, "1.5e+15"),
        ([7.0, 7.0], 7.0, "7"),
        ([0.25, 0.25], 0.25, "0.25"),
        ([1 / 3, 1 / 3], 1 / 3, "0.3333"),
    ],
)
def test_figures_follow_the_spread(sample: list[float], value: float, text: str) -> None:
    assert Figures.of([np.array(sample)])(value) == text


def test_unknown_figures_are_dashes_and_small_gaps_are_written_out() -> None:
    number = Figures(2)
    assert number(None) == "–"
    assert number.gap(0.0034) == "0.003"
    assert number.gap(0.0) == "0.00"
    assert number.interval(Estimate(1.0, None, None)) == ()
    assert number.interval(Estimate(1.0, None, 2.0)) == ("– to", "2.00")


@given(st.floats(0, 1))
def test_percent_never_rounds_something_to_nothing_or_to_all(share: float) -> None:
    text = percent(share)
    assert (text == "0\u202f%") == (share == 0)
    # Weights that sum to 1 but for rounding are all.
    assert (text == "100\u202f%") == (round(100 * share, 9) == 100)


def test_percent_reads_well() -> None:
    shown = [percent(x).replace("\u202f", "") for x in (1 - 0.9, 0.0419, 0.5, 0.0004, 0.9999)]
    assert shown == ["10%", "4.2%", "50%", "<0.1%", ">99.9%"]


def test_two_digits_are_never_a_power_of_ten() -> None:
    shown = [two_digits(x) for x in (0.000123, 0.0456, 0.45455, 0.996, 1.0, 1.12, 123.0)]
    assert shown == ["0.012 %", "4.6 %", "45 %", "99.6 %", "100 %", "112 %", "12300 %"]


@pytest.mark.parametrize(
    ("share", "shown"), [(0.996, "100 %"), (12.345, "1,234 %"), (0.0456, "4.6 %"), (-1.0, "-100 %")]
)
def test_shares_of_sentences_are_never_a_power_of_ten(share: float, shown: str) -> None:
    assert told("{x:% .2g}", {"x": share}) == shown


def test_nouns_and_labels() -> None:
    assert (count(1, "state"), count(1200, "state")) == ("1 state", "1,200 states")
    assert len(label("x" * 500)) == LONGEST_LABEL
    assert label("plain") == "plain"


def test_figures_keep_together_and_long_words_may_break() -> None:
    assert " " not in between(1.5, 2.0)
    assert estimate(Estimate(1.0, None, None)) == "1"
    assert estimate(Estimate(1.0, 0.5, 2.0)) == "1 [0.5,\u00a02]"
    assert "10\u202f%" in bad_case(SoftRobust(0.5, 0.9))
    assert [unbroken(x) for x in ("intensive", "x" * 30, "bp=very high|hba1c=7–8")] == [
        False, True, False,
    ]  # fmt: skip


def test_differences_carry_their_sign() -> None:
    number = Figures(1)
    assert [number.signed(x) for x in (1.26, -1.26, 0.0, 0.004)] == [
        "+1.3",
        "−1.3",
        "same",
        "+0.004",
    ]


def test_every_status_has_words() -> None:
    assert set(STATUS) == set(Status)


def test_a_remark_without_its_counts_is_refused() -> None:
    facts = {"n_rows": 7, "n_ids": 2, "low": "May", "high": "July"}
    assert rows_and_dates([0] * 5, [Note("visits_read", facts=facts)]).startswith("7 rows of 2 ids")
    for name in ("n_rows", "n_ids"):
        note = Note("visits_read", facts=facts | {name: "<script>"})
        with pytest.raises(InputError, match=f"no number {name}"):
            rows_and_dates([0] * 5, [note])


@pytest.mark.parametrize(
    ("x", "told"),
    [(439012.3, "439,000"), (-990123.0, "−990,100"), (68.6243, "68.62"), (999.96, "1,000"),
     (0.00123456, "0.001235"), (0.0, "0"), (1e-7, "1e-07"), (-2e15, "−2e+15"),
     (-8.164e-111, "0"), (1e-99, "1e-99")],
)  # fmt: skip
def test_plain_figures(x: float, told: str) -> None:
    assert plain(x) == told


def test_what_is_nothing_beside_others_is_0() -> None:
    assert plain(-1e-9, beside=1e4) == "0"
    assert plain(1e-7, beside=1e4) == "1e-07"
    assert Figures.of([np.array([-8e-111, 3e-111])])(-8e-111) == "0"


@pytest.mark.parametrize("verdict", Verdict)
def test_a_log_that_pays_nothing_promises_0(verdict: Verdict) -> None:
    gain = Gain(value=-1e-113, low=-8e-111)
    promise = Promise(
        verdict=verdict, level=0.9, return_value=1.7e-113, return_low=-8.164e-111, gain=gain,
        chance=0.5, optimism=-1e-112, bad_gain=0.0, shuffled=None, n_splits=9, unit="blocks",
    )  # fmt: skip
    text = " ".join(promise_sentences(promise, "improve"))
    assert "e-1" not in text
    assert verdict != Verdict.KEEP or "at least 0 (" in text


def test_the_gravest_caution_is_said_however_short_the_screen() -> None:
    notes = [Note("actions_free", Level.CAUTION), Note("no_time", Level.CAUTION)]
    told = speaks_against(notes, most=1)
    assert len(told) == 1
    assert told[0].endswith(" 1 more caution: in the details.")
    assert told[0].startswith(in_words(notes[:1])[0])
    assert speaks_against(notes, most=2) == in_words(notes)


def test_every_phrase_that_is_asked_for_is_there() -> None:
    code = "".join(f.read_text() for f in Path(sentences.__file__).parent.glob("*.py"))
    asked = set(re.findall(r'"(\w+\.\w+)"', code))
    there = {f"{section}.{name}" for section in TEXTS for name in TEXTS[section]}
    mine = {key for key in asked if key.split(".")[0] in TEXTS and key.split(".")[0] != "report"}
    assert len(mine) > 80
    assert mine <= there


def test_templates_choose_by_facts() -> None:
    words = ["{n:,row|rows} ", {"by": "rule", "last": "count", "else": "{rule:quoted}"},
             {"if": "e.low", "then": " {e.low:% .1f}", "else": "."}]  # fmt: skip
    low = Estimate(1.0, 0.25)
    assert told(words, {"n": 1200, "rule": "last", "e": low}) == "1,200 rows count 25.0 %"
    assert told(words, {"n": 1, "rule": "by", "e": Estimate(1.0)}) == "1 row 'by'."
