"""Parts of a stream of models made by others: the same bits, whoever makes them."""

from __future__ import annotations

import json
import logging
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from softrobust._core.limits import within
from softrobust.errors import InputError
from softrobust.posterior import sampling
from softrobust.posterior.sampling import Draws
from softrobust.returns import stream_returns
from softrobust.run import Options, set_up
from softrobust.run.jobs import Crew, cluster
from softrobust.run.options import Setup
from softrobust.solvers import Nominal
from tests.run.test_growth import small_log

N = 1000


@pytest.fixture
def setup(monkeypatch: pytest.MonkeyPatch) -> Setup:
    monkeypatch.setattr(sampling, "SHARDED", 100)
    monkeypatch.setattr(sampling, "SHARD", 128)
    return set_up(small_log(noise=0.3), Options(gamma=0.9, n_models=20, reference="practice"))


def made(setup: Setup, n: int = N) -> tuple[np.ndarray, ...]:
    """What two policies earn in a stream, what was taken off, and models of another stream."""
    problem = setup.problem
    policies = [Nominal().solve(problem).policy, problem.uniform_policy()]
    found = stream_returns(problem, policies, Draws.of(setup.posterior, n, 7))
    models = Draws.of(setup.posterior, 300, 8).models
    paid = models.rewards
    assert paid is not None
    assert paid.per_model is not None  # rewards are drawn with the models
    assert all(x.reference is not None for x in found)
    return *(x.x for x in found), *(x.plain for x in found), models.prob, paid.per_model


def equal(one: tuple[np.ndarray, ...], other: tuple[np.ndarray, ...]) -> None:
    for x, y in zip(one, other, strict=True):
        np.testing.assert_array_equal(x, y)


def test_processes_make_the_same_bits_even_when_killed(
    setup: Setup, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = made(setup)
    with Crew(workers=2) as crew:
        equal(here, made(setup))
        assert crew.staff is not None
        for worker in crew.staff.workers:
            worker.process.kill()
        monkeypatch.setattr(sampling, "SHARD", 300)  # parts of another size
        equal(here, made(setup))
    assert sampling.CREW.get() is None


def test_a_crew_that_makes_no_sense() -> None:
    with pytest.raises(InputError, match="not both"):
        Crew(2, "local:2")
    with pytest.raises(InputError, match="local:N"):
        Crew(cluster="local:none")
    with pytest.raises(InputError, match="the address of its scheduler"):
        Crew(cluster="nonsense")
    for address in ("tcp://node0:8786", "node0:8786", "tls://[::1]:8786", "ws://node0:80/x"):
        assert Crew(cluster=address).cluster == address


def test_a_cluster_without_workers_leaves_the_rest_to_this_process(
    setup: Setup, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    distributed = pytest.importorskip("distributed")
    here, own = made(setup), cluster._reply
    with cluster._quiet(), distributed.LocalCluster(
        n_workers=1, threads_per_worker=1, processes=False, dashboard_address=None,
        memory_limit=0, silence_logs=logging.CRITICAL,
    ) as there, Crew(cluster=there.scheduler_address) as crew:  # fmt: skip

        def last(*words: Any) -> Any:
            found = own(*words)
            there.scale(0)
            return found

        monkeypatch.setattr(cluster, "LOOK", 0.1)
        monkeypatch.setattr(cluster, "LONG", 0.2)
        monkeypatch.setattr(cluster, "_reply", last)  # one part comes back, and then nobody is left
        equal(here, made(setup))
        assert crew.alone
    assert capsys.readouterr().err.count("goes on by itself") == 1


@pytest.mark.slow
@pytest.mark.parametrize("workers", [1, 3])
def test_any_number_of_processes_makes_the_same_bits(setup: Setup, workers: int) -> None:
    here = made(setup)
    with Crew(workers=workers):
        equal(here, made(setup))


@contextmanager
def by_hand(folder: Path, workers: int) -> Iterator[tuple[str, list[subprocess.Popen[bytes]]]]:
    """A scheduler and workers, started as one would on several machines."""
    file = folder / "scheduler.json"
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    at = ["--host", "127.0.0.1", "--no-dashboard"]

    def start(what: str, *words: str) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", "distributed.cli.dask_" + what, *at, *words]
        return subprocess.Popen([*command, "--scheduler-file", str(file)], cwd=folder, **quiet)  # type: ignore[call-overload,no-any-return]

    running = [start("scheduler", "--port", "0")]
    try:
        while not file.exists():
            time.sleep(0.2)
        running += [start("worker", "--nthreads", "1", "--no-nanny") for _ in range(workers)]
        yield json.loads(file.read_text())["address"], running[1:]
    finally:
        for process in running:
            process.kill()
            process.wait()


@pytest.mark.slow
def test_a_cluster_started_by_hand_makes_the_same_bits(setup: Setup, tmp_path: Path) -> None:
    pytest.importorskip("distributed")
    here = made(setup)
    with by_hand(tmp_path, 3) as (address, workers), Crew(cluster=address):
        equal(here, made(setup))
        workers[0].kill()  # what it had is made by others
        equal(here, made(setup))
        for worker in workers:
            worker.kill()
        with within(60.0):
            equal(here, made(setup))
