"""The plan of a run: every task and the versions that compute it; and how two plans differ."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from softrobust import __version__
from softrobust.errors import InputError
from softrobust.runner.tasks import Task, check_tasks, file_digests

FORMAT_VERSION = 1
PACKAGES = ("numpy", "scipy", "numba", "highspy")  # they decide the last digit of a result
SHOWN = 3


def versions() -> dict[str, str]:
    """Versions of softrobust and of what its numbers hang on."""
    found = {"softrobust": __version__}
    for package in PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            found[package] = "absent"
    return found


def make_plan(tasks: Sequence[Task], title: str = "") -> dict[str, Any]:
    """The plan as JSON holds it."""
    checked = check_tasks(tasks)
    digests = file_digests(checked)
    return {
        "format_version": FORMAT_VERSION,
        "title": title,
        "versions": versions(),
        "tasks": [task.record(digests) for task in checked],
    }


def differences(old: Mapping[str, Any], new: Mapping[str, Any], out: Path) -> None:
    """Refuse to go on with another plan, and say what has changed."""
    found = [*_versions_changed(old, new), *_tasks_changed(old, new)]
    if not found:
        return
    shown = "; ".join(found[:SHOWN])
    more = f"; and {len(found) - SHOWN} more differences" if len(found) > SHOWN else ""
    raise InputError(
        f"The run in '{out}' was begun with another plan: {shown}{more}. Results of two plans are "
        "not mixed. Put the settings back to go on, or begin in a new folder."
    )


def _versions_changed(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[str]:
    before, now = old.get("versions", {}), new["versions"]
    return [
        f"{name} was {before.get(name, 'unknown')} and is {now[name]}"
        for name in now
        if before.get(name) != now[name]
    ]


def _tasks_changed(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[str]:
    before = {task["key"]: task for task in old["tasks"]}
    now = {task["key"]: task for task in new["tasks"]}
    found: list[str] = []
    for key in now.keys() & before.keys():
        if now[key]["hash"] != before[key]["hash"]:
            found += _settings_changed(before[key], now[key])
    for word, keys in (("new", now.keys() - before.keys()), ("gone", before.keys() - now.keys())):
        if keys:
            tasks = f"task '{min(keys)}' is" if len(keys) == 1 else f"{len(keys)} tasks are"
            example = "" if len(keys) == 1 else f", such as '{min(keys)}'"
            found.append(f"{tasks} {word}{example}")
    return sorted(set(found))


def _settings_changed(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[str]:
    """What differs between two tasks of one key, in words."""
    found = []
    if old.get("function") != new["function"]:
        found.append(f"the function was {old.get('function')} and is {new['function']}")
    found += _walk("", old.get("settings", {}), new["settings"])
    before, now = old.get("files", {}), new["files"]
    for name in sorted({*before, *now}):
        if before.get(name) != now.get(name):
            found.append(f"the content of the file '{name}' has changed")
    return found


def _walk(where: str, old: Any, new: Any) -> list[str]:
    if isinstance(old, Mapping) and isinstance(new, Mapping):
        found = []
        for name in sorted({*old, *new}):
            path = f"{where}.{name}" if where else name
            found += _walk(path, old.get(name, "unset"), new.get(name, "unset"))
        return found
    return [] if old == new else [f"{where} was {old!r} and is {new!r}"]
