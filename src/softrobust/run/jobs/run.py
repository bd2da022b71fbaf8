"""Run tasks and keep their results: on this machine's processes, in this one, or on a cluster.

    plan → tasks not done yet → replies → one result file each

Replies come back to this process, which alone writes: whatever dies elsewhere, a result is either
whole or absent, and the bytes do not depend on who computed them, in which order, or how often.
"""

from __future__ import annotations

import signal
import sys
import threading
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Self, final

from softrobust._core.limits import Deadline, unbounded
from softrobust.errors import InputError
from softrobust.run.jobs.local import cores, run_local
from softrobust.run.jobs.store import FAILURES, open_store
from softrobust.run.jobs.tasks import Answer, Order, Task, check_tasks, perform_quietly

LOCAL = "local:"
EVERY = 10.0  # seconds between two plain lines of progress


@final
@dataclass(frozen=True, slots=True)
class Outcome:
    """What a run came to: results by key in the order given, and why the other tasks failed.

    `timings` are seconds of the finished ones; `warnings` maps what was warned of to the keys of
    the tasks that did. Tracebacks are in failures/KEY.txt.
    """

    results: dict[str, dict[str, Any]]
    failed: dict[str, str]
    timings: dict[str, float]
    warnings: dict[str, list[str]] = field(default_factory=dict)


@final
class Stopped(KeyboardInterrupt):
    """Ctrl-C: the finished results are kept, and the text says how to go on."""

    arguments: ClassVar[dict[str, str]] = {"resume": ""}


def run_tasks(
    tasks: Iterable[Task],
    out: str | Path,
    *,
    workers: int | None = None,
    cluster: str | None = None,
    resume: bool = False,
    progress: bool | None = None,
    title: str = "",
    time_limit: float | None = None,
) -> Outcome:
    """Perform every task that has no whole result in `out` yet.

    `out` is a new folder or, with `resume`, one that an earlier run of the same tasks left.
    `workers` are processes on this machine, by default one for each core; 0 performs the tasks in
    this process. `cluster` is the address of a Dask scheduler, or "local:2" for two workers here.
    There is a bar on a terminal by default; `progress=True` also writes lines into a pipe. After
    `time_limit` seconds no task of this machine is begun, and processes are ended that are not done
    soon after; `resume` goes on with the others.
    """
    planned, folder = check_tasks(tasks), Path(out)
    if workers is not None and workers < 0:
        raise InputError(f"The number of workers is 0 or more; it is {workers}.")
    if workers is not None and cluster is not None:
        raise InputError("Give workers or a cluster, not both: a cluster brings its own workers.")
    if cluster is not None and cluster.startswith(LOCAL):
        workers, cluster = _local(cluster), None
    if time_limit is not None and cluster is not None:
        text = "A time limit is for processes of this machine. Leave it out, or the cluster."
        raise InputError(text, arguments=("time_limit",))
    deadline = Deadline(time_limit)
    failed: dict[str, str] = {}
    with open_store(folder, planned, resume, title) as store:
        results = {task.key: store.load(task.key) for task in planned}
        orders = [t.order(store.records[t.key]) for t in planned if results[t.key] is None]

        def answer(key: str, reply: Mapping[str, Any], attempts: int | None) -> None:
            if "error" in reply:
                store.fail(key, reply, attempts)
                failed[key] = reply["error"]
            else:
                store.save(key, reply, attempts)
                results[key] = reply["result"]
            meter.step("error" not in reply)

        try:
            with Meter(len(planned), len(planned) - len(orders), title, progress) as meter:
                _perform_all(orders, workers, cluster, answer, deadline)
        except KeyboardInterrupt:
            done = sum(result is not None for result in results.values())
            raise Stopped(
                f"Interrupted: {done} of {len(planned)} tasks are done and kept in '{folder}'. "
                "Run it again with resume=True to go on."
            ) from None
        seconds, warned = store.side()
    finished = {key: result for key, result in results.items() if result is not None}
    warnings: dict[str, list[str]] = {}
    for key in finished:
        for text in warned.get(key, []):
            warnings.setdefault(text, []).append(key)
    return Outcome(
        finished,
        {task.key: failed[task.key] for task in planned if task.key in failed},
        {key: seconds[key] for key in finished if key in seconds},
        warnings,
    )


def _local(address: str) -> int:
    count = address.removeprefix(LOCAL)
    if not count.isdigit() or int(count) < 1:
        raise InputError(
            f"A local cluster is given as local:N with N ≥ 1, such as local:2; it is '{address}'."
        )
    return int(count)


def failure_file(out: str | Path, key: str) -> Path:
    """Where the traceback of a failed task lies."""
    return Path(out) / FAILURES / f"{key}.txt"


def _perform_all(
    orders: Sequence[Order],
    workers: int | None,
    cluster: str | None,
    answer: Answer,
    deadline: Deadline,
) -> None:
    if not orders:
        return
    if cluster is not None:
        from softrobust.run.jobs.cluster import run_cluster

        run_cluster(orders, cluster, answer)
    elif workers == 0:
        # Live lines of solvers are silenced: they would write over the bar.
        with _interrupts_are_final(), unbounded():
            for order in orders:
                if not deadline.passed:
                    answer(order["key"], perform_quietly(order), 1)
    else:
        run_local(orders, cores() if workers is None else workers, answer, deadline)


class _Interrupted(BaseException):
    """Ctrl-C as no solver knows it."""


@contextmanager
def _interrupts_are_final() -> Iterator[None]:
    """Make Ctrl-C end the task.

    A solver answers KeyboardInterrupt with the incumbent so far, which is right when a person
    waits for it and wrong in a run: that result would depend on the moment.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def end(*_: object) -> None:
        raise _Interrupted

    before = signal.signal(signal.SIGINT, end)
    try:
        yield
    except _Interrupted:
        raise KeyboardInterrupt from None
    finally:
        signal.signal(signal.SIGINT, before)


@final
class Meter:
    """How far a run is, on the error stream: a bar with the time left on a terminal.

    `show` is None for "a bar where a person looks", True for plain lines where nobody seems to,
    False for silence.
    """

    def __init__(self, total: int, done: int, title: str, show: bool | None) -> None:
        self.total, self.done, self.failed, self.title = total, done, 0, title or "tasks"
        terminal = sys.stderr is not None and sys.stderr.isatty()
        self.fancy = terminal and show is not False and done < total
        self.plain = bool(show) and not terminal
        self.bar: Any = None
        self.row: Any = None
        self.began = self.said = time.monotonic()
        self.here = done

    def __enter__(self) -> Self:
        if self.fancy:
            from rich.console import Console
            from rich.progress import (
                BarColumn,
                MofNCompleteColumn,
                Progress,
                TimeElapsedColumn,
                TimeRemainingColumn,
            )

            self.bar = Progress(
                "{task.description}", BarColumn(bar_width=None), MofNCompleteColumn(),
                "[red]{task.fields[failed]}[/red]", TimeElapsedColumn(), "left",
                TimeRemainingColumn(), console=Console(stderr=True), transient=True,
                redirect_stdout=False, redirect_stderr=False, speed_estimate_period=600.0,
            )  # fmt: skip
            self.bar.start()
            done = {"total": self.total, "completed": self.done, "failed": ""}
            self.row = self.bar.add_task(self.title, **done)
        return self

    def __exit__(self, *_: object) -> None:
        if self.bar is not None:
            self.bar.stop()

    def step(self, ok: bool) -> None:
        """One more task has ended."""
        self.done += 1
        self.failed += not ok
        failed = f"{self.failed} failed" if self.failed else ""
        if self.bar is not None:
            self.bar.update(self.row, advance=1, failed=failed)
        now = time.monotonic()
        if self.plain and (now - self.said >= EVERY or self.done == self.total):
            self.said = now
            left = (now - self.began) * (self.total - self.done) / max(self.done - self.here, 1)
            parts = f"{self.title}: {self.done} of {self.total}", failed, f"about {left:.0f} s left"
            print(", ".join(filter(None, parts)), file=sys.stderr, flush=True)
