"""What a command reads is never written over nor removed, and only a run's own files are."""

from __future__ import annotations

from pathlib import Path

import pytest

from softrobust.cli.main import run
from softrobust.errors import InputError
from softrobust.run import load_run
from tests.instances import LOG, MODELS

FAST = ["--gamma", ".9", "--models", "5", "--replications", "0", "--quiet"]


@pytest.fixture(scope="module")
def solved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("solved")
    (place / "log.csv").write_text(LOG)
    assert run(["solve", str(place / "log.csv"), *FAST, "--out", str(place / "run")]) == 0
    return place / "run"


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def refused(words: list[str], capsys: pytest.CaptureFixture[str], *said: str) -> None:
    assert run(words) == 2
    text = " ".join(capsys.readouterr().err.split())
    for part in said:
        assert part in text


def test_an_input_in_the_folder_of_the_run_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    proj = tmp_path / "proj"
    proj.mkdir()
    for name in ("log.csv", "policy.csv"):
        (proj / name).write_text(LOG)
    for name in ("models.npz", "heldout.npz"):
        (proj / name).write_text(MODELS)
    (proj / "link.csv").symlink_to("log.csv")
    (proj / "frontier.csv").write_text(LOG)
    (tmp_path / "log.csv").write_text(LOG)
    before = contents(tmp_path)
    into = [*FAST, "--out", "proj", "--force"]
    clash, other = "lies in 'proj'", "Choose another --out"
    refused(["solve", "proj/log.csv", *into], capsys, "'proj/log.csv'", clash, other)
    refused(["solve", "proj/link.csv", *into], capsys, "'proj/link.csv'", clash)
    refused(["solve", "proj/models.npz", *into], capsys, "'proj/models.npz'", clash)
    for option in ("--heldout", "--initial", "--reference"):
        refused(["solve", "log.csv", option, "proj/heldout.npz", *into], capsys, clash, other)
    drawn = ["--posterior", "draws", "--set", "file=proj/models.npz"]
    refused(["solve", "log.csv", *drawn, *into], capsys, "'proj/models.npz'", clash)
    line = ["evaluate", "log.csv", "--policy", "proj/policy.csv", "--gamma", ".9"]
    refused([*line, "--out", "proj", "--force"], capsys, "'proj/policy.csv'", clash)
    line = ["frontier", "proj/frontier.csv", "--gamma", ".9", "--out", "proj", "--force"]
    refused(line, capsys, "'proj/frontier.csv'", clash)
    monkeypatch.chdir(proj)
    refused(["solve", "log.csv", *FAST, "--out", ".", "--force"], capsys, "lies in '.'", other)
    assert contents(tmp_path) == before


def test_a_file_that_no_run_wrote_stays(
    solved: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Neither in a folder without a run nor beside the files of one."""
    log = str(solved.parent / "log.csv")
    out = tmp_path / "mine"
    out.mkdir()
    line = ["solve", log, *FAST, "--out", str(out), "--force"]
    names = ("log.csv", "checks.json", "heldout.npz", "models.npz", "search.npz", "visits.json")
    for name in names:
        (out / name).write_text("mine")
        refused(line, capsys, f"'{out / name}' is no file of a run", "Choose another folder")
        assert contents(out) == {name: b"mine"}
        (out / name).unlink()
    (out / "solution.json").write_text('{"answer": 42}')
    refused(line, capsys, "solution.json' is no file of a run")
    (out / "solution.json").unlink()
    assert run(line) == 0
    for name in ("log.csv", "heldout.npz", "visits.json"):
        (out / name).write_text("mine")
        before = contents(out)
        refused(line, capsys, f"'{out / name}' is no file of a run")
        assert contents(out) == before
        (out / name).unlink()
    (out / "checks.json").write_text("{}")  # of the run, as far as anyone can tell
    assert run(line) == 0
    assert not (out / "checks.json").exists()


def test_no_verb_writes_over_its_input(
    solved: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    (tmp_path / "log.csv").write_text(LOG)
    (tmp_path / "same.csv").symlink_to("log.csv")
    own, of_run = contents(tmp_path), contents(solved)
    for out in ("log.csv", str(tmp_path / "log.csv"), "same.csv"):
        refused(["sample", "log.csv", "--models", "3", "--out", out], capsys, f"'{out}' is an inp")
        words = ["apply", str(solved), "--file", "log.csv", "--out", out]
        refused(words, capsys, f"'{out}' is an input of this command", "another --out")
    words = ["sample", "log.csv", "--models", "3", "--out", "m.npz", "--save", "log.csv"]
    refused(words, capsys, "another --save")
    words = ["inspect", "log.csv", "--write-log", "log.csv", "--force"]
    refused(words, capsys, "another --write-log")
    words = ["solve", "log.csv", *FAST, "--export-milp", "log.csv"]
    refused(words, capsys, "another --export-milp")
    run_file = str(solved / "log.parquet")
    for words in (
        ["export", str(solved)],
        ["report", str(solved)],
        ["rules", str(solved)],
        ["sample", "log.csv"],
        ["collect", "riverswim"],
    ):
        refused([*words, "--out", run_file], capsys, "belongs to the run in its folder")
    assert contents(tmp_path) == own
    assert contents(solved) == of_run
    (tmp_path / "other.csv").write_text("another file")
    assert run(["export", str(solved), "--out", "other.csv", "--quiet"]) == 0
    assert run(["collect", "riverswim", "--out", "other.csv", "--quiet"]) == 0
    assert run(["report", str(solved), "--quick", "--quiet"]) == 0


def test_a_link_in_a_circle_is_no_place(
    solved: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    (tmp_path / "log.csv").write_text(LOG)
    (tmp_path / "loop").symlink_to("loop")
    for words in (
        ["solve", "log.csv", *FAST],
        ["frontier", "log.csv", "--gamma", ".9"],
        ["sample", "log.csv", "--models", "3"],
        ["export", str(solved)],
        ["report", str(solved)],
        ["rehearse", str(solved)],
        ["solve", "log.csv", *FAST, "--export-milp", "loop", "--out", "run"],
    ):
        words += [] if "--out" in words else ["--out", "loop"]
        refused(words, capsys, "'loop' cannot be written (Too many levels")
    refused(["solve", "loop", *FAST], capsys, "loop")
    with pytest.raises(InputError, match="'loop' cannot be written"):
        load_run(solved).save("loop")
