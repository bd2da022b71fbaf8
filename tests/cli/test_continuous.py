"""`softrobust solve --continuous` and `apply --observation`, as a user meets them."""

from __future__ import annotations

import json
from importlib import resources
from pathlib import Path

import jsonschema
import numpy as np
import pytest

from softrobust.certificate import load_solution
from softrobust.cli.continuous import SOLVERS
from softrobust.cli.main import run
from softrobust.domains import CancerGrowth
from softrobust.errors import InputError
from softrobust.models import load_policy
from softrobust.models.gaussian import load_gaussian, save_gaussian
from softrobust.solvers.continuous_registry import CONTINUOUS_SOLVERS

FEW = ["--models", "6", "--test-models", "12", "--test-episodes", "4", "--set", "iterations=3",
       "--set", "episodes=6", "--set", "batch=60"]  # fmt: skip


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("logs") / "cancer_log.csv"
    CancerGrowth().collect(0).save_csv(path)
    return str(path)


def line(log: str, *more: str) -> list[str]:
    return ["solve", log, "--continuous", "--gamma", "0.9", *FEW, *more]


def said(capsys: pytest.CaptureFixture[str]) -> str:
    printed = capsys.readouterr()
    return " ".join((printed.out + printed.err).split())


def test_a_log_of_vectors_becomes_a_run_folder(
    log: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "run"
    assert run(line(log, "--out", str(out))) == 0
    text = said(capsys)
    for words in (
        "600 transitions of C, P, Q, Qp", "R² = 1.", "Episodes last 30 steps",
        "Models keep values in a box", "by srvi (iteration limit)", "On 12 held-out models",
        "Gain of the objective over always '1'", "This policy beats current practice",
        "The 20 complete episodes of the log earned",
    ):  # fmt: skip
        assert words in text
    assert sorted(p.name for p in out.iterdir()) == [
        "heldout.npz", "log.csv", "models.npz", "policy.npz", "posterior.json", "report.html",
        "solution.json",
    ]  # fmt: skip
    record = json.loads((out / "solution.json").read_text())
    name = "schemas/continuous_solution.schema.json"
    jsonschema.validate(
        record, json.loads(resources.files("softrobust").joinpath(name).read_text("utf-8"))
    )
    assert record["policy_kind"] == "lookahead"
    assert load_gaussian(out / "heldout.npz").n_models == 12
    with pytest.raises(InputError, match="run with continuous states"):
        load_solution(out)
    policy = load_policy(out / "policy.npz")
    assert run(["apply", str(out), "--observation", "Qp=0,C=0,P=7.13,Q=41.2", "--seed", "0"]) == 0
    assert said(capsys) == policy.action([0, 7.13, 41.2, 0], seed=0)
    assert run(["apply", str(out), "--observation", "0,7.13,41.2,0", "--json", "--seed", "0"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer["observation"]["Q"] == 41.2
    assert sum(answer["probabilities"].values()) == pytest.approx(1.0)
    page = (out / "report.html").read_bytes()
    assert run(["report", str(out), "--out", str(tmp_path / "page.html")]) == 0
    assert (tmp_path / "page.html").read_bytes() == page
    capsys.readouterr()
    assert run(["report", str(out), "--suppress-small"]) == 2
    assert "--suppress-small is for tables of states" in said(capsys)


def test_the_reward_can_be_said(log: str, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["--reward-now", "P=1,Q=1,Qp=1", "--reward-next", "P=-1,Q=-1,Qp=-1,C=-1"]
    assert run(line(log, *words, "--json", "--horizon", "10", "--clip", "C=0:4,P=0:100")) == 0
    record = json.loads(capsys.readouterr().out)
    assert record["reward"]["next"] == {"C": -1.0, "P": -1.0, "Q": -1.0, "Qp": -1.0}
    assert record["reward"]["r2"] is None
    assert record["horizon"] == 10
    assert [side[0] for side in record["clip"]] == [0.0, 4.0]
    assert run(line(log, "--json", "--quiet")) == 0  # the same reward, fitted
    fitted = json.loads(capsys.readouterr().out)["reward"]
    np.testing.assert_allclose(list(fitted["now"].values()), [0, 1, 1, 1], atol=1e-7)


def test_models_can_be_solved_too(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    problem, test = CancerGrowth().split_problem(0, 5, 8)
    save_gaussian(tmp_path / "m.npz", problem.models)  # type: ignore[arg-type]
    assert test is not None
    save_gaussian(tmp_path / "t.npz", test)
    words = ["solve", str(tmp_path / "m.npz"), "--continuous", "--heldout", str(tmp_path / "t.npz"),
             "--test-episodes", "3", "--set", "iterations=2", "--solver", "srvi-sa"]  # fmt: skip
    assert run(words) == 0
    assert "5 models of C, P, Q, Qp" in said(capsys)
    assert run(["solve", str(tmp_path / "m.npz")]) == 2
    assert "Add --continuous" in said(capsys)
    assert run([*words, "--models", "3"]) == 2
    assert "--models is for a log" in said(capsys)


def test_force_replaces_a_run(log: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "run"
    out.mkdir()
    (out / "policy.csv").write_text("of a table")
    (out / "notes.txt").write_text("mine")
    assert run(line(log, "--out", str(out))) == 2
    assert run(line(log, "--out", str(out), "--force", "--quiet")) == 0
    assert not (out / "policy.csv").exists()
    assert (out / "notes.txt").read_text() == "mine"


@pytest.mark.parametrize(
    ("more", "words"),
    [
        (["--states", "s.txt"], "--states is for tables of states"),
        (["--solver", "exact"], "no solver 'exact' for continuous states"),
        (["--solver", "srvisa"], "Did you mean 'srvi-sa'"),
        (["--set", "ridgee=1"], "no setting 'ridgee'"),
        (["--reward-now", "P:1"], "variable=coefficient pairs"),
        (["--reward-now", "R=1"], "--reward-now: Unknown variable 'R'"),
        (["--clip", "C=5:1"], "low < high"),
        (["--clip", "wide"], "--clip takes none"),
        (["--clip", "-1"], "share ≥ 0"),
        (["--horizon", "0"], "--horizon must be a whole number"),
        (["--objective", "percentile"], "soft-robust objective"),
        (["--test-episodes", "1"], "--test-episodes must be a whole number ≥ 2"),
    ],
)
def test_refused(log: str, more: list[str], words: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(line(log, *more)) == 2
    assert words in said(capsys)


def test_without_a_box_models_explode_with_advice(
    log: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(line(log, "--clip", "none")) == 1
    text = said(capsys)
    assert "left the numbers" in text
    assert "--clip" in text


def edited(log: str, folder: Path, change: object) -> str:
    rows = [row.split(",") for row in Path(log).read_text().splitlines()]
    change(rows)  # type: ignore[operator]
    path = folder / "edited.csv"
    path.write_text("\n".join(",".join(row) for row in rows) + "\n")
    return str(path)


def test_bad_logs_say_the_row(log: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def nan(rows: list[list[str]]) -> None:
        rows[4][1] = "nan"

    assert run(line(edited(log, tmp_path, nan))) == 2
    assert "must be finite numbers: row 5" in said(capsys)

    def word(rows: list[list[str]]) -> None:
        rows[7][2] = "high"

    assert run(line(edited(log, tmp_path, word))) == 2
    assert "row 8" in said(capsys)

    def actions(rows: list[list[str]]) -> None:
        for i, row in enumerate(rows[1:]):
            row[5] = ["low", "mid", "top"][i % 3]

    assert run(line(edited(log, tmp_path, actions))) == 2
    assert "need one number per action" in said(capsys)


def test_two_actions_may_have_names(
    log: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def named(rows: list[list[str]]) -> None:
        for row in rows[1:]:
            row[5] = "treat" if row[5] == "1" else "wait"

    assert run(line(edited(log, tmp_path, named))) == 0
    assert "'treat' counts as 0 and 'wait' as 1" in said(capsys)


def test_logs_without_episodes_or_rewards(
    log: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def drop(rows: list[list[str]]) -> None:
        for row in rows:
            del row[0]

    bare = edited(log, tmp_path, drop)
    assert run(line(bare)) == 2
    assert "Give --horizon" in said(capsys)
    assert run(line(bare, "--horizon", "5")) == 0
    assert "every state of it is equally likely to be first" in said(capsys)

    def unpaid(rows: list[list[str]]) -> None:
        for row in rows:
            del row[-1]

    assert run(line(edited(log, tmp_path, unpaid))) == 2
    assert "no column 'reward'" in said(capsys)


def test_flags_of_vectors_need_continuous(log: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["solve", log, "--horizon", "3"]) == 2
    assert "--horizon is for continuous states" in said(capsys)


def test_apply_asks_for_what_the_run_needs(
    log: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "run"
    assert run(line(log, "--out", str(out), "--quiet")) == 0
    for words, answer in (
        ([], "give --observation with C, P, Q, Qp"),
        (["--state", "1"], "--state is for tables"),
        (["--observation", "C=1"], "lacks 'P'"),
        (["--observation", "1,2"], "has 4 numbers"),
        (["--observation", "C=1,P=2,Q=3,R=4"], "Unknown variable 'R'"),
        (["--observation", "a,b,c,d"], "written as"),
    ):
        assert run(["apply", str(out), *words]) == 2
        assert answer in said(capsys)


def test_the_help_names_all_solvers() -> None:
    assert SOLVERS.split(", ") == list(CONTINUOUS_SOLVERS)
