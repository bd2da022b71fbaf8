"""`evaluate`: a guideline gets the certificate that a solved policy gets."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from softrobust.cli.main import run as run_cli
from tests.study.test_checks import solved, visits


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return Path(solved(visits(), tmp_path_factory.mktemp("evaluate")).path)


def printed(capsys: pytest.CaptureFixture[str], *words: str) -> dict[str, object]:
    assert run_cli([*words, "--json"]) == 0
    return dict(json.loads(capsys.readouterr().out))


def test_the_solved_policy_scores_what_it_scored(
    run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    own = json.loads((run / "solution.json").read_text(encoding="utf-8"))
    again = printed(capsys, "evaluate", str(run), "--policy", str(run / "policy.csv"))
    assert again["static"] == own["static"]
    assert again["status"] == "given"
    assert again["heldout"]["mean"] == own["heldout"]["mean"]  # type: ignore[index]
    assert again["practice"] == own["practice"]
    assert again["promise"]["level"] == 0.9  # type: ignore[index]


def test_silent_states_follow_practice(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "guideline.csv"
    file.write_text("state,action\n0,1\n", encoding="utf-8")
    out = tmp_path / "scored"
    assert run_cli(["evaluate", str(run), "--policy", str(file), "--out", str(out)]) == 0
    text = capsys.readouterr().out
    assert "current practice goes on there" in " ".join(text.split())
    assert "than what you do now" in " ".join(text.split())
    assert (out / "report.html").exists()


def test_logs_work_and_mistakes_are_said(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = run.parent / "log.csv"
    words = ["--policy", str(run / "policy.csv")]
    assert "practice" in printed(capsys, "evaluate", str(log), "--gamma", "0.8", *words)
    assert run_cli(["evaluate", str(run), "--gamma", "0.8", *words]) == 2
    assert "brings its own problem" in " ".join(capsys.readouterr().err.split())
    assert run_cli(["evaluate", str(log), "--gamma", "0.8", "--alpha", "nan", *words]) == 2
    assert "alpha must lie in [0, 1]; it is nan" in capsys.readouterr().err
    bad = tmp_path / "bad.csv"
    bad.write_text("state,action\n7,1\n", encoding="utf-8")
    assert run_cli(["evaluate", str(run), "--policy", str(bad)]) == 2
    assert "row 2 of bad.csv has '7'" in " ".join(capsys.readouterr().err.split())
