"""Tasks, result files, resuming: the same bytes whoever computes them, and nothing lost."""

from __future__ import annotations

import errno
import json
import os
import signal
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import pytest

from softrobust._core.files import atomic_write
from softrobust.errors import InputError
from softrobust.run.jobs import (
    StorageError,
    Task,
    failure_file,
    run_tasks,
    store,
    task_key,
    task_seed,
)
from softrobust.run.jobs.local import worker_environment
from tests.run.jobs.folders import contents, load_results


def squares(n: int, **more: Any) -> list[Task]:
    return [Task(f"sq{x}", "tests.run.jobs.jobs:square", {"x": x, **more}) for x in range(n)]


def test_the_bytes_do_not_depend_on_the_workers(tmp_path: Path) -> None:
    outs = []
    for workers in (0, 1, 3):
        out = tmp_path / f"w{workers}"
        outcome = run_tasks(squares(7), out, workers=workers, title="squares")
        assert list(outcome.results) == [f"sq{x}" for x in range(7)]
        assert set(outcome.timings) == set(outcome.results)
        assert not outcome.failed
        outs.append(contents(out))
    assert outs[0] == outs[1] == outs[2]
    assert {Path(name).suffix for name in outs[0]} == {".json"}  # no pickles
    assert b"seconds" not in b"".join(outs[0].values())


def test_workers_import_nothing_from_the_current_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("json", "queue", "signal", "numpy", "sitecustomize", "softrobust"):
        code = f"open({str(tmp_path / 'ran')!r}, 'a').write('{name}')"
        (tmp_path / f"{name}.py").write_text(code)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend("")  # as an interactive session has it
    tasks = [Task("a", "tests.run.jobs.jobs:square", {"x": 2.0})]
    done = run_tasks(tasks, tmp_path / "out", workers=1)
    assert done.results["a"]["square"] == 4.0
    assert not (tmp_path / "ran").exists()


def test_results_are_read_back(tmp_path: Path) -> None:
    outcome = run_tasks(squares(3), tmp_path / "out", workers=0)
    assert load_results(tmp_path / "out") == outcome.results
    assert outcome.results["sq2"]["square"] == 4


def test_resuming_does_only_what_is_missing(tmp_path: Path) -> None:
    out = tmp_path / "out"
    run_tasks(squares(4), out, workers=0)
    before = contents(out)
    (out / "results" / "sq1.json").unlink()
    (out / "results" / ".sq1.json.x7k").write_text("half of it")  # what a kill leaves
    outcome = run_tasks(squares(4), out, workers=0, resume=True)
    assert contents(out) == before
    lines = (out / "timings.jsonl").read_text().splitlines()
    assert [json.loads(line)["key"] for line in lines] == ["sq0", "sq1", "sq2", "sq3", "sq1"]
    assert len(outcome.results) == 4


@pytest.mark.parametrize("damage", ["", "{", '{"key": "sq1"}', "a digit", "another task"])
def test_a_damaged_result_is_computed_again(tmp_path: Path, damage: str) -> None:
    out = tmp_path / "out"
    run_tasks(squares(3), out, workers=0)
    before, file = contents(out), out / "results" / "sq2.json"
    if damage == "a digit":
        file.write_text(file.read_text().replace('"square": 4', '"square": 5'))
    elif damage == "another task":
        file.write_bytes((out / "results" / "sq1.json").read_bytes())
    else:
        file.write_text(damage)
    run_tasks(squares(3), out, workers=0, resume=True)
    assert contents(out) == before


def test_another_plan_is_refused_and_the_difference_named(tmp_path: Path) -> None:
    out, log = tmp_path / "out", tmp_path / "log.csv"
    log.write_text("a\nb\n")

    def tasks(times: int, n: int = 1) -> list[Task]:
        name = "tests.run.jobs.jobs:count_lines"
        return [Task(f"count{i}", name, {"times": times}, {"log": log}) for i in range(n)]

    assert run_tasks(tasks(2), out, workers=0).results == {"count0": {"lines": 4}}
    before = contents(out)
    with pytest.raises(InputError, match="times was 2 and is 3"):
        run_tasks(tasks(3), out, workers=0, resume=True)
    with pytest.raises(InputError, match="task 'count1' is new"):
        run_tasks(tasks(2, 2), out, workers=0, resume=True)
    log.write_text("a\nb\nc\n")
    with pytest.raises(InputError, match="content of the file 'log' has changed"):
        run_tasks(tasks(2), out, workers=0, resume=True)
    assert contents(out) == before
    log.write_text("a\nb\n")
    plan = json.loads((out / "plan.json").read_text())
    plan["versions"]["numpy"] = "1.0"
    (out / "plan.json").write_text(json.dumps(plan))
    with pytest.raises(InputError, match=r"numpy was 1\.0 and is"):
        run_tasks(tasks(2), out, workers=0, resume=True)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"tasks": {}}, "tasks must be a list"),
        ({"tasks": [{"key": None, "hash": "", "settings": {}}]}, r"tasks\[0\].key must be text"),
        ({"tasks": [{"key": "a", "settings": {}}]}, r"tasks\[0\].hash is missing"),
        ({"versions": 3}, "versions must be an object"),
        ({"format_version": "<script>"}, "format_version"),
    ],
)
def test_a_garbled_plan_is_refused(change: dict[str, Any], words: str, tmp_path: Path) -> None:
    tasks = [Task("a", "tests.run.jobs.jobs:square", {"x": 2.0})]
    run_tasks(tasks, tmp_path / "out", workers=0)
    plan = tmp_path / "out" / "plan.json"
    plan.write_text(json.dumps(json.loads(plan.read_text()) | change))
    with pytest.raises(InputError, match=rf"plan\.json.*{words}"):
        run_tasks(tasks, tmp_path / "out", workers=0, resume=True)


def test_the_folder(tmp_path: Path) -> None:
    run_tasks(squares(1), tmp_path / "out", workers=0)
    with pytest.raises(InputError, match="resume=True"):
        run_tasks(squares(1), tmp_path / "out", workers=0)
    (tmp_path / "file").touch()
    with pytest.raises(InputError, match="is a file"):
        run_tasks(squares(1), tmp_path / "file", workers=0)
    with pytest.raises(InputError, match="does not exist"):
        run_tasks(squares(1), tmp_path / "no" / "out", workers=0)
    with pytest.raises(InputError, match="no run that could go on"):
        run_tasks(squares(1), tmp_path, workers=0, resume=True)
    (tmp_path / "early").mkdir()  # killed before the plan was there
    assert run_tasks(squares(1), tmp_path / "early", workers=0, resume=True).results
    with (
        store.open_store(tmp_path / "busy", squares(1), False, ""),
        pytest.raises(InputError, match="Another run is writing"),
    ):
        run_tasks(squares(1), tmp_path / "busy", workers=0, resume=True)


@contextmanager
def at_most(seconds: float) -> Iterator[None]:
    """What waits for a pipe would wait for ever: an alarm ends it."""

    def end(*_: object) -> None:
        raise TimeoutError(f"not done after {seconds} s")

    before = signal.signal(signal.SIGALRM, end)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes here")
@pytest.mark.parametrize("name", ["plan.json", "timings.jsonl", "results/sq1.json"])
def test_pipes_and_devices_are_refused_at_once(tmp_path: Path, name: str) -> None:
    out = tmp_path / "out"
    run_tasks(squares(3), out, workers=0)
    whole, file = contents(out), out / name
    kept = file.read_bytes()
    for make in (os.mkfifo, lambda path: path.symlink_to("/dev/null"), Path.mkdir):
        file.unlink()
        make(file)
        with at_most(20), pytest.raises(InputError, match=f"{name}' is a pipe, a device") as found:
            run_tasks(squares(3), out, workers=0, resume=True)
        assert ("resume=True" in str(found.value)) == (name != "plan.json")
        if file.is_dir():
            file.rmdir()
            file.touch()
    file.unlink()
    if name == "plan.json":  # its advice is to begin elsewhere
        file.write_bytes(kept)
    run_tasks(squares(3), out, workers=0, resume=True)
    assert contents(out) == whole


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes here")
def test_a_pipe_as_the_file_of_a_task_is_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "log.csv")
    task = Task("t", "tests.run.jobs.jobs:count_lines", {"times": 1}, {"log": tmp_path / "log.csv"})
    with at_most(20), pytest.raises(InputError, match=r"log\.csv is a pipe or a device"):
        run_tasks([task], tmp_path / "out", workers=0)


@pytest.mark.parametrize("workers", [0, 2])
def test_a_failed_task_is_told_and_the_rest_goes_on(tmp_path: Path, workers: int) -> None:
    out = tmp_path / "out"
    tasks = [
        Task("bad", "tests.run.jobs.jobs:fail", {"x": 3}),
        Task("inf", "tests.run.jobs.jobs:infinite"),
        Task("lost", "tests.run.jobs.nowhere:f"),
        *squares(3),
    ]
    outcome = run_tasks(tasks, out, workers=workers)
    assert list(outcome.results) == ["sq0", "sq1", "sq2"]
    assert list(outcome.failed) == ["bad", "inf", "lost"]
    assert outcome.failed["bad"] == "ZeroDivisionError: no result for 3"
    assert "finite" in outcome.failed["inf"]
    assert "nowhere" in outcome.failed["lost"]
    text = failure_file(out, "bad").read_text()
    assert "Traceback" in text
    assert "a word before the fall" in text
    again = run_tasks(tasks, out, workers=workers, resume=True)  # tried again, as told
    assert again.failed == outcome.failed
    assert again.results == outcome.results


def test_a_success_after_a_failure_removes_its_report(tmp_path: Path) -> None:
    out, mark = tmp_path / "out", tmp_path / "mark"
    tasks = [Task("t", "tests.run.jobs.jobs:needs_mark", {"mark": str(mark)})]
    assert run_tasks(tasks, out, workers=0).failed
    assert failure_file(out, "t").exists()
    mark.touch()
    assert not run_tasks(tasks, out, workers=0, resume=True).failed
    assert not failure_file(out, "t").exists()


def test_a_worker_that_is_killed_loses_nothing(tmp_path: Path) -> None:
    out = tmp_path / "out"
    tasks = [
        Task("once", "tests.run.jobs.jobs:die_once", {"x": 5, "folder": str(tmp_path)}),
        Task("always", "tests.run.jobs.jobs:die", {"x": 1}),
        *squares(3),
        Task("chatty", "tests.run.jobs.jobs:chatty", {"x": 1}),
    ]
    outcome = run_tasks(tasks, out, workers=2)
    assert outcome.results["once"]["square"] == 25
    assert set(outcome.results) == {"once", "sq0", "sq1", "sq2", "chatty"}
    assert outcome.results["chatty"]["threads"] == worker_environment(2)["NUMBA_NUM_THREADS"]
    assert "died 3 times" in outcome.failed["always"]
    assert "SIGKILL" in outcome.failed["always"]


@pytest.mark.parametrize("reason", [errno.ENOSPC, errno.EACCES])
def test_a_full_disk_leaves_earlier_results_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, reason: int
) -> None:
    out, whole = tmp_path / "out", tmp_path / "whole"
    run_tasks(squares(5), whole, workers=0)

    @contextmanager
    def full(path: str | Path, mode: str = "w", newline: str | None = None) -> Iterator[IO[Any]]:
        with atomic_write(path, mode, newline) as file:
            yield file
            if Path(path).name == "sq3.json":
                file.write("half")
                file.flush()
                raise OSError(reason, "it is so")

    monkeypatch.setattr(store, "atomic_write", full)
    with pytest.raises(StorageError, match=r"it is so.*resume=True"):
        run_tasks(squares(5), out, workers=0)
    monkeypatch.undo()
    left = {
        name: data for name, data in contents(whole).items() if name[-8:-5] not in ("sq3", "sq4")
    }
    assert contents(out) == left
    run_tasks(squares(5), out, workers=0, resume=True)
    assert contents(out) == contents(whole)


def test_a_write_that_the_system_refuses(tmp_path: Path) -> None:
    """No monkeypatch: files may not grow beyond 4 kB here, and one result would."""
    resource = pytest.importorskip("resource")
    lengths = {"a": 10, "b": 9000, "c": 10}
    tasks = [Task(k, "tests.run.jobs.jobs:long_result", {"n": n}) for k, n in lengths.items()]
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, hard))
    try:
        with pytest.raises(StorageError, match="File too large"):
            run_tasks(tasks, tmp_path / "out", workers=0)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert list(load_results(tmp_path / "out")) == ["a"]
    assert {p.name for p in (tmp_path / "out" / "results").iterdir()} == {"a.json"}
    assert len(run_tasks(tasks, tmp_path / "out", workers=0, resume=True).results) == 3


@contextmanager
def an_ordinary_user(folder: Path) -> Iterator[None]:
    """Permissions mean nothing to root: act as somebody who must obey them."""
    if os.geteuid() != 0:
        yield
        return
    os.chown(folder, 65534, 65534)
    os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(0)


@pytest.mark.skipif(not hasattr(os, "geteuid"), reason="no such permissions here")
def test_folders_without_permission() -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with an_ordinary_user(folder):
            run_tasks(squares(2), folder / "out", workers=0)
            before = contents(folder / "out")
            (folder / "out" / "results" / "sq1.json").unlink()
            for locked in (folder / "out" / "results", folder / "out"):
                locked.chmod(0o555)
                with pytest.raises((StorageError, InputError), match=r"[Pp]ermission"):
                    run_tasks(squares(2), folder / "out", workers=0, resume=True)
            (folder / "out").chmod(0o000)
            with pytest.raises(InputError, match=r"[Pp]ermission"):
                run_tasks(squares(2), folder / "out" / "x", workers=0)
            (folder / "out").chmod(0o755)
            (folder / "out" / "results").chmod(0o755)
            run_tasks(squares(2), folder / "out", workers=0, resume=True)
            assert contents(folder / "out") == before


def test_an_unwritable_folder_is_refused_before_any_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("softrobust.run.jobs.store.os.access", lambda *_: False)
    with pytest.raises(InputError, match="No permission"):
        run_tasks(squares(1), tmp_path / "out", workers=0)
    monkeypatch.undo()

    def refuse(self: Path, **_: object) -> None:
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(Path, "mkdir", refuse)
    with pytest.raises(InputError, match="Permission denied"):
        run_tasks(squares(1), tmp_path / "out", workers=0)


def test_tasks_are_checked(tmp_path: Path) -> None:
    for key in ("", ".x", "a/b", "a b", "x" * 151):
        with pytest.raises(InputError, match="names a file"):
            Task(key, "m:f")
    with pytest.raises(InputError, match=r"package\.module:name"):
        Task("a", "no_colon")
    with pytest.raises(InputError, match="plain values"):
        Task("a", "m:f", {"x": {1, 2}})
    with pytest.raises(InputError, match="plain values"):
        Task("a", "m:f", {"x": float("nan")})
    with pytest.raises(InputError, match="both"):
        Task("a", "m:f", {"x": 1}, {"x": tmp_path})
    with pytest.raises(InputError, match="needs the file"):
        run_tasks([Task("a", "m:f", {}, {"x": tmp_path / "no"})], tmp_path / "out", workers=0)
    with pytest.raises(InputError, match="Two tasks have the key 'sq0'"):
        run_tasks(squares(1) * 2, tmp_path / "out", workers=0)
    with pytest.raises(InputError, match="more than case"):
        run_tasks([Task("a", "m:f"), Task("A", "m:f")], tmp_path / "out", workers=0)
    with pytest.raises(InputError, match="not both"):
        run_tasks(squares(1), tmp_path / "out", workers=1, cluster="local:2")
    with pytest.raises(InputError, match="0 or more"):
        run_tasks(squares(1), tmp_path / "out", workers=-1)
    assert not (tmp_path / "out").exists()


def test_a_file_that_changes_during_the_run_is_noticed(tmp_path: Path) -> None:
    log = tmp_path / "log.csv"
    log.write_text("a\n")
    tasks = [
        Task("first", "tests.run.jobs.jobs:overwrite", {"path": str(log)}),
        Task("second", "tests.run.jobs.jobs:count_lines", {"times": 1}, {"log": log}),
    ]
    outcome = run_tasks(tasks, tmp_path / "out", workers=0)
    assert "has changed since the run began" in outcome.failed["second"]


@pytest.mark.parametrize("workers", [0, 1])
def test_warnings_are_kept_beside_the_results(tmp_path: Path, workers: int) -> None:
    out = tmp_path / "out"
    tasks = [Task(f"w{i}", "tests.run.jobs.jobs:warns", {"x": 7}) for i in range(2)]
    said = {"7 is a strange number": ["w0", "w1"]}
    assert run_tasks(tasks, out, workers=workers).warnings == said
    with open(out / "timings.jsonl", "a") as file:
        file.write('{"key": "w0", "se')  # what a kill leaves
    (out / "results" / "w1.json").unlink()
    again = run_tasks(tasks, out, workers=workers, resume=True)
    assert again.warnings == said
    assert set(again.timings) == {"w0", "w1"}


def test_seeds_belong_to_coordinates() -> None:
    assert task_seed(0, "riverswim", 3) == 5707693672567223595  # for good: results hang on it
    seeds = {task_seed(root, name, i) for root in (0, 1) for name in "ab" for i in range(50)}
    assert len(seeds) == 200
    assert all(0 <= seed < 2**63 for seed in seeds)


def test_keys() -> None:
    assert task_key("my log", "seed0", "s-rect", "λ") == "my_log-seed0-s-rect-_"
    assert task_key("..", "") == "_-_"


def test_plain_lines_only_where_asked(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run_tasks(squares(2), tmp_path / "a", workers=0)
    assert capsys.readouterr().err == ""
    run_tasks(squares(2), tmp_path / "b", workers=0, progress=True, title="two")
    assert "two: 2 of 2" in capsys.readouterr().err
