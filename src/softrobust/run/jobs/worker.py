"""A worker process: orders come as JSON lines on its input, replies leave as JSON lines.

What a task prints goes to the error stream, which the parent keeps for its failure report. When the
parent is gone (the input ends) the worker ends too, in the midst of a task if need be.
"""

from __future__ import annotations

import json
import os
import queue
import signal
import sys
import threading
from typing import TextIO


def main() -> None:
    """Perform orders until the input ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's to handle
    replies = _take_output()
    orders: queue.SimpleQueue[str] = queue.SimpleQueue()
    threading.Thread(target=_listen, args=(sys.stdin, orders), daemon=True).start()
    _send(replies, {"ready": os.getpid()})
    from softrobust.run.jobs.tasks import perform

    while True:
        _send(replies, perform(json.loads(orders.get())))


def _take_output() -> TextIO:
    """The output for replies alone: what is printed from now on goes to the error stream."""
    replies = os.fdopen(os.dup(sys.stdout.fileno()), "w", encoding="utf-8")
    sys.stdout.flush()
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    return replies


def _listen(orders_in: TextIO, orders: queue.SimpleQueue[str]) -> None:
    for line in orders_in:
        orders.put(line)
    os._exit(1)  # the parent is gone: nobody waits for a reply


def _send(replies: TextIO, reply: dict[str, object]) -> None:
    replies.write(json.dumps(reply) + "\n")
    replies.flush()
