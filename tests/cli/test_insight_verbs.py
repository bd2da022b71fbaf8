"""`explain`, `rules` and `value-of-data`: sentences for people, JSON for machines."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from softrobust.cli.main import run as run_cli
from tests.study.test_checks import solved, visits


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(solved(visits(), tmp_path_factory.mktemp("insight")).path)


def test_explain(run: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_cli(["explain", run, "--state", "1"]) == 0
    text = " ".join(capsys.readouterr().out.split())
    assert "In '1' the policy takes" in text
    assert run_cli(["explain", run, "--state", "1", "--json"]) == 0
    record = json.loads(capsys.readouterr().out)
    assert {"options", "worst_models", "shifts", "price_of_robustness"} <= set(record)
    assert run_cli(["explain", run, "--state", "5"]) == 2
    assert "Unknown state '5'" in capsys.readouterr().err


def test_rules(run: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table = tmp_path / "rules.csv"
    assert run_cli(["rules", run, "--leaves", "1", "--out", str(table)]) == 0
    assert "1 rule" in capsys.readouterr().out
    assert run_cli(["evaluate", run, "--policy", str(table), "--json"]) == 0
    value = json.loads(capsys.readouterr().out)["static"]["objective"]
    assert run_cli(["rules", run, "--leaves", "1", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["value"] == pytest.approx(value)
    assert run_cli(["rules", run, "--leaves", "0"]) == 2
    capsys.readouterr()
    assert run_cli(["rules", run, "--leaves", "1", "--max-loss", "0", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["met"] is (found["loss"] <= 1e-12 * abs(found["full_value"]))
    assert run_cli(["rules", run, "--max-loss", "0", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["loss"] == 0.0
    assert run_cli(["rules", run, "--max-loss", "-1"]) == 2


def test_a_line_break_in_a_label_is_written_out(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log, out = tmp_path / "log.csv", tmp_path / "run"
    rows = [f'{s},"{a}",{t},{len(a)}' for s, t in ("ab", "ba") for a in ("spr\nay", "no")] * 20
    log.write_text("\n".join(["state,action,next_state,reward", *rows, ""]))
    words = ["solve", str(log), "--gamma", "0.9", "--solver", "nominal", "--anyway"]
    assert run_cli([*words, "--out", str(out)]) == 0
    capsys.readouterr()
    assert run_cli(["rules", str(out)]) == 0
    assert r"spr\x0aay" in capsys.readouterr().out.splitlines()[0]


def test_value_of_data(run: str, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["value-of-data", run, "--draws", "60", "--observations", "5"]
    assert run_cli(words) == 0
    assert capsys.readouterr().out
    assert run_cli([*words, "--json"]) == 0
    pairs = json.loads(capsys.readouterr().out)["pairs"]
    assert len(pairs) == 4
    assert all(pair["low"] <= pair["value"] <= pair["high"] for pair in pairs)


def test_a_few_draws_say_nothing(run: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_cli(["value-of-data", run, "--draws", "1"]) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert "--draws must be at least 20; it is 1. The draws stand for" in " ".join(said.err.split())
