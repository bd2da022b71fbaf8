"""What a task is: a function by name, its settings, the files it reads; and seeds of its own.

A task is known by what it computes, never by where or when: its hash covers the function, the
settings and the *content* of its files. Seeds come from the same coordinates (SeedSequence with a
spawn key made of their digest), so a task draws the same numbers whatever runs beside it.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, final

import numpy as np

from softrobust.errors import InputError

SAFE_KEY = re.compile(r"[A-Za-z0-9_+=][A-Za-z0-9._+=-]{0,149}")
SAFE_FUNCTION = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*:[A-Za-z_]\w*")


@final
@dataclass(frozen=True, slots=True)
class Task:
    """One piece of work with one result.

    Attributes
    ----------
    key : str
        Names the result file: letters, digits and . _ + = - only, such as
        "riverswim-seed3-exact-lam0.5".
    function : str
        "package.module:name". It takes settings and files as keyword arguments and returns a
        dictionary that JSON can hold.
    settings : mapping
        Plain values that JSON can hold.
    files : mapping
        Input files by argument name. Their content belongs to the task, their place does not: a
        cluster may hand the function a copy.
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


def check_tasks(tasks: Iterable[Task]) -> tuple[Task, ...]:
    """The tasks, whose keys must differ even where a file system ignores case."""
    found = tuple(tasks)
    seen: dict[str, str] = {}
    for task in found:
        twin = seen.setdefault(task.key.lower(), task.key)
        if twin != task.key:
            raise InputError(
                f"Keys must differ in more than case: there are '{twin}' and '{task.key}'."
            )
    if len(seen) < len(found):
        keys = [task.key for task in found]
        twice = next(key for key in keys if keys.count(key) > 1)
        raise InputError(f"Two tasks have the key '{twice}'. Every task needs its own.")
    return found


def digest_of(value: Any) -> str:
    """SHA-256 of a plain value, the same for any order of its keys."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()


def file_digests(tasks: Iterable[Task]) -> dict[Path, str]:
    """SHA-256 of every input file, each read once."""
    found: dict[Path, str] = {}
    for task in tasks:
        for path in task.files.values():
            if path not in found:
                try:
                    found[path] = hashlib.sha256(path.read_bytes()).hexdigest()
                except OSError as error:
                    raise InputError(
                        f"Task '{task.key}' needs the file '{path}', which cannot be read "
                        f"({error.strerror})."
                    ) from None
    return found


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
