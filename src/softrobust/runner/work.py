"""One task, performed: the same few lines in this process, in a worker and on a cluster.

An order is a plain dictionary {key, function, settings, files}, where a file is its place and the
digest it had when the run was planned; the reply is one too, with `result` or with `error` and
`traceback`. Nothing but JSON values passes between processes. Warnings travel beside the result and
not in it: a task that finds its data made by an earlier one does not hear what was said then.
"""

from __future__ import annotations

import hashlib
import io
import json
import time
import traceback
import warnings
from collections.abc import Callable, Mapping
from contextlib import redirect_stderr, redirect_stdout
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from softrobust.errors import InputError, SoftRobustError
from softrobust.runner.tasks import Task

Order = Mapping[str, Any]
Answer = Callable[[str, Mapping[str, Any], int | None], None]  # key, reply, attempts if known


def make_order(task: Task, record: Mapping[str, Any]) -> Order:
    """The task, with its record in the plan, as it is sent to whoever performs it."""
    digests = record["files"]
    files = {name: [str(path.resolve()), digests[name]] for name, path in task.files.items()}
    return {
        "key": task.key,
        "function": task.function,
        "settings": dict(task.settings),
        "files": files,
    }


def perform(order: Order) -> dict[str, Any]:
    """Run the task; an error is a reply like any other."""
    began = time.perf_counter()
    reply: dict[str, Any] = {"key": order["key"]}
    try:
        function = find_function(order["function"])
        files = {name: checked_file(*place) for name, place in order["files"].items()}
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("ignore")
            for kind in (UserWarning, RuntimeWarning):
                warnings.simplefilter("always", kind)
            result = function(**order["settings"], **files)
        reply["warnings"] = sorted({" ".join(str(w.message).split()) for w in caught})
        reply["result"] = plain_result(result)
    except (Exception, SystemExit) as error:
        reply["error"] = describe(error)
        reply["traceback"] = traceback.format_exc()
    reply["seconds"] = time.perf_counter() - began
    return reply


def perform_quietly(order: Order) -> dict[str, Any]:
    """Perform with the process's own streams put aside; what was written ends the traceback."""
    words = io.StringIO()
    with redirect_stdout(words), redirect_stderr(words):
        reply = perform(order)
    if "error" in reply:
        reply["traceback"] += f"\n{words.getvalue()}"
    return reply


def checked_file(path: str, digest: str) -> Path:
    """The file, which must still be what it was when the run was planned."""
    try:
        now = hashlib.sha256(Path(path).read_bytes()).hexdigest()
    except OSError as error:
        raise InputError(
            f"The file '{path}' cannot be read where the task runs ({error.strerror}). Put it "
            "where every worker can read it."
        ) from None
    if now != digest:
        raise InputError(f"The file '{path}' has changed since the run began. Put it back.")
    return Path(path)


def find_function(name: str) -> Callable[..., Any]:
    """The function called "package.module:name"."""
    module, _, attribute = name.partition(":")
    found = getattr(import_module(module), attribute, None)
    if not callable(found):
        raise InputError(f"There is no function '{attribute}' in the module {module}.")
    return found  # type: ignore[no-any-return]


def plain_result(result: Any) -> dict[str, Any]:
    """The result as JSON reads it back; NumPy's numbers and arrays become plain ones."""
    if not isinstance(result, dict):
        raise InputError(f"A task returns a dictionary; this one returned {type(result).__name__}.")
    try:
        text = json.dumps(result, default=_plain, allow_nan=False)
    except ValueError as error:
        raise InputError(
            f"The result of a task must be finite numbers and plain values ({error}). Use None for "
            "what is not known."
        ) from None
    back: dict[str, Any] = json.loads(text)
    return back


def describe(error: BaseException) -> str:
    """One paragraph: our own errors speak for themselves, others are named."""
    text = " ".join(str(error).split())
    if isinstance(error, SoftRobustError):
        return text
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def _plain(value: Any) -> Any:
    if isinstance(value, (np.generic, np.ndarray)):
        return value.tolist()
    if isinstance(value, Mapping):
        return dict(value)
    raise InputError(f"A result holds a {type(value).__name__}, which JSON cannot hold.")
