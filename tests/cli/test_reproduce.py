"""softrobust reproduce: errors before any work, and a run through the front door."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from softrobust.cli.main import run
from softrobust.paper.optimizers_curse import OptimizersCurse


def said(capsys: pytest.CaptureFixture[str]) -> str:
    return " ".join(capsys.readouterr().err.split())


def test_unknown_name(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["reproduce", "optimiser-curse", "--out", str(tmp_path / "r")]) == 2
    text = said(capsys)
    assert "Did you mean 'optimizers-curse'?" in text
    assert "riverswim" in text
    assert not (tmp_path / "r").exists()


def test_existing_folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "riverswim").mkdir()
    assert run(["reproduce", "riverswim", "--quick", "--out", str(tmp_path)]) == 2
    assert "--resume" in said(capsys)
    # One that exists stops "all" before the others are begun.
    assert run(["reproduce", "all", "--quick", "--out", str(tmp_path)]) == 2
    assert [p.name for p in tmp_path.iterdir()] == ["riverswim"]


def test_no_place_to_write(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file").write_text("")
    assert run(["reproduce", "riverswim", "--out", str(tmp_path / "file")]) == 2
    assert "is a file" in said(capsys)
    assert run(["reproduce", "riverswim", "--out", str(tmp_path / "a" / "b")]) == 2
    assert "does not exist" in said(capsys)


def test_run_and_resume(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = OptimizersCurse.settings

    def few(self: OptimizersCurse, quick: bool) -> dict[str, Any]:
        return whole(self, quick) | {
            "repetitions": 4, "block": 2, "sizes": [5], "main": 5, "fresh": 10
        }  # fmt: skip

    monkeypatch.setattr(OptimizersCurse, "settings", few)
    words = ["reproduce", "optimizers-curse", "--quick", "--out", str(tmp_path), "--workers", "0"]
    assert run(words) == 0
    out = capsys.readouterr().out
    assert "figure 1" in out
    assert "The empirical method announces too much" in out
    before = (tmp_path / "optimizers-curse" / "results.json").read_bytes()
    assert run([*words, "--resume", "--quiet"]) == 0
    assert capsys.readouterr().out == ""
    assert (tmp_path / "optimizers-curse" / "results.json").read_bytes() == before
    assert run([*words, "--resume", "--json"]) == 0
    (record,) = json.loads(capsys.readouterr().out)
    assert record["name"] == "optimizers-curse"
    assert record["failed"] == {}
    assert str(tmp_path / "optimizers-curse" / "results.json") in record["written"]
    assert {"claim", "verdict"} <= set(record["claims"][0])


def test_failed_tasks_are_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = OptimizersCurse.settings

    def one_wrong(self: OptimizersCurse, quick: bool) -> dict[str, Any]:
        few = {"repetitions": 4, "block": 2, "sizes": [5], "main": 5, "fresh": 10}
        return whole(self, quick) | few

    from softrobust.paper import optimizers_curse

    right = optimizers_curse.repetitions

    def sometimes(first: int, **rest: Any) -> dict[str, Any]:
        if first == 2:
            raise ValueError("a broken block")
        return right(first, **rest)

    monkeypatch.setattr(OptimizersCurse, "settings", one_wrong)
    monkeypatch.setattr(optimizers_curse, "repetitions", sometimes)
    words = ["reproduce", "optimizers-curse", "--quick", "--out", str(tmp_path), "--workers", "0"]
    assert run(words) == 1
    assert "a broken block" in capsys.readouterr().out


def test_all_goes_on_after_a_failure(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each experiment that cannot run says why; the exit code tells that something is missing."""
    from softrobust import paper as experiments
    from softrobust.errors import MissingExtraError

    tried = []

    def missing(experiment: Any, *_: Any, **__: Any) -> None:
        tried.append(experiment.name)
        raise MissingExtraError("numpyro", "bayes", "sampling")

    monkeypatch.setattr(experiments, "reproduce", missing)
    assert run(["reproduce", "all", "--quick", "--out", str(tmp_path / "r")]) == 1
    assert tried == list(experiments.EXPERIMENTS)
    assert said(capsys).count("softrobust[bayes]") == len(tried)
