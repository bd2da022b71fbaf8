"""The same tasks on a Dask cluster that runs elsewhere.

Results come back to this process, which writes them: a worker that dies loses nothing but the
seconds it had spent. Dask hands its task to another worker, a few times at most. Orders and replies
are plain values; Dask may pickle them on the wire, and nothing of that touches a disk here.
"""

import asyncio
import json
import logging
import math
import sys
import tempfile
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import wait
from contextlib import contextmanager, nullcontext
from functools import cache
from pathlib import Path
from typing import Any

from softrobust._core.limits import stage, time_bound
from softrobust.errors import InputError, SolverError, optional
from softrobust.run.jobs.tasks import Answer, Order, describe, perform_quietly, versions

PATIENCE = 20.0  # seconds for a scheduler to answer, and for its first worker to come
LEAST = 1.0  # of these seconds where the time limit of a command leaves fewer
LONG = 30.0  # seconds without any worker, after which that is said
LOOK = 1.0  # seconds between two looks whether there are workers
ANSWER = 2.0  # seconds for a scheduler to say which there are
PAUSE = 0.02  # seconds between two looks for a reply
INLINE = 16 * 2**20  # bytes of a file that travel with a task; a larger one must be on the worker
BATCH = 64  # tasks of one message to the scheduler
_ONE_AT_A_TIME = threading.Lock()  # a worker with many threads: kernels may not run in two of them


class NobodyLeftError(SolverError):
    """Nobody is left to perform what was handed out."""


def run_cluster(
    orders: Sequence[Order], address: str, answer: Answer, client: Any = None,
    patience: float = math.inf,
) -> None:  # fmt: skip
    """Perform the orders on the cluster; `answer` is called here with every reply.

    `client` is one that is connected already. After `patience` seconds without any worker, or where
    the connection breaks, the orders that are left end in `NobodyLeftError`.
    """
    distributed = optional("distributed", "cluster", "A run on a cluster")
    with connected(address) if client is None else nullcontext(client) as client:
        waiting, watch = _submit(client, orders), _watcher(client, address, patience)
        ended = distributed.as_completed(list(waiting), loop=client.loop)
        while not ended.is_empty():
            if not ended.has_ready():
                time.sleep(PAUSE)
                watch()
                continue
            future = next(ended)
            if future.status in ("pending", "lost"):  # done, and then its worker died
                ended.add(future)
                continue
            answer(waiting.pop(future), _reply(client, future, address, watch), None)
            future.release()


def _watcher(client: Any, address: str, patience: float) -> Callable[[], None]:
    """To be called while waiting: without workers that ends with the time limit of the command.

    Until then or out of patience, else for ever, a worker that comes gets what is left.
    """
    bound, said = time_bound(), False
    looked = seen = time.monotonic()  # and when there was a worker

    def watch() -> None:
        nonlocal looked, seen, said
        if time.monotonic() - looked < LOOK:
            return
        workers = threads(client)
        looked = time.monotonic()
        if workers:
            seen, said = looked, False
        elif bound.passed or looked - seen >= patience:
            raise NobodyLeftError(
                f"No worker is left at '{address}', and the time limit is over. Start some (dask "
                f"worker {address}) or leave the cluster out, and run it again."
            )
        elif looked - seen >= LONG and not said:
            said = True
            stage()  # the live line would run into it
            text = f"No worker is left at '{address}'. Waiting for one: dask worker {address}"
            print(text, file=sys.stderr, flush=True)

    return watch


def threads(client: Any) -> int:
    """Those of all workers that the scheduler knows; one that does not answer has none."""
    try:
        return int(sum(client.nthreads(callback_timeout=ANSWER).values()))
    except OSError:  # a timeout and a closed connection are such
        return 0


def _submit(client: Any, orders: Sequence[Order]) -> dict[Any, str]:
    """A future for every task; keys are unique, so that clients of one cluster never mix."""
    label, content = uuid.uuid4().hex[:8], cache(_content)
    keys, small = [order["key"] for order in orders], []
    for order in orders:
        known = {name: content(path) for name, (path, _) in order["files"].items()}
        small.append({name: what for name, what in known.items() if what is not None})
    # Many at a time, and as text: Dask looks into every list for tasks that it may wait for.
    futures = client.map(
        perform_there, [json.dumps(order) for order in orders], small, pure=False,
        key=[f"softrobust-{key}-{label}" for key in keys], batch_size=BATCH, expected=versions(),
    )  # fmt: skip
    return dict(zip(futures, keys, strict=True))


def _content(path: str) -> bytes | None:
    """What a file holds that travels with its tasks."""
    return Path(path).read_bytes() if Path(path).stat().st_size <= INLINE else None


def _reply(client: Any, future: Any, address: str, watch: Callable[[], None]) -> dict[str, Any]:
    """What came of a task; a lost connection ends the run."""
    if future.status == "finished":
        # It lies with its worker: where that dies now, it is made again before it comes.
        fetch = client.gather(future, asynchronous=True)
        coming = asyncio.run_coroutine_threadsafe(fetch, client.loop.asyncio_loop)
        while not coming.done():
            wait([coming], LOOK)
            watch()
        if not coming.cancelled() and coming.exception() is None:
            reply: dict[str, Any] = coming.result()
            return reply
    if future.status != "error":
        raise NobodyLeftError(
            f"The connection to the cluster at {address} was lost. The results that came back are "
            "kept: run it again with resume=True.",
            arguments={"resume": ""},
        )
    error = future.exception()
    text = describe(error)
    if type(error).__name__ == "KilledWorker":
        text = (
            "Workers died again and again with this task in their hands. The system ends "
            "processes so when memory is short: try fewer workers."
        )
    elif isinstance(error, ModuleNotFoundError):
        text += ". Install softrobust, in the same version, on every worker."
    return {"error": text, "traceback": "", "seconds": 0.0}


@contextmanager
def connected(address: str) -> Iterator[Any]:
    """A client of the cluster at `address`, which has workers."""
    distributed = optional("distributed", "cluster", "A run on a cluster")
    with _quiet(), _client(distributed, address) as client:
        try:
            client.wait_for_workers(1, timeout=_patience())
        except TimeoutError:
            raise InputError(
                f"The cluster at '{address}' has no workers. Start some: dask worker {address}"
            ) from None
        yield client


def _patience() -> float:
    """Seconds to wait: the time limit of the command holds here, too."""
    return max(LEAST, min(PATIENCE, time_bound().left))


def _client(distributed: Any, address: str) -> Any:
    try:
        return distributed.Client(address, timeout=_patience(), set_as_default=False)
    except (OSError, ValueError) as error:  # a timeout is an OSError
        raise InputError(
            f"No Dask scheduler answers at '{address}' ({describe(error)}). Start one with `dask "
            "scheduler`, or give local:2 for two workers on this machine.",
            arguments={"cluster": "local:2"},
        ) from None


@contextmanager
def _quiet() -> Iterator[None]:
    """Keep Dask's log lines off the screen; what matters is said once, by this package."""
    names = [name for name in logging.root.manager.loggerDict if name.startswith("distributed")]
    loggers = [logging.getLogger(name) for name in names]  # some have levels of their own
    before = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        for logger, level in zip(loggers, before, strict=True):
            logger.setLevel(level)


def perform_there(
    text: str, contents: Mapping[str, bytes], expected: Mapping[str, str]
) -> dict[str, Any]:
    """Perform an order on a worker, with its files beside it; other versions are refused."""
    order, here = json.loads(text), versions()
    for name in expected:
        if here[name] != expected[name]:
            raise InputError(
                f"The worker has {name} {here[name]}, and this machine {expected[name]}: results "
                "would mix. Install the same versions on every worker."
            )
    with _ONE_AT_A_TIME, tempfile.TemporaryDirectory(prefix="softrobust-") as folder:
        files = dict(order["files"])
        for name, content in contents.items():
            path, digest = files[name]
            place = Path(folder) / f"{name}-{Path(path).name}"
            place.write_bytes(content)
            files[name] = [str(place), digest]
        return perform_quietly({**order, "files": files})
