"""Tasks on processes of this machine.

Each worker is a fresh interpreter (never a fork), so it inherits no locks, threads or random state,
and a script needs no `if __name__ == "__main__"`. It starts isolated, with the places that this one
imports from: a `json.py` that lies in the current folder is a file like any other. A thread here
hands it a task and waits for the reply. A worker that is killed takes only the task in its hands
with it: that one is tried again on a new worker, `RETRIES` times at most.
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
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import suppress
from typing import IO, Any, final

from softrobust._core.limits import Deadline
from softrobust.errors import SolverError
from softrobust.kernels._jit import cores as cores
from softrobust.kernels._jit import isolated as isolated
from softrobust.kernels._jit import worker_environment as worker_environment
from softrobust.run.jobs.tasks import Answer, Order, perform

RETRIES = 2
FALSE_STARTS = 3  # workers in a row that may die before they say they are ready
TAIL = 4000  # characters kept of what a dead worker wrote to its error stream
GRACE = 2.0  # seconds after a limit for tasks that were begun


def run_local(
    orders: Sequence[Order], workers: int, answer: Answer, deadline: Deadline,
    staff: Staff | None = None,
) -> None:  # fmt: skip
    """Perform the orders on `workers` processes; `answer` is called here with every reply.

    `staff` are workers that are there already, and stay unless it ends badly.
    """
    own = Staff(min(workers, len(orders))) if staff is None else staff
    pool, ended = ThreadPoolExecutor(own.size), False
    try:
        keys = {pool.submit(own.perform, order): order["key"] for order in orders}
        last = None if deadline.limit is None else deadline.left + GRACE
        with suppress(TimeoutError):  # what is still under way is lost, and done again on a resume
            for future in as_completed(keys, last):
                if not future.cancelled():
                    answer(keys[future], *future.result())
                if deadline.passed:  # what was begun may end, nothing else begins
                    for waiting in keys:
                        waiting.cancel()
        ended = True
    finally:  # also after Ctrl-C: threads end as their workers do
        if staff is None or not ended:
            own.stop()
        pool.shutdown(cancel_futures=True)
        if staff is None:
            own.close()


def work() -> None:
    """What a worker does: orders come as JSON lines on its input, replies leave as such.

    When the parent is gone (the input ends) it ends too, in the midst of a task if need be.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's to handle
    # The output is for replies alone: what a task prints goes to the error stream, which the parent
    # keeps for its failure report.
    replies = os.fdopen(os.dup(sys.stdout.fileno()), "w", encoding="utf-8")
    sys.stdout.flush()
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    orders: queue.SimpleQueue[str] = queue.SimpleQueue()

    def listen() -> None:
        for line in sys.stdin:
            orders.put(line)
        os._exit(1)  # nobody waits for a reply

    threading.Thread(target=listen, daemon=True).start()
    reply: dict[str, Any] = {"ready": os.getpid()}
    while True:
        print(json.dumps(reply), file=replies, flush=True)
        reply = perform(json.loads(orders.get()))


@final
class _Worker:
    """A process that takes one task after another, and the errors it writes."""

    def __init__(self, env: dict[str, str]) -> None:
        self.errors: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 (closed by `close`)
        self.mark = 0  # where the words of the present task begin
        self.process = subprocess.Popen(
            isolated("from softrobust.run.jobs.local import work; work()"),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.errors,
            env=os.environ | env,
            text=True,
            encoding="utf-8",
        )

    def hear(self) -> dict[str, Any] | None:
        """The next thing it says; None where it has died."""
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        return json.loads(line) if line.endswith("\n") else None

    def perform(self, order: Order) -> dict[str, Any] | None:
        """The reply to a task; None where the worker has died with it."""
        self.mark = self.errors.seek(0, os.SEEK_END)
        assert self.process.stdin is not None
        with suppress(OSError):  # one that has just died is noticed by its silence
            self.process.stdin.write(json.dumps(order) + "\n")
            self.process.stdin.flush()
        reply = self.hear()
        if reply is not None and "error" in reply:
            reply["traceback"] += f"\n{self.last_words()}"
        return reply

    def last_words(self) -> str:
        """What it wrote to its error stream since it took its task, the end of it."""
        size = self.errors.seek(0, os.SEEK_END)
        self.errors.seek(max(self.mark, size - TAIL))
        return self.errors.read().decode("utf-8", "replace").strip()

    def death(self, attempts: int) -> dict[str, Any]:
        """The reply in the name of a worker that died with a task, for the last time."""
        code = self.process.wait()
        how = f"exit code {code}"
        if code < 0:
            how = f"signal {-code}"
            with suppress(ValueError):
                how += f", {signal.Signals(-code).name}"
        error = f"The worker died {attempts} times with this task in its hands ({how})."
        if code == -signal.SIGKILL:
            error += " The system ends processes so when memory is short: try fewer workers."
        return {"error": error, "traceback": self.last_words(), "seconds": 0.0}

    def close(self) -> None:
        """Let go of its files, once it is dead."""
        self.process.wait()
        for stream in (self.process.stdin, self.process.stdout, self.errors):
            with suppress(OSError):
                assert stream is not None
                stream.close()


@final
class Staff:
    """The workers: as many as there are threads that hand out tasks."""

    def __init__(self, size: int) -> None:
        self.size, self.env = size, worker_environment(size)
        self.workers: set[_Worker] = set()
        self.closed = False
        self.lock = threading.Lock()
        self.free: queue.SimpleQueue[_Worker | None] = queue.SimpleQueue()
        for _ in range(size):
            self.free.put(None)  # a place without a worker yet

    def perform(self, order: Order) -> tuple[dict[str, Any], int]:
        """The reply to a task, and how many attempts it took."""
        for attempt in range(1, RETRIES + 2):
            worker = self.free.get() or self._start()
            reply = worker.perform(order)
            if reply is not None:
                self.free.put(worker)
                return reply, attempt
            last = worker.death(attempt)
            self._dismiss(worker)
            self.free.put(None)
        return last, attempt

    def _start(self) -> _Worker:
        """A worker that has said it is ready."""
        for _ in range(FALSE_STARTS):
            with self.lock:
                if self.closed:
                    raise SolverError("The run was stopped.")
                worker = _Worker(self.env)
                self.workers.add(worker)
            if worker.hear() is not None:
                return worker
            words = worker.last_words()
            self._dismiss(worker)
        raise SolverError(f"Worker processes cannot start. The last one said: {words}")

    def _dismiss(self, worker: _Worker) -> None:
        with self.lock:
            self.workers.discard(worker)
        worker.close()

    def close(self) -> None:
        """End every worker and let go of its files."""
        self.stop()
        for worker in self.workers:
            worker.close()

    def stop(self) -> None:
        """End every worker that is left; the threads that wait for one notice."""
        with self.lock:
            self.closed = True
            for worker in self.workers:
                worker.process.kill()
