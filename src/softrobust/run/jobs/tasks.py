"""What a task is, the plan of a run, and how one task is performed.

A task is known by what it computes, never by where or when: its hash covers the function, the
settings and the *content* of its files. Seeds come from the same coordinates (SeedSequence with a
spawn key made of their digest), so a task draws the same numbers whatever runs beside it.

An order is a plain dictionary {key, function, settings, files}, where a file is its place and the
digest it had when the run was planned; the reply is one too, with `result` or with `error` and
`traceback`. The same few lines perform it in this process, in a worker and on a cluster: nothing
but JSON values passes between processes. Warnings travel beside the result and not in it: a task
that finds its data made by an earlier one does not hear what was said then.
"""

import hashlib
import io
import json
import re
import time
import traceback
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, final

import numpy as np

from softrobust._core import __version__
from softrobust._core.files import refuse_streams
from softrobust.errors import InputError, SoftRobustError

Order = Mapping[str, Any]
Answer = Callable[[str, Mapping[str, Any], int | None], None]  # key, reply, attempts if known
SAFE_KEY = re.compile(r"[A-Za-z0-9_+=][A-Za-z0-9._+=-]{0,149}")
SAFE_FUNCTION = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*:[A-Za-z_]\w*")
FORMAT_VERSION = 1
PACKAGES = ("numpy", "scipy", "numba", "highspy")  # they decide the last digit of a result
SHOWN = 3


@final
@dataclass(frozen=True, slots=True)
class Task:
    """One piece of work with one result.

    `key` names the result file ("riverswim-seed3-exact-lam0.5"); `function` is
    "package.module:name", takes settings and files as keyword arguments and returns a dictionary;
    settings and results are plain values that JSON can hold. The content of `files` belongs to the
    task, their place does not: a cluster may hand the function a copy.
    """

    key: str
    function: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    files: Mapping[str, Path] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not SAFE_KEY.fullmatch(self.key):
            raise InputError(
                "The key of a task names a file: 1 to 150 letters, digits and . _ + = - that do "
                f"not begin with . or -; it is {self.key!r}. `task_key` makes such a name."
            )
        if not SAFE_FUNCTION.fullmatch(self.function):
            raise InputError(
                f"A task names its function as 'package.module:name'; it got {self.function!r}."
            )
        both = sorted(set(self.settings) & set(self.files))
        if both:
            raise InputError(f"Task '{self.key}' has '{both[0]}' both as a setting and as a file.")
        try:
            plain = json.loads(json.dumps(dict(self.settings), allow_nan=False))
        except (TypeError, ValueError) as error:
            raise InputError(
                f"The settings of task '{self.key}' must be plain values (numbers, text, lists, "
                f"dictionaries, finite): {error}."
            ) from None
        object.__setattr__(self, "settings", plain)
        object.__setattr__(self, "files", {name: Path(path) for name, path in self.files.items()})

    def record(self, digests: Mapping[Path, str]) -> dict[str, Any]:
        """The task as the plan keeps it, with its hash."""
        files = {name: digests[path] for name, path in sorted(self.files.items())}
        body = {"function": self.function, "settings": dict(self.settings), "files": files}
        return {"key": self.key, **body, "hash": digest_of(body)}

    def order(self, record: Mapping[str, Any]) -> Order:
        """The task, with its record in the plan, as it is sent to whoever performs it."""
        places = {name: str(path.resolve()) for name, path in self.files.items()}
        files = {name: [place, record["files"][name]] for name, place in places.items()}
        return {name: record[name] for name in ("key", "function", "settings")} | {"files": files}


def check_tasks(tasks: Iterable[Task]) -> tuple[Task, ...]:
    """The tasks, whose keys must differ even where a file system ignores case."""
    found = tuple(tasks)
    seen: dict[str, str] = {}
    for task in found:
        low = task.key.lower()
        if seen.get(low) == task.key:
            raise InputError(f"Two tasks have the key '{task.key}'. Every task needs its own.")
        if low in seen:
            raise InputError(
                f"Keys must differ in more than case: there are '{seen[low]}' and '{task.key}'."
            )
        seen[low] = task.key
    return found


def digest_of(value: Any) -> str:
    """SHA-256 of a plain value, the same for any order of its keys."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()


def task_key(*parts: object) -> str:
    """A readable key from its parts; what a file name cannot hold becomes _.

    Examples
    --------
    >>> task_key("river swim", "seed3", "s-rect", "lam0.5")
    'river_swim-seed3-s-rect-lam0.5'
    """
    words = (re.sub(r"[^A-Za-z0-9._+=-]", "_", str(part)).lstrip(".-") for part in parts)
    return "-".join(word or "_" for word in words)


def task_seed(root: int, *coordinates: object) -> int:
    """A seed (63 bits) of these coordinates: independent of all others, and of any order.

    Examples
    --------
    >>> task_seed(0, "riverswim", 3) == task_seed(0, "riverswim", 3)
    True
    >>> task_seed(0, "riverswim", 3) == task_seed(0, "riverswim", 4)
    False
    """
    digest = hashlib.sha256(json.dumps([*coordinates], separators=(",", ":")).encode()).digest()
    words = tuple(int(word) for word in np.frombuffer(digest, dtype="<u4"))
    state = np.random.SeedSequence(root, spawn_key=words).generate_state(1, np.uint64)
    return int(state[0] >> np.uint64(1))


def versions(packages: Iterable[str] = PACKAGES) -> dict[str, str]:
    """Versions of softrobust and of what its numbers hang on."""
    return {"softrobust": __version__} | {package: _version(package) for package in packages}


@cache
def _version(package: str) -> str:
    """Of a package; looking it up takes longer than many a task."""
    try:
        return version(package)
    except PackageNotFoundError:
        return "absent"


def make_plan(tasks: Sequence[Task], title: str = "") -> dict[str, Any]:
    """The plan as JSON holds it: every task and the versions that compute it."""
    checked = check_tasks(tasks)
    digests: dict[Path, str] = {}
    for task in checked:
        for path in task.files.values():
            try:
                digests[path] = digests.get(path) or file_digest(path)
            except OSError as error:
                raise InputError(
                    f"Task '{task.key}' needs the file '{path}', which cannot be read "
                    f"({error.strerror})."
                ) from None
    return {
        "format_version": FORMAT_VERSION,
        "title": title,
        "versions": versions(),
        "tasks": [task.record(digests) for task in checked],
    }


def file_digest(path: Path) -> str:
    """SHA-256 of a file's content."""
    refuse_streams(path)
    return hashlib.sha256(path.read_bytes()).hexdigest()


def refuse_other_plan(old: Mapping[str, Any], new: Mapping[str, Any], out: Path) -> None:
    """Refuse to go on with another plan, and say what has changed."""
    before, now = (
        {"versions": plan["versions"], "task": {task["key"]: task for task in plan["tasks"]}}
        for plan in (old, new)
    )
    found = list(dict.fromkeys(_changed("", before, now)))
    if found:
        more = f"; and {len(found) - SHOWN} more differences" if len(found) > SHOWN else ""
        raise InputError(
            f"The run in '{out}' was begun with another plan (plan.json): "
            f"{'; '.join(found[:SHOWN])}{more}. "
            "Results of two plans are not mixed. Put the settings back to go on, or begin "
            "again in a new folder."
        )


def _changed(where: str, old: Any, new: Any) -> Iterator[str]:
    """What differs between two parts of plans; the same change of many tasks reads the same."""
    if isinstance(old, Mapping) and isinstance(new, Mapping):
        for name in sorted({*old, *new} - {"hash"}):
            if where == "task" and (name in old) != (name in new):
                yield f"task '{name}' is {'new' if name in new else 'gone'}"
            elif where == "files" and old.get(name) != new.get(name):
                yield f"the content of the file '{name}' has changed"
            else:
                inner = f"{where}.{name}" if where == "settings" else name
                yield from _changed(inner, old.get(name, "unset"), new.get(name, "unset"))
    elif old != new:
        yield f"{where} was {old} and is {new}"


def perform(order: Order) -> dict[str, Any]:
    """Run the task; an error is a reply like any other."""
    began = time.perf_counter()
    reply: dict[str, Any] = {"key": order["key"]}
    try:
        module, _, name = order["function"].partition(":")
        function = getattr(import_module(module), name, None)
        if not callable(function):
            raise InputError(f"There is no function '{name}' in the module {module}.")
        files = {name: _checked_file(*place) for name, place in order["files"].items()}
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


def _checked_file(path: str, digest: str) -> Path:
    """The file, which must still be what it was when the run was planned."""
    try:
        now = file_digest(Path(path))
    except OSError as error:
        raise InputError(
            f"The file '{path}' cannot be read where the task runs ({error.strerror}). Put it "
            "where every worker can read it."
        ) from None
    if now != digest:
        raise InputError(f"The file '{path}' has changed since the run began. Put it back.")
    return Path(path)


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


def _plain(value: Any) -> Any:
    if isinstance(value, (np.generic, np.ndarray)):
        return value.tolist()
    if isinstance(value, Mapping):
        return dict(value)
    raise InputError(f"A result holds a {type(value).__name__}, which JSON cannot hold.")


def describe(error: BaseException) -> str:
    """One paragraph: our own errors speak for themselves, others are named."""
    text = " ".join(str(error).split())
    if isinstance(error, SoftRobustError):
        return text
    return f"{type(error).__name__}: {text}" if text else type(error).__name__
