"""A search that is cut short and taken up again, from the command line."""

from __future__ import annotations

import json
import os
import pty
import threading
from pathlib import Path

import numpy as np
import pytest

from softrobust._core import limits as progress
from softrobust.cli.main import run
from softrobust.problem import save_problem
from softrobust.solvers.exact import branch_and_bound, exact
from softrobust.solvers.exact.exact import Exact
from tests.solvers.test_exact import river


@pytest.fixture
def problem_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A problem that takes branching, without enumeration: there are nodes to stop between."""
    monkeypatch.setattr(branch_and_bound, "LEAF_WORK", 0.0)
    monkeypatch.setattr(exact, "ENUMERATION_WORK", 0.0)
    path = tmp_path / "river.npz"
    save_problem(path, river(20, 60))
    return path


def solve(file: Path, *words: str) -> int:
    return run(["solve", str(file), "--solver", "exact", *words])


def solution(out: Path) -> dict[str, object]:
    record: dict[str, object] = json.loads((out / "solution.json").read_text("utf-8"))
    return record


def cut(file: Path, out: Path, monkeypatch: pytest.MonkeyPatch, *words: str) -> int:
    """A run that is interrupted at its third node, as by Ctrl-C."""
    real, calls = branch_and_bound.Tree.process, []

    def process(*args: object) -> None:
        calls.append(1)
        if len(calls) == 3:
            raise KeyboardInterrupt
        real(*args)  # type: ignore[arg-type]

    with monkeypatch.context() as patch:
        patch.setattr(branch_and_bound.Tree, "process", process)
        return solve(file, "--out", str(out), "--quiet", *words)


def test_an_interrupted_search_goes_on(
    problem_file: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    out = tmp_path / "run"
    assert cut(problem_file, out, monkeypatch) == 0
    first = solution(out)
    assert first["status"] == "interrupted"
    assert (out / "search.npz").exists()
    assert "search_open" in [note["code"] for note in first["notes"]]  # type: ignore[attr-defined]
    assert "--resume" in (out / "report.html").read_text("utf-8")
    assert cut(problem_file, out, monkeypatch, "--resume") == 0  # and once more
    second = solution(out)
    assert second["bound"] <= first["bound"]  # type: ignore[operator]
    assert solve(problem_file, "--out", str(out), "--resume") == 0
    last = solution(out)
    assert last["status"] == "optimal"
    assert last["stats"]["nodes"] > second["stats"]["nodes"]  # type: ignore[index]
    assert "taken up again" in capsys.readouterr().out
    whole = Exact().solve(river(20, 60))
    assert last["static"]["objective"] == pytest.approx(whole.static_value, rel=1e-9)  # type: ignore[index]
    assert not (out / "search.npz").exists()
    assert [f.name for f in tmp_path.iterdir() if f.name.startswith(".")] == []
    assert solve(problem_file, "--out", str(out), "--resume") == 2
    assert "its search is complete (status: optimal)" in words(capsys)


def test_a_killed_run_left_its_search_beside_the_folder(problem_file: Path, tmp_path: Path) -> None:
    out = tmp_path / "run"
    Exact(node_limit=2, checkpoint=tmp_path / ".run.search.npz").solve(river(20, 60))
    assert not out.exists()
    assert solve(problem_file, "--out", str(out), "--resume", "--quiet") == 0
    record = solution(out)
    assert record["status"] == "optimal"
    assert record["stats"]["seconds_before_resume"] > 0  # type: ignore[index]
    assert not (tmp_path / ".run.search.npz").exists()


def test_without_resume_a_run_starts_afresh(problem_file: Path, tmp_path: Path) -> None:
    out = tmp_path / "run"
    (tmp_path / ".run.search.npz").write_bytes(b"left by another run")
    assert solve(problem_file, "--out", str(out), "--quiet") == 0
    assert solution(out)["stats"]["seconds_before_resume"] == 0  # type: ignore[index]


def words(capsys: pytest.CaptureFixture[str]) -> str:
    return " ".join(capsys.readouterr().err.split())


def test_what_cannot_be_resumed_is_refused_with_what_to_do(
    problem_file: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    out = tmp_path / "run"
    assert cut(problem_file, out, monkeypatch) == 0
    before = (out / "search.npz").read_bytes()
    assert solve(problem_file, "--out", str(out), "--resume", "--lambda", "0.9") == 2
    said = words(capsys)
    assert "belongs to another problem" in said
    assert "Repeat the input and the options" in said
    assert (out / "search.npz").read_bytes() == before  # nothing was lost
    for damage in (before[:-50], b"not a search", b""):
        (out / "search.npz").write_bytes(damage)
        assert solve(problem_file, "--out", str(out), "--resume") == 2
        assert "cannot be resumed" in words(capsys)
    assert solve(problem_file, "--out", str(tmp_path / "none"), "--resume") == 2
    assert "no such folder" in words(capsys)
    assert solve(problem_file, "--resume") == 2
    assert "On the command line: --out" in words(capsys)
    assert (
        run(["solve", str(problem_file), "--solver", "s-rect", "--out", str(out), "--resume"]) == 2
    )
    assert "Only the solver 'exact' can be resumed" in words(capsys)


def test_the_live_line_on_a_pseudo_terminal(
    problem_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Value, bound and nodes are rewritten in one line, which is gone at the end."""
    assert problem_file.exists()
    monkeypatch.setattr(progress, "INTERVAL", 0.0)
    master, slave = pty.openpty()
    shown = bytearray()

    def listen() -> None:
        try:
            while part := os.read(master, 4096):
                shown.extend(part)
        except OSError:  # the other end is closed
            pass

    listener = threading.Thread(target=listen)
    listener.start()
    with os.fdopen(slave, "w") as terminal:
        assert terminal.isatty()
        monkeypatch.setattr("sys.stderr", terminal)
        solved = Exact().solve(river(20, 60))
    monkeypatch.undo()
    listener.join(timeout=10)
    os.close(master)
    text = shown.decode()
    lines = [line for line in text.split("\r") if line.strip()]
    assert len(lines) >= 3
    assert "\n" not in text
    assert all(line.startswith("proving: value") for line in lines)
    assert all(word in lines[-1] for word in ("bound", "nodes", "open", " s"))
    bounds = [float(line.split("bound ")[1].split(",")[0]) for line in lines]
    assert np.all(np.diff(bounds) <= 1e-3 * abs(solved.static_value))
    assert text.endswith("\r")  # wiped
