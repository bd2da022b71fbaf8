"""The posterior part of a certificate, from the command line."""

from __future__ import annotations

import json
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from softrobust.cli.main import run
from softrobust.models.files import save_models
from softrobust.posterior import DirichletPosterior


@pytest.fixture
def log_file(tmp_path: Path) -> Path:
    """Sixty steps in four states with two actions."""
    rng = np.random.default_rng(0)
    path, s = tmp_path / "log.csv", 0
    lines = ["state,action,next_state,reward"]
    for _ in range(60):
        a = int(rng.integers(2))
        to = int((s + rng.integers(0, 2 + a)) % 4)
        lines.append(f"s{s},a{a},s{to},{to - 0.3 * a}")
        s = to
    path.write_text("\n".join(lines), encoding="utf-8")
    return path


def solve(file: Path, capsys: pytest.CaptureFixture[str], *words: str) -> dict[str, Any]:
    code = run(["solve", str(file), "--gamma", "0.9", "--models", "20", "--json", *words])
    assert code == 0
    record: dict[str, Any] = json.loads(capsys.readouterr().out)
    return record


def test_a_log_gets_a_posterior_certificate(
    log_file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    jsonschema = pytest.importorskip("jsonschema")
    record = solve(log_file, capsys)
    schema = resources.files("softrobust").joinpath("schemas/solution.schema.json")
    jsonschema.validate(record, json.loads(schema.read_text("utf-8")))
    under = record["posterior"]
    assert under["models"] == 20
    assert under["replications"] >= 4
    assert under["lower_from"] == "held-out models"
    assert under["lower"] == record["heldout"]["lower_bound"]["low"]
    assert under["upper"] >= under["lower"]
    assert under["gap"] == pytest.approx(under["upper"] - under["lower"])
    assert under["paired_gap"] >= 0
    assert record["indicative"] is None  # costs N², and promises nothing
    assert "posterior" not in record["bound_method"]
    again = solve(log_file, capsys, "--replications", "4")
    assert again["posterior"]["replications"] == 4


def test_it_can_be_left_out_and_is_for_logs(
    log_file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert solve(log_file, capsys, "--replications", "0")["posterior"] is None
    assert run(["solve", str(log_file), "--gamma", "0.9", "--replications", "2"]) == 2
    assert "At least 4 replications" in " ".join(capsys.readouterr().err.split())
    assert run(["solve", str(log_file), "--gamma", "0.9", "--out", str(tmp_path / "run")]) == 0
    assert "fresh models, each bounded by" in (tmp_path / "run" / "report.html").read_text("utf-8")
    capsys.readouterr()
    problem = str(tmp_path / "run" / "problem.npz")
    assert run(["solve", problem, "--replications", "5"]) == 2
    assert "fresh models from the posterior of a log" in " ".join(capsys.readouterr().err.split())


def test_held_out_models_of_another_origin_do_not_speak_for_the_posterior(
    log_file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from softrobust.data import read_log

    models = DirichletPosterior(strength=5.0).fit(read_log(log_file)).sample(400, seed=5)
    save_models(tmp_path / "other.npz", models)
    record = solve(log_file, capsys, "--heldout", str(tmp_path / "other.npz"))
    assert record["posterior"]["lower_from"] == "replications"
    assert record["posterior"]["lower"] != record["heldout"]["lower_bound"]["low"]
