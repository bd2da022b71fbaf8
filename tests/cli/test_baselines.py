"""The baselines on the command line: what it fills in, what it says, what it refuses."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from softrobust.cli.main import run
from tests.instances import LOG, MODELS

NAMES = ["bcr", "rsvf", "rsvf-simple", "var", "worst-model", "spibb", "nominal", "empirical"]


@pytest.mark.parametrize("name", NAMES)
def test_from_a_log(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log = tmp_path / "log.csv"
    log.write_text(LOG)
    args = ["--gamma", ".9", "--models", "20", "--test-models", "50", "--solver", name, "--json"]
    assert run(["solve", str(log), *args]) == 0
    printed = capsys.readouterr()
    record = json.loads(printed.out)
    assert record["solver"] == name
    assert printed.err == ""
    if name in ("bcr", "rsvf", "rsvf-simple"):  # 4 pairs / 0.1: drawn from the posterior
        assert record["stats"]["set_draws"] == 40
        assert not record["stats"]["quantile_saturated"]


def test_models_alone_are_few_draws_and_the_summary_says_so(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "m.csv"
    path.write_text(MODELS)
    assert run(["solve", str(path), "--gamma", ".5", "--solver", "bcr"]) == 0
    assert "BCR builds its sets" in " ".join(capsys.readouterr().out.split())
    for name in ("spibb", "empirical"):
        assert run(["solve", str(path), "--gamma", ".5", "--solver", name]) == 2
        assert "holds models only" in " ".join(capsys.readouterr().err.split())
