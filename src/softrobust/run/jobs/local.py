"""Tasks on processes of this machine.

Each worker is a fresh interpreter (never a fork), so it inherits no locks, threads or random state,
and a script needs no `if __name__ == "__main__"`. A worker that is killed takes only the task in
its hands with it: that one is tried again on a new worker, `RETRIES` times at most.
"""

from __future__ import annotations

import json
import os
import queue
import signal
import subprocess
import sys
import tempfile
import threading
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from typing import IO, Any, final

from softrobust._core.limits import Deadline
from softrobust.errors import SolverError
from softrobust.run.jobs.tasks import Answer, Order

Heard = queue.SimpleQueue[tuple["_Worker", str]]  # who said it, and a line; "" at the end
RETRIES = 2
FALSE_STARTS = 3  # workers in a row that may die before they say they are ready
TAIL = 4000  # characters kept of what a dead worker wrote to its error stream
BOOT = (
    "import json, sys; sys.path[:] = json.loads(sys.argv.pop()); "
    "from softrobust.run.jobs.worker import main; main()"
)


def cores() -> int:
    """Cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def worker_environment(workers: int) -> dict[str, str]:
    """Threads for a worker: its share of the cores for the kernels, one for linear algebra.

    The kernels give the same digits for any number of threads; BLAS need not, so it gets one
    everywhere.
    """
    share = max(1, cores() // max(workers, 1))
    own = os.environ.get("NUMBA_NUM_THREADS", "")
    if own.isdigit() and int(own) > 0:
        share = min(share, int(own))
    blas = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "VECLIB_MAXIMUM_THREADS")
    return {"NUMBA_NUM_THREADS": str(share)} | dict.fromkeys(blas, "1")


def run_local(orders: Sequence[Order], workers: int, answer: Answer, deadline: Deadline) -> None:
    """Perform the orders on `workers` processes; `answer` is called here with every reply."""
    pool = _Pool(orders, min(workers, len(orders)), answer, deadline)
    try:
        pool.run()
    finally:
        pool.close()


@final
class _Worker:
    """A process, the task in its hands, and the thread that hears it."""

    def __init__(self, heard: Heard, env: dict[str, str]) -> None:
        self.task: Order | None = None
        self.ready = False
        self.errors: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 (closed by `close`)
        self.mark = 0  # where the words of the present task begin
        path = [os.path.abspath(p) for p in sys.path]
        self.process = subprocess.Popen(
            [sys.executable, "-c", BOOT, json.dumps(path)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.errors,
            env=os.environ | env,
            text=True,
            encoding="utf-8",
        )
        threading.Thread(target=self._hear, args=(heard,), daemon=True).start()

    def _hear(self, heard: Heard) -> None:
        assert self.process.stdout is not None
        with self.process.stdout as replies:
            for line in replies:
                heard.put((self, line))
        heard.put((self, ""))  # the end: it has died, or was told to go

    def take(self, task: Order) -> None:
        """Hand over a task; a worker that has just died is noticed by its silence."""
        self.task = task
        self.mark = self.errors.seek(0, os.SEEK_END)
        assert self.process.stdin is not None
        with suppress(OSError):
            self.process.stdin.write(json.dumps(task) + "\n")
            self.process.stdin.flush()

    def last_words(self) -> str:
        """What it wrote to its error stream since it took its task, the end of it."""
        size = self.errors.seek(0, os.SEEK_END)
        self.errors.seek(max(self.mark, size - TAIL))
        return self.errors.read().decode("utf-8", "replace").strip()

    def close(self) -> None:
        """End it, and wait until it is gone."""
        self.process.kill()
        self.process.wait()
        if self.process.stdin is not None:
            with suppress(OSError):
                self.process.stdin.close()
        self.errors.close()


@final
class _Pool:
    """The tasks that wait, the workers, and what they say."""

    def __init__(
        self, orders: Sequence[Order], size: int, answer: Answer, deadline: Deadline
    ) -> None:
        self.waiting = deque(orders)
        self.answer, self.deadline = answer, deadline
        self.heard: Heard = queue.SimpleQueue()
        self.env = worker_environment(size)
        self.size = size
        self.workers: set[_Worker] = set()
        self.attempts: dict[str, int] = {}
        self.false_starts = 0

    def run(self) -> None:
        """Hand out tasks until none waits and no hand is full."""
        for _ in range(self.size):
            self.start_worker()
        while self.workers:
            worker, line = self.heard.get()
            if line:
                self.on_reply(worker, json.loads(line))
            else:
                self.on_death(worker)

    def start_worker(self) -> None:
        """Start a worker with the next task in its hands."""
        if self.waiting:
            worker = _Worker(self.heard, self.env)
            self.workers.add(worker)
            self.assign(worker)

    def assign(self, worker: _Worker) -> None:
        """The next task for a free worker; where none is left, or no time, it ends."""
        if not self.waiting or self.deadline.passed:
            self.workers.discard(worker)
            worker.close()
            return
        task = self.waiting.popleft()
        self.attempts[task["key"]] = self.attempts.get(task["key"], 0) + 1
        worker.take(task)

    def on_reply(self, worker: _Worker, reply: dict[str, Any]) -> None:
        """A worker is ready, or has finished its task."""
        if "ready" in reply:
            worker.ready, self.false_starts = True, 0
            return
        task, worker.task = worker.task, None
        assert task is not None
        if "error" in reply:
            reply["traceback"] += f"\n{worker.last_words()}"
        self.answer(task["key"], reply, self.attempts[task["key"]])
        self.assign(worker)

    def on_death(self, worker: _Worker) -> None:
        """A worker died: its task waits again, unless it has died with it too often."""
        if worker not in self.workers:
            return  # it was told to end
        self.workers.discard(worker)
        code, words, task = worker.process.wait(), worker.last_words(), worker.task
        worker.close()
        if not worker.ready:
            self.false_starts += 1
            if self.false_starts >= FALSE_STARTS:
                raise SolverError(f"Worker processes cannot start. The last one said: {words}")
        if task is not None:
            attempts = self.attempts[task["key"]]
            if attempts > RETRIES:
                self.answer(task["key"], _death(code, words, attempts), attempts)
            else:
                self.waiting.appendleft(task)
        self.start_worker()

    def close(self) -> None:
        """End every worker that is left."""
        for worker in self.workers:
            worker.close()
        self.workers.clear()


def _death(code: int, words: str, attempts: int) -> dict[str, Any]:
    how = f"exit code {code}"
    if code < 0:
        how = f"signal {-code}"
        with suppress(ValueError):
            how += f", {signal.Signals(-code).name}"
    hint = " The system ends processes so when memory is short: try fewer workers." * (code == -9)
    return {
        "error": f"The worker died {attempts} times with this task in its hands ({how}).{hint}",
        "traceback": words,
        "seconds": 0.0,
    }
