"""Visits become transitions: order, missing cells, duplicates, ends and rewards, counted."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from softrobust._core.notes import Note
from softrobust.data import read_trajectories
from softrobust.errors import InputError
from tests.data.visits import COLUMNS, REWARDED, SMALL, finding, read, rows_of


# -------------------------------------------------------------------- shifting
def test_transitions_by_shift_and_censored_last_visits() -> None:
    made = read(SMALL)
    assert rows_of(made) == [
        ("p", "lo", "u", "hi"),
        ("p", "hi", "v", "lo"),
        ("q", "hi", "u", "hi"),
    ]
    assert made.log.end is None
    assert (made.report.n_censored, made.report.n_ended, made.report.n_terminal) == (2, 0, 0)
    assert made.log.episode is not None
    assert made.log.episode.tolist() == [0, 0, 1]
    assert made.log.p0.tolist() == [0.5, 0.5]
    assert made.log.p0_source == Note("p0_first_visits", facts={"n_ids": 2, "n_others": 0})
    assert made.log.rewards is None
    assert "censored" not in made.report.lost
    assert made.log.notes[0].code == "visits_read"
    assert made.log.notes[0]["n_transitions"] == 3


def test_actions_that_are_numbers() -> None:
    made = read(SMALL.replace(",u", ",10.0").replace(",v", ",9.0"))
    assert made.log.actions.names == ("9", "10")
    assert [row[2] for row in rows_of(made)] == ["10", "9", "10"]
    assert Note("names_as_integers", facts={"noun": "action", "example": "10.0"}) in made.log.notes


def test_order_of_rows_does_not_matter_and_is_counted() -> None:
    shuffled = "id,t,x,a\np,2,lo,u\nq,5,hi,\np,0,lo,u\nq,0,hi,u\np,1,hi,v\n"
    made = read(shuffled)
    assert rows_of(made) == rows_of(read(SMALL))
    assert finding(made, "unsorted")["n_rows"] == 2
    assert finding(made, "unsorted")["rows"] == [3, 4]


def test_dates_and_times() -> None:
    text = "id,t,x,a\np,2024-03-01,lo,u\np,2024-02-28T12:00,hi,v\np,2024-03-02,lo,u\n"
    made = read(text)
    assert rows_of(made)[0] == ("p", "hi", "v", "lo")
    assert made.report.clock == "dates"
    assert made.report.span == ("2024-02-28", "2024-03-02")
    assert made.report.gaps is not None
    np.testing.assert_allclose(made.report.gaps.quantiles[[0, 4]], [1.0, 1.5], atol=1e-9)


@pytest.mark.parametrize(
    ("times", "words"),
    [
        (("0", "2024-01-01"), "row 1 of the table has '0'"),
        (("01/02/2024", "2"), "has '01/02/2024' in column 't'"),
        (("01/02/2024", "02/03/2024"), "in two ways"),
        (("2024-01-01T00:00", "2024-01-01T00:00+01:00"), "time zone"),
        (("2024-02-30", "2024-03-01"), "'2024-02-30'"),
        (("1e999", "2"), "'1e999'"),
    ],
)
def test_times_that_cannot_be_ordered(times: tuple[str, str], words: str) -> None:
    data = {"id": ["p", "p"], "t": list(times), "x": ["lo", "hi"], "a": ["u", "u"]}
    with pytest.raises(InputError) as error:
        read_trajectories(data, **COLUMNS)
    assert words in str(error.value)


def test_row_numbers_are_those_of_the_file(tmp_path: Path) -> None:
    (tmp_path / "v.csv").write_text("id,t,x,a\np,0,lo,u\n\np,1,hi,v\np,2,,u\n")
    with pytest.raises(InputError, match=r"row 5 of v\.csv \(id 'p'\) has no 'x' \(1 of 3"):
        read_trajectories(tmp_path / "v.csv", **COLUMNS)


# -------------------------------------------------------------------- missing cells
def test_missing_actions() -> None:
    text = SMALL.replace("p,1,hi,v", "p,1,hi,")
    made = read(text)
    assert rows_of(made) == [("p", "lo", "u", "hi"), ("q", "hi", "u", "hi")]
    assert made.report.lost == {"action": 1}
    assert finding(made, "missing_actions")["n_rows"] == 1  # that of the last visit does not matter
    kept = read(text, missing_action="none")
    assert ("p", "hi", "none", "lo") in rows_of(kept)
    assert finding(kept, "missing_actions")["taken_as"] == "none"
    with pytest.raises(InputError, match=r"row 2 of the table \(id 'p'\) has none \(1 such"):
        read(text, missing_action="error")


def test_a_missing_step_breaks_the_episode() -> None:
    text = "id,t,x,a\np,0,lo,u\np,1,hi,\np,2,lo,u\np,3,hi,v\np,4,lo,u\n"
    made = read(text)
    assert made.log.episode is not None
    assert made.log.episode.tolist() == [0, 1, 1]
    assert made.log.p0[made.log.states.index("lo")] == 1.0  # the first visit, not chain starts


MISSING = """
id,t,x,y,a
p,0,lo,1,u
p,1,,2,v
p,2,hi,1,u
q,0,,1,u
q,1,lo,2,u
q,2,lo,1,u
"""


def test_missing_measurements() -> None:
    with pytest.raises(InputError, match="no 'x' \\(2 of 6 visits\\)"):
        read(MISSING)
    carried = read(MISSING, missing_measurement="carry")
    assert ("p", "x=lo|y=2", "v", "x=hi|y=1") in rows_of(carried)
    for code, rows in (("carried_cells", [2]), ("missing_cells", [4])):
        assert finding(carried, code)["column"] == "x"
        assert finding(carried, code)["rows"] == rows
    assert carried.report.lost == {"state": 1}
    dropped = read(MISSING, missing_measurement="drop")
    assert rows_of(dropped) == [("q", "x=lo|y=2", "u", "x=lo|y=1")]
    level = read(MISSING, missing_measurement="level")
    assert ("q", "x=missing|y=1", "u", "x=lo|y=2") in rows_of(level)
    assert level.log.n_rows == 4


def test_rows_without_id_or_time() -> None:
    text = SMALL + ",3,lo,u\np,,hi,u\n"
    with pytest.raises(InputError, match="has no id"):
        read(text)
    made = read(text, missing_rows="drop")
    assert rows_of(made) == rows_of(read(SMALL))
    lacking = [n for n in made.report.findings if n.code == "rows_incomplete"]
    assert [(n["lacks"], n["n_rows"]) for n in lacking] == [("id", 1), ("time", 1)]


def test_rows_that_stand_twice() -> None:
    made = read(SMALL + "p,1,hi,v\n")
    assert rows_of(made) == rows_of(read(SMALL))
    assert finding(made, "duplicates")["rows"] == [6]
    text = SMALL + "p,1,lo,v\n"
    with pytest.raises(InputError, match=r"row 2 of the table .* and row 6 .* differ"):
        read(text)
    assert ("p", "lo", "v", "lo") in rows_of(read(text, duplicates="last"))
    assert ("p", "hi", "v", "lo") in rows_of(read(text, duplicates="first"))
    with pytest.raises(InputError, match=r"contradict each other in column 'x' \('lo' and 'hi'"):
        read(text, duplicates="merge")
    halves = SMALL.replace("p,1,hi,v", "p,1,hi,\np,1,,v")
    merged = read(halves, duplicates="merge")
    assert rows_of(merged) == rows_of(read(SMALL))
    assert finding(merged, "same_time")["n_rows"] == 1


# -------------------------------------------------------------------- ends
def test_an_end_with_and_without_an_action() -> None:
    with_action = "id,t,x,a,dead\np,0,lo,u,0\np,1,hi,v,1\nq,0,lo,u,0\nq,1,lo,u,\n"
    made = read(with_action, terminal="dead")
    assert rows_of(made) == [
        ("p", "lo", "u", "hi"), ("p", "hi", "v", "(end)"), ("q", "lo", "u", "lo"),
    ]  # fmt: skip
    assert (made.report.n_terminal, made.report.n_ended, made.report.n_censored) == (1, 1, 1)
    without = "id,t,x,a,s\np,0,lo,u,\np,1,hi,v,\np,2,,,died\nq,0,lo,u,\nq,1,lo,u,moved\n"
    made = read(without, terminal="s=died", measurements="x")
    assert rows_of(made) == [
        ("p", "lo", "u", "hi"), ("p", "hi", "v", "(end)"), ("q", "lo", "u", "lo"),
    ]  # fmt: skip
    assert finding(made, "end_rows")["rows"] == [3]


def test_an_end_among_the_events() -> None:
    events = {"id": ["p", "z"], "t": [3, 9], "kind": ["death", "death"], "reward": [-5, -5]}
    made = read(SMALL, terminal="kind=death", events=events)
    assert rows_of(made)[2] == ("p", "lo", "u", "(end)", "-5")
    assert made.report.n_ended == 1
    assert finding(made, "unknown_ids")["rows"] == [2]


def test_visits_after_the_end() -> None:
    text = "id,t,x,a,dead\np,0,lo,u,1\np,1,hi,v,0\np,2,hi,v,0\n"
    with pytest.raises(InputError, match=r"row 2 of the table .* is at 1, the end at 0"):
        read(text, terminal="dead")
    made = read(text, terminal="dead", after_end="drop")
    assert rows_of(made) == [("p", "lo", "u", "(end)")]
    assert finding(made, "visits_after_end")["n_rows"] == 2


def test_an_end_that_nobody_has_is_said() -> None:
    text = "id,t,x,a,s\np,0,lo,u,alive\np,1,hi,v,alive\n"
    made = read(text, terminal="s=dead", measurements="x")
    assert finding(made, "no_ends")["terminal"] == "s=dead"
    with pytest.raises(InputError, match="Did you mean 'Died'"):
        read(text.replace("alive", "Died"), terminal="s=died", measurements="x")
    with pytest.raises(InputError, match="must be true or false"):
        read(text, terminal="s", measurements="x")
    with pytest.raises(InputError, match="neither in the table nor the kind"):
        read(text, terminal="dead", measurements="x")


# -------------------------------------------------------------------- rewards
def test_rewards_in_the_rows() -> None:
    start = read(REWARDED, reward="r")
    assert [row[-1] for row in rows_of(start)] == ["1", "2"]
    assert start.report.rewards["used"] == (2, 3.0)
    assert start.report.rewards["after_last"] == (1, 4.0)
    end = read(REWARDED, reward="r", reward_at="end")
    assert [row[-1] for row in rows_of(end)] == ["2", "4"]
    assert end.report.rewards["before_first"] == (1, 1.0)


def test_missing_rewards() -> None:
    assert read(REWARDED.replace("u,4", "u,"), reward="r").log.n_rows == 2  # not needed there
    text = REWARDED.replace("u,1", "u,")
    with pytest.raises(InputError, match="row 1 of the table has none"):
        read(text, reward="r")
    assert [row[-1] for row in rows_of(read(text, reward="r", missing_reward="zero"))] == ["0", "2"]
    dropped = read(text, reward="r", missing_reward="drop")
    assert [row[-1] for row in rows_of(dropped)] == ["2"]
    assert dropped.report.lost == {"reward": 1}
    with pytest.raises(InputError, match="row 2 of the table has 'lots'"):
        read(REWARDED.replace("v,2", "v,lots"), reward="r")


def test_events_fall_into_the_step_they_happen_in() -> None:
    events = {
        "who": ["p", "p", "p", "p", "p", "q", "x"],
        "day": [-1, 0, 0.5, 1, 2, 3, 0],
        "reward": [100, 1, 2, 4, 200, 8, 400],
    }
    columns = {"id": "who", "time": "day"}
    made = read(SMALL, events=events, events_columns=columns)
    assert [row[-1] for row in rows_of(made)] == ["3", "4", "8"]
    tallies = {words: tally.total for words, tally in made.report.rewards.items()}
    assert tallies == {
        "used": 15.0,
        "before_first": 100.0,
        "after_last": 200.0,
        "unknown_id": 400.0,
    }


def test_rows_and_events_add_up() -> None:
    events = {"id": ["p"], "t": [1], "reward": [10]}
    made = read(REWARDED, reward="r", events=events)
    assert [row[-1] for row in rows_of(made)] == ["1", "12"]


def test_what_follows_the_end_is_not_earned() -> None:
    text = "id,t,x,a\np,0,lo,u\np,1,hi,v\n"
    events = {"id": ["p"] * 3, "t": [1.5, 2, 3], "kind": ["e", "death", "e"], "reward": [1, 2, 4]}
    made = read(text, events=events, terminal="kind=death")
    assert rows_of(made)[1] == ("p", "hi", "v", "(end)", "3")
    assert made.report.rewards["after_end"] == (1, 4.0)


@pytest.mark.parametrize(
    ("events", "words"),
    [
        ({"who": ["p"], "t": [0], "reward": [1]}, "column for the id"),
        ({"id": ["p"], "at": [0], "reward": [1]}, "column for the time"),
        ({"id": ["p"], "t": [0], "cost": [1]}, "column for the reward"),
        ({"id": ["p"], "t": [0], "reward": [None]}, "Every event needs a reward"),
        ({"id": ["p"], "t": ["2024-01-01"], "reward": [1]}, "as those of the visits are"),
        ({"id": ["p"], "t": [0], "reward": ["x"]}, "has 'x' in column 'reward'"),
    ],
)
def test_bad_events(events: dict[str, list[Any]], words: str) -> None:
    with pytest.raises(InputError) as error:
        read(SMALL, events=events)
    assert words in str(error.value)
