"""`softrobust solve --continuous` and `apply --observation`, as a user meets them."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable
from importlib import resources
from pathlib import Path

import jsonschema
import numpy as np
import pytest

from softrobust.certificate import load_solution
from softrobust.cli.main import run
from softrobust.cli.options import observation_of
from softrobust.domains import CancerGrowth
from softrobust.errors import InputError
from softrobust.models.continuous_policy import NetworkPolicy
from softrobust.models.gaussian import load_gaussian, save_gaussian
from softrobust.models.lookahead import load_continuous_policy

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
        "600 rows; C, P, Q, Qp, 2 actions, episodes of 30 steps", "By the models alone, it earns",
        "nothing is promised",
    ):  # fmt: skip
        assert words in text
    html = " ".join((out / "report.html").read_text(encoding="utf-8").split())
    for words in ("R² = 1.", "Episodes last 30 steps", "Models keep values in a box",
                  "Gain of the objective over always &#39;1&#39;"):  # fmt: skip
        assert words in html
    assert sorted(p.name for p in out.iterdir()) == [
        "heldout.npz", "log.csv", "models.npz", "policy.npz", "posterior.json", "posterior.npz",
        "report.html", "solution.json",
    ]  # fmt: skip
    record = json.loads((out / "solution.json").read_text())
    name = "schemas/solution.schema.json"
    jsonschema.validate(
        record, json.loads(resources.files("softrobust").joinpath(name).read_text("utf-8"))
    )
    assert record["policy_kind"] == "lookahead"
    assert load_gaussian(out / "heldout.npz").n_models == 12
    policy = load_solution(out).policy
    assert policy.kind == "lookahead"
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
    save_gaussian(tmp_path / "m.npz", problem.models)
    assert test is not None
    save_gaussian(tmp_path / "t.npz", test)
    words = ["solve", str(tmp_path / "m.npz"), "--continuous", "--heldout", str(tmp_path / "t.npz"),
             "--test-episodes", "3", "--set", "iterations=2", "--solver", "srvi-sa"]  # fmt: skip
    assert run(words) == 0
    assert "5 models; C, P, Q, Qp" in said(capsys)
    assert run(["solve", str(tmp_path / "m.npz")]) == 2
    assert "On the command line: --continuous." in said(capsys)
    assert run([*words, "--models", "3"]) == 2
    assert "n_models is for a log; the input holds models" in said(capsys)


def changed(log: str, folder: Path, **cells: Callable[[int, str], str]) -> str:
    """The log with columns rewritten, row by row."""
    head, *rows = csv.reader(Path(log).read_text().splitlines())
    for name, rewrite in cells.items():
        j = head.index(name)
        for i, row in enumerate(rows):
            row[j] = rewrite(i, row[j])
    path = folder / "changed.csv"
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([head, *rows])
    return str(path)


def test_an_action_seen_once_is_not_taken(
    log: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    typo = changed(log, tmp_path, action=lambda i, cell: "2" if i == 100 else cell)
    out = tmp_path / "run"
    assert run(line(typo, "--json", "--out", str(out))) == 0
    record = json.loads(capsys.readouterr().out)
    assert record["actions"] == ["0", "1", "2"]
    assert record["allowed"] == ["0", "1"]
    rare = [note["facts"] for note in record["notes"] if note["code"] == "action_seen_too_rarely"]
    assert rare == [{"action": "2", "n_seen": 1, "n_rows": 600}]
    assert load_continuous_policy(out / "policy.npz").probs([[0, 7.13, 41.2, 0]])[0, 2] == 0
    assert run(["report", str(out)]) == 0
    assert run(line(typo, "--min-count", "1", "--json")) == 0
    capsys.readouterr()
    assert run(line(typo, "--actions", "0,1")) == 2
    assert "'2'" in said(capsys)


def test_names_of_episodes_and_columns_of_ones_own(
    log: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    plain = json.loads(_record(log, capsys))
    for name in (
        lambda i, cell: f"pat-{cell}",
        lambda i, cell: f"0{cell}",
        lambda i, cell: f"{float(cell) / 20}",
    ):
        assert json.loads(_record(changed(log, tmp_path, episode=name), capsys)) == plain
    renamed = Path(changed(log, tmp_path))
    head, rest = renamed.read_text().split("\n", 1)
    renamed.write_text(head.replace("action", "dose").replace("episode", "patient") + "\n" + rest)
    words = ["--columns", "action=dose,episode=patient"]
    assert json.loads(_record(str(renamed), capsys, *words)) == plain
    assert run(line(str(renamed), "--columns", "state=dose")) == 2
    assert "Unknown role 'state'" in said(capsys)
    assert run(line(str(renamed), "--columns", "action=nodose")) == 2
    assert "The column 'nodose' given for the action is not in" in said(capsys)


def _record(log: str, capsys: pytest.CaptureFixture[str], *more: str) -> str:
    assert run(line(log, "--json", *more)) == 0
    record = json.loads(capsys.readouterr().out)
    record["stats"].pop("seconds", None)
    record.pop("source")
    record.pop("command")
    return json.dumps(record)


@pytest.mark.parametrize(
    ("column", "cell", "words"),
    [
        ("episode", "", "needs an episode: row 12 of changed.csv"),
        ("action", "", "needs an action: row 12"),
        ("episode", "nan", "row 12 of"),
        ("action", "NaN", "needs an action: row 12 of changed.csv"),
        ("action", "inf", "are no numbers"),
        ("C", "1e80", "at most 1e+50 in size"),
        ("C", "nan", "must be a finite number: row 12"),
    ],
)
def test_bad_cells(
    column: str, cell: str, words: str, log: str, tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    bad = changed(log, tmp_path, **{column: lambda i, old: cell if i == 10 else old})
    assert run(line(bad)) == 2
    assert words in said(capsys)


def test_what_no_model_can_be_fitted_to(
    log: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(line(changed(log, tmp_path, C=lambda i, cell: "50"))) == 2
    assert "'C' has the same value in every row" in said(capsys)
    one = tmp_path / "one.csv"
    one.write_text("\n".join(Path(log).read_text().splitlines()[:2]))
    assert run(line(str(one))) == 2
    assert "The log has one transition" in said(capsys)
    assert run(["inspect", log]) == 2
    assert "solve` takes it as it is with --continuous" in said(capsys)
    never = changed(log, tmp_path, action=lambda i, cell: "0")
    for at in (300, 310):  # where C·action is 0 in all rows, and where it is not
        rows = Path(never).read_text().splitlines()
        j = rows[0].split(",").index("action")
        cells = rows[at + 1].split(",")
        rows[at + 1] = ",".join([*cells[:j], "1", *cells[j + 1 :]])
        one.write_text("\n".join(rows))
        assert run(line(str(one))) == 2
        assert "or the action '1' (seen in 1 of 600 rows)." in said(capsys)
    tiny = changed(log, tmp_path, **{
        name: lambda i, cell: repr(1e-13 * float(cell)) for name in ("C", "next_C")
    })  # fmt: skip
    assert run(line(tiny, "--quiet")) == 0
    assert run(line(log, "--objective", "percentile")) == 2
    assert "No solver for vectors maximises it" in said(capsys)
    assert run(line(log, "--heldout", "x.npz")) == 2
    assert "On the command line: --test-models." in said(capsys)
    assert run(["solve", log, "--gamma", "0.9"]) == 2
    assert "--continuous" in said(capsys)


def test_models_of_sample_and_of_a_run_can_be_solved(
    log: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    models, out = str(tmp_path / "m.npz"), tmp_path / "run"
    words = ["sample", log, "--posterior", "regression", "--models", "5", "--out", models]
    assert run(words) == 0
    solve = ["solve", models, "--continuous", "--gamma", "0.9", "--test-episodes", "3",
             "--set", "iterations=2", "--reward-next", "P=-1"]  # fmt: skip
    assert run([*solve, "--json", "--clip", "0.5"]) == 0
    assert json.loads(capsys.readouterr().out.partition("\n")[2])["horizon"] == 30
    assert run([*solve, "--start", "C=0,P=7", "--clip", "0.5"]) == 2
    assert "'Q' has none" in said(capsys)
    there = [
        "--start",
        "C=0,P=7,Q=41,Qp=0",
        "--clip",
        "0.5",
        "--quiet",
        "--out",
        str(tmp_path / "s"),
    ]
    assert run([*solve, *there]) == 0
    assert run(["report", str(tmp_path / "s")]) == 0
    assert run(line(log, "--out", str(out), "--quiet")) == 0
    again = ["solve", str(out / "models.npz"), "--continuous", "--set", "iterations=2", "--quiet"]
    assert run(again) == 0


def test_force_replaces_a_run(log: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "run"
    out.mkdir()
    (out / "policy.csv").write_text("of a table")
    (out / "notes.txt").write_text("mine")
    assert run(line(log, "--out", str(out))) == 2
    assert run(line(log, "--out", str(out), "--force")) == 2  # of no run
    assert (out / "policy.csv").exists()
    (out / "solution.json").write_text('{"format_version": 2}')
    assert run(line(log, "--out", str(out), "--force", "--quiet")) == 0
    assert not (out / "policy.csv").exists()
    assert (out / "notes.txt").read_text() == "mine"


@pytest.mark.parametrize(
    ("more", "words"),
    [
        (["--states", "s.txt"], "On the command line: --states."),
        (["--replications", "4"], "Replications are for tables of states"),
        (["--resume", "--out", "x"], "Only the solver 'exact' can be resumed"),
        (["--solver", "exact"], "no solver 'exact' for continuous states"),
        (["--solver", "srvisa"], "Did you mean 'srvi-sa'"),
        (["--set", "ridgee=1"], "no setting 'ridgee'"),
        (["--reward-now", "P:1"], "variable=coefficient pairs"),
        (["--reward-now", "R=1"], "reward_now: Unknown variable 'R'"),
        (["--clip", "C=5:1"], "'C' has 5 and 1. On the command line: --clip."),
        (["--min-count", "601"], "'1' was seen most often, in 318 of 600 rows"),
        (["--actions", "0,1,2"], "or the action '2' (seen in 0 of 600 rows)"),
        (["--clip", "wide"], "--clip takes none"),
        (["--clip", "-1"], "share ≥ 0"),
        (["--horizon", "0"], "horizon must be a whole number"),
        (["--objective", "percentile"], "soft-robust objective"),
        (["--test-episodes", "1"], "episodes must be a whole number ≥ 2"),
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
    assert "must be a finite number: row 5" in said(capsys)

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

    assert run(line(edited(log, tmp_path, named), "--json")) == 0
    notes = {note["code"]: note["facts"] for note in json.loads(capsys.readouterr().out)["notes"]}
    assert notes["actions_are_numbers"] == {"zero": "treat", "one": "wait"}


def test_logs_without_episodes_or_rewards(
    log: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def drop(rows: list[list[str]]) -> None:
        for row in rows:
            del row[0]

    bare = edited(log, tmp_path, drop)
    assert run(line(bare)) == 2
    assert "On the command line: --horizon." in said(capsys)
    assert run(line(bare, "--horizon", "5", "--json")) == 0
    codes = [note["code"] for note in json.loads(capsys.readouterr().out)["notes"]]
    assert "starts_anywhere" in codes

    def unpaid(rows: list[list[str]]) -> None:
        for row in rows:
            del row[-1]

    assert run(line(edited(log, tmp_path, unpaid))) == 2
    assert "no column 'reward'" in said(capsys)


def test_flags_of_vectors_need_continuous(log: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["solve", log, "--horizon", "3"]) == 2
    assert "--continuous" in said(capsys)


def test_apply_asks_for_what_the_run_needs(
    log: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "run"
    assert run(["apply", str(out), "--observation", "1,2,3,4"]) == 2
    assert "There is no run" in said(capsys)
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


def test_apply_says_what_it_rests_on(
    log: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """An observation beyond the data is told, beside the answer; a mixture is the answer."""
    out = tmp_path / "run"
    assert run(line(log, "--out", str(out), "--quiet")) == 0
    assert run(["apply", str(out), "--observation", "C=1e3,P=7.13,Q=41.2,Qp=0"]) == 0
    told = capsys.readouterr()
    assert "C = 1000 lies outside the range of the data, 0 to" in told.err
    assert told.out.split()[0] in ("0", "1")
    assert run(["apply", str(out), "--observation", "C=1e3,P=7.13,Q=41.2,Qp=0", "--json"]) == 0
    assert [*json.loads(capsys.readouterr().out)["outside"]] == ["C"]
    policy = load_continuous_policy(out / "policy.npz")
    NetworkPolicy(
        (np.zeros((4, 2)),), (np.zeros(2),), policy.variables, policy.actions, np.zeros(4),
        np.ones(4),
    ).save(tmp_path / "even.npz")  # fmt: skip
    even = ["apply", str(tmp_path / "even.npz"), "--observation", "1,2,3,4"]
    assert run(even) == 0
    assert said(capsys) == "0 (50%) or 1 (50%)"
    assert run([*even, "--json"]) == 0
    record = json.loads(capsys.readouterr().out)
    assert (record["action"], record["outside"]) == (None, None)


def test_numbers_in_order_need_no_names() -> None:
    """Whatever the variables are called, by a damaged file too."""
    assert observation_of("0.3,1", ["=", "a,b"]) == [0.3, 1.0]
    with pytest.raises(InputError, match="it got 'x,1'"):
        observation_of("x,1", ["=", "a,b"])
