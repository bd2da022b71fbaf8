"""The same tasks on Dask: the same bytes, and a worker that dies loses nothing."""

from __future__ import annotations

import logging
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from softrobust._core.limits import within
from softrobust.errors import InputError, MissingExtraError, SolverError
from softrobust.run.jobs import Task, cluster, run_tasks
from softrobust.run.jobs.tasks import versions
from tests.run.jobs.folders import contents
from tests.run.jobs.jobs import many

pytest.importorskip("distributed")
dask = pytest.importorskip("dask")


def tasks(folder: Path, mark: str) -> list[Task]:
    (folder / mark).mkdir()
    (folder / "log.csv").write_text("a\nb\n")
    return [
        *[Task(f"sq{x}", "tests.run.jobs.jobs:square", {"x": x}) for x in range(4)],
        Task("lines", "tests.run.jobs.jobs:count_lines", {"times": 2}, {"log": folder / "log.csv"}),
    ]


@pytest.fixture
def address() -> Iterator[str]:
    import distributed

    from softrobust.run.jobs.local import worker_environment

    spawn = {"distributed.nanny.pre-spawn-environ": worker_environment(1)}
    with (
        cluster._quiet(),
        dask.config.set(spawn),
        distributed.LocalCluster(
            n_workers=1, threads_per_worker=1, processes=True, dashboard_address=None,
            memory_limit=0, silence_logs=logging.CRITICAL,
        ) as made,
    ):  # fmt: skip
        yield made.scheduler_address


def test_a_dask_worker_killed_in_the_midst_loses_nothing(tmp_path: Path, address: str) -> None:
    shared = tmp_path / "marks"
    die = Task("die", "tests.run.jobs.jobs:die_once", {"x": 9, "folder": str(shared)})
    bad = Task("bad", "tests.run.jobs.jobs:fail", {"x": 1})
    planned = [die, bad, *tasks(tmp_path, "marks")]
    outcome = run_tasks(planned, tmp_path / "dask", cluster=address)
    assert (shared / "died-9").exists()  # it was killed with the task in its hands
    assert outcome.results["die"]["square"] == 81
    assert outcome.failed == {"bad": "ZeroDivisionError: no result for 1"}
    run_tasks(planned, tmp_path / "here", workers=0)
    done, here = contents(tmp_path / "dask"), contents(tmp_path / "here")
    assert {k: v for k, v in done.items() if k != "failures/bad.txt"} == {
        k: v for k, v in here.items() if k != "failures/bad.txt"
    }
    assert not list(tmp_path.rglob("*.pickle")) + list(tmp_path.rglob("*dask-scratch*"))


def test_a_cluster_by_its_address(
    tmp_path: Path, address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Files travel with their tasks; a worker of another version is refused."""
    planned = tasks(tmp_path, "marks")
    outcome = run_tasks(planned, tmp_path / "dask", cluster=address)
    assert not outcome.failed
    assert outcome.results["lines"] == {"lines": 4}
    run_tasks(planned, tmp_path / "here", workers=0)
    assert contents(tmp_path / "dask") == contents(tmp_path / "here")
    other = versions() | {"numpy": "1.0"}
    monkeypatch.setattr(cluster, "versions", lambda: other)
    refused = run_tasks(planned[:1], tmp_path / "other", cluster=address)
    assert "same versions on every worker" in refused.failed["sq0"]


def test_bad_addresses(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster, "PATIENCE", 0.5)
    planned = [Task("sq", "tests.run.jobs.jobs:square", {"x": 1})]
    for i, wrong in enumerate(("local:0", "local:two")):
        with pytest.raises(InputError, match="local:N"):
            run_tasks(planned, tmp_path / f"a{i}", cluster=wrong)
    with pytest.raises(InputError, match="No Dask scheduler answers"):
        run_tasks(planned, tmp_path / "b", cluster="tcp://127.0.0.1:9")
    with pytest.raises(InputError, match="No Dask scheduler answers"):
        run_tasks(planned, tmp_path / "c", cluster="nonsense://x:1")
    for wrong in ("nonsense", "", "nonsense://x", "tcp://node0", "node0:", "a b:1", "8786"):
        with pytest.raises(InputError, match=f"address of its scheduler.* it is '{wrong}'"):
            run_tasks(planned, tmp_path / "d", cluster=wrong)
    assert not (tmp_path / "d").exists()


@pytest.fixture
def made() -> Iterator[Any]:
    """A scheduler whose workers are threads of this process, so that they come and go at once."""
    import distributed

    with (
        cluster._quiet(),
        distributed.LocalCluster(
            n_workers=0, threads_per_worker=1, processes=False, dashboard_address=None,
            memory_limit=0, silence_logs=logging.CRITICAL,
        ) as made,
    ):  # fmt: skip
        yield made


def orders(n: int) -> list[dict[str, Any]]:
    function = "tests.run.jobs.jobs:square"
    given: list[dict[str, Any]] = [{"x": x} for x in range(n)]
    return [{"key": f"sq{g['x']}", "function": function, "settings": g, "files": {}} for g in given]


def test_without_workers_the_time_limit_ends_the_wait(
    made: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    import distributed

    monkeypatch.setattr(cluster, "LOOK", 0.1)
    address, began = made.scheduler_address, time.monotonic()
    for nobody, words in (("tcp://127.0.0.1:9", "No Dask"), (address, "has no workers")):
        with within(1.0), pytest.raises(InputError, match=words), cluster.connected(nobody):
            pass
    with (
        distributed.Client(address, set_as_default=False) as client,
        within(1.0),
        pytest.raises(SolverError, match=f"No worker is left at '{address}'.*dask worker"),
    ):
        cluster.run_cluster(orders(3), address, lambda *_: None, client)
    assert time.monotonic() - began < 10


def test_a_worker_that_comes_back_gets_what_is_left(
    made: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    import distributed

    monkeypatch.setattr(cluster, "LOOK", 0.1)
    monkeypatch.setattr(cluster, "LONG", 0.3)
    found = {}

    def answer(key: str, reply: Any, _: int | None) -> None:
        found[key] = reply["result"]["square"]

    back = threading.Timer(1.0, made.scale, [1])
    with distributed.Client(made.scheduler_address, set_as_default=False) as client:
        back.start()
        cluster.run_cluster(orders(5), made.scheduler_address, answer, client)
        back.join()
    assert found == {f"sq{x}": x * x for x in range(5)}
    assert capsys.readouterr().err.count("No worker is left") == 1  # said once


def test_without_the_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "distributed", None)
    planned = [Task("sq", "tests.run.jobs.jobs:square", {"x": 1})]
    with pytest.raises(MissingExtraError, match=r"softrobust\[cluster\]"):
        run_tasks(planned, tmp_path / "out", cluster="tcp://127.0.0.1:9")


def test_a_local_cluster_is_workers_here(tmp_path: Path) -> None:
    run_tasks(many(3, 0.0), tmp_path / "out", cluster="local:2")
    run_tasks(many(3, 0.0), tmp_path / "here", workers=0)
    assert contents(tmp_path / "out") == contents(tmp_path / "here")
