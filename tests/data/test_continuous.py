"""Continuous logs: their table, and what is refused."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from softrobust.data.continuous import ContinuousLog, read_continuous_log
from softrobust.data.readers import write_log_csv
from softrobust.errors import InputError


def log() -> ContinuousLog:
    rng = np.random.default_rng(0)
    return ContinuousLog.from_arrays(
        rng.normal(size=(5, 2)), [0, 1, 1, 0, 1], rng.normal(size=(5, 2)), rng.normal(size=5),
        [0, 0, 0, 1, 1], [0, 0, 1, 0, 0], variables=("u", "v"),
    )  # fmt: skip


def test_written_and_read(tmp_path: Path) -> None:
    write_log_csv(log(), tmp_path / "log.csv")
    head = (tmp_path / "log.csv").read_text().splitlines()[0]
    assert head == "episode,u,v,action,next_u,next_v,reward,terminal"
    assert read_continuous_log(tmp_path / "log.csv").data_hash == log().data_hash
    again = ContinuousLog.restored(log().to_arrays(), "memory")
    assert again.data_hash == log().data_hash
    assert "5 transitions of u, v" in repr(again)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("u,action,next_u\n", "at least one transition"),
        ("u,action\n1,0\n", "no column starts with 'next_'"),
        ("u,next_u\n1,0\n", "'action' is missing"),
        ("u,action,next_u\n1,0\n", "Row 2 of log.csv has 2 cells"),
        ("u,action,next_u\n1,0,2\nx,0,2\n", r"row 3 of log\.csv has 'x'"),
        ("u,action,next_u\n1,0,nan\n", r"'next_u' is nan"),
    ],
)
def test_refused_tables(text: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "log.csv").write_text(text)
    with pytest.raises(InputError, match=message):
        read_continuous_log(tmp_path / "log.csv")


def test_refused_arrays(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no file"):
        read_continuous_log(tmp_path / "none.csv")
    with pytest.raises(InputError, match="'s_next' must have one row per transition"):
        ContinuousLog.from_arrays([[1.0]], [0], [[1.0], [2.0]])
    with pytest.raises(InputError, match="'reward' must have 1 entries"):
        ContinuousLog.from_arrays([[1.0]], [0], [[1.0]], [1.0, 2.0])
    with pytest.raises(InputError, match="no folder"):
        write_log_csv(log(), tmp_path / "nowhere" / "log.csv")
