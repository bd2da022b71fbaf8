"""Every bad log: the message names the row, what was found, and what to do."""

import contextlib
import gzip
import lzma
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from softrobust._core.files import atomic_write
from softrobust.data import read_log, save_log
from softrobust.errors import InputError
from softrobust.models.files import load_models
from softrobust.run.sweep_file import read_sweep

HEAD = "state,action,next_state,reward\n"
ROWS = HEAD + "a,x,b,1\n"

# What the file holds, and what the message must say, in order.
BAD_TEXTS: dict[str, tuple[bytes | str, list[str]]] = {
    "empty": ("", ["log.csv is empty", "right file"]),
    "only blank lines": ("\n\n", ["log.csv is empty"]),
    "header only": (HEAD, ["at least one transition", "log.csv has none"]),
    "header only, no newline": (HEAD.strip(), ["at least one row", "log.csv has none"]),
    "two columns of one name": (
        "state,action,next_state,reward,reward\na,x,b,1,2\n",
        ["One column must be the reward", "'reward' and 'reward'", "Rename one of them"],
    ),
    "missing column": (
        "state,act,next_state\na,x,b\n",
        [
            "column for the action is missing in log.csv",
            "'state', 'act', 'next_state'",
            "action, a or idaction",
            "columns={'action': …}",
        ],
    ),
    "two columns for one role": (
        "state,s,action,next_state\na,a,x,b\n",
        ["both 'state' and 's' could be", "columns={'state': …}"],
    ),
    "blank state": (ROWS + ",x,b,1\n", ["Every row needs a state", "row 3 of log.csv", "'state'"]),
    "blank action": (ROWS + "a,,b,1\n", ["needs an action", "row 3", "'action'", "Fill in"]),
    "NA next state": (ROWS + "a,x,NA,1\n", ["needs a next state", "row 3", "'next_state'"]),
    "NaN reward": (ROWS + "a,x,b,NaN\n", ["finite number", "row 3", "has 'nan'", "'reward'"]),
    "infinite reward": (ROWS + "a,x,b,inf\n", ["finite number", "row 3 of log.csv", "inf"]),
    "blank reward": (ROWS + "a,x,b,\n", ["finite number", "row 3 of log.csv is empty"]),
    "text as reward": (ROWS + "a,x,b,many\n", ["finite number", "row 3", "has 'many'"]),
    "decimal comma": (ROWS + 'a,x,b,"1,5"\n', ["row 3", "has '1,5'", "decimal point"]),
    "row after blank lines": (
        ROWS + "\n\na,x,b,1\n\na,x,b,oops\n",
        ["row 7 of log.csv has 'oops'"],
    ),
    "missing label after blank lines": (ROWS + "\n\na,x,b,1\n\na,x,,2\n", ["row 7 of log.csv"]),
    "short row": (ROWS + "a,x\n", ["as the header (4)", "row 3 of log.csv has 2", "«a,x»"]),
    "long row": (ROWS + "a,x,b,1,9\n", ["as the header (4)", "row 3 of log.csv has 5"]),
    "quote never closed": (ROWS + '"a,x,b,1\nc,x,b,1\n', ["row 3 of log.csv", "cut off"]),
    "bad flag": (
        "s,a,s_next,done\na,x,b,0\na,x,b,perhaps\n",
        ["true or false", "row 3 of log.csv has 'perhaps'", "'done'"],
    ),
    "blank flag": ("s,a,s_next,done\na,x,b,0\na,x,b,\n", ["true or false", "row 3", "is empty"]),
    "blank episode": (
        "s,a,s_next,episode\na,x,b,1\na,x,b,\n",
        ["Every row needs an episode", "row 3 of log.csv is empty"],
    ),
    "utf-8 that breaks": (
        ROWS.encode() + "é,x,b,1\n".encode() * 20_000 + b"\xe9,x,b,1\n",
        ["one encoding", "row 20003 of log.csv", "UTF-8"],
    ),
    "binary": (b"\x7fELF\x00\x01\x02" + bytes(100), ["not a text file", "CSV"]),
    "excel": (b"PK\x03\x04" + b"xl/workbook" * 9, ["not a whole .npz", "Excel"]),
    "truncated xz": (lzma.compress(ROWS.encode() * 50)[:-20], ["cut off", "download it again"]),
    "truncated gz": (gzip.compress(ROWS.encode() * 50)[:-20], ["cut off", "download it again"]),
    "damaged xz": (
        lzma.compress(ROWS.encode())[:24] + b"\x00" * 40,
        ["log.csv cannot be read", "damaged"],
    ),
    "damaged gz": (
        gzip.compress(ROWS.encode())[:-8] + b"\xff" * 8,
        ["log.csv cannot be read", "damaged"],
    ),
    "damaged parquet": (b"PAR1" + bytes(60), ["Parquet file log.csv cannot be read"]),
    "leaving the end": (HEAD + "a,x,b,1\n(end),x,b,1\n", ["'(end)'", "row 3 of log.csv leaves"]),
}


@pytest.mark.parametrize("name", BAD_TEXTS)
def test_bad_files(name: str, tmp_path: Path) -> None:
    content, says = BAD_TEXTS[name]
    path = tmp_path / "log.csv"
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    with pytest.raises(InputError) as error:
        read_log(path)
    message = str(error.value)
    place = 0
    for words in says:
        assert words in message[place:], f"«{words}» missing or out of order in: {message}"
        place = message.index(words, place)
    assert "\n" not in message


def test_truncated_far_down(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    lines = "".join(f"{i},{j},0,1\n" for i, j in rng.integers(0, 10**6, (200_000, 2)).tolist())
    path = tmp_path / "log.csv.xz"
    path.write_bytes(lzma.compress((HEAD + lines).encode(), preset=0)[:-1000])
    with pytest.raises(InputError, match=r"log\.csv\.xz is cut off before its end"):
        read_log(path)


def test_no_such_file_and_folder(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"There is no file .*absent\.csv"):
        read_log(tmp_path / "absent.csv")
    with pytest.raises(InputError, match="is a folder"):
        read_log(tmp_path)
    os.mkfifo(tmp_path / "pipe.csv")
    for read in (read_log, read_sweep, load_models):  # nobody writes into it
        with pytest.raises(InputError, match="is a pipe or a device"):
            read(tmp_path / "pipe.csv")


@pytest.mark.parametrize(
    ("columns", "words"),
    [
        ({"sate": "s"}, "Unknown role 'sate'"),
        ({"state": "stat"}, "column 'stat' given for the state is not in log.csv"),
        ({"state": "stat"}, "Did you mean 'state'?"),
        ({"state": "next_state", "next_state": "next_state"}, "is given two roles"),
    ],
)
def test_bad_columns_option(columns: dict[str, str], words: str, tmp_path: Path) -> None:
    (tmp_path / "log.csv").write_text(ROWS)
    with pytest.raises(InputError) as error:
        read_log(tmp_path / "log.csv", columns=columns)
    assert words in str(error.value)


def test_column_named_twice(tmp_path: Path) -> None:
    (tmp_path / "log.csv").write_text("site,site,a,sp\n0,0,0,0\n")
    with pytest.raises(InputError, match=r"stands 2 times in log\.csv"):
        read_log(tmp_path / "log.csv", columns={"state": "site"})


def test_label_missing_in_the_states_file(tmp_path: Path) -> None:
    (tmp_path / "log.csv").write_text(ROWS + "b,x,c,1\n")
    (tmp_path / "states.txt").write_text("a\nb\n")
    with pytest.raises(InputError, match=r"row 3 of log\.csv has 'c'"):
        read_log(tmp_path / "log.csv", states=tmp_path / "states.txt")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("idstate,probability\na,0.5\nz,0.5\n", "row 3 of initial.csv has 'z'"),
        ("idstate,probability\na,0.5\nb,0.4\n", "sum to 1 (tolerance 1e-08): they sum to 0.9"),
        ("idstate,probability\na,1.5\nb,-0.5\n", "between 0 and 1: state 'a' has 1.5"),
        ("idstate,probability\na,0.5\na,0.5\n", "rows 2 and 3 of initial.csv both give state 'a'"),
        ("idstate,probability\na,x\n", "row 2 of initial.csv has 'x'"),
        ("idstate,weight\na,1\n", "column for the probability is missing in initial.csv"),
        ("", "initial.csv is empty"),
    ],
)
def test_bad_initial_file(text: str, words: str, tmp_path: Path) -> None:
    (tmp_path / "log.csv").write_text(ROWS)
    (tmp_path / "initial.csv").write_text(text)
    with pytest.raises(InputError) as error:
        read_log(tmp_path / "log.csv", initial=tmp_path / "initial.csv")
    assert words in str(error.value)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("state,action,reward\na,x,1\na,y,1\n", "known action: row 3 of r.csv has 'y'"),
        ("state,action,reward\nq,x,1\n", "known state: row 2 of r.csv has 'q'"),
        ("s,a,r\na,x,1\nb,x,1\na,x,1\n", "rows 2 and 4 of r.csv both give state 'a', action 'x'"),
        ("s,a,s_next,r\na,x,b,1\na,x,b,1\n", "rows 2 and 3 of r.csv"),
        ("state,action\na,x\n", "column for the reward is missing in r.csv"),
        ("state,action,reward\na,x,\n", "row 2 of r.csv is empty in column 'reward'"),
    ],
)
def test_bad_reward_table(text: str, words: str, tmp_path: Path) -> None:
    (tmp_path / "log.csv").write_text(ROWS)
    (tmp_path / "r.csv").write_text(text)
    with pytest.raises(InputError) as error:
        read_log(tmp_path / "log.csv", reward_table=tmp_path / "r.csv")
    assert words in str(error.value)


def test_bad_tables() -> None:
    pd = pytest.importorskip("pandas")
    good: dict[str, list[Any]] = {"s": ["a", "b"], "a": ["x", "x"], "s_next": ["b", "b"]}
    with pytest.raises(InputError, match="needs a state: row 2 of the DataFrame"):
        read_log(pd.DataFrame(good | {"s": ["a", None]}))
    with pytest.raises(InputError, match="finite number: row 2 of the DataFrame"):
        read_log(pd.DataFrame(good | {"r": [1.0, np.nan]}))
    with pytest.raises(InputError, match="Give each column one name and one type"):
        read_log(pd.DataFrame(good | {"s": [1, "b"]}))
    with pytest.raises(InputError, match="must hold names or numbers"):
        read_log(good | {"s": [["a"], ["b"]]})
    with pytest.raises(InputError, match="at least one transition: the DataFrame has none"):
        read_log(pd.DataFrame({"s": [], "a": [], "s_next": []}))
    with pytest.raises(InputError, match="got int"):
        read_log(5)


def test_npz_with_python_objects_is_not_opened(tmp_path: Path) -> None:
    path = tmp_path / "log.npz"
    np.savez(path, state=np.array([{}, 1], dtype=object), action=[0, 0], next_state=[0, 0])
    with pytest.raises(InputError, match=r"cannot be read safely"):
        read_log(path)


def test_saved_log_of_a_later_version_or_incomplete(tmp_path: Path) -> None:
    path = tmp_path / "log.npz"
    np.savez(path, format="softrobust-log", format_version=99)
    with pytest.raises(InputError, match=r"format version 99; .* Update softrobust"):
        read_log(path)
    np.savez(path, format="softrobust-log", format_version=1)
    with pytest.raises(InputError, match="lacks or garbles"):
        read_log(path)


def test_save_log_by_ending(tmp_path: Path) -> None:
    log = read_log({"s": [0], "a": [0], "s_next": [0]})
    with pytest.raises(InputError, match=r"saved as \.npz or \.parquet"):
        save_log(log, tmp_path / "log.csv")
    with pytest.raises(InputError, match="There is no folder"):
        save_log(log, tmp_path / "absent" / "log.npz")


def test_saved_parquet_with_damaged_metadata(tmp_path: Path) -> None:
    from pyarrow import parquet

    path = tmp_path / "log.parquet"
    save_log(read_log({"s": [0], "a": [0], "s_next": [0]}), path)
    table = parquet.read_table(path)
    for damage in ({b"softrobust": b"{"}, {b"softrobust.arrays": b"!"}, {b"softrobust": b"{}"}):
        parquet.write_table(table.replace_schema_metadata(table.schema.metadata | damage), path)
        with pytest.raises(InputError, match=r"log\.parquet lacks or garbles"):
            read_log(path)


@settings(max_examples=150, deadline=None)
@given(data=st.data())
def test_damaged_files_are_input_errors(data: st.DataObject, tmp_path_factory: Any) -> None:
    """Whatever bytes change: a log or an `InputError`, nothing else."""
    folder = tmp_path_factory.mktemp("damaged")
    text = b"state,action,next_state,reward,episode,done\na,x,b,1,0,0\nb,y,a,2,0,1\n"
    (folder / "log.csv").write_bytes(text)
    log = read_log(folder / "log.csv")
    save_log(log, folder / "log.npz")
    save_log(log, folder / "log.parquet")
    whole = data.draw(
        st.sampled_from(
            [
                text,
                gzip.compress(text),
                lzma.compress(text),
                (folder / "log.npz").read_bytes(),
                (folder / "log.parquet").read_bytes(),
            ]
        )
    )
    start = data.draw(st.integers(0, len(whole)))
    stop = data.draw(st.integers(start, min(len(whole), start + 8)))
    path = folder / "damaged"
    path.write_bytes(whole[:start] + data.draw(st.binary(max_size=8)) + whole[stop:])
    with contextlib.suppress(InputError):
        assert read_log(path).n_rows > 0


def test_a_fault_of_the_system_names_the_file(tmp_path: Path) -> None:
    """A read that fails, and a folder that is not there: the name of the user's own file."""
    memory = Path("/proc/self/mem")
    if memory.exists():
        with pytest.raises(OSError, match="/proc/self/mem"):
            read_log(memory)
    with (
        pytest.raises(FileNotFoundError, match=r"nowhere.log\.npz'"),
        atomic_write(tmp_path / "nowhere" / "log.npz"),
    ):
        pass


def test_an_encoding_that_failed_is_not_advised(tmp_path: Path) -> None:
    (tmp_path / "log.csv").write_bytes(b"state,action,next_state\n\x81,x,b\n")
    with pytest.raises(InputError, match="no CP1252") as told:
        read_log(tmp_path / "log.csv")
    assert told.value.arguments == {"encoding": "…"}
