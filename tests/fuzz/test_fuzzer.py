"""Fuzzing the readers: damaged bytes are refused or read whole, and tables are read as written.

Two laws. Whatever bytes of a good file change, a reader returns something whole or raises an
`InputError` of one paragraph. Whatever cells a table holds, and however it is quoted, separated,
marked or compressed, what is read is what was written, or it is refused.
"""

from __future__ import annotations

import csv
import gzip
import io
import json
import lzma
import re
import tempfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from softrobust import DirichletPosterior, Problem, SoftRobust
from softrobust.certificate import load_solution
from softrobust.data import Bins, read_labels, read_log, read_trajectories, save_log
from softrobust.data.labels import Labels
from softrobust.data.log import initial_distribution
from softrobust.errors import InputError
from softrobust.models import read_models, save_models
from softrobust.problem import load_problem, save_problem
from softrobust.run.inspect import inspect_file
from tests.fuzz.corpus_models import M_GOOD, V_GOOD

FAST, LONG = 40, 2500
LOG_TEXT = "state,action,next_state,reward,episode,done\na,x,b,1,0,0\nb,y,a,2.5,0,1\na,y,a,-1,1,0\n"
INITIAL = "state,probability\na,0.25\nb,0.75\n"
TOKENS = [
    b'"', b",", b";", b"\t", b"\n", b"\r", b"\r\n", b"\x00", b"\xef\xbb\xbf", b"\xff\xfe", b"nan",
    b"inf", b"1e999", b"-1", b"(end)", b"0x1", b"''", b"\xc3", b"\xe2\x80\x93", b"9" * 40, b"{",
    b"PK\x03\x04", b"PAR1", b"\x1f\x8b", b"#", b"=", b"|", b"1970-01-01", b"true", b"\x80",
]  # fmt: skip


# -------------------------------------------------------------------- damaged bytes
@st.composite
def damage(draw: st.DrawFn, whole: bytes) -> bytes:
    """A file after a few accidents."""
    data = whole
    for _ in range(draw(st.integers(1, 4))):
        at = draw(st.integers(0, len(data)))
        to = draw(st.integers(at, min(len(data), at + 12)))
        kind = draw(st.sampled_from(["replace", "token", "twice", "cut", "swap", "flip"]))
        if kind == "replace":
            data = data[:at] + draw(st.binary(max_size=12)) + data[to:]
        elif kind == "token":
            data = data[:at] + draw(st.sampled_from(TOKENS)) + data[at:]
        elif kind == "twice":
            data = data[:to] + data[at:]
        elif kind == "cut":
            data = data[:at]
        elif kind == "swap":
            lines = data.split(b"\n")
            i, j = (draw(st.integers(0, len(lines) - 1)) for _ in range(2))
            lines[i], lines[j] = lines[j], lines[i]
            data = b"\n".join(lines)
        elif data:
            place = min(at, len(data) - 1)
            data = (
                data[:place] + bytes([data[place] ^ draw(st.integers(1, 255))]) + data[place + 1 :]
            )
    return data


def made(name: str) -> bytes:
    """The bytes of a good file of each kind."""
    return _MAKERS[name]()


def _saved(write: Callable[[Path], object], suffix: str) -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"f{suffix}"
        write(path)
        return path.read_bytes()


def _log() -> Any:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "log.csv"
        path.write_text(LOG_TEXT)
        return read_log(path)


def _problem() -> Problem:
    log = _log()
    models = DirichletPosterior().fit(log).sample(3, 0)
    return Problem(models, rewards=log.rewards, p0=log.p0, gamma=0.9, objective=SoftRobust())


_MAKERS: dict[str, Callable[[], bytes]] = {
    "log.csv": LOG_TEXT.encode,
    "log.csv.gz": lambda: gzip.compress(LOG_TEXT.encode()),
    "log.csv.xz": lambda: lzma.compress(LOG_TEXT.encode()),
    "log.npz": lambda: _saved(lambda path: save_log(_log(), path), ".npz"),
    "log.parquet": lambda: _saved(lambda path: save_log(_log(), path), ".parquet"),
    "models.csv": M_GOOD.encode,
    "models.npz": lambda: _saved(lambda path: save_models(path, _problem().models), ".npz"),
    "problem.npz": lambda: _saved(lambda path: save_problem(path, _problem()), ".npz"),
    "visits.csv": V_GOOD.encode,
    "bins.npz": lambda: _saved(Bins.from_cuts({"x": [1.0, 2.0]}).save, ".npz"),
    "initial.csv": INITIAL.encode,
    "labels.txt": lambda: b"a\nb\nc\n",
}
_STATES = Labels(("a", "b"), noun="state")
_READERS: dict[str, Callable[[Path], object]] = {
    "log.csv": read_log,
    "log.csv.gz": read_log,
    "log.csv.xz": read_log,
    "log.npz": read_log,
    "log.parquet": read_log,
    "models.csv": read_models,
    "models.npz": read_models,
    "problem.npz": load_problem,
    "visits.csv": lambda path: read_trajectories(
        path, id="patient", time="date", action="dose", measurements="level", reward="reward"
    ),
    "bins.npz": lambda path: Bins.load(path).index([[1.5]]),
    "initial.csv": lambda path: initial_distribution(path, _STATES),
    "labels.txt": read_labels,
}
_WHOLE = {name: made(name) for name in _MAKERS}


def whole_or_refused(read: Callable[[Path], object], name: str, data: bytes) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / name
        path.write_bytes(data)
        try:
            read(path)
        except InputError as error:
            message = str(error)
            assert message.strip(), "an error says something"
            assert len(message) < 3000
        assert path.read_bytes() == data


def _damaged(name: str, data: st.DataObject) -> None:
    whole_or_refused(_READERS[name], name, data.draw(damage(_WHOLE[name])))


@pytest.mark.parametrize("name", _READERS)
@settings(max_examples=FAST, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(data=st.data())
def test_damaged_files(name: str, data: st.DataObject) -> None:
    _damaged(name, data)


@pytest.mark.slow
@pytest.mark.parametrize("name", _READERS)
@settings(max_examples=LONG, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_damaged_files_long(name: str, data: st.DataObject) -> None:
    _damaged(name, data)


def _inspected(name: str, data: st.DataObject) -> None:
    whole_or_refused(inspect_file, name, data.draw(damage(_WHOLE[name])))


@pytest.mark.parametrize("name", ["log.csv", "models.csv", "visits.csv", "problem.npz"])
@settings(max_examples=FAST, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(data=st.data())
def test_inspecting_damaged_files(name: str, data: st.DataObject) -> None:
    _inspected(name, data)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["log.csv", "models.csv", "visits.csv", "problem.npz", "log.npz"])
@settings(max_examples=LONG, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_inspecting_damaged_files_long(name: str, data: st.DataObject) -> None:
    _inspected(name, data)


# -------------------------------------------------------------------- tables read as written
CELL = st.one_of(
    st.text(
        alphabet=st.characters(exclude_categories=["Cs"], exclude_characters="\x00"), max_size=6
    ),
    st.sampled_from(
        ["a", "b", "1", "2", "007", "1.0", "-3", "n=2", "NA", "nan", "none", '"', "a,b", "x;y",
         "(end)", "true", " a ", "é", "\ufeff", "a\nb", "\r", "'", "10000000000000000000"]
    ),
)  # fmt: skip
REWARD = st.floats(allow_nan=False, allow_infinity=False, width=64).map(repr)
_WHOLE_NUMBER = re.compile(r"(0|-?[1-9][0-9]{0,17})(\.0*)?")
_MISSING = {"", "na", "nan", "n/a", "<na>", "null"}


@st.composite
def spelling(draw: st.DrawFn) -> dict[str, Any]:
    """One of the ways to write the same table."""
    return {
        "delimiter": draw(st.sampled_from([",", ";", "\t"])),
        "quoting": draw(st.sampled_from([csv.QUOTE_MINIMAL, csv.QUOTE_ALL])),
        "lineterminator": draw(st.sampled_from(["\n", "\r\n"])),
        "bom": draw(st.booleans()),
        "pack": draw(st.sampled_from(["", "gz", "xz"])),
    }


def write(rows: list[list[str]], how: dict[str, Any]) -> bytes:
    text = io.StringIO()
    keys = ("delimiter", "quoting", "lineterminator")
    csv.writer(text, **{key: how[key] for key in keys}).writerows(rows)
    data = text.getvalue().encode("utf-8-sig" if how["bom"] else "utf-8")
    return {"": data, "gz": gzip.compress(data), "xz": lzma.compress(data)}[how["pack"]]


def canonical(names: list[str]) -> dict[str, str]:
    """Cell → label by the documented rules: stripped; whole numbers, if all are, in digits."""
    plain = {name: name.strip() for name in names}
    usual = [name for name in plain.values() if name != "(end)"]
    if all(_WHOLE_NUMBER.fullmatch(name) for name in usual):
        return {
            cell: str(int(name.split(".")[0])) if name != "(end)" else name
            for cell, name in plain.items()
        }
    return plain


def _as_written(rows: list[tuple[str, str, str, str]], how: dict[str, Any]) -> None:
    header = ["state", "action", "next_state", "reward"]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "log.csv"
        path.write_bytes(write([header, *map(list, rows)], how))
        try:
            log = read_log(path)
        except InputError:
            assert refusable(rows) or torn(rows, how)
            return
    assert not must_refuse(rows)
    assert log.reward is not None
    states = canonical([row[i] for row in rows for i in (0, 2)])
    actions = canonical([row[1] for row in rows])
    wanted = Counter((states[s], actions[a], states[t], float(r)) for s, a, t, r in rows)
    found = Counter(
        (log.states[int(s)], log.actions[int(a)], log.states[int(t)], float(r))
        for s, a, t, r in zip(log.s, log.a, log.s_next, log.reward, strict=True)
    )
    assert found == wanted


def must_refuse(rows: list[tuple[str, str, str, str]]) -> bool:
    """A label is missing, or the end is left."""
    missing = any(cell.strip().casefold() in _MISSING for row in rows for cell in row[:3])
    return missing or any(row[0].strip() == "(end)" for row in rows)


def refusable(rows: list[tuple[str, str, str, str]]) -> bool:
    """As above, or rewards are too large to be squared and added up."""
    large = max((abs(float(row[3])) for row in rows), default=0.0) > 1e60
    only_end = all(row[i].strip() == "(end)" for row in rows for i in (0, 2))
    return must_refuse(rows) or large or only_end


def torn(rows: list[tuple[str, str, str, str]], how: dict[str, Any]) -> bool:
    """The writer of Python quotes a carriage return only where it ends lines."""
    bare = how["quoting"] == csv.QUOTE_MINIMAL and how["lineterminator"] == "\n"
    return bare and any("\r" in cell for row in rows for cell in row)


ROWS = st.lists(st.tuples(CELL, CELL, CELL, REWARD), min_size=1, max_size=6)


@settings(max_examples=150, deadline=None)
@given(ROWS, spelling())
def test_a_log_is_read_as_written(
    rows: list[tuple[str, str, str, str]], how: dict[str, Any]
) -> None:
    _as_written(rows, how)


@pytest.mark.slow
@settings(max_examples=20_000, deadline=None, suppress_health_check=list(HealthCheck))
@given(ROWS, spelling())
def test_a_log_is_read_as_written_long(
    rows: list[tuple[str, str, str, str]], how: dict[str, Any]
) -> None:
    _as_written(rows, how)


NAME = st.text(
    alphabet=st.characters(exclude_categories=["Cs", "Cc", "Zs", "Zl", "Zp"]),
    min_size=1,
    max_size=5,
).filter(lambda name: name.strip().casefold() not in _MISSING | {"(end)"})


@settings(max_examples=100, deadline=None)
@given(
    st.lists(NAME, min_size=1, max_size=4, unique=True),
    st.lists(NAME, min_size=1, max_size=3, unique=True),
    st.integers(1, 3),
    st.integers(0, 2**31),
    spelling(),
)
def test_models_are_read_as_written(
    states: list[str], actions: list[str], n: int, seed: int, how: dict[str, Any]
) -> None:
    rng = np.random.default_rng(seed)
    rows = [["idstatefrom", "idaction", "idstateto", "idoutcome", "probability", "reward"]]
    wanted = {}
    for s in states:
        for a in actions:
            for omega in range(n):
                p = rng.dirichlet(np.ones(len(states)))
                for t, x in zip(states, p.tolist(), strict=True):
                    r = float(rng.integers(-9, 9))
                    rows.append([s, a, t, str(omega), repr(x), repr(r)])
                    wanted[s, a, t, omega] = (x, r)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "m.csv"
        path.write_bytes(write(rows, how))
        models = read_models(path)
    from softrobust.models.interop import row_rewards

    names, acts = canonical(states), canonical(actions)
    if len(set(names.values())) < len(states) or len(set(acts.values())) < len(actions):
        return  # "1" and "1.0" are one state: its rows are summed, and said to be
    for (s, a, t, omega), (x, r) in wanted.items():
        i, j = models.states.index(names[s]), models.actions.index(acts[a])
        columns, block = models.block(i, j)
        k = columns.tolist().index(models.states.index(names[t]))
        assert block[omega, k] == pytest.approx(x, abs=1e-15)
        assert models.rewards is not None
        assert row_rewards(models, models.rewards, i, j, omega)[k] == r


# -------------------------------------------------------------------- what a run folder holds
SOLUTION = {
    "format": "softrobust-solution", "format_version": 1, "states": ["a"], "actions": ["x"],
    "policy": [[1.0]], "status": "optimal", "solver": "exact",
}  # fmt: skip
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=6,
)


@settings(max_examples=60, deadline=None)
@given(st.dictionaries(st.sampled_from([*SOLUTION, "decided", "bound"]), JSON, max_size=4))
def test_a_garbled_solution(change: dict[str, Any]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "solution.json").write_text(json.dumps(SOLUTION | change))
        for read in (load_solution, inspect_file):
            try:
                read(Path(folder))
            except InputError as error:
                assert str(error)  # noqa: PT017


def test_the_good_files_are_good() -> None:
    for name, read in _READERS.items():
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / name
            path.write_bytes(_WHOLE[name])
            assert read(path) is not None
