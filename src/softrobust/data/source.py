"""Opening files: what a file is, by its content, and its text with errors that help.

The name of a file is a claim, its first bytes are a fact: compression, Parquet, archives and Excel
workbooks are told by those. Text must be UTF-8; the delimiter (comma, semicolon or tab) is the one
under which the header has the columns that are looked for.
"""

import csv
import gzip
import io
import lzma
import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import BinaryIO, Literal, NamedTuple, final

from softrobust.data.columns import Role, resolvable
from softrobust.errors import InputError

FileKind = Literal["text", "gzip", "xz", "parquet", "npz"]

_HEAD = 1 << 16
_MAGIC: tuple[tuple[bytes, FileKind], ...] = (
    (b"\x1f\x8b", "gzip"),
    (b"\xfd7zXZ\x00", "xz"),
    (b"PAR1", "parquet"),
    (b"PK\x03\x04", "npz"),
)
_DELIMITERS = {",": "comma", ";": "semicolon", "\t": "tab"}


@final
class Header(NamedTuple):
    """The first record of a text table.

    Attributes
    ----------
    names : list of str
        Column names.
    delimiter : str
        Comma, semicolon or tab.
    lines : int
        Lines of the file up to the end of the header.
    """

    names: list[str]
    delimiter: str
    lines: int

    @property
    def note(self) -> str | None:
        """A sentence if the delimiter is not the comma."""
        if self.delimiter == ",":
            return None
        return f"Columns are separated by a {_DELIMITERS[self.delimiter]}."


@final
class TextStream(io.RawIOBase):
    """A possibly compressed text file as bytes; a damaged one raises `InputError` on reading.

    With `plain`, so does a NUL byte, which is no part of a text and would become part of a name.
    """

    def __init__(self, path: Path, kind: FileKind, plain: bool = False) -> None:
        self._path = path
        self._plain = plain
        self._lines = 1
        self._stream: BinaryIO | gzip.GzipFile | lzma.LZMAFile
        if kind == "gzip":
            self._stream = gzip.GzipFile(path, "rb")
        elif kind == "xz":
            self._stream = lzma.LZMAFile(path, "rb")  # noqa: SIM115 (closed by close)
        else:
            self._stream = path.open("rb")

    def readable(self) -> bool:
        """Return True: the stream is for reading."""
        return True

    def read(self, size: int = -1, /) -> bytes:
        """Read up to `size` bytes of text."""
        data = self._read(size)
        if self._plain:
            if (at := data.find(b"\x00")) >= 0:
                row = self._lines + data.count(b"\n", 0, at)
                raise InputError(
                    f"The file {self._path.name} is not plain text: row {row} holds a NUL byte. "
                    "Save the table again as CSV in UTF-8."
                )
            self._lines += data.count(b"\n")
        return data

    def _read(self, size: int) -> bytes:
        try:
            return self._stream.read(size)
        except EOFError:
            raise InputError(
                f"The compressed file {self._path.name} is cut off before its end. Copy or "
                "download it again."
            ) from None
        except (OSError, lzma.LZMAError, zlib.error) as error:
            raise InputError(
                f"The file {self._path.name} cannot be read ({error}). It may be damaged: copy or "
                "download it again."
            ) from None

    def close(self) -> None:
        """Close the file."""
        self._stream.close()
        super().close()


def file_kind(path: Path) -> FileKind:
    """Return what a file is by its first bytes; raise if it is absent, empty or a folder."""
    try:
        with path.open("rb") as file:
            head = file.read(8)
    except FileNotFoundError:
        raise InputError(f"There is no file {path}. Check the name and the folder.") from None
    except IsADirectoryError:
        raise InputError(f"{path} is a folder; a file is needed.") from None
    except OSError as error:
        raise InputError(f"The file {path} cannot be opened: {error.strerror}.") from None
    if not head:
        raise InputError(f"The file {path.name} is empty. Check that it is the right file.")
    return next((kind for magic, kind in _MAGIC if head.startswith(magic)), "text")


def read_header(
    path: Path, kind: FileKind, roles: Sequence[Role], columns: Mapping[str, str] | None = None
) -> Header:
    """Return the header of a text table, with the delimiter under which `roles` have columns.

    Without roles, or if they have none, the delimiter that makes most columns is taken.
    """
    with TextStream(path, kind) as stream:
        head = stream.read(_HEAD)
    text = _decoded(head, path)
    blank = len(text) - len(text.lstrip("\r\n"))
    lines = len(text[:blank].splitlines())
    text = text[blank:]
    if not text.strip():
        raise InputError(f"The file {path.name} is empty. Check that it is the right file.")
    choices = [_first_record(text, delimiter, lines) for delimiter in _DELIMITERS]
    for header in choices if roles else ():
        if resolvable(header.names, roles, columns):
            return header
    return max(choices, key=lambda header: len(header.names))


def _first_record(text: str, delimiter: str, lines_before: int) -> Header:
    reader = csv.reader(io.StringIO(text, newline=None), delimiter=delimiter)
    try:
        names = next(reader)
    except (csv.Error, StopIteration):
        names = [text[:80]]
    return Header(names, delimiter, lines_before + max(1, reader.line_num))


def _decoded(head: bytes, path: Path) -> str:
    """Return the first bytes as text; raise if they are no UTF-8 text."""
    if head.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise InputError(f"The file {path.name} is UTF-16 text. Save it again as CSV in UTF-8.")
    if b"\x00" in head:
        raise InputError(
            f"The file {path.name} is not a text file, whatever its name says. Give a CSV file "
            "(also .csv.gz or .csv.xz), a Parquet file or an .npz file."
        )
    try:
        return head.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        if error.start < len(head) - 4 or len(head) < _HEAD:
            line = head[: error.start].count(b"\n") + 1
            raise not_utf8(path.name, f"row {line}") from None
        # The block ends inside a character, which is nobody's fault.
        return head[: error.start].decode("utf-8-sig")


def not_utf8(name: str, where: str) -> InputError:
    """Return the error for text in another encoding."""
    return InputError(
        f"Text must be UTF-8: {where} of {name} holds bytes that are not. Save the file again as "
        "CSV in UTF-8 (in Excel: «CSV UTF-8»)."
    )


def text_of(path: Path) -> str:
    """Return the whole text of a small file, possibly compressed."""
    with TextStream(path, file_kind(path)) as stream:
        data = stream.read()
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise not_utf8(path.name, f"row {data[: error.start].count(bytes([10])) + 1}") from None
