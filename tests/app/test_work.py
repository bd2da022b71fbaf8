"""What the app asks for: looks at files, and processes that do what the command line does."""

from __future__ import annotations

import json
import re
import subprocess
import threading
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from softrobust._core.limits import Deadline, LiveLine, stage, watched, within
from softrobust.app import work
from softrobust.app.texts import TEXTS
from softrobust.cli.main import run as softrobust
from softrobust.data.labels import Labels
from softrobust.errors import InputError
from softrobust.models.policy import Policy, TimedPolicy
from softrobust.run import run_page

LOG = Path(__file__).resolve().parents[2] / "examples" / "pest_log.csv"


@pytest.fixture
def short(tmp_path: Path) -> Path:
    """Three episodes of the bundled log."""
    path = tmp_path / "short.csv"
    path.write_text("".join(LOG.read_text().splitlines(keepends=True)[:121]), encoding="utf-8")
    return path


@pytest.mark.parametrize(
    ("told", "meant"),
    [
        ("0.95", 0.95), ("0,95", 0.95), (" ,5 ", 0.5), ("1.234,5", 1234.5), ("1,234.5", 1234.5),
        ("1 000", 1000.0), ("−3", -3.0), ("1e-3", 1e-3), ("", None), ("ten", None), ("1,2,3", None),
        ("nan", None), ("inf", None), ("0.9.5", None),
    ],
)  # fmt: skip
def test_numbers_as_people_write_them(told: str, meant: float | None) -> None:
    assert work.number_of(told) == meant


def test_costs_as_people_write_them() -> None:
    assert work.costs_of("spray=2, none=0") == {"spray": 2.0, "none": 0.0}
    assert work.costs_of("a b=1,5; x=y=2") == {"a b": 1.5, "x=y": 2.0}
    assert all(work.costs_of(told) is None for told in ("spray", "=3", "a=x", "a=1;b"))


def test_every_text_that_is_asked_for_is_there() -> None:
    app = Path(work.__file__).parent
    asked = re.findall(r'\btext\(\s*"(\w+)"', "".join(f.read_text() for f in app.glob("*.py")))
    assert len(asked) > 50
    assert set(asked) <= set(TEXTS)


def test_a_look_finds_columns_and_rows(tmp_path: Path) -> None:
    lines = LOG.read_text(encoding="utf-8").splitlines()
    lines[5] = lines[5].rsplit(",", 1)[0] + ",99999"
    path = tmp_path / "odd.csv"
    path.write_text("\n".join(lines), encoding="utf-8")
    seen = work.look(work.Draft(path))
    assert seen.found is not None
    assert {"state", "action", "next_state", "reward"} <= set(seen.taken)
    assert [note.code for note in seen.found.findings] == ["codes_for_missing"]
    assert seen.rows[6] == lines[5].split(",")
    assert work.look(work.Draft(tmp_path / "none.csv")).error.startswith("There is no file")


def test_columns_can_be_corrected(short: Path) -> None:
    text = short.read_text(encoding="utf-8").replace("action", "deed", 1)
    short.write_text(text, encoding="utf-8")
    draft = work.Draft(short)
    seen = work.look(draft)
    assert seen.found is None or seen.found.kind != "log"
    assert "deed" in seen.names
    draft.kind, draft.columns = "log", {"action": "deed"}
    seen = work.look(draft)
    assert seen.found is not None
    assert seen.taken["action"] == "deed"
    assert draft.job(seen.found)["options"]["columns"] == {"action": "deed"}


def job_at(folder: Path, name: str, job: dict[str, Any]) -> Path:
    """The files of a job, without a process."""
    place = work.place_of(folder, name)
    place.mkdir()
    (place / work.JOB).write_text(json.dumps(job))
    told = {"began": time.time(), "stages": [], "detail": ""}
    (place / work.STATUS).write_text(json.dumps(told))
    return place


def test_it_is_what_the_command_line_does(short: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("softrobust.run.run_page", lambda run, out, full: run_page(run, out))
    seen = work.look(work.Draft(short))
    assert seen.found is not None
    job = work.Draft(short, gamma=0.9).job(seen.found)
    job["options"]["n_models"] = 50  # as many as there is time for, else
    place = job_at(short.parent, "app", job)
    seen_stages: list[str] = []
    with watched(seen_stages.append):
        assert work.main(["solve", str(place)]) == 0
    assert not place.exists()
    out = short.parent / "line"
    line = ["solve", str(short), "--gamma", "0.9", "--models", "50", "--out", str(out), "--quiet"]
    assert softrobust(line) == 0
    records = [
        json.loads((short.parent / n / "solution.json").read_text()) for n in ("app", "line")
    ]
    for record in records:
        record["stats"] = {k: v for k, v in record["stats"].items() if "seconds" not in k}
    assert records[0] == records[1]
    assert [line for line in seen_stages if line.startswith("choosing")]


def test_a_stop_keeps_the_best_so_far(short: Path) -> None:
    options = {"gamma": 0.95, "lam": 0.5}
    job = {"file": str(short), "solver": "exact", "options": options}
    place = job_at(short.parent, "cut", job)
    work.ask_to_stop(place)
    assert work.main(["solve", str(place)]) == 0
    record = json.loads((short.parent / "cut" / "solution.json").read_text())
    assert record["status"] in ("time_limit", "optimal")
    assert [n for n in record["notes"] if n["code"] == "cut_by_time"]


def test_what_is_wrong_is_left_to_be_read(short: Path) -> None:
    options = {"gamma": 2.0}
    place = job_at(short.parent, "bad", {"file": str(short), "solver": "exact", "options": options})
    assert work.main(["solve", str(place)]) == 2
    found = work.status(place)
    assert found is not None
    assert not found.alive
    assert "gamma" in found.error
    assert [job.name for job in work.solves(short.parent)] == ["bad"]
    work.forget(place)
    assert work.solves(short.parent) == []


@pytest.mark.parametrize("file", [work.JOB, work.STATUS, work.ERROR])
@pytest.mark.parametrize("text", ["", "[]", '{"error": 3, "file": [], "began": "x"}', "{}"])
def test_damaged_files_of_a_solve_are_said(file: str, text: str, short: Path) -> None:
    place = job_at(short.parent, "run", {"file": str(short), "options": {}})
    (place / file).write_text(text)
    found = work.status(place)
    assert found is not None
    assert not found.alive
    assert file in found.error
    if file != work.ERROR:
        assert work.main(["solve", str(place)]) == 2
    (place / work.JOB).write_text(json.dumps({"file": str(short), "options": {"no_such": 1}}))
    assert work.main(["solve", str(place)]) == 2
    (place / work.MADE).write_text('{"points": [1]}')
    with pytest.raises(InputError, match=r"made\.json"):
        work.made(place)


def test_a_damaged_run_is_listed_bare(short: Path) -> None:
    for name, text in (("a", '{"source": ["<script>"], "solver": 3}'), ("b", "{"), ("c", "{}")):
        (short.parent / name).mkdir()
        (short.parent / name / "solution.json").write_text(text)
    assert sorted(work.runs(short.parent)) == [(name, "", "") for name in "abc"]


def test_rules_for_each_step_are_told_apart() -> None:
    names = (Labels(("here", "there"), noun="state"), Labels(("go", "stay"), noun="action"))
    timed, other = (TimedPolicy(np.array(d), *names) for d in ([[0, 1], [1, 1]], [[0, 1], [0, 1]]))
    always = Policy(np.array([[1.0, 0.0], [0.0, 1.0]]), *names)
    runs: list[Any] = [
        SimpleNamespace(solution=SimpleNamespace(policy=p)) for p in (timed, other, always)
    ]
    assert work.differences(runs[0], runs[0]) == []
    assert [row[0] for row in work.differences(runs[0], runs[1])] == ["here"]
    assert [row[0] for row in work.differences(runs[0], runs[2])] == ["here"]


def test_a_silent_process_is_thought_dead(short: Path) -> None:
    import os

    place = job_at(short.parent, "old", {"file": str(short), "solver": "exact", "options": {}})
    assert [job.alive for job in work.solves(short.parent)] == [True]
    os.utime(place / work.STATUS, (1, 1))
    assert [job.alive for job in work.solves(short.parent)] == [False]


def test_two_begin_at_once_and_get_two_names(short: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    begun = []
    monkeypatch.setattr(subprocess, "Popen", lambda words, **_: begun.append(words))
    names = []
    threads = [
        threading.Thread(target=lambda: names.append(
            work.start_solve(short.parent, "run", {"file": str(short)})))
        for _ in range(8)
    ]  # fmt: skip
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(names) == ["run", *(f"run-{i}" for i in range(2, 9))]


def test_no_module_of_the_folder_runs(short: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(short.parent)
    for name in ("json", "numpy", "random", "sitecustomize", "threading", "softrobust"):
        Path(f"{name}.py").write_text("import pathlib; pathlib.Path('RAN').touch()")
    options = {"gamma": 0.9, "columns": {"state": "nothing"}}  # a job that ends at once
    name = work.start_solve(short.parent, "run", {"file": short.name, "solver": "nominal",
                                                  "options": options})  # fmt: skip
    place = work.place_of(short.parent, name)
    work._children.pop(str(place)).wait(timeout=120)
    found = work.status(place)
    assert found is not None
    assert "nothing" in found.error
    assert not Path("RAN").exists()


@pytest.mark.parametrize("limit", [100.0, None])
def test_a_bound_that_is_ended_ends_those_within(limit: float | None) -> None:
    with within(limit) as bound:
        inner = Deadline(50.0)
        part = bound.part(0.5)
        assert not bound.passed
        with within(None) as same:
            bound.end()
            assert same.passed
        assert bound.passed
        assert inner.passed
        assert part.passed
        assert not inner.at_least(5.0).passed  # what must have time still has it
        assert not Deadline().passed
    assert not Deadline(1.0).passed


def test_a_watcher_hears_the_stages() -> None:
    heard: list[str] = []
    with watched(heard.append):
        stage("one")
        LiveLine().update("two")
    stage("three")
    assert heard == ["one …", "two"]
