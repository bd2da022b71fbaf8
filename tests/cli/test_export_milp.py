"""`softrobust solve --export-milp`: the program on disk is the one whose optimum is proven."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from softrobust.cli.main import run
from tests.instances import LOG


@pytest.fixture
def log(tmp_path: Path) -> str:
    file = tmp_path / "log.csv"
    file.write_text(LOG)
    return str(file)


@pytest.mark.parametrize("name", ["model.mps", "model.lp"])
def test_another_solver_finds_the_same_optimum(
    name: str, log: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    highspy = pytest.importorskip("highspy")
    file = tmp_path / name
    line = ["solve", log, "--gamma", "0.9", "--models", "20", "--replications", "0", "--json"]
    assert run([*line, "--export-milp", str(file)]) == 0
    out, err = capsys.readouterr()
    assert str(file) in err
    found = json.loads(out)  # the note does not spoil it
    assert found["rounding"] > 0
    assert found["stats"]["enumeration_error"] >= 0
    highs = highspy.Highs()
    highs.setOptionValue("output_flag", False)
    highs.readModel(str(file))
    highs.run()
    best = highs.getInfo().objective_function_value
    assert best == pytest.approx(found["static"]["objective"], rel=1e-5)


@pytest.mark.parametrize(
    ("extra", "word"),
    [
        (["--solver", "s-rect", "--export-milp", "model.mps"], "s-rect"),
        (["--export-milp", "model.txt"], ".mps or .lp"),
        (["--export-milp", "nowhere/model.mps"], "no folder"),
    ],
)
def test_what_cannot_be_exported_is_refused(
    extra: list[str], word: str, log: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["solve", log, "--gamma", "0.9", "--models", "5", *extra]) != 0
    assert word in capsys.readouterr().err
