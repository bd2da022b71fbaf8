"""`softrobust sweep`: tables, exit codes, and what is said when something fails."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from softrobust.cli.main import run
from softrobust.errors import SolverError
from softrobust.run import sweep as sweep_results
from softrobust.run.jobs import Stopped
from softrobust.solvers.registry import SOLVERS, Context

ROOT = Path(__file__).resolve().parents[2]
FILE = """
[sweep]
solvers = ["exact", "nominal"]
lambdas = [0.0, 1.0]
alphas = [0.8]
seeds = 2
models = 10
heldout = 30
node_limit = 5
[[source]]
domain = "riverswim"
settings = { n_states = 5 }
[[source]]
name = "mine"
log = "log.csv"
gamma = 0.9
"""


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "log.csv").write_bytes((ROOT / "examples" / "pest_log.csv").read_bytes())
    (tmp_path / "try.toml").write_text(FILE, encoding="utf-8")
    return tmp_path / "try.toml"


def test_tables_and_files(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["sweep", str(file), "--workers", "0"]) == 0
    out = capsys.readouterr()
    assert out.err == ""
    assert "riverswim: the bad case is the worst 20 % of models (α = 0.8)" in out.out
    assert "mine: the bad case" in out.out
    assert "Written to try-results" in out.out
    assert "\x1b" not in out.out
    names = {path.name for path in Path("try-results").iterdir()}
    assert names >= {"plan.json", "results", "results.csv", "results.json", "timings.jsonl"}
    assert run(["sweep", str(file), "--workers", "0"]) == 2
    assert "--resume" in capsys.readouterr().err
    assert run(["sweep", str(file), "--workers", "0", "--resume", "--json"]) == 0
    assert len(json.loads(capsys.readouterr().out)["tasks"]) == 16
    assert run(["sweep", str(file), "--workers", "0", "--resume", "--quiet"]) == 0
    assert capsys.readouterr().out == ""


def test_failures_are_told(
    file: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(_: Context) -> None:
        raise SolverError("The numbers ran away.")

    with monkeypatch.context() as patch:
        patch.setitem(SOLVERS, "nominal", broken)
        assert run(["sweep", str(file), "--workers", "0", "--out", "o"]) == 1
    out = capsys.readouterr().out
    assert "8 tasks failed:" in out
    assert "and 7 more: The numbers ran away." in out
    assert "exact" in out
    assert "Traceback" not in out
    rows = (Path("o") / "results.csv").read_text().splitlines()
    assert sum(",failed," in row for row in rows) == 8
    assert run(["sweep", str(file), "--workers", "0", "--out", "o", "--resume"]) == 0


def test_bad_input_and_interrupts(
    file: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    file.write_text(FILE.replace("lambdas", "lamdas"), encoding="utf-8")
    assert run(["sweep", str(file)]) == 2
    assert "Did you mean 'lambdas'?" in capsys.readouterr().err
    assert not Path("try-results").exists()
    file.write_text(FILE, encoding="utf-8")

    def stop(*_: object, **__: object) -> None:
        raise Stopped("Interrupted: 3 of 16 tasks are done. Run with --resume.")

    monkeypatch.setattr(sweep_results, "run_tasks", stop)
    assert run(["sweep", str(file)]) == 130
    assert "3 of 16 tasks are done" in capsys.readouterr().err
