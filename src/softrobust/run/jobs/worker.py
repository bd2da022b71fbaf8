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
from typing import Any


def main() -> None:
    """Perform orders until the input ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's to handle
    # The output is for replies alone: what is printed from now on goes to the error stream.
    replies = os.fdopen(os.dup(sys.stdout.fileno()), "w", encoding="utf-8")
    sys.stdout.flush()
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    orders: queue.SimpleQueue[str] = queue.SimpleQueue()
    threading.Thread(target=_listen, args=(orders,), daemon=True).start()

    def send(reply: dict[str, Any]) -> None:
        print(json.dumps(reply), file=replies, flush=True)

    send({"ready": os.getpid()})
    from softrobust.run.jobs.tasks import perform

    while True:
        send(perform(json.loads(orders.get())))


def _listen(orders: queue.SimpleQueue[str]) -> None:
    for line in sys.stdin:
        orders.put(line)
    os._exit(1)  # the parent is gone: nobody waits for a reply
