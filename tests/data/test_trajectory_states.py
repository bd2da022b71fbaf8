"""Visits on a grid, and measurements as states: bins, names, settings."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from softrobust.data import Bins, read_log, read_trajectories, save_log
from softrobust.data.labels import split_state, state_columns, state_name
from softrobust.data.times import length_text, step_length
from softrobust.errors import InputError
from tests.data.visits import COLUMNS, REWARDED, finding, read, rows_of

# -------------------------------------------------------------------- gaps and grid
JITTERED = """
id,t,x,a
p,0,s0,u
p,9,s1,u
p,21,s2,u
p,23,s3,v
p,52,s5,u
p,61,s6,u
"""


def test_max_gap() -> None:
    made = read(JITTERED, max_gap=20)
    assert made.log.n_rows == 4
    assert made.report.lost == {"gap": 1}


def test_a_grid_breaks_at_holes() -> None:
    made = read(JITTERED, grid=10)  # points 0, 1, 2 (twice), 5, 6
    assert [row[1:] for row in rows_of(made)] == [
        ("s0", "u", "s1"), ("s1", "u", "s3"), ("s5", "u", "s6"),
    ]  # fmt: skip
    assert made.report.lost == {"hole": 1}
    assert finding(made, "same_point")["rows"] == [3]
    assert made.report.n_steps == 5
    first = read(JITTERED, grid=10, several="first")
    assert [row[1:] for row in rows_of(first)][1] == ("s1", "u", "s2")


def test_a_grid_may_carry_forward() -> None:
    made = read(JITTERED, grid=10, fill="carry")
    assert [row[1:] for row in rows_of(made)] == [
        ("s0", "u", "s1"), ("s1", "u", "s3"), ("s3", "v", "s3"), ("s3", "v", "s3"),
        ("s3", "v", "s5"), ("s5", "u", "s6"),
    ]  # fmt: skip
    assert finding(made, "carried_points")["n_rows"] == 2
    limited = read(JITTERED, grid=10, fill="carry", max_gap=15)
    assert limited.log.n_rows == 3
    events = {"id": ["p"] * 4, "t": [23, 29, 30, 45], "reward": [1, 2, 4, 8]}
    paid = read(JITTERED, grid=10, fill="carry", events=events)
    assert [row[-1] for row in rows_of(paid)] == ["0", "0", "3", "4", "8", "0"]


def test_means_at_one_point_of_the_grid() -> None:
    text = "id,t,x,a\np,0,1,u\np,9,2,u\np,11,4,v\np,20,9,u\n"
    made = read(text, grid=10, several="mean", bins={"x": [2.9, 3.1, 8]})
    assert [row[1:] for row in rows_of(made)] == [("<2.9", "u", "2.9–3.1"), ("2.9–3.1", "v", "≥8")]


def test_an_end_on_the_grid() -> None:
    text = "id,t,x,a\np,0,lo,u\np,10,hi,v\n"
    for when, follows in [(12, "(end)"), (19, "(end)"), (24, "(end)"), (26, None)]:
        events = {"id": ["p"], "t": [when], "kind": ["death"], "reward": [0]}
        made = read(text, grid=10, events=events, terminal="kind=death")
        assert (made.log.states[int(made.log.s_next[-1])] == "(end)") == (follows is not None)
        assert made.report.n_terminal == (follows is not None)
    carried = read(text, grid=10, fill="carry", events=events, terminal="kind=death")
    assert [row[1:4] for row in rows_of(carried)] == [
        ("lo", "u", "hi"), ("hi", "v", "hi"), ("hi", "v", "(end)"),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"grid": "7d"}, "must be a number > 0 in the unit of the times"),
        ({"grid": 0}, "grid must be"),
        ({"grid": 1e-12}, "too fine"),
        ({"grid": 1e-3, "fill": "carry"}, "too fine"),
        ({"fill": "carry"}, "Give grid too"),
        ({"max_gap": -1}, "max_gap must be"),
        ({"max_gap": 1}, "No transition could be made"),
        ({"several": "median", "grid": 1}, "several must be last, first or mean"),
        ({"measurements": ["z"]}, "'z' is not in the table"),
        ({"measurements": ["X"]}, "Did you mean 'x'?"),
        ({"measurements": ["a"]}, "given two roles"),
        ({"measurements": []}, "at least one column"),
        ({"bins": {"z": 3}}, "'z' is not among them"),
        ({"bins": {"x": 3}}, "has 's0' in column 'x'"),
        ({"bins": "absent.npz"}, "no file absent.npz"),
        ({"events_columns": {"id": "z"}}, "give events too"),
    ],
)
def test_bad_settings(more: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError) as error:
        read("id,t,x,a\np,0,s0,u\np,9,s1,u\np,21,s2,u\n", **more)
    assert words in str(error.value)


def test_lengths_of_time() -> None:
    assert [step_length(x, "dates", "g") for x in ("7d", "2w", "12h", "90 min")] == [
        7.0, 14.0, 0.5, 0.0625,
    ]  # fmt: skip
    assert [length_text(x, "dates") for x in (28.0, 0.25, 1 / 1440)] == ["28d", "6h", "1min"]
    for bad in ("7", "d", "1m", "-3d", ""):
        with pytest.raises(InputError, match="30min, 12h, 7d, 4w, 1month"):
            step_length(bad, "dates", "grid")


@settings(max_examples=60, deadline=None)
@given(st.floats(0.01, 5000))
def test_a_length_as_text_reads_back(length: float) -> None:
    assert step_length(length_text(length, "dates"), "dates", "g") == pytest.approx(
        length, rel=1e-3
    )


# -------------------------------------------------------------------- states
NUMBERS = "id,t,x,y,a\np,0,6.5,b,u\np,1,7,b,v\np,2,7.9,a,u\np,3,12,a,u\n"


def test_states_of_several_columns_and_given_cuts(tmp_path: Path) -> None:
    made = read(NUMBERS, measurements=["y", "x"], bins={"x": [7, 8]})
    assert made.log.states.names == ("y=a|x=7–8", "y=a|x=≥8", "y=b|x=<7", "y=b|x=7–8")
    assert made.bins is not None
    made.bins.save(tmp_path / "bins.npz")
    again = read(NUMBERS, measurements=["y", "x"], bins=tmp_path / "bins.npz")
    assert rows_of(again) == rows_of(made)
    assert read(NUMBERS, measurements=["y", "x"], bins=made.bins).log.data_hash == (
        made.log.data_hash
    )
    assert state_columns(made.log.states) == {
        "y": ("a", "a", "b", "b"), "x": ("7–8", "≥8", "<7", "7–8"),
    }  # fmt: skip


def test_fitted_cuts_are_what_the_names_say() -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=40)
    data = {"id": ["p"] * 40, "t": list(range(40)), "x": x.tolist(), "a": ["u"] * 40}
    made = read_trajectories(data, **COLUMNS, bins={"x": 4})
    assert made.bins is not None
    counts = np.bincount(np.searchsorted(made.bins.edges[0], x, side="right"))
    assert counts.tolist() == [10, 10, 10, 10]
    assert [f"<{made.bins.edges[0][0]:.15g}", f"≥{made.bins.edges[0][-1]:.15g}"] == [
        made.log.states[0], made.log.states[3],
    ]  # fmt: skip


def test_bins_by_kmeans_join_their_columns() -> None:
    rng = np.random.default_rng(0)
    x = np.concatenate([rng.normal(m, 0.1, size=(20, 2)) for m in (0.0, 9.0)])
    bins = Bins.fit(x, 2, "kmeans", ["x", "z"])
    data = {
        "id": ["p"] * 40, "t": list(range(40)), "x": x[:, 0].tolist(), "y": ["k"] * 40,
        "z": x[:, 1].tolist(), "a": ["u"] * 40,
    }  # fmt: skip
    made = read_trajectories(data, **COLUMNS, bins=bins)
    assert made.log.n_states == 2
    assert split_state(made.log.states[0]) == {"x+z": bins.states[0], "y": "k"}


def test_numbers_without_bins() -> None:
    data = {"id": ["p"] * 30, "t": list(range(30)), "x": [i / 7 for i in range(30)], "a": [1] * 30}
    with pytest.raises(InputError, match=r"holds 30 different numbers.*or a number of bins"):
        read_trajectories(data, **COLUMNS)
    few = {"id": ["p"] * 3, "t": [0, 1, 2], "x": ["1", "1.0", "2.50"], "a": ["u"] * 3}
    assert read_trajectories(few, **COLUMNS).log.states.names == ("1", "2.5")


@settings(max_examples=200, deadline=None)
@given(
    st.lists(
        st.tuples(st.text(min_size=1, max_size=4), st.text(max_size=4)),
        min_size=2, max_size=4, unique_by=lambda part: part[0],
    )
)  # fmt: skip
def test_state_names_split_again(parts: list[tuple[str, str]]) -> None:
    columns, values = zip(*parts, strict=True)
    assert split_state(state_name(columns, values)) == dict(parts)


def test_a_sign_in_a_value_keeps_states_apart() -> None:
    text = "id,t,x,y,a\np,0,1|y=2,3,u\np,1,1,2|y=3,u\np,2,1,3,u\n"
    made = read(text)
    assert made.log.n_states == 3
    assert split_state(r"x=1\|y\=2|y=3") == {"x": "1|y=2", "y": "3"}


# -------------------------------------------------------------------- the whole
def test_a_saved_log_keeps_everything(tmp_path: Path) -> None:
    made = read(REWARDED, reward="r")
    save_log(made.log, tmp_path / "log.parquet")
    again = read_log(tmp_path / "log.parquet")
    assert again.data_hash == made.log.data_hash
    assert again.notes == made.log.notes
    assert again.p0_source == made.log.p0_source
