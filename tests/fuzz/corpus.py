"""Corrupted and odd files, made by code: what each holds, and how it must end.

A case ends in a policy (`rows` then says what the file holds, row by row, so that a silent change
shows) or in one paragraph that has the `words`.
"""

from __future__ import annotations

import gzip
import io
import json
import lzma
import zipfile
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

Row = tuple[str, ...]
HEAD = "state,action,next_state,reward\n"
BODY = "a,x,b,1\nb,y,a,2\na,y,a,0\n"
GOOD = HEAD + BODY
GOOD_ROWS: list[Row] = [("a", "x", "b", "1"), ("b", "y", "a", "2"), ("a", "y", "a", "0")]


@dataclass(frozen=True)
class Case:
    """One file (and what lies beside it), and how reading it must end.

    Attributes
    ----------
    data : bytes
    rows : list of tuples, or None
        The transitions that the file holds, if it must be accepted; labels and number as text.
    words : str
        Part of the paragraph, if it must be refused; a note, if it must be accepted.
    beside : dict
        Other files of the folder.
    gamma : bool
        Whether the command gives a discount.
    """

    data: bytes
    rows: list[Row] | None = None
    words: str = ""
    name: str = "f.csv"
    beside: dict[str, bytes] = field(default_factory=dict)
    gamma: bool = True


def text(content: str, rows: list[Row] | None = None, words: str = "", code: str = "utf-8") -> Case:
    return Case(content.encode(code), rows, words)


def npz(**arrays: object) -> bytes:
    file = io.BytesIO()
    np.savez(file, allow_pickle=True, **arrays)  # type: ignore[arg-type]
    return file.getvalue()


def _zip(name: str, content: bytes) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr(name, content)
    return file.getvalue()


def _parquet(columns: dict[str, object]) -> bytes:
    import pyarrow as pa
    from pyarrow import parquet

    file = io.BytesIO()
    parquet.write_table(pa.table(columns), file)
    return file.getvalue()


def _many_states(n: int) -> Case:
    lines = "".join(f"{i},0,{(i + 1) % n},{i % 2}\n" for i in range(n))
    return Case((HEAD + lines).encode(), [])


LONG = "é" * 60_000
NFC, NFD = "caf\u00e9", "cafe\u0301"
SAVED = {
    "format": "softrobust-log", "format_version": 1, "s": np.array([0]), "a": np.array([0]),
    "s_next": np.array([0]), "p0": np.array([1.0]), "reward": np.array([1.0]),
    "meta": json.dumps(
        {"states": ["a"], "actions": ["x"], "p0_source": "somewhere", "remarks": []}
    ),
}  # fmt: skip

LOGS: dict[str, Callable[[], Case]] = {
    # encodings
    "plain": lambda: text(GOOD, GOOD_ROWS),
    "bom": lambda: text(GOOD, GOOD_ROWS, code="utf-8-sig"),
    "utf-16": lambda: text(GOOD, GOOD_ROWS, "utf-16", code="utf-16"),
    "utf-16 without a mark": lambda: text(GOOD, GOOD_ROWS, "utf-16-le", code="utf-16-le"),
    "utf-32": lambda: text(GOOD, GOOD_ROWS, "utf-32", code="utf-32"),
    "latin-1": lambda: text(
        GOOD + "é,x,b,1\n", [*GOOD_ROWS, ("é", "x", "b", "1")], "Windows-1252", code="latin-1"
    ),
    "windows quotes": lambda: text(
        GOOD + "“ä”,x,b,1\n", [*GOOD_ROWS, ("“ä”", "x", "b", "1")], "such as 'ä'", code="cp1252"
    ),
    "utf-8 that breaks": lambda: Case(
        (GOOD + "é,x,b,1\n").encode() + b"\xe9,x,b,1\n", words="row 6 of f.csv"
    ),
    "no western text": lambda: Case(
        (GOOD + "é").encode("cp1252") + b"\x81,x,b,1\n", words="CP1252"
    ),
    "nul inside": lambda: text(HEAD + "a\x00,x,b,1\n", words="not a text file"),
    "nul far down": lambda: text(HEAD + "a,x,b,1\n" * 20_000 + "a\x00,x,b,1\n", words="row 20002"),
    "unicode labels": lambda: text(
        HEAD + "東京,🍎,שלום,1\nשלום,🍎,東京,2\n",
        [("東京", "🍎", "שלום", "1"), ("שלום", "🍎", "東京", "2")],
    ),
    "composed and decomposed": lambda: text(
        HEAD + f"{NFC},x,{NFD},1\n{NFD},x,{NFC},2\n", [(NFC, "x", NFD, "1"), (NFD, "x", NFC, "2")]
    ),
    "no-break spaces around": lambda: text(
        HEAD + "\u00a0a,x,b\u00a0,1\nb,x,a,2\n",
        [("a", "x", "b", "1"), ("b", "x", "a", "2")],
        "Spaces",
    ),
    # separators, quotes, line ends
    "semicolons": lambda: text(GOOD.replace(",", ";"), GOOD_ROWS, "semicolon"),
    "tabs": lambda: text(GOOD.replace(",", "\t"), GOOD_ROWS, "tab"),
    "bars": lambda: text(GOOD.replace(",", "|"), words="column for the state is missing"),
    "sep line of Excel": lambda: text(
        "sep=;\n" + GOOD.replace(",", ";"), GOOD_ROWS, "stand in row 2"
    ),
    "decimal commas": lambda: text(
        "state;action;next_state;reward\na;x;b;1,5\n", [("a", "x", "b", "1.5")], "'1,5' is 1.5"
    ),
    "commas and points": lambda: text(
        "state;action;next_state;reward\na;x;b;1,5\na;x;b;1.5\n", words="one way"
    ),
    "thousands": lambda: text(HEAD + 'a,x,b,"1,000"\n', words="without separators"),
    "crlf": lambda: text(GOOD.replace("\n", "\r\n"), GOOD_ROWS),
    "cr alone": lambda: text(GOOD.replace("\n", "\r"), GOOD_ROWS),
    "mixed line ends": lambda: text(HEAD + "a,x,b,1\r\nb,y,a,2\na,y,a,0\r\n", GOOD_ROWS),
    "no last line end": lambda: text(GOOD.rstrip("\n"), GOOD_ROWS),
    "blank lines": lambda: text(HEAD + "\na,x,b,1\n\n\nb,y,a,2\na,y,a,0\n\n", GOOD_ROWS, "blank"),
    "commas in quotes": lambda: text(HEAD + '"a,b",x,"c",1\n"c",x,"a,b",2\n',
        [("a,b", "x", "c", "1"), ("c", "x", "a,b", "2")]),
    "line end in quotes": lambda: text(HEAD + '"a\nb",x,c,1\nc,x,"a\nb",2\n',
        [("a\nb", "x", "c", "1"), ("c", "x", "a\nb", "2")]),
    "doubled quotes": lambda: text(HEAD + '"say ""a""",x,c,1\nc,x,c,2\n',
        [('say "a"', "x", "c", "1"), ("c", "x", "c", "2")]),
    "quote never closed": lambda: text(GOOD + '"a,x,b,1\nb,x,a,1\n', words="row 5"),
    "quote in the middle": lambda: text(HEAD + 'a"b,x,c,1\nc,x,c,2\n',
        [('a"b', "x", "c", "1"), ("c", "x", "c", "2")]),
    "everything quoted": lambda: text(
        "\n".join(",".join(f'"{c}"' for c in line.split(",")) for line in GOOD.split())+ "\n",
        GOOD_ROWS),
    "comments": lambda: text("# made by hand\n" + GOOD, GOOD_ROWS, "stand in row 2"),
    # shapes
    "empty": lambda: text("", words="is empty"),
    "spaces only": lambda: text("  \n \n", words="is empty"),
    "header only": lambda: text(HEAD, words="at least one"),
    "one row": lambda: text(HEAD + "a,x,b,1\n", [("a", "x", "b", "1")]),
    "one state": lambda: text(HEAD + "a,x,a,1\n", [("a", "x", "a", "1")]),
    "a cycle": lambda: text(
        HEAD + "".join(f"{i},go,{(i + 1) % 7},{i}\n" for i in range(7)),
        [(str(i), "go", str((i + 1) % 7), str(i)) for i in range(7)],
    ),
    "short row": lambda: text(GOOD + "a,x\n", words="row 5 of f.csv has 2"),
    "long row": lambda: text(GOOD + "a,x,b,1,9\n", words="row 5 of f.csv has 5"),
    "comma at the end of all lines": lambda: text(
        "\n".join(line + "," for line in GOOD.split()) + "\n", GOOD_ROWS
    ),
    "comma at the end of rows": lambda: text(
        HEAD + "a,x,b,1,\nb,y,a,2,\n", words="as many columns as the header"
    ),
    "a column twice": lambda: text("state,state,action,next_state\na,a,x,b\n", words="could be"),
    "a column twice, unused": lambda: text(
        "state,action,next_state,reward,n,n\na,x,b,1,0,0\nb,y,a,2,0,0\na,y,a,0,0,0\n", GOOD_ROWS),
    "no header": lambda: text(BODY, words="missing"),
    "header in capitals": lambda: text(GOOD.replace(HEAD.strip(), "State,ACTION,Next_State,Reward"),
        GOOD_ROWS),
    # cells
    "mixed names": lambda: text(HEAD + "1,x,b,1\nb,2,1,0\n",
        [("1", "x", "b", "1"), ("b", "2", "1", "0")]),
    "whole numbers as decimals": lambda: text(HEAD + "1.0,x,0,1\n0,x,1.0,0\n",
        [("1", "x", "0", "1"), ("0", "x", "1", "0")], "read as integers"),
    "leading zeros": lambda: text(HEAD + "007,x,7,1\n7,x,007,0\n",
        [("007", "x", "7", "1"), ("7", "x", "007", "0")]),
    "huge integers": lambda: text(HEAD + f"{10**30},x,{10**18 + 1},1\n{10**18 + 1},x,{10**30},0\n",
        [(str(10**30), "x", str(10**18 + 1), "1"), (str(10**18 + 1), "x", str(10**30), "0")]),
    "large integers": lambda: text(HEAD + "999999999999,x,5,1\n5,x,999999999999,0\n",
        [("999999999999", "x", "5", "1"), ("5", "x", "999999999999", "0")], "no gaps are filled"),
    "negative integers": lambda: text(HEAD + "-1,x,5,1\n5,x,-1,0\n",
        [("-1", "x", "5", "1"), ("5", "x", "-1", "0")], "negative"),
    "dates as states": lambda: text(HEAD + "2024-01-01,x,2024-01-02,1\n2024-01-02,x,2024-01-01,2\n",
        [("2024-01-01", "x", "2024-01-02", "1"), ("2024-01-02", "x", "2024-01-01", "2")]),
    "dates as rewards": lambda: text(HEAD + "a,x,b,2024-01-01\n", words="finite number"),
    "nan reward": lambda: text(GOOD + "a,x,b,NaN\n", words="row 5"),
    "infinite reward": lambda: text(GOOD + "a,x,b,inf\n", words="row 5"),
    "minus infinity": lambda: text(GOOD + "a,x,b,-Infinity\n", words="row 5"),
    "reward beyond doubles": lambda: text(GOOD + "a,x,b,1e400\n", words="row 5"),
    "reward of 400 digits": lambda: text(GOOD + f"a,x,b,{10**400}\n", words="row 5"),
    "rewards whose sum overflows": lambda: text(
        HEAD + "a,x,b,1.7e308\na,x,b,1.6e308\na,x,a,1.5e308\nb,x,a,0\n", words="at most"),
    "tiny rewards": lambda: text(HEAD + "a,x,b,1e-320\nb,x,a,0\n",
        [("a", "x", "b", "1e-320"), ("b", "x", "a", "0")]),
    "hexadecimal reward": lambda: text(GOOD + "a,x,b,0x10\n", words="has '0x10'"),
    "underscored reward": lambda: text(GOOD + "a,x,b,1_000\n", words="has '1_000'"),
    "wide digits": lambda: text(GOOD + "a,x,b,１\n", words="has '１'"),
    "percent": lambda: text(GOOD + "a,x,b,5%\n", words="has '5%'"),
    "a novel as a reward": lambda: text(GOOD + f"a,x,b,{'word ' * 9000}\n", words="has 'word word"),
    "blank reward": lambda: text(GOOD + "a,x,b,\n", words="row 5"),
    "blank state": lambda: text(GOOD + " ,x,b,1\n", words="row 5"),
    "state called NA": lambda: text(GOOD + "NA,x,b,1\n", words="row 5"),
    "state called none": lambda: text(GOOD + "none,x,b,1\n", [*GOOD_ROWS, ("none", "x", "b", "1")]),
    "very long label": lambda: text(HEAD + f"{LONG},x,b,1\nb,x,{LONG},0\n",
        [(LONG, "x", "b", "1"), ("b", "x", LONG, "0")]),
    "a cell of a megabyte": lambda: text(HEAD + f"{'a' * (1 << 20)},x,b,1\n",
        [("a" * (1 << 20), "x", "b", "1")]),
    "a cell of twelve megabytes": lambda: text(HEAD + f"{'a' * (12 << 20)},x,b,1\n", words="MiB"),
    "very long header": lambda: text(",".join(f"c{i}" for i in range(30_000)) + "," + GOOD,
        words="missing"),
    "terminal without next state": lambda: text(
        "state,action,next_state,reward,done\na,x,b,1,0\nb,x,,2,1\n",
        [("a", "x", "b", "1"), ("b", "x", "(end)", "2")], "(end)"),
    "terminal as a word": lambda: text(
        "state,action,next_state,reward,done\na,x,b,1,perhaps\n", words="true or false"),
    "leaving the end": lambda: text(GOOD + "(end),x,b,1\n", words="never left"),
    "formula of a spreadsheet": lambda: text(HEAD + "=1+1,x,b,1\nb,x,=1+1,0\n",
        [("=1+1", "x", "b", "1"), ("b", "x", "=1+1", "0")]),
    "markup": lambda: text(HEAD + "<script>alert(1)</script>,x,b,1\nb,x,b,0\n",
        [("<script>alert(1)</script>", "x", "b", "1"), ("b", "x", "b", "0")]),
    # other files
    "html": lambda: text("<!DOCTYPE html><html><body>404</body></html>", words="missing"),
    "json": lambda: text('{"state": ["a"], "action": ["x"]}', words="missing"),
    "elf": lambda: Case(b"\x7fELF\x02\x01\x01" + bytes(200), words="not a text file"),
    "gzip": lambda: Case(gzip.compress(GOOD.encode()), GOOD_ROWS),
    "gzip cut off": lambda: Case(gzip.compress(GOOD.encode() * 40)[:-9], words="cut off"),
    "xz": lambda: Case(lzma.compress(GOOD.encode()), GOOD_ROWS),
    "xz damaged": lambda: Case(lzma.compress(GOOD.encode())[:30] + b"\xff" * 40, words="damaged"),
    "zip of a csv": lambda: Case(_zip("f.csv", GOOD.encode()), words="f.csv"),
    "excel": lambda: Case(_zip("xl/workbook.xml", b"<workbook/>"), words="workbook f.csv cannot"),
    "parquet": lambda: Case(_parquet({"state": ["a", "b"], "action": ["x", "x"],
        "next_state": ["b", "a"], "reward": [1, 0]}), [("a", "x", "b", "1"), ("b", "x", "a", "0")]),
    "parquet cut off": lambda: Case(_parquet({"state": ["a"] * 99})[:-50], words="Parquet"),
    "parquet of lists": lambda: Case(_parquet({"state": [["a"]], "action": ["x"],
        "next_state": ["b"]}), words="names or numbers"),
    "parquet with a null": lambda: Case(_parquet({"state": ["a", None], "action": ["x", "x"],
        "next_state": ["b", "b"], "reward": [1.0, 2.0]}), words="row 2"),
    "parquet of times": lambda: Case(_parquet({"state": np.array(["2024-01-01"], "M8[D]"),
        "action": ["x"], "next_state": np.array(["2024-01-02"], "M8[D]"), "reward": [1.0]}),
        [("2024-01-01", "x", "2024-01-02", "1")]),
    "parquet with a nan": lambda: Case(_parquet({"state": ["a"], "action": ["x"],
        "next_state": ["b"], "reward": [float("nan")]}), words="row 1"),
    "npz of columns": lambda: Case(npz(state=np.array(["a", "b"]), action=np.array([0, 0]),
        next_state=np.array(["b", "a"]), reward=np.array([1.0, 2.0])),
        [("a", "0", "b", "1"), ("b", "0", "a", "2")], name="f.npz"),
    "npz cut off": lambda: Case(npz(**SAVED)[:-100], words="f.npz", name="f.npz"),
    "npz with objects": lambda: Case(npz(state=np.array([{}, 1], dtype=object)),
        words="cannot be read safely", name="f.npz"),
    "npz of something else": lambda: Case(npz(format="softrobust-cake", format_version=1),
        words="cake", name="f.npz"),
    "npz of a later version": lambda: Case(npz(**(SAVED | {"format_version": 99})),
        words="Update", name="f.npz"),
    "npz whose version is a word": lambda: Case(npz(**(SAVED | {"format_version": "new"})),
        words="f.npz", name="f.npz"),
    "saved log without its rewards": lambda: Case(npz(**SAVED), words="needs to know what is good",
        name="f.npz"),
    "saved log, code out of range": lambda: Case(npz(**(SAVED | {"s": np.array([5])})),
        words="from 0 to 0", name="f.npz"),
    "saved log, meta damaged": lambda: Case(npz(**(SAVED | {"meta": "{"})),
        words="f.npz", name="f.npz"),
    "saved log, meta of another shape": lambda: Case(npz(**(SAVED | {"meta": "[1]"})),
        words="f.npz", name="f.npz"),
    "saved log, labels are numbers": lambda: Case(npz(**(SAVED | {"meta": json.dumps(
        {"states": [1], "actions": ["x"], "p0_source": "", "remarks": []})})),
        words="non-empty string", name="f.npz"),
    "saved log, p0 off": lambda: Case(npz(**(SAVED | {"p0": np.array([0.4])})),
        words="sum to 1", name="f.npz"),
    "saved log, codes are text": lambda: Case(npz(**(SAVED | {"s": np.array(["a"])})),
        words="f.npz", name="f.npz"),
    "saved log, columns of two lengths": lambda: Case(npz(**(SAVED | {"a": np.array([0, 0])})),
        words="one entry for each row", name="f.npz"),
}  # fmt: skip
SLOW_LOGS: dict[str, Callable[[], Case]] = {"a million states": lambda: _many_states(10**6)}
