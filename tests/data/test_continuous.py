"""Continuous logs: their table, and what is refused."""

from __future__ import annotations

import gzip
import lzma
from collections.abc import Callable
from pathlib import Path
from typing import Any

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
        ("u,next_u\n1,0\n", "column for the action is missing"),
        ("u,action,next_u\n1,0\n", r"row 2 of log\.csv has 2"),
        ("u,action,next_u\n1,0,2\nx,0,2\n", r"row 3 of log\.csv has 'x'"),
        ("u,action,next_u\n1,0,nan\n", r"row 2 of log\.csv has 'nan' in column 'next_u'"),
        ("u,action,next_u\n1,0,1e60\n", r"at most 1e\+50 in size: row 2 of log\.csv, 'next_u'"),
        ("u,action,next_u\n1,NA,2\n", r"needs an action: row 2 of log\.csv"),
        ("u,action,next_u,terminal\n1,0,2,maybe\n", r"row 2 of log\.csv has 'maybe'"),
    ],
)
def test_refused_tables(text: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "log.csv").write_text(text)
    with pytest.raises(InputError, match=message):
        read_continuous_log(tmp_path / "log.csv")


def frame(read: Path) -> Any:
    return pytest.importorskip("pandas").read_csv(read)


FORMS: dict[str, Callable[[Path], Any]] = {
    "gz": lambda f: put(f.with_name("log.csv.gz"), gzip.compress(f.read_bytes())),
    "xz": lambda f: put(f.with_name("log.csv.xz"), lzma.compress(f.read_bytes())),
    "semicolon": lambda f: put(f.with_name("s.csv"), f.read_bytes().replace(b",", b";")),
    "tab": lambda f: put(f.with_name("t.tsv"), f.read_bytes().replace(b",", b"\t")),
    "blank rows": lambda f: put(f.with_name("b.csv"), f.read_bytes().replace(b"\n", b"\n\n")),
    "pandas": frame,
    "mapping": lambda f: frame(f).to_dict("list"),
}


def put(path: Path, content: bytes) -> Path:
    path.write_bytes(content)
    return path


@pytest.mark.parametrize("name", FORMS)
def test_every_form_of_a_table(name: str, tmp_path: Path) -> None:
    write_log_csv(log(), tmp_path / "log.csv")
    assert read_continuous_log(FORMS[name](tmp_path / "log.csv")).data_hash == log().data_hash


def test_parquet_and_named_columns(tmp_path: Path) -> None:
    from pyarrow import parquet

    write_log_csv(log(), tmp_path / "log.csv")
    table = frame(tmp_path / "log.csv").rename(columns={"action": "dose"})
    table.to_parquet(tmp_path / "log.parquet")
    assert parquet.read_metadata(tmp_path / "log.parquet").num_rows == 5
    read = read_continuous_log(tmp_path / "log.parquet", columns={"action": "dose"})
    assert read.data_hash == log().data_hash


def test_whole_episodes_keep_their_numbers_and_names_are_numbered(tmp_path: Path) -> None:
    text = "u,action,next_u,episode\n1,0,2,7\n2,0,3,7\n1,0,3,3\n"
    read = read_continuous_log(put(tmp_path / "log.csv", text.encode()))
    assert read.episode is not None
    assert read.episode.tolist() == [7, 7, 3]
    named = read_continuous_log(put(tmp_path / "log.csv", text.replace("7", "x").encode()))
    assert named.episode is not None
    assert named.episode.tolist() == [0, 0, 1]


def test_refused_arrays(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no file"):
        read_continuous_log(tmp_path / "none.csv")
    with pytest.raises(InputError, match="'s_next' must have shape"):
        ContinuousLog.from_arrays([[1.0]], [0], [[1.0], [2.0]])
    with pytest.raises(InputError, match="'reward' must have shape"):
        ContinuousLog.from_arrays([[1.0]], [0], [[1.0]], [1.0, 2.0])
    with pytest.raises(InputError, match="no folder"):
        write_log_csv(log(), tmp_path / "nowhere" / "log.csv")
