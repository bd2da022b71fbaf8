"""Run tasks and keep their results: on this machine's processes, in this one, or on a cluster.

    plan → tasks not done yet → replies → one result file each

Replies come back to this process, which alone writes: whatever dies elsewhere, a result is either
whole or absent, and the bytes do not depend on who computed them, in which order, or how often.
"""

import base64
import re
import signal
import sys
import tempfile
import threading
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar, Self, final

import numpy as np

from softrobust._core.arrays import FloatArray
from softrobust._core.limits import Deadline, stage, time_bound, unbounded
from softrobust.errors import InputError, SolverError
from softrobust.models.model_set import ModelSet
from softrobust.models.policy import Policy, TimedPolicy, policy_of
from softrobust.posterior.diagnostics import PosteriorWarning
from softrobust.posterior.registry import load_posterior
from softrobust.posterior.sampling import CREW, KEPT_BYTES, Draws
from softrobust.problem import Problem, load_problem, save_problem
from softrobust.returns import stream_returns
from softrobust.run.jobs.local import Staff, cores, run_local
from softrobust.run.jobs.store import FAILURES, open_store
from softrobust.run.jobs.tasks import (
    Answer,
    Order,
    Task,
    check_tasks,
    digest_of,
    file_digest,
    perform_quietly,
)

LOCAL = "local:"
# [scheme://]host:port, of which only some schemes need no port
ADDRESS = re.compile(
    r"(?!local:)([a-z]+://)?([^\s:/\[\]]*|\[[^\s/\]]+\]):\d+(/\S*)?|(inproc|wss?)://\S+"
)
EVERY = 10.0  # seconds between two plain lines of progress
WAITING_SHARE = 0.1  # of the time left, for a cluster without workers


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
    workers, cluster = _where(workers, cluster)
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


def _where(workers: int | None, cluster: str | None) -> tuple[int | None, str | None]:
    """Processes here, or the address of a cluster."""
    if workers is not None and workers < 0:
        raise InputError(f"The number of workers is 0 or more; it is {workers}.")
    if workers is not None and cluster is not None:
        raise InputError("Give workers or a cluster, not both: a cluster brings its own workers.")
    if cluster is None or ADDRESS.fullmatch(cluster):
        return workers, cluster
    if not cluster.startswith(LOCAL):
        raise InputError(
            "A cluster is given by the address of its scheduler, such as tcp://node0:8786, or as "
            f"local:N for N workers on this machine; it is '{cluster}'.",
            arguments={"cluster": "local:2"},
        )
    count = cluster.removeprefix(LOCAL)
    if not count.isdigit() or int(count) < 1:
        raise InputError(
            f"A local cluster is given as local:N with N ≥ 1, such as local:2; it is '{cluster}'."
        )
    return int(count), None


# --------------------------------------------------------------------------------------------------
# A crew: others draw and evaluate parts of a stream of models. A part is known by its seeds, so
# that whoever has it makes the same numbers, and one whose worker was lost is made again: by this
# process where no other worker is left.


@final
class Crew:
    """Processes of this machine, or a cluster, for the streams of whatever runs inside `with`."""

    def __init__(self, workers: int | None = None, cluster: str | None = None) -> None:
        self.workers, self.cluster = _where(workers, cluster)
        self.alone = False
        self.staff: Staff | None = None
        self.client: Any = None
        self.held = ExitStack()
        self.files: dict[int, Path] = {}
        self.kept: list[Any] = []  # what the files hold, so that no id is given twice

    def __enter__(self) -> Self:
        self.folder = tempfile.TemporaryDirectory(prefix="softrobust-")
        self.mark = CREW.set(self if self.cluster or self.workers else None)
        return self

    def __exit__(self, *_: object) -> None:
        CREW.reset(self.mark)
        if self.staff is not None:
            self.staff.close()
        self.held.close()
        self.folder.cleanup()

    def models(self, draws: Draws) -> Iterator[ModelSet]:
        """The models of a stream, in parts."""
        first = draws.drawn(draws.first // draws.block)  # how they are laid out
        # Whole models come back: parts are small, however few make them.
        for part, reply in self._replies("drawn_shard", draws, draws.shards(), {}, {}):
            if reply is None:
                yield from part.blocks()
                continue
            made = replace(first, prob=unpacked(reply["prob"]), f=part.f)
            if reply["paid"] is not None:
                assert first.rewards is not None  # every block of a stream is alike
                paid = replace(first.rewards, per_model=unpacked(reply["paid"]))
                made = replace(made, rewards=paid)
            yield made

    def returns(
        self, problem: Problem, policies: Sequence[Policy | TimedPolicy], draws: Draws
    ) -> list[FloatArray]:
        """Of each policy (2, n_models): its returns less the reference's, and the latter."""
        shell = problem.with_models(problem.models.select([0]))
        files = {"problem": self._file(problem, lambda path: save_problem(path, shell))}
        rules = {"policies": [policy.probs.tolist() for policy in policies]}
        parts = draws.shards(self._hands())
        found = [
            [unpacked(x).reshape(2, -1) for x in reply["returns"]]
            if reply is not None
            else _evaluated(problem, policies, part)
            for part, reply in self._replies("evaluated_shard", draws, parts, rules, files)
        ]
        return [np.concatenate(each, axis=1) for each in zip(*found, strict=True)]

    def _file(self, owner: Any, write: Callable[[Path], None]) -> Path:
        if id(owner) not in self.files:
            path = Path(self.folder.name) / f"{len(self.files)}.npz"
            write(path)
            self.files[id(owner)] = path
            self.kept.append(owner)
        return self.files[id(owner)]

    def _hands(self) -> int:
        """How many tasks are performed at a time."""
        if self.cluster is not None:
            from softrobust.run.jobs.cluster import threads

            client = self._connected()
            return 1 if client is None else max(1, threads(client))
        assert self.workers is not None  # else nobody is asked
        return self.workers

    def _connected(self) -> Any:
        """A client of the cluster, kept for the next stream; None once nobody is left there."""
        from softrobust.run.jobs.cluster import connected

        known = self.client
        if not self.alone and (known is None or known.status != "running"):
            assert self.cluster is not None
            try:
                self.client = self.held.enter_context(connected(self.cluster))
            except InputError:
                if known is None:
                    raise
                self._left()
        return None if self.alone else self.client

    def _left(self) -> None:
        """Say that nobody is left to ask."""
        self.alone = True
        stage()  # the live line would run into it
        text = f"No worker is left at '{self.cluster}'. This process goes on by itself."
        print(text, file=sys.stderr, flush=True)

    def _replies(
        self,
        function: str,
        draws: Draws,
        parts: Sequence[Draws],
        settings: Mapping[str, Any],
        files: Mapping[str, Path],
    ) -> list[tuple[Draws, Any]]:
        """Each part of the stream with what came back of it; None where nobody was left."""
        found, posterior = dict[str, Any](), draws.posterior
        places = {**files, "posterior": self._file(posterior, posterior.save)}
        named = {name: [str(path), file_digest(path)] for name, path in places.items()}
        orders = [
            {
                "key": f"part{i}",
                "function": f"{__name__}:{function}",
                "settings": {**settings, "draws": part.record()},
                "files": named,
            }
            for i, part in enumerate(parts)
        ]

        def answer(key: str, reply: Mapping[str, Any], _: int | None) -> None:
            if "error" in reply:
                raise SolverError(f"A part of the models could not be made: {reply['error']}")
            found[key] = reply["result"]

        if self.cluster is not None:
            from softrobust.run.jobs.cluster import LONG, NobodyLeftError, run_cluster

            patience = min(LONG, WAITING_SHARE * time_bound().left)
            if (client := self._connected()) is not None:
                try:
                    run_cluster(orders, self.cluster, answer, client, patience)
                except NobodyLeftError:
                    self._left()
        else:
            assert self.workers is not None  # else nobody is asked
            self.staff = self.staff or Staff(self.workers)
            run_local(orders, self.workers, answer, Deadline(), self.staff)
        return [(part, found.get(f"part{i}")) for i, part in enumerate(parts)]


def drawn_shard(posterior: Path, draws: Mapping[str, Any]) -> dict[str, Any]:
    """Draw a part of a stream; a function that tasks name."""
    models = _again(posterior, draws).models
    paid = None if models.rewards is None else models.rewards.per_model
    return {"prob": packed(models.prob), "paid": None if paid is None else packed(paid)}


def evaluated_shard(
    posterior: Path, problem: Path, policies: Sequence[Any], draws: Mapping[str, Any]
) -> dict[str, Any]:
    """Draw a part of a stream, evaluate policies there, forget it; a function that tasks name."""
    there = _read(problem, load_problem)
    names = there.models.states, there.models.actions
    own = [np.array(probs, dtype=np.float64) for probs in policies]
    rules = [policy_of(p, *names) for p in own]
    return {"returns": [packed(x) for x in _evaluated(there, rules, _again(posterior, draws))]}


def _evaluated(problem: Problem, policies: Sequence[Any], draws: Draws) -> list[FloatArray]:
    """Of each policy (2, n_models): its returns less the reference's, and the latter."""
    return [np.stack([x.x, x.plain - x.x]) for x in stream_returns(problem, policies, draws)]


_DRAWN: dict[str, Draws] = {}  # parts that were drawn here, for the next policy that is asked for


def _again(posterior: Path, record: Mapping[str, Any]) -> Draws:
    """A part of a stream; the last ones keep their models, together as many as one stream would."""
    key = f"{file_digest(posterior)} {digest_of(record)}"
    known = _DRAWN.pop(key) if key in _DRAWN else None
    _DRAWN[key] = known or Draws.again(_read(posterior, load_posterior), record)
    while len(_DRAWN) > 1 and sum(part.kept_bytes for part in _DRAWN.values()) > KEPT_BYTES:
        del _DRAWN[next(iter(_DRAWN))]
    return _DRAWN[key]


_READ: dict[str, Any] = {}  # by content: a cluster puts files into a new place each time


def _read(path: Path, load: Callable[[Path], Any]) -> Any:
    """What a file holds; the last few are kept, as many parts come of one stream."""
    digest = file_digest(path)
    if digest not in _READ:
        while len(_READ) > 3:
            del _READ[next(iter(_READ))]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", PosteriorWarning)
            _READ[digest] = load(path)
    return _READ[digest]


def packed(x: FloatArray) -> str:
    """Numbers as text, bit by bit."""
    return base64.b64encode(np.ascontiguousarray(x, dtype="<f8").tobytes()).decode("ascii")


def unpacked(text: str) -> FloatArray:
    """The inverse of `packed`."""
    return np.frombuffer(base64.b64decode(text), dtype="<f8").astype(np.float64)


def failure_file(out: str | Path, key: str) -> Path:
    """Where the traceback of a failed task lies."""
    return Path(out) / FAILURES / f"{key}.txt"


def _perform_all(
    orders: Sequence[Order], workers: int | None, cluster: str | None, answer: Answer,
    deadline: Deadline,
) -> None:  # fmt: skip
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
    """Make Ctrl-C end the task: a solver's incumbent would depend on the moment."""
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
