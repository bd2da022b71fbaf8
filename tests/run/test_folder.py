"""A run folder: either kind is saved and loaded, nothing of another run survives, old ones load."""

from __future__ import annotations

import json
import os
import shlex
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from importlib import resources
from pathlib import Path
from typing import Any

import jsonschema
import numpy as np
import pytest

from softrobust._core.notes import Level, Note
from softrobust.certificate import load_solution
from softrobust.cli.main import run as run_cli
from softrobust.data import read_log
from softrobust.errors import InputError
from softrobust.models.continuous_policy import ContinuousPolicy
from softrobust.problem import ContinuousProblem, save_problem
from softrobust.report.sentences import WORDS, in_words
from softrobust.run import Options, Run, choose, load_run, load_table_run, run_page, set_up
from softrobust.run.folder import FILES
from softrobust.solvers import LocalSearch
from tests.instances import LOG
from tests.report.vectors import QUICK, vector_log, vector_run


def table_run(folder: Path) -> Run:
    (folder / "log.csv").write_text(LOG)
    setup = set_up(folder / "log.csv", Options(gamma=0.9, n_models=10, n_test=50))
    return choose(setup, LocalSearch(time_limit=60.0), replications=4)


def schema() -> Any:
    path = resources.files("softrobust").joinpath("schemas/solution.schema.json")
    return json.loads(path.read_text("utf-8"))


def said(capsys: pytest.CaptureFixture[str]) -> str:
    printed = capsys.readouterr()
    return " ".join((printed.out + printed.err).split())


@pytest.mark.parametrize("kind", ["table", "vectors", "models"])
def test_a_run_is_what_was_saved(kind: str, tmp_path: Path) -> None:
    log = vector_log() if kind == "vectors" else None
    run = table_run(tmp_path) if kind == "table" else vector_run(tmp_path, log)
    run.save(tmp_path / "run")
    assert {path.name for path in (tmp_path / "run").iterdir()} <= set(FILES)
    again = Run.load(tmp_path / "run")
    assert again.record() == run.record()
    assert again.certificate == run.certificate
    assert again.notes == run.notes
    assert (again.seed, again.command, again.source) == (run.seed, run.command, run.source)
    assert load_solution(tmp_path / "run").objective == run.solution.objective
    jsonschema.validate(run.record(), schema())
    assert all(note.code in WORDS for note in run.notes)
    with pytest.raises(InputError, match="exists already"):
        run.save(tmp_path / "run")
    run.save(tmp_path / "run", force=True)


def test_a_run_with_continuous_states_is_a_run(tmp_path: Path) -> None:
    vector_run(tmp_path, vector_log()).save(tmp_path / "run")
    run = load_run(tmp_path / "run")
    assert isinstance(run.problem, ContinuousProblem)
    assert isinstance(run.solution.policy, ContinuousPolicy)
    with pytest.raises(InputError, match="no exact value"):
        _ = run.solution.static_value
    with pytest.raises(InputError, match="tables of states only"):
        load_table_run(tmp_path / "run")


def test_nothing_of_another_run_survives(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "run"
    vector_run(tmp_path, vector_log()).save(out)
    asked = ["apply", str(out), "--observation", "1,1"]
    assert run_cli(asked) == 0
    for name in ("checks.json", "update.json", "search.npz"):
        (out / name).write_text("[]")
    (out / "rehearsal").mkdir()
    (out / "notes.txt").write_text("mine")
    capsys.readouterr()
    (tmp_path / "table.csv").write_text(LOG)
    line = ["solve", str(tmp_path / "table.csv"), "--gamma", "0.9", "--replications", "0"]
    assert run_cli([*line, "--out", str(out), "--quiet", "--force"]) == 0
    assert sorted(path.name for path in out.iterdir()) == [
        "log.parquet", "notes.txt", "policy.csv", "posterior.json", "problem.npz",
        "report.html", "solution.json",
    ]  # fmt: skip
    capsys.readouterr()
    assert run_cli(asked) == 2  # and no action of the old policy
    assert "--observation is for continuous states" in said(capsys)
    vector_run(tmp_path, vector_log()).save(out, force=True)
    assert not (out / "policy.csv").exists()
    assert not (out / "problem.npz").exists()


def test_the_command_of_vectors_makes_the_same_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clip = {"x": (-2.0, 4.0)}
    run = vector_run(
        tmp_path, vector_log(), clip=clip, lam=0.75, horizon=6, start={"x": 1.0, "y": 1.0}
    )
    monkeypatch.chdir(tmp_path)
    assert run_cli([*shlex.split(run.command)[1:], "--quiet", "--out", "again"]) == 0
    again = load_run("again")
    assert again.certificate == run.certificate
    assert again.command == run.command


def test_a_solver_that_no_command_makes_has_none(tmp_path: Path) -> None:
    own = replace(QUICK, states=vector_log().s[:40])
    run = choose(vector_log(), own, gamma=0.8, n_models=3, n_test=4, episodes=2)
    vector_log().save_csv(tmp_path / "log.csv")
    options = Options(gamma=0.8, continuous=True, n_models=3, n_test=4)
    again = choose(set_up(tmp_path / "log.csv", options), own, episodes=2)
    assert (run.command, again.command) == ("", "")
    assert again.certificate.sample == run.certificate.sample


def test_the_whole_line_with_its_defaults(tmp_path: Path) -> None:
    file = tmp_path / "log.csv"
    file.write_text(LOG)
    few: dict[str, Any] = {"gamma": 0.9, "n_models": 10, "n_test": 50, "replications": 0}
    run, read = choose(str(file), **few), choose(read_log(file), **few)
    assert run.solution.solver == "improve"
    assert read.certificate == run.certificate
    assert run.command.startswith("softrobust solve log.csv --gamma 0.9")
    assert read.command == ""  # no file is known
    assert str(run).startswith("Run by improve")
    vectors = choose(vector_log(), QUICK, gamma=0.8, n_models=4, n_test=6, episodes=3)
    assert vectors.continuous
    with pytest.raises(InputError, match="a log that was read already"):
        choose(read_log(file), gamma=0.9, columns={"state": "s"})
    with pytest.raises(InputError, match="a table of states"):
        choose(read_log(file), gamma=0.9, continuous=True)


# -- formats of earlier versions: what a format 2 file and a format 1 file of vectors had not ----


def test_an_old_table_is_read(tmp_path: Path) -> None:
    run = table_run(tmp_path)
    run.save(tmp_path / "run")
    file = tmp_path / "run" / "solution.json"
    record = json.loads(file.read_text())
    for name in ("kind", "nominal", "notes", "seed", "source", "command"):
        del record[name]
    file.write_text(json.dumps(record | {"format_version": 2}))
    old = load_run(tmp_path / "run")
    assert old.certificate.static == run.certificate.static
    assert old.certificate.posterior == run.certificate.posterior
    assert old.command == run.command  # posterior.json has it
    assert {note.code for note in old.notes} == {"decisions_rarely_seen"}  # found again
    assert old.certificate.nominal is None
    assert run_page(old, tmp_path / "x.html").html


def test_old_vectors_are_read(tmp_path: Path) -> None:
    run = vector_run(tmp_path, vector_log())
    run.save(tmp_path / "run")
    file = tmp_path / "run" / "solution.json"
    record = json.loads(file.read_text())
    for name in ("command", "n_actions"):
        del record[name]
    words = {"notes": ["A box."], "cautions": ["Beware."], "format_version": 1}
    file.write_text(json.dumps(record | words))
    old = load_run(tmp_path / "run")
    assert [note.level for note in old.notes] == [Level.INFO, Level.CAUTION]
    assert in_words(old.notes) == ["A box.", "Beware."]
    assert old.certificate == run.certificate
    np.testing.assert_array_equal(
        old.solution.policy.probs([[1.0, 1.0]]), run.solution.policy.probs([[1.0, 1.0]])
    )
    assert "Beware." in run_page(old, tmp_path / "x.html").html


def test_what_cannot_be_read_is_said(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no run folder"):
        load_run(tmp_path / "none")
    with pytest.raises(InputError, match=r"no solution\.json"):
        load_run(tmp_path)
    table_run(tmp_path).save(tmp_path / "run")
    file = tmp_path / "run" / "solution.json"
    record = json.loads(file.read_text())
    for change, words in (
        ({"format_version": 4}, "newer softrobust"),
        ({"posterior": {"lower": 1}}, r"solution\.json: posterior\.\w+ is missing"),
        ({"static": {}}, r"static\.objective is missing. To make the run again: `softrobust solve"),
        ({"gamma": "<script>"}, "gamma must be a finite number; it is '<script>'"),
        ({"bound": float("inf")}, "Infinity, which is no number"),
        ({"gamma": 0.8}, r"together: the discount is 0\.8 in solution\.json and 0\.9"),
        ({"n_models": 9}, "the number of models is 9 in solution"),
        ({"alpha": 0.5}, r"the alpha is 0\.5 in solution"),
        ({"bound": -1e9}, r"solution\.json: the bound -1e\+09 is below the value"),
        ({"files": "<script>"}, "files must be an object; it is '<script>'"),
        ({"files": {"problem.npz": "0"}}, r"problem\.npz is not the file that solution\.json was"),
        ({"horizon": 3}, "the horizon is 3 in solution"),
        ({"policy": [record["policy"]], "files": {}}, "the number of steps is 1 in solution"),
        ({"states": ["x", *record["states"][1:]]}, r"states, actions or policy are not those"),
        ({"notes": [{"code": "rewards_vary", "level": "info", "facts": {}}]}, "lacks or garbles"),
    ):
        file.write_text(json.dumps(record | change))
        with pytest.raises(InputError, match=words):
            load_run(tmp_path / "run")


def test_a_file_of_another_run_is_named(tmp_path: Path) -> None:
    """One that can be read, too: no other check need see that it is not the one."""
    run = table_run(tmp_path)
    run.save(tmp_path / "run")
    other = replace(run.problem, p0=np.eye(run.problem.n_states)[1])
    save_problem(tmp_path / "run" / "problem.npz", other)
    with pytest.raises(InputError, match=r"problem\.npz is not the file .* To make the run again"):
        load_run(tmp_path / "run")
    (tmp_path / "run" / "problem.npz").unlink()
    with pytest.raises(InputError, match=r"problem\.npz"):
        load_run(tmp_path / "run")
    run.save(tmp_path / "run", force=True)
    drawn = tmp_path / "run" / "posterior.json"
    drawn.write_text(json.dumps(json.loads(drawn.read_text()) | {"per_cell": 0.25}))
    with pytest.raises(InputError, match=r"posterior\.json is not the file"):
        load_run(tmp_path / "run")


def test_a_run_is_written_over_another_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever step of the move is the last one, the folder is read as the old run or the new."""
    old, out = table_run(tmp_path), tmp_path / "run"
    new, left = replace(old, seed=5), [0]

    def counted(real: Callable[[Path, Path], None]) -> Callable[[Path, Path], None]:
        def move(source: Path, target: Path) -> None:
            left[0] -= ".new" in f"{source} {target}" or ".moving" in f"{source} {target}"
            if left[0] < 0:
                raise KeyboardInterrupt  # as good as killed: what follows is not done
            real(source, target)

        return move

    for step in range(10):
        old.save(out, force=True)
        (out / "update.json").write_text("[]")  # of the old one
        (out / "mine.txt").write_text("mine")
        left[0] = step
        with monkeypatch.context() as patch, suppress(KeyboardInterrupt):
            for name in ("rename", "replace"):
                patch.setattr(os, name, counted(getattr(os, name)))
            new.save(out, force=True)
        found = load_run(out)
        assert found.seed == (old if step == 0 else new).seed
        assert (out / "update.json").exists() == (step == 0)
        assert (out / "mine.txt").exists()
        assert not [path for path in out.iterdir() if path.name.startswith(".")]
    killed, busy = out / ".run.abcd_123", out / ".run.efgh_456"  # long ago, and just now
    killed.mkdir()
    os.utime(killed, (0, 0))
    busy.mkdir()
    new.save(out, force=True)
    assert [path for path in out.iterdir() if path.name.startswith(".")] == [busy]


def test_errors_of_the_library_name_no_flags(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "log.csv").write_text(LOG)
    path = tmp_path / "log.csv"
    for options, name in (
        (Options(), "gamma"),
        (Options(gamma=0.9, clip=0.5), "clip"),
        (Options(gamma=0.9, weights=path), "weights"),
        (Options(gamma=0.9, seed=-1), "seed"),
        (Options(gamma=0.9, continuous=True, strength=2.0), "strength"),
    ):
        with pytest.raises(InputError) as caught:
            set_up(path, options)
        assert "--" not in str(caught.value)
        assert name in caught.value.arguments
    assert run_cli(["solve", str(path)]) == 2
    assert "On the command line: --gamma." in said(capsys)
    assert run_cli(["solve", str(path), "--gamma", ".9", "--test-episodes", "3"]) == 2
    assert "On the command line: --test-episodes." in said(capsys)


def test_notes_travel_as_facts() -> None:
    note = Note("decisions_rarely_seen", Level.CAUTION, {"share": 0.5, "fewer_than": 5})
    assert Note.from_dict(json.loads(json.dumps(note.to_dict()))) == note
