"""Every corrupted file ends in a policy or one paragraph: no traceback, hang or silent change."""

from __future__ import annotations

import re
import signal
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

from softrobust.cli.main import run
from softrobust.data import TransitionLog, read_log
from softrobust.data.inspection import choose_rules
from softrobust.data.table import opened
from softrobust.models import read_models
from softrobust.report.sentences import in_words, sentence
from softrobust.run.inspect import inspect_file
from tests.fuzz.corpus import LOGS, SLOW_LOGS, Case, Row
from tests.fuzz.corpus_models import MODELS, VISITS

QUICK = ["--gamma", ".9", "--solver", "nominal", "--quiet"]
DRAWS = ["--models", "4", "--test-models", "20"]
SECONDS = 30


@contextmanager
def limited(seconds: int = SECONDS) -> Iterator[None]:
    """Fail, rather than wait for ever."""

    def late(*_: object) -> None:
        raise TimeoutError(f"still busy after {seconds} s")

    before = signal.signal(signal.SIGALRM, late)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def put(case: Case, folder: Path) -> Path:
    for name, data in case.beside.items():
        (folder / name).write_bytes(data)
    path = folder / case.name
    path.write_bytes(case.data)
    return path


def ended(args: list[str], capsys: pytest.CaptureFixture[str], seconds: int = SECONDS) -> str:
    """Run a command; return "" for a policy, or its one paragraph."""
    with limited(seconds):
        code = run(args)
    printed = capsys.readouterr()
    assert code in (0, 2), printed.err
    assert "Traceback" not in printed.err
    assert "bug in softrobust" not in printed.err
    assert "\n\n" not in printed.err.strip()
    assert len(printed.err) < 3000, "a paragraph, not a book"
    assert (code == 2) == bool(printed.err), "an error is said, and nothing else is"
    return " ".join(printed.err.split())


def number(text: str) -> float:
    return float(text)


def rows_of(log: TransitionLog) -> Counter[Row]:
    assert log.reward is not None
    return Counter(
        (log.states[int(s)], log.actions[int(a)], log.states[int(t)], repr(float(r)))
        for s, a, t, r in zip(log.s, log.a, log.s_next, log.reward, strict=True)
    )


def settled(case: Case, said: str) -> bool:
    """Check the end that a case must have; True if it was accepted."""
    if case.rows is None:
        assert said, "accepted what must be refused"
        assert case.words in said
        return False
    assert not said
    return True


@pytest.mark.parametrize("name", LOGS)
def test_logs(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    case = LOGS[name]()
    path = put(case, tmp_path)
    if settled(case, ended(["solve", str(path), *QUICK, *DRAWS], capsys)):
        log = read_log(path)
        assert case.rows is not None
        expected = Counter((*row[:3], repr(number(row[3]))) for row in case.rows)
        assert rows_of(log) == expected
        assert not case.words or case.words in " ".join(map(sentence, log.notes))
    ended(["inspect", str(path)], capsys)


@pytest.mark.slow
@pytest.mark.parametrize("name", SLOW_LOGS)
def test_large_logs(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = put(SLOW_LOGS[name](), tmp_path)
    flags = [
        "--gamma",
        ".9",
        "--solver",
        "nominal",
        "--quiet",
        "--models",
        "2",
        "--test-models",
        "2",
    ]
    assert not ended(["solve", str(path), *flags], capsys, 900)
    assert not ended(["inspect", str(path)], capsys, 300)


@pytest.mark.parametrize("name", MODELS)
def test_models(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    case = MODELS[name]()
    path = put(case, tmp_path)
    flags = QUICK if case.gamma else QUICK[2:]
    if settled(case, ended(["solve", str(path), *flags], capsys)):
        assert case.rows is not None
        models = read_models(path)
        assert models.rewards is not None
        wanted = {(r[0], r[1], r[2], r[3]): (number(r[4]), number(r[5])) for r in case.rows}
        outcomes = list(dict.fromkeys(row[3] for row in case.rows))
        found = {}
        from softrobust.models.interop import row_rewards

        for s in range(models.n_states):
            for a in range(models.n_actions):
                columns, block = models.block(s, a)
                for omega, outcome in enumerate(outcomes):
                    paid = row_rewards(models, models.rewards, s, a, omega)
                    for j in np.flatnonzero(block[omega]):
                        key = (
                            models.states[s],
                            models.actions[a],
                            models.states[columns[j]],
                            outcome,
                        )
                        found[key] = (float(block[omega, j]), float(paid[j]))
        assert found.keys() == wanted.keys()
        for key, pair in wanted.items():
            assert found[key] == pytest.approx(pair, rel=1e-12), key
        assert not case.words or case.words in " ".join(in_words(models.notes))
    ended(["inspect", str(path)], capsys)


@pytest.mark.parametrize("name", VISITS)
def test_visits(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    case = VISITS[name]()
    path = put(case, tmp_path)
    if settled(case, ended(["inspect", path.name, "--write-log", "log.npz"], capsys)):
        with opened(path) as table:
            made = choose_rules(table, {}).made
        assert made is not None
        assert case.rows is not None
        assert rows_of(made.log) == Counter((*row[:3], repr(number(row[3]))) for row in case.rows)
        assert not ended(["solve", "log.npz", *QUICK, *DRAWS], capsys)


def test_the_corpus_is_large_enough() -> None:
    makers: list[Callable[[], Case]] = [*LOGS.values(), *MODELS.values(), *SLOW_LOGS.values()]
    assert len(makers) >= 40
    refused = sum(make().rows is None for make in makers[:-1])
    assert refused >= 40


def test_inspection_never_changes_a_file(tmp_path: Path) -> None:
    for name in ("plain", "utf-16", "npz cut off"):
        case = LOGS[name]()
        path = put(case, tmp_path)
        try:
            inspect_file(path)
        except ValueError as error:
            assert re.search(r"\S", str(error))  # noqa: PT017 (either end is fine here)
        assert path.read_bytes() == case.data
