"""Files that are never half written (CSV, Excel, `.npz`), locks of folders, and files read back."""

from __future__ import annotations

import csv
import os
import struct
import tempfile
import zipfile
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path
from typing import IO, Any

import numpy as np
import numpy.typing as npt

from softrobust.errors import InputError, MissingExtraError


@contextmanager
def naming(path: str | Path) -> Iterator[None]:
    """Faults of the system inside are of this file: of a read it names none, or a temporary one."""
    try:
        yield
    except OSError as error:
        if error.errno is not None:  # others are of what a file holds
            error.filename = str(path)
        raise


@contextmanager
def atomic_write(
    path: str | Path, mode: str = "w", newline: str | None = None
) -> Iterator[IO[Any]]:
    """Open a temporary file that replaces `path` only when the block ends without an error."""
    target, encoding = Path(path), None if "b" in mode else "utf-8"
    if target.is_dir():
        raise InputError(
            f"{target} is a folder where a file is to be written. Remove it and run the command "
            "again, or name another file."
        )
    with naming(target):
        handle, name = tempfile.mkstemp(prefix=f".{target.name}.", dir=target.parent or Path())
    try:
        with os.fdopen(handle, mode, encoding=encoding, newline=newline) as file:
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


def numbered(stem: str, suffix: str = "") -> Iterator[str]:
    """Names to choose a free one from: x.csv, x-2.csv, x-3.csv, …"""
    yield f"{stem}{suffix}"
    yield from (f"{stem}-{n}{suffix}" for n in count(2))


FORMULA = ("=", "+", "-", "@", "\t", "\r")  # what a cell begins with that a spreadsheet runs


def defused(cell: Any) -> Any:
    """Text that a spreadsheet would run gets an apostrophe before it; numbers are what they are."""
    if not isinstance(cell, str) or not cell.startswith(FORMULA):
        return cell
    try:
        float(cell)
    except ValueError:
        return f"'{cell}"
    return cell


def write_csv(
    path: str | Path, columns: Mapping[str, Sequence[Any]], *, people: bool = False
) -> None:
    """Write columns of equal length with their names, atomically.

    A file for `people` may be opened in a spreadsheet: no cell runs there, and where it holds other
    than plain letters it begins with the mark by which a spreadsheet knows UTF-8.
    """
    plain = (x.tolist() if isinstance(x, np.ndarray) else x for x in columns.values())
    cells: list[Sequence[Any]] = [list(columns), *zip(*plain, strict=True)]
    if people:
        cells = [[defused(cell) for cell in row] for row in cells]
    with atomic_write(path, "w", newline="") as file:
        if people and not all(str(cell).isascii() for row in cells for cell in row):
            file.write("\ufeff")
        csv.writer(file).writerows(cells)


MOST_ROWS = 1_048_576  # of a sheet


def write_workbook(path: str | Path, sheets: Mapping[str, Mapping[str, Sequence[Any]]]) -> None:
    """Write sheets of columns as .xlsx, atomically; text stays text, whatever it begins with."""
    try:
        from openpyxl import Workbook
        from openpyxl.cell.cell import ILLEGAL_CHARACTERS_RE as ILLEGAL
        from openpyxl.styles import Alignment, Font
    except ImportError as error:
        raise MissingExtraError("openpyxl", "excel", "Writing a workbook") from error
    book = Workbook()
    del book[book.sheetnames[0]]  # a workbook begins with an empty sheet
    for title, columns in sheets.items():
        rows = [list(columns), *zip(*columns.values(), strict=True)]
        if len(rows) > MOST_ROWS:
            raise InputError(
                f"A sheet holds {MOST_ROWS - 1:,} rows; there are {len(rows) - 1:,}. Write a .csv."
            )
        sheet = book.create_sheet(title)
        for i, row in enumerate(rows, 1):
            for j, value in enumerate(row, 1):
                cell = sheet.cell(i, j)
                if isinstance(value, (int, float)) and np.isfinite(value):
                    cell.value = value
                    continue
                cell.value = ILLEGAL.sub("\ufffd", str(value))
                cell.data_type = "s"  # else "=1+1" would be a formula
                cell.quotePrefix = cell.value.startswith(FORMULA)
        for cell in sheet[1]:
            cell.font = Font(bold=True)
        for column in sheet.columns:
            width = max(len(str(cell.value or "")) for cell in column)
            sheet.column_dimensions[column[0].column_letter].width = min(max(width + 2, 8), 100)
            for cell in column if width > 100 else ():
                cell.alignment = Alignment(wrap_text=True, vertical="top")
                lines = -(-len(str(cell.value or "")) // 90)  # lower rows would be covered
                row = sheet.row_dimensions[cell.row]
                row.height = max(15.0 * lines, row.height or 15.0)
        sheet.freeze_panes = "A2"
    with atomic_write(path, "wb") as file:
        book.save(file)


@contextmanager
def locked(folder: Path, shared: bool = False, wait: bool = True) -> Iterator[bool]:
    """Keep others out of a folder, or only writers; False where taken and not waited for."""
    try:
        import fcntl

        handle = os.open(folder, os.O_RDONLY)
    except (ImportError, PermissionError):  # no such locks here; whoever reads it says the rest
        yield True
        return
    free = True
    try:
        kind = fcntl.LOCK_SH if shared else fcntl.LOCK_EX
        try:
            fcntl.flock(handle, kind if wait else kind | fcntl.LOCK_NB)
        except OSError as error:  # others mean a file system without locks
            free = not isinstance(error, BlockingIOError)
        yield free
    finally:
        os.close(handle)


# --------------------------------------------------------------------------------------------------
# Arrays in `.npz` files: with format and version, written atomically, read without unpickling.

Arrays = dict[str, npt.NDArray[Any]]
# What zipfile and numpy raise on an archive that is cut off or has a byte changed.
DAMAGED = (
    zipfile.BadZipFile, zlib.error, EOFError, OSError, KeyError, TypeError, IndexError,
    RuntimeError, OverflowError, MemoryError, struct.error,
)  # fmt: skip


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


def under(head: str, arrays: Mapping[str, npt.NDArray[Any]]) -> Arrays:
    """The arrays whose names begin with `head`, by the rest of their names."""
    return {k.removeprefix(head): x for k, x in arrays.items() if k.startswith(head)}


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


def _reason(error: BaseException) -> str:
    """What Python, zipfile or numpy says, without the bytes it may quote at length."""
    words = " ".join(str(error).split()).replace("unexpected", "unknown")
    if isinstance(error, KeyError):
        words = f"there is no {words}"
    elif isinstance(error, OSError):
        words = error.strerror or words
    return words if len(words) <= 160 else f"{words[:159]}…"


def refuse_streams(path: Path) -> None:
    """Refuse what is neither a file nor a folder: a pipe may never come, a device never end."""
    try:
        odd = not path.is_file() and not path.is_dir() and path.exists()
    except (OSError, ValueError):  # whoever opens it says what it is
        odd = False
    if odd:
        raise InputError(
            f"{path} is a pipe or a device, which may have no end; a file is read more than once. "
            "Write it to a file, and name that."
        )


@contextmanager
def open_npz(path: Path) -> Iterator[Any]:
    """Open an `.npz` file without unpickling; faults become errors that say what to do."""
    refuse_streams(path)
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
                with file.zip.open(name) as member:
                    if member.read(6) != b"\x93NUMPY":  # numpy would hand it on as bytes
                        raise InputError(
                            f"The file {path.name} holds no array in '{name[:-4][:60]}'. Write it "
                            "again."
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
