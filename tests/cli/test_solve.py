"""The command line as a user meets it: files in, a run folder out, one paragraph on errors."""

from __future__ import annotations

import json
import lzma
from importlib import resources
from pathlib import Path
from typing import Any

import jsonschema
import numpy as np
import pytest

from softrobust.certificate import load_solution
from softrobust.cli.main import run
from softrobust.problem import load_problem
from softrobust.returns import static_return
from tests.instances import LOG, MODELS, random_problem

ROOT = Path(__file__).resolve().parents[2]


def put(folder: Path, text: str, name: str) -> str:
    (folder / name).write_text(text)
    return str(folder / name)


def schema() -> Any:
    text = resources.files("softrobust").joinpath("schemas/solution.schema.json").read_text("utf-8")
    return json.loads(text)


def test_a_log_becomes_a_run_folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "run"
    assert run(["solve", put(tmp_path, LOG, "log.csv"), "--gamma", ".9", "--out", str(out)]) == 0
    printed = capsys.readouterr()
    assert "the worst 10 % of models" in " ".join(printed.out.split())
    assert printed.err == ""
    assert sorted(p.name for p in out.iterdir()) == [
        "log.parquet", "policy.csv", "posterior.json", "problem.npz", "report.html",
        "solution.json",
    ]  # fmt: skip
    record = json.loads((out / "solution.json").read_text())
    jsonschema.validate(record, schema())
    solution = load_solution(out)
    problem = load_problem(out / "problem.npz")
    assert static_return(problem, solution.policy) == pytest.approx(record["static"]["objective"])
    drawn = json.loads((out / "posterior.json").read_text())
    assert record["heldout"]["n_models"] == drawn["heldout"]["models"]
    assert record["bound"] >= record["static"]["objective"]
    assert json.loads((out / "posterior.json").read_text())["seed"] == 0
    assert not [p for p in tmp_path.iterdir() if p.name.startswith(".")]


def test_without_out_nothing_is_written(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    log = put(tmp_path, LOG, "log.csv")
    empty = tmp_path / "empty"
    empty.mkdir()
    monkeypatch.chdir(empty)
    assert run(["solve", log, "--gamma", "0.9", "--json"]) == 0
    jsonschema.validate(json.loads(capsys.readouterr().out), schema())
    assert run(["solve", log, "--gamma", "0.9", "--quiet"]) == 0
    assert capsys.readouterr().out == ""
    assert list(empty.iterdir()) == []


def test_same_seed_same_file(tmp_path: Path) -> None:
    log = put(tmp_path, LOG, "log.csv")
    for name, seed in [("a", "7"), ("b", "7"), ("c", "8")]:
        args = ["--gamma", "0.9", "--seed", seed, "--quiet", "--out", str(tmp_path / name)]
        assert run(["solve", log, *args]) == 0
    a, b, c = (load_problem(tmp_path / x / "problem.npz").models.prob for x in "abc")
    np.testing.assert_array_equal(a, b)
    assert not np.array_equal(a, c)


def test_models_with_weights_and_heldout(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = put(tmp_path, MODELS, "m.csv")
    weights = put(tmp_path, "idoutcome,weight\n0,1\n1,0\n", "w.csv")
    args = ["--gamma", ".5", "--json", "--weights", weights, "--heldout", path]
    assert run(["solve", path, *args]) == 0
    record = json.loads(capsys.readouterr().out)
    # v0 = .5 + .5(.5 v0 + .5 v1), v1 = .5 v0: with uniform p0 the mean is (v0 + v1)/2 = .6
    assert record["static"]["mean"] == pytest.approx(0.6, abs=1e-12)
    assert record["heldout"]["n_models"] == 2


def test_problem_file_can_be_solved_again(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log, out = put(tmp_path, LOG, "log.csv"), tmp_path / "run"
    flags = ["--gamma", ".9", "--solver", "exact", "--quiet", "--out", str(out)]
    assert run(["solve", log, *flags]) == 0
    assert run(["solve", str(out / "problem.npz"), "--json"]) == 0
    again = json.loads(capsys.readouterr().out)
    assert again["static"] == json.loads((out / "solution.json").read_text())["static"]


def test_a_problem_keeps_its_objective(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log, out = put(tmp_path, LOG, "log.csv"), tmp_path / "run"
    flags = ["--gamma", ".9", "--alpha", ".7", "--lambda", "1", "--quiet", "--out", str(out)]
    assert run(["solve", log, *flags]) == 0
    assert run(["solve", str(out / "problem.npz"), "--json"]) == 0
    record = json.loads(capsys.readouterr().out)
    assert (record["alpha"], record["lam"]) == (0.7, 1.0)
    assert run(["solve", str(out / "problem.npz"), "--json", "--lambda", "0"]) == 0
    assert json.loads(capsys.readouterr().out)["lam"] == 0.0
    weights = put(tmp_path, "idoutcome,weight\n0,1\n", "w.csv")
    refused(["solve", str(out / "problem.npz"), "--weights", weights], "--weights", capsys)


def test_no_recommendation_where_nothing_was_seen(tmp_path: Path) -> None:
    log, out = put(tmp_path, LOG + "dry,wait,flood,0\n", "log.csv"), tmp_path / "run"
    assert run(["solve", log, "--gamma", ".9", "--quiet", "--out", str(out)]) == 0
    assert "flood" not in (out / "policy.csv").read_text()
    assert run(["apply", str(out), "--state", "flood"]) == 2


def test_normalise_applies_to_held_out_models_too(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = put(tmp_path, MODELS, "m.csv")
    held = put(tmp_path, MODELS.replace("0.5,1", "0.5000002,1", 1), "held.csv")
    refused(["solve", path, "--gamma", ".9", "--heldout", held], "held.csv", capsys)
    args = ["--gamma", ".9", "--heldout", held, "--normalise", "--quiet"]
    assert run(["solve", path, *args]) == 0


@pytest.mark.parametrize("change", [{"format_version": "1"}, {"status": "fine"}, {"policy": 3}])
def test_a_garbled_solution_is_bad_input(
    change: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "run"
    run(["solve", put(tmp_path, LOG, "log.csv"), "--gamma", ".9", "--quiet", "--out", str(out)])
    record = json.loads((out / "solution.json").read_text())
    (out / "solution.json").write_text(json.dumps(record | change))
    refused(["apply", str(out), "--state", "wet"], "solution.json", capsys)


def test_apply(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "run"
    log = put(tmp_path, LOG, "log.csv")
    run(["solve", log, "--gamma", ".9", "--solver", "exact", "--quiet", "--out", str(out)])
    assert run(["apply", str(out), "--state", "wet"]) == 0
    action = capsys.readouterr().out.strip()
    assert action == load_solution(out).policy.action("wet")
    assert run(["apply", str(out), "--state", "wte"]) == 2
    assert "'wet'" in capsys.readouterr().err
    assert run(["apply", str(tmp_path / "nowhere"), "--state", "wet"]) == 2
    assert "There is no run" in capsys.readouterr().err


def test_force_replaces_the_files_of_a_run_only(tmp_path: Path) -> None:
    out = tmp_path / "run"
    out.mkdir()
    put(out, "mine", "notes.txt")
    log = put(tmp_path, LOG, "log.csv")
    assert run(["solve", log, "--gamma", ".9", "--quiet", "--out", str(out)]) == 2
    assert run(["solve", log, "--gamma", ".9", "--quiet", "--out", str(out), "--force"]) == 0
    assert (out / "notes.txt").read_text() == "mine"
    assert (out / "solution.json").exists()


def test_min_count_zero_needs_rewards(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = [line for line in LOG.splitlines() if not line.startswith("dry,drain")]
    log = put(tmp_path, "\n".join(rows) + "\n", "log.csv")
    plain = ["--posterior", "dirichlet", "--min-count", "0"]
    assert run(["solve", log, "--gamma", ".9", *plain]) == 2
    error = " ".join(capsys.readouterr().err.split())
    assert "'dry'" in error
    assert "'drain'" in error
    args = [*plain, "--reward-default", "-1", "--quiet"]
    assert run(["solve", log, "--gamma", ".9", *args]) == 0
    policy = put(tmp_path, "state,action\ndry,drain\n", "policy.csv")  # whose reward is the default
    assert run(["evaluate", log, "--gamma", ".9", "--policy", policy, *args]) == 0
    assert run(["frontier", log, "--gamma", ".9", "--lambdas", "0", *args]) == 0


def test_allowed_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log = put(tmp_path, LOG, "log.csv")
    allowed = put(tmp_path, "state,action\ndry,drain\n", "allowed.csv")
    assert run(["solve", log, "--gamma", ".9", "--allowed", allowed, "--json"]) == 0
    record = json.loads(capsys.readouterr().out)
    row = record["policy"][record["states"].index("dry")]
    assert row[record["actions"].index("drain")] == 1.0
    for text, said in (("dry,\n", "row 2"), ("dry,drain\nwet,\n", "row 3"), ("dry,x\n", "'x'")):
        put(tmp_path, f"state,action\n{text}", "allowed.csv")
        assert run(["solve", log, "--gamma", ".9", "--allowed", allowed]) == 2
        assert said in capsys.readouterr().err


BAD_LOGS = {
    "empty file": ("", "empty"),
    "header only": ("state,action,next_state,reward\n", "no"),
    "missing column": ("state,action,reward\na,b,1\n", "next_state"),
    "blank cell": (LOG + "dry,,wet,1\n", "row 7"),
    "nan reward": (LOG + "dry,wait,wet,nan\n", "row 7"),
    "word for a reward": (LOG + "dry,wait,wet,lots\n", "'lots'"),
    "ragged": (LOG + "dry,wait\n", "7"),
    "binary": ("\x00\x01\x02\x03" * 40, "log.csv"),
}


@pytest.mark.parametrize("case", BAD_LOGS)
def test_bad_logs(case: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text, message = BAD_LOGS[case]
    refused(["solve", put(tmp_path, text, "log.csv"), "--gamma", ".9"], message, capsys)


BAD_MODELS = {
    "negative": (MODELS.replace("0.5,1", "-0.5,1", 1), "row 2"),
    "above one": (MODELS.replace("0.5,1", "1.5,1", 1), "row 2"),
    "sums": (MODELS.replace("0.5,1", "0.4,1", 1), "model 0, state '0', action '0' sums to 0.9"),
    "two rewards": (MODELS + "1,0,0,1,0,3\n", "rewards 0 and 3"),
    "torn pair": (MODELS.replace("1,0,0,1,1,0\n", ""), "missing in model 1"),
    "state without actions": (
        MODELS.replace("1,0,0,0,1,0\n", "").replace("1,0,0,1,1,0\n", ""),
        "state '1' has none",
    ),
}


@pytest.mark.parametrize("case", BAD_MODELS)
def test_bad_models(case: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text, message = BAD_MODELS[case]
    refused(["solve", put(tmp_path, text, "m.csv"), "--gamma", ".9"], message, capsys)


BAD_FLAGS = {
    "gamma 1": (["--gamma", "1"], "strictly between 0 and 1"),
    "gamma 0": (["--gamma", "0"], "strictly between 0 and 1"),
    "no gamma": ([], "--gamma"),
    "alpha": (["--gamma", ".9", "--alpha", "1.1"], "alpha must lie in [0, 1]"),
    "alpha too large": (["--gamma", ".9", "--alpha", "1.0000001"], "[0, 1]; it is 1.0000001"),
    "rows below none": (["--gamma", ".9", "--min-count", "-1"], "min_count must be a whole number"),
    "no encoding of text": (["--gamma", ".9", "--encoding", "rot13"], "There is no encoding"),
    "no encoding at all": (["--gamma", ".9", "--encoding", "undefined"], "There is no encoding"),
    "alpha nan": (["--gamma", ".9", "--alpha", "nan"], "alpha must lie in [0, 1]; it is nan"),
    "lambda": (["--gamma", ".9", "--lambda", "-1"], "lambda must lie in [0, 1]"),
    "solver": (["--gamma", ".9", "--solver", "sarect"], "Did you mean 'sa-rect'"),
    "columns": (["--gamma", ".9", "--columns", "state"], "role=name"),
    "time limit": (["--gamma", ".9", "--time-limit", "0"], "--time-limit."),
    "models": (["--gamma", ".9", "--models", "0"], "whole number"),
    "weights with a log": (["--gamma", ".9", "--weights", "w.csv"], "weights is for models"),
    "a word": (["--gamma", "much"], "gamma"),
    "cluster": (["--gamma", ".9", "--models", "5", "--cluster", "no"], "address of its scheduler"),
    "seed": (["--gamma", ".9", "--seed", "-1"], "seed must be a whole number"),
    "strength 0": (["--gamma", ".9", "--strength", "0"], "strength must be a positive"),
    "per cell 0": (["--gamma", ".9", "--per-cell", "0"], "per_cell must be a positive"),
    "no test models": (["--gamma", ".9", "--test-models", "0"], "whole number"),
    "nominal limit": (
        ["--gamma", ".9", "--solver", "nominal", "--time-limit", "-5"],
        "--time-limit.",
    ),
}


@pytest.mark.parametrize("case", BAD_FLAGS)
def test_bad_flags(case: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    flags, message = BAD_FLAGS[case]
    refused(["solve", put(tmp_path, LOG, "log.csv"), *flags], message, capsys)


def test_bad_companions(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = put(tmp_path, MODELS, "m.csv")
    for name, text, message in [
        ("--initial", "idstate,probability\n9,1\n", "'9'"),
        ("--initial", "idstate,probability\n0,0.5\n", "0.5"),
        ("--weights", "idoutcome,weight\n0,0.5\n1,0.4\n", "sum to 1"),
        ("--weights", "idoutcome,weight\n0,0\n1,0\n", "all zero"),
        ("--allowed", "state,action\n0,fly\n", "row 2"),
    ]:
        refused(
            ["solve", path, "--gamma", ".9", name, put(tmp_path, text, "x.csv")], message, capsys
        )


def test_truncated_xz(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "log.csv.xz"
    path.write_bytes(lzma.compress((LOG + "dry,wait,wet,0\n" * 500).encode())[:-30])
    refused(["solve", str(path), "--gamma", ".9"], "cut off", capsys)


def test_existing_folder_is_refused_before_any_work(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    args = ["solve", str(tmp_path / "missing.csv"), "--gamma", ".9", "--out", str(tmp_path)]
    refused(args, "exists already", capsys)


def refused(args: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Exit 2, nothing on stdout, one paragraph on stderr without a traceback."""
    assert run(args) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert "Traceback" not in printed.err
    assert "\n\n" not in printed.err.strip()
    assert message in " ".join(printed.err.split())


@pytest.mark.parametrize(("lam", "value"), [("0.5", 115.829723), ("1", 77.132109)])
def test_riverswim(
    shared_data: Path, lam: str, value: float, capsys: pytest.CaptureFixture[str]
) -> None:
    path = str(shared_data / "riverswim" / "training.csv")
    args = ["--gamma", ".9", "--alpha", ".7", "--lambda", lam, "--solver", "sa-rect", "--json"]
    assert run(["solve", path, *args]) == 0
    assert json.loads(capsys.readouterr().out)["model_value"] == pytest.approx(value, abs=1e-6)


def test_the_help_names_the_solvers_that_are_the_default(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from softrobust.solvers.improve import Improve
    from softrobust.solvers.registry import DEFAULT_SOLVER, default_solver

    monkeypatch.setenv("COLUMNS", "1000")
    assert run(["solve", "--help"]) == 0
    assert f"{Improve.name} for logs, {DEFAULT_SOLVER} for models" in capsys.readouterr().out
    assert default_solver(random_problem(0)) == DEFAULT_SOLVER


def test_the_help_of_rare_pairs_is_that_of_the_posteriors(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from softrobust.posterior.registry import TABLES, make_posterior, settings_of
    from softrobust.run.vectors import MIN_COUNT

    monkeypatch.setenv("COLUMNS", "1000")
    assert run(["solve", "--help"]) == 0
    text = capsys.readouterr().out
    having = [name for name in TABLES if "min_count" in settings_of(name)]
    least = {name: getattr(make_posterior(name), "min_count", None) for name in having}
    assert least == {"learned": 1, "dirichlet": 1, "hierarchical": 1}
    assert "dirichlet or hierarchical such pairs are not considered (default 1)" in text
    assert f"with --continuous such actions (default {MIN_COUNT})" in text


def test_percentile(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log = put(tmp_path, LOG, "log.csv")
    flags = ["--gamma", ".9", "--objective", "percentile", "--solver", "local-search"]
    out = tmp_path / "run"
    assert run(["solve", log, *flags, "--json", "--out", str(out)]) == 0
    record = json.loads(capsys.readouterr().out)
    jsonschema.validate(record, schema())
    assert record["criterion"] == "percentile"
    assert run(["solve", log, "--gamma", ".9", "--objective", "percentile"]) == 0
    assert "90 % of models reach" in " ".join(capsys.readouterr().out.split())
    refused(["solve", log, *flags, "--lambda", "0.5"], "has no lambda", capsys)
    assert run(["solve", log, *flags[:-1], "exact", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["status"] == "optimal"
    refused(["solve", log, "--gamma", ".9", "--objective", "quantile"], "Objectives:", capsys)


def awkward(kind: str) -> str:
    """A log that says little: 300 states twice, one action, one episode, and the like."""
    rng = np.random.default_rng(0)
    n, S, A = (600, 300, 2) if kind == "300 x 2" else (120, 6, 1 if kind == "one action" else 2)
    s, a = np.arange(n) % S, rng.integers(A, size=n)
    episode = np.zeros(n, dtype=int) if kind == "one episode" else np.arange(n)
    if kind == "seen once":
        s, a = np.repeat(np.arange(n // 2), 2), np.arange(n) % 2
    reward = np.ones(n) if kind == "constant rewards" else rng.normal(size=n).round(2)
    to = np.roll(s, -1) if kind == "one episode" else rng.permutation(s)
    rows = zip(episode, s, a, to, reward, strict=True)
    lines = [f"{e},s{i},a{j},s{k},{r}" for e, i, j, k, r in rows]
    return "\n".join(["episode,state,action,next_state,reward", *lines])


@pytest.mark.parametrize(
    "kind", ["300 x 2", "one action", "one episode", "seen once", "constant rewards"]
)
def test_logs_that_say_little_get_a_modest_answer(
    kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = put(tmp_path, awkward(kind), "log.csv")
    code = run(["solve", log, "--gamma", ".9", "--time-limit", "4", "--json"])
    printed = capsys.readouterr()
    assert code == 0, printed.err
    promise = json.loads(printed.out)["promise"]
    assert promise["chance"] < 0.95
    assert promise["gain"]["low"] <= 0
