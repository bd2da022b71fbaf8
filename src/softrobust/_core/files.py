"""Files that are never half written: a temporary beside the target, then one atomic rename."""

from __future__ import annotations

import contextlib
import csv
import os
import struct
import tempfile
import zipfile
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any

import numpy as np
import numpy.typing as npt

from softrobust.errors import InputError


@contextmanager
def atomic_write(
    path: str | Path, mode: str = "w", newline: str | None = None
) -> Iterator[IO[Any]]:
    """Open a temporary file that replaces `path` only when the block ends without an error."""
    target = Path(path)
    text = "b" not in mode
    handle, name = tempfile.mkstemp(prefix=f".{target.name}.", dir=target.parent or Path())
    try:
        with os.fdopen(
            handle, mode, encoding="utf-8" if text else None, newline=newline if text else None
        ) as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        umask = os.umask(0)  # mkstemp makes private files; a result is an ordinary one
        os.umask(umask)
        os.chmod(name, 0o666 & ~umask)
        os.replace(name, target)
    except BaseException:
        with suppress(OSError):
            os.unlink(name)
        raise


def write_csv(path: str | Path, columns: Mapping[str, Sequence[Any]]) -> None:
    """Write columns of equal length with their names, atomically."""
    with atomic_write(path, "w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(columns)
        rows.writerows(zip(*columns.values(), strict=True))


@contextmanager
def locked(folder: Path, shared: bool = False, wait: bool = True) -> Iterator[bool]:
    """Keep others out of a folder, or only those who write; the system lifts a dead one's lock.

    Yields False where the folder is taken and `wait` is not asked for.
    """
    try:
        import fcntl
    except ImportError:  # no such locks on this system
        yield True
        return
    try:
        handle = os.open(folder, os.O_RDONLY)
    except PermissionError:  # not even to be read: whoever needs it says so
        yield True
        return
    try:
        free = True
        try:
            kind = fcntl.LOCK_SH if shared else fcntl.LOCK_EX
            fcntl.flock(handle, kind if wait else kind | fcntl.LOCK_NB)
        except BlockingIOError:
            free = False
        except OSError:  # a file system without locks
            pass
        yield free
    finally:
        os.close(handle)


# --------------------------------------------------------------------------------------------------
# Arrays in `.npz` files: with format and version, written atomically, read without unpickling.

Arrays = dict[str, npt.NDArray[Any]]
# What zipfile and numpy raise on an archive that is cut off or has a byte changed.
DAMAGED = (
    zipfile.BadZipFile,
    zlib.error,
    EOFError,
    OSError,
    KeyError,
    TypeError,
    IndexError,
    RuntimeError,
    OverflowError,
    MemoryError,
    struct.error,
)


def write_npz(path: str | Path, kind: str, version: int, arrays: Mapping[str, Any]) -> None:
    """Write arrays with their `format` and `format_version`, atomically."""
    with atomic_write(path, "wb") as file:
        head = {"format": np.array(kind), "format_version": np.array(version)}
        np.savez(file, allow_pickle=False, **head, **arrays)


def read_npz(path: str | Path, kind: str, version: int) -> Arrays:
    """Read all arrays of a file of this kind, up to this version."""
    with open_npz(Path(path)) as file:
        arrays = dict(file)
    check_format(str(arrays.get("format", "")), kind, arrays.get("format_version"), version, path)
    for name, array in arrays.items():
        if array.dtype.kind not in "biufU":
            raise InputError(
                f"The file {Path(path).name} holds {array.dtype} in '{name}', where numbers, text "
                "or yes and no belong. Write it again."
            )
    return arrays


def check_format(found: str, kind: str, its_version: Any, version: int, path: str | Path) -> None:
    """Refuse files of another kind, and those of a newer version."""
    name = Path(path).name
    if found != kind:
        what = f"holds '{found[:60]}'" if found else "has no format name"
        raise InputError(f"The file {name} {what}; it should be a '{kind}' file.")
    try:
        number = None if its_version is None else int(its_version)
    except (TypeError, ValueError):
        number = None
    if number is None or number > version:
        raise InputError(
            f"The file {name} has format version {str(its_version)[:60]}; this version of "
            f"softrobust reads up to {version}. Update softrobust."
        )


@contextmanager
def rebuilding(what: str, path: str | Path) -> Iterator[None]:
    """Make an object of what a file holds: what that lacks or garbles is an error that names it."""
    name = Path(path).name
    try:
        yield
    except InputError as error:
        if name in str(error):
            raise
        raise InputError(f"{name}: {error}", arguments=error.arguments) from None
    except (*DAMAGED, ValueError, AttributeError, ArithmeticError, RecursionError) as error:
        raise InputError(
            f"The file {name} lacks or garbles a part of the {what} ({_reason(error)}). "
            "Write it again."
        ) from None


def npz_format(path: Path) -> str | None:
    """Return the `format` of an `.npz` file, None if it has none."""
    with open_npz(path) as file:
        return str(file["format"]) if "format" in file else None


def npz_columns(path: Path) -> dict[str, npt.NDArray[Any]]:
    """Return the one-dimensional arrays of an `.npz` that is not ours, as columns of a table."""
    with open_npz(path) as file:
        return {name: column for name, column in file.items() if column.ndim == 1}


def _reason(error: BaseException) -> str:
    """What Python, zipfile or numpy says, without the bytes it may quote at length."""
    words = " ".join(str(error).split()).replace("unexpected", "unknown")
    if isinstance(error, KeyError):
        words = f"there is no {words}"
    elif isinstance(error, OSError):
        words = error.strerror or words
    return words if len(words) <= 160 else f"{words[:159]}…"


@contextlib.contextmanager
def open_npz(path: Path) -> Iterator[Any]:
    """Open an `.npz` file without unpickling; faults become errors that say what to do."""
    try:
        with path.open("rb") as raw, np.load(raw, allow_pickle=False) as file:
            # Numpy takes any zip archive; ours hold arrays and nothing else.
            for name in file.zip.namelist():
                if not name.endswith(".npy"):
                    raise InputError(
                        f"The file {path.name} is a zip archive or an Excel workbook (it holds "
                        f"'{name[:60]}'), not an .npz file of arrays. Take the table out of it and "
                        "save that as CSV in UTF-8."
                    )
            yield file
    except InputError:
        raise
    except FileNotFoundError:
        raise InputError(f"There is no file {path}. Check the name and the folder.") from None
    except DAMAGED as error:
        raise InputError(
            f"The file {path.name} is not a whole .npz file ({_reason(error)}). If it is an Excel "
            "workbook, save it as CSV in UTF-8; else copy it again."
        ) from None
    except ValueError as error:
        raise InputError(
            f"The file {path.name} cannot be read safely ({_reason(error)}). Save plain arrays of "
            "numbers or text, not Python objects."
        ) from None
