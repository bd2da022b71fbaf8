"""`softrobust inspect` as a user meets it: a screen, a pipe, and commands that can be pasted."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from softrobust.cli.main import run
from softrobust.data import read_log
from tests.instances import MODELS

CLINIC = Path(__file__).resolve().parents[2] / "examples" / "clinic"
LOG = """state,action,next_state,reward,episode
dry,wait,dry,0,1
dry,wait,wet,0,1
wet,wait,wet,1,1
wet,drain,dry,0.5,2
dry,drain,dry,-0.5,2
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An own folder with the clinic's files; everything runs in it."""
    for name in ("visits.csv", "events.csv", "guideline.csv"):
        shutil.copy(CLINIC / name, tmp_path / name)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def next_lines(printed: str) -> list[str]:
    """The commands below «Run next», as they stand on the screen."""
    return re.findall(r"^  (softrobust .*)$", printed, flags=re.MULTILINE)


def paste(line: str, *more: str) -> int:
    words = shlex.split(line)
    assert words[0] == "softrobust"
    return run([*words[1:], *more])


def quick(line: str) -> tuple[str, ...]:
    """Less work for a test, where the line solves something."""
    return ("--solver", "nominal", "--quiet") if " solve " in line else ()


def test_from_visits_to_a_policy_by_pasting(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["inspect", "visits.csv", "--events", "events.csv"]) == 0
    printed = capsys.readouterr()
    assert printed.err == ""
    assert "\x1b" not in printed.out
    assert all(len(line) <= 100 for line in printed.out.splitlines() if "softrobust" not in line)
    lines = next_lines(printed.out)
    assert len(lines) == 1
    assert paste(lines[0], *quick(lines[0])) == 0
    for name in ("policy.csv", "visits.json", "bins.npz"):
        assert (folder / "run" / name).is_file()
    capsys.readouterr()
    # A second inspection proposes names that are free.
    assert run(["inspect", "visits.csv", "--events", "events.csv"]) == 0
    (again,) = next_lines(capsys.readouterr().out)
    assert again.endswith("--out run-2")
    # Whatever reads how the table was read says which file is damaged, and what makes it again.
    file = folder / "run" / "visits.json"
    text = file.read_text(encoding="utf-8")
    sound = json.loads(text)
    said_where, reported = ["apply", "run", "--measure", "x=1"], ["report", "run"]
    for damage, verbs in (
        ({"states": -1}, (said_where, reported)), ({"states": {}}, (said_where,)),
        ({"rules": sound["rules"] | {"action": 3}}, (said_where, reported)),
    ):  # fmt: skip
        file.write_text(json.dumps(sound | damage), encoding="utf-8")
        for verb in verbs:
            assert run(verb) == 2
            said = " ".join(capsys.readouterr().err.split())
            assert "visits.json" in said
            assert "--out run --force" in said
    file.write_text(text, encoding="utf-8")  # as it was: the slip is the user's
    assert run(said_where) == 2
    assert "A state is made of" in capsys.readouterr().err


def test_a_log_as_csv_keeps_its_start(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    flags = ["--events", "events.csv", "--bins", "hba1c=7:8:9"]
    assert run(["inspect", "visits.csv", *flags, "--write-log", "log.csv"]) == 0
    assert run(["inspect", "visits.csv", *flags, "--write-log", "log.parquet"]) == 0
    lines = next_lines(capsys.readouterr().out)
    assert lines[0] == "softrobust solve log.csv --initial log_initial.csv --gamma 0.95 --out run"
    text, whole = read_log("log.csv", initial="log_initial.csv"), read_log("log.parquet")
    assert text.n_rows == whole.n_rows
    assert {text.states[s]: p for s, p in enumerate(text.p0)} == pytest.approx(
        {whole.states[s]: p for s, p in enumerate(whole.p0)}
    )
    assert (text.end is not None) == (whole.end is not None)
    assert text.episode is not None
    assert whole.episode is not None
    assert text.episode.tolist() == whole.episode.tolist()
    assert set(text.states) == set(whole.states)
    assert "missing_actions" in [note.code for note in whole.notes]
    assert paste(lines[0], "--solver", "nominal", "--quiet") == 0
    with_guideline = {row.split(",")[0] for row in Path("guideline.csv").read_text().splitlines()}
    assert with_guideline - {"state"} == set(whole.states) - {"(end)"}


def test_files_are_not_written_over(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "log.csv").write_text("mine")
    args = ["inspect", "visits.csv", "--events", "events.csv", "--write-log", "log.csv"]
    assert run(args) == 2
    assert "exists already" in capsys.readouterr().err
    assert (folder / "log.csv").read_text() == "mine"
    assert run([*args, "--force"]) == 0
    assert run(["inspect", "visits.csv", "--write-log", "log.xlsx"]) == 2
    assert ".csv, .parquet or .npz" in capsys.readouterr().err


@pytest.mark.parametrize(("name", "text"), [("a log.csv", LOG), ("m.csv", MODELS)])
def test_logs_and_models_by_pasting(
    name: str, text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    (tmp_path / name).write_text(text)
    assert run(["inspect", name]) == 0
    (line,) = next_lines(capsys.readouterr().out)
    assert paste(line, "--quiet") == 0
    for target in ("run", "run/problem.npz"):
        assert run(["inspect", target]) == 0
        (line,) = next_lines(capsys.readouterr().out)
        assert paste(line, *quick(line)) == 0


def test_columns_travel_into_the_next_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    header = '"the, site",dose,later,reward,episode'
    Path("log.csv").write_text(LOG.replace("state,action,next_state,reward,episode", header))
    flags = ["--columns", '"state=the, site",action=dose,next_state=later']
    assert run(["inspect", "log.csv", *flags]) == 0
    (line,) = next_lines(capsys.readouterr().out)
    assert paste(line, "--quiet") == 0


def test_json(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["inspect", "visits.csv", "--events", "events.csv", "--json"]) == 0
    record = json.loads(capsys.readouterr().out)
    assert record["kind"] == "visits"
    assert record["next"][0]["line"].startswith("softrobust solve visits.csv --id patient")
    assert record["trajectories"]["n_transitions"] == record["coverage"]["rows"]
    none = ["inspect", "visits.csv", "--reward", "none", "--json"]
    assert run(none) == 2  # no rewards: said in words as well
    printed = capsys.readouterr()
    assert json.loads(printed.out)["blocked"]
    assert "--events FILE" in " ".join(printed.err.split())


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (["--id", "nobody"], "'nobody' is not in the table"),
        (["--bins", "hba1c"], "no file hba1c"),
        (["--bins", "hba1c=x"], "hba1c=7:8:9"),
        (["--bins", "hba1c=9:8"], "must be finite numbers that ascend"),
        (["--grid", "7"], "30min, 12h, 7d, 4w"),
        (["--fill", "carry", "--grid", "none"], "Give grid too"),
        (["--missing-action", "ignore"], "missing_action must be drop, none or error"),
        (["--terminal", "kind=deth"], "Did you mean 'death'"),
        (["--events-columns", "who"], "--events-columns takes role=name"),
        (["--events", "absent.csv"], "There is no file absent.csv"),
        (["--save-bins", "b.npz", "--measurements", "bp"], "no bins to save"),
        (["--duplicates"], "--duplicates"),
    ],
)
def test_bad_flags(
    flags: list[str], words: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    args = ["inspect", "visits.csv", "--events", "events.csv", *flags]
    assert run(args) == 2
    printed = capsys.readouterr()
    assert words in " ".join(printed.err.split())
    assert "Traceback" not in printed.err


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["solve", "visits.csv", "--gamma", ".9"], "--columns state=…, begin with `softrobust"),
        (["inspect", "visits.csv", "--reward", "none"], "On the command line: --reward COLUMN"),
        (["inspect", "visits.csv", "--columns", "state=bp"], "--columns action=…."),
        (["solve", "v.csv", "--gamma", ".9"], "--columns state=…, --continuous."),
        (["sample", "v.csv", "--out", "m.npz"], "v.csv"),  # this verb has no such flag
    ],
)
def test_the_command_line_adds_its_flags(
    args: list[str], words: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "v.csv").write_text("x,dose,next_x\n1,2,3\n")
    assert run(args) == 2
    said = " ".join(capsys.readouterr().err.split())
    assert words in said
    assert ("On the command line:" in said) == (args[0] != "sample")


def test_settings_of_a_solver_are_flags_too(capsys: pytest.CaptureFixture[str]) -> None:
    from softrobust.cli.main import _flags
    from softrobust.errors import InputError

    error = InputError("Set samples=100.", arguments={"samples": "100", "nobody": ""})
    assert _flags(error, "solve") == " On the command line: --set samples=100, --set nobody=…."
    assert _flags(error, "rules") == ""
    assert _flags(InputError("No."), "solve") == ""


def test_solving_visits_points_here(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["solve", "visits.csv", "--gamma", ".9"]) == 2
    assert "begin with `softrobust inspect`" in " ".join(capsys.readouterr().err.split())


@pytest.mark.skipif(sys.platform == "win32", reason="needs a pseudo-terminal")
def test_on_a_terminal_there_is_colour_and_the_command_stays_whole(folder: Path) -> None:
    import pty

    main, worker = pty.openpty()
    code = "from softrobust.cli.main import main; main()"
    words = [sys.executable, "-c", code, "inspect", "visits.csv", "--events", "events.csv"]
    env = os.environ | {"TERM": "xterm-256color", "COLUMNS": "90", "NO_COLOR": ""}
    env.pop("NO_COLOR")
    done = subprocess.Popen(words, stdout=worker, stderr=worker, env=env)
    os.close(worker)
    pieces = []
    while True:
        try:
            piece = os.read(main, 65536)
        except OSError:  # Linux says so when the other side has closed
            break
        if not piece:
            break
        pieces.append(piece)
    assert done.wait() == 0
    os.close(main)
    screen = b"".join(pieces).decode().replace("\r\n", "\n")
    assert "\x1b[1;36m" in screen
    plain = re.sub(r"\x1b\[[0-9;]*m", "", screen)
    lines = next_lines(plain)
    assert shlex.split(lines[0])[-1] == "run"
    prose = [line for line in plain.splitlines() if "softrobust" not in line]
    assert max(map(len, prose)) <= 90


def blocks(kind: str) -> list[str]:
    """Code blocks of the walk-through, up to the verbs that look at a finished run."""
    text = (CLINIC / "README.md").read_text(encoding="utf-8").split("## 5.")[0]
    return re.findall(rf"```{kind}\n(.*?)```", text, flags=re.DOTALL)


def test_the_walk_through_runs(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shutil.copy(CLINIC / "make_visits.py", folder / "make_visits.py")
    lines = [line[2:] for block in blocks("console") for line in block.splitlines()]
    assert len(lines) == 5
    for line in lines[:-1]:
        assert paste(line, *quick(line)) == 0, line
    capsys.readouterr()
    scored = subprocess.run(
        [sys.executable, *shlex.split(lines[-1])[1:]], capture_output=True, text=True, check=True
    )
    told = blocks("text")[0].splitlines()
    said = {line.split("  ")[-1]: line.split()[0] for line in scored.stdout.splitlines()}
    for line in told:
        label = line.split("  ")[-1]
        if label != "run/policy.csv":  # solved by another solver here
            assert said[label] == line.split()[0]
    (code,) = blocks("python")
    exec(compile(code, "README.md", "exec"), {})
    assert "gave 2,283 transitions" in capsys.readouterr().out


@pytest.mark.slow
def test_the_walk_through_says_what_its_policy_is_worth(folder: Path) -> None:
    shutil.copy(CLINIC / "make_visits.py", folder / "make_visits.py")
    lines = [line[2:] for block in blocks("console") for line in block.splitlines()]
    for line in lines[1:3]:
        assert paste(line) == 0
    scored = subprocess.run(
        [sys.executable, *shlex.split(lines[-1])[1:]], capture_output=True, text=True, check=True
    )
    assert scored.stdout.splitlines() == blocks("text")[0].splitlines()
