"""The folder of a run: what was planned, what is done, what failed.

    plan.json           every task with the hash of what it computes, and the versions used
    results/KEY.json    one file per finished task, written atomically, without any clock in it
    failures/KEY.txt    why a task failed, with its traceback
    timings.jsonl       seconds, attempts and warnings; the only file that differs from run to run

A result counts only if it is whole (its own digest agrees) and belongs to the plan (its hash
agrees): so a run that was killed at any moment goes on from what is there.
"""

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, final

from softrobust._core.files import atomic_write, locked
from softrobust._core.schema import check, published
from softrobust.errors import InputError, SoftRobustError
from softrobust.run.jobs.tasks import FORMAT_VERSION, Task, digest_of, make_plan, refuse_other_plan

PLAN, RESULTS, FAILURES, TIMINGS = "plan.json", "results", "failures", "timings.jsonl"


AGAIN = "Remove it, and go on with resume=True."


class StorageError(SoftRobustError, OSError):
    """A file of the run could not be written; what was written before is whole."""


@final
class Store:
    """An open run folder; only one process writes to it."""

    def __init__(self, out: Path, plan: Mapping[str, Any]) -> None:
        self.out = out
        self.records: dict[str, dict[str, Any]] = {task["key"]: task for task in plan["tasks"]}

    def path(self, key: str) -> Path:
        """Where the result of a task lies."""
        return self.out / RESULTS / f"{key}.json"

    def load(self, key: str) -> dict[str, Any] | None:
        """The result of a task; None where there is none, or none that is whole."""
        return read_result(self.path(key), key, self.records[key]["hash"])

    def save(self, key: str, reply: Mapping[str, Any], attempts: int | None) -> None:
        """Write the result, then its timing; forget an earlier failure."""
        result = reply["result"]
        known = {"key": key, "hash": self.records[key]["hash"]}
        record = known | {"digest": digest_of(result), "result": result}
        with kept_safe(self.out):
            _write(self.path(key), json.dumps(record, indent=1, allow_nan=False) + "\n")
            (self.out / FAILURES / f"{key}.txt").unlink(missing_ok=True)
            self._time(key, reply, attempts, "done")

    def fail(self, key: str, reply: Mapping[str, Any], attempts: int | None) -> None:
        """Write down why a task failed."""
        text = f"{reply['error']}\n\n{reply['traceback'].rstrip()}\n"
        with kept_safe(self.out):
            _write(self.out / FAILURES / f"{key}.txt", text)
            self._time(key, reply, attempts, "failed")

    def _time(self, key: str, reply: Mapping[str, Any], attempts: int | None, end: str) -> None:
        """Add a line to the side file."""
        seconds = round(float(reply["seconds"]), 6)
        line: dict[str, Any] = {"key": key, "end": end, "seconds": seconds, "attempts": attempts}
        if reply.get("warnings"):
            line["warnings"] = reply["warnings"]
        with open(self.out / TIMINGS, "a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")

    def side(self) -> tuple[dict[str, float], dict[str, list[str]]]:
        """Seconds and warnings of finished tasks; a line that was cut short is passed over."""
        seconds: dict[str, float] = {}
        warned: dict[str, list[str]] = {}
        refuse_odd(self.out / TIMINGS)
        with suppress(FileNotFoundError):
            for line in (self.out / TIMINGS).read_text("utf-8", "replace").splitlines():
                with suppress(ValueError, KeyError, TypeError, RecursionError):
                    record = json.loads(line)
                    if record["end"] == "done":
                        seconds[record["key"]] = float(record["seconds"])
                        warned[record["key"]] = list(record.get("warnings", []))
        return seconds, warned


@contextmanager
def kept_safe(out: Path) -> Iterator[None]:
    """Turn a failed write into an error that says what is safe and what to do."""
    try:
        yield
    except StorageError:
        raise
    except OSError as error:
        reason, place = error.strerror or str(error), error.filename2 or error.filename or out
        raise StorageError(
            f"A result could not be written to '{place}' ({reason}). The results there are "
            "whole. Free some space or restore the permission, and run it again with resume=True.",
            arguments={"resume": ""},
        ) from error


@contextmanager
def open_store(out: Path, tasks: Sequence[Task], resume: bool, title: str) -> Iterator[Store]:
    """Begin a run, or go on with one: the folder is checked, locked and cleared of half files."""
    plan = make_plan(tasks, title)
    check_folder(out, resume)
    with _reachable(out):
        if out.exists() and not (out / PLAN).exists():
            ours = {RESULTS, FAILURES}
            other = [p.name for p in out.iterdir() if p.name not in ours and p.name[0] != "."]
            if other:
                raise InputError(
                    f"The folder '{out}' holds no run that could go on: it has no {PLAN}, but "
                    f"'{sorted(other)[0]}'. Begin again in another folder."
                )
        for folder in (out, out / RESULTS, out / FAILURES):
            folder.mkdir(exist_ok=True)
    with locked(out, wait=False) as free:
        if not free:
            raise InputError(
                f"Another run is writing to '{out}'. Wait for it, or choose another folder."
            )
        store = Store(out, plan)
        with kept_safe(store.out):
            _tidy(out)
            if (out / PLAN).exists():
                refuse_other_plan(_read_plan(out), plan, out)
            else:
                _write(out / PLAN, json.dumps(plan, indent=1, allow_nan=False) + "\n")
        yield store


def refuse_odd(path: Path, advice: str = AGAIN) -> None:
    """Refuse what is there and no file: a pipe may never come, a device never end."""
    with suppress(OSError):  # whoever opens it says what it is
        if path.exists() and not path.is_file():
            raise InputError(
                f"'{path}' is a pipe, a device or a folder, and a run keeps a file there. {advice}",
                arguments={"resume": ""} if advice == AGAIN else None,
            )


def read_result(path: Path, key: str, expected: str) -> dict[str, Any] | None:
    """The result in a file; None unless it is whole and of this very task."""
    refuse_odd(path)
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
        whole = (
            record["key"] == key
            and record["hash"] == expected
            and isinstance(record["result"], dict)
            and digest_of(record["result"]) == record["digest"]
        )
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return None
    return record["result"] if whole else None


def check_folder(out: Path, may_exist: bool, argument: str = "resume") -> None:
    """Refuse before any work is done what could not be written: a new folder, or one that may be.

    `argument` is the one that says so.
    """
    with _reachable(out):
        with suppress(FileNotFoundError, NotADirectoryError):
            out.stat()  # says what a link in a circle is, as resolving it would not
        parent = out.resolve().parent
        if out.exists() and not out.is_dir():
            raise InputError(f"'{out}' is a file; results need a folder. Name another one.")
        if not parent.is_dir():
            raise InputError(
                f"The folder '{parent}' that is to hold '{out.name}' does not exist. Make it, or "
                "name another one."
            )
        if out.exists() and not may_exist:
            raise InputError(
                f"The folder '{out}' exists already. Allow to go on in it ({argument}=True), or "
                "choose another one.",
                arguments={argument: "", "out": "FOLDER"},
            )
        if not os.access(out if out.exists() else parent, os.W_OK | os.X_OK):
            raise InputError(f"No permission to write '{out}'. Choose another folder.")


@contextmanager
def _reachable(out: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise InputError(
            f"The folder '{out}' cannot be written ({error.strerror}). Choose another one."
        ) from None


def _read_plan(out: Path) -> dict[str, Any]:
    refuse_odd(out / PLAN, "Choose another folder and begin again.")
    try:
        plan = json.loads((out / PLAN).read_text(encoding="utf-8"))
        if not isinstance(plan, dict) or not isinstance(plan["format_version"], int):
            raise TypeError("it has no format_version")
        if plan["format_version"] <= FORMAT_VERSION:
            check(plan, published("plan"), out / PLAN)
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise InputError(
            f"{out / PLAN} cannot be read ({error}). Choose another folder and begin again."
        ) from None
    if plan["format_version"] > FORMAT_VERSION:
        raise InputError(
            f"{out / PLAN} was written by a newer softrobust. Upgrade: pip install -U softrobust"
        )
    return plan


def _write(path: Path, text: str) -> None:
    with atomic_write(path) as file:
        file.write(text)


def _tidy(out: Path) -> None:
    """Clear away what a killed run was writing: hidden files beside their targets, half a line."""
    for folder in (out, out / RESULTS, out / FAILURES):
        for kind in ("json", "txt", "csv"):
            for path in folder.glob(f".*.{kind}.*"):
                path.unlink(missing_ok=True)
    timings = out / TIMINGS
    refuse_odd(timings)
    if timings.exists() and not timings.read_bytes().endswith(b"\n"):
        with open(timings, "a", encoding="utf-8") as file:
            file.write("\n")
