"""The one reader of tables: CSV (also compressed), Excel workbooks, Parquet, frames and mappings.

The name of a file is a claim, its first bytes are a fact: compression, Parquet, archives and Excel
workbooks are told by those, and so is the encoding of text: UTF-8, UTF-16, or else Windows-1252,
which is said. The delimiter (comma, semicolon or tab) is the one under which the header has the
columns that are looked for; the header is the first row as wide as the rows below it. Decimal
commas are recognised. A file is opened once: `opened` gives a `Table`, which knows its column
names before any cell is read.

Text is streamed: label columns arrive per batch as a dictionary and are mapped to codes, numbers
are cast per batch, so that memory grows with the codes and not with the text; ten million rows fit
in 1.5 GiB. A bad cell is reported with its row, counted from 1 as an editor does, and its text.
"""

import codecs
import csv
import gzip
import io
import lzma
import re
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from datetime import date, datetime, time
from itertools import islice
from pathlib import Path
from typing import IO, Any, Literal, NamedTuple, final

import numpy as np

from softrobust._core.arrays import Rows
from softrobust._core.files import DAMAGED, naming, refuse_streams
from softrobust._core.notes import Note
from softrobust._core.settings import refused, whole
from softrobust.data import columns as cols
from softrobust.data.columns import Columns, Role, listed
from softrobust.data.times import read_times, time_text
from softrobust.errors import InputError, optional

FileKind = Literal["text", "gzip", "xz", "parquet", "npz", "workbook", "frame"]
Batches = Iterator[Mapping[str, Any]]

_HEAD = 1 << 16
_BLOCK_BYTES = 1 << 22
_BATCH_ROWS = 1 << 17
_MAGIC: tuple[tuple[bytes, FileKind], ...] = (
    (b"\x1f\x8b", "gzip"),
    (b"\xfd7zXZ\x00", "xz"),
    (b"PAR1", "parquet"),
    (b"PK\x03\x04", "npz"),
)
_DELIMITERS = {",": "comma", ";": "semicolon", "\t": "tab"}
# A row index and a clock carry nothing that a reader needs; they are passed over without a note.
ROW_NAMES = {"", "step", "rownames", "__index_level_0__"}
_MOST_ROWS = 2**20  # of a sheet of Excel; what says that it has more is not read to its end
_LOOKED_AT = 30  # rows in which the header is looked for
_FAULTS = ("#N/A", "#VALUE!", "#REF!", "#DIV/0!", "#NUM!", "#NAME?", "#NULL!")  # of formulas
_WESTERN = "cp1252"


@final
@dataclass(frozen=True, slots=True)
class TableFile:
    """A file, and what its content does not say: a source wherever a table is read.

    sheet : of an Excel workbook, by default the first that holds anything
    header_row : the row of column names, counted from 1, by default the first as wide as the rest
    encoding : of text, by default told by its content
    """

    path: str | Path
    sheet: str | None = None
    header_row: int | None = None
    encoding: str | None = None


@final
class Header(NamedTuple):
    """The column names of a table; for text the delimiter, and the lines up to its end."""

    names: list[str]
    delimiter: str = ","
    lines: int = 0


@final
@dataclass(frozen=True, slots=True, eq=False)
class Table:
    """A table that is open, and what it is by its content.

    Text has a header for each delimiter, the one with most columns first; an archive has none.
    `batches` yields pieces by role, for a header and the roles with their positions in it.
    """

    source: str
    kind: FileKind
    headers: tuple[Header, ...]
    batches: Callable[[Header, Mapping[Role, int]], Batches]
    path: Path | None = None
    metadata: Mapping[bytes, bytes] = field(default_factory=dict)
    whole: frozenset[str] = frozenset()
    notes: list[Note] = field(default_factory=list)

    def integers(self, roles: Sequence[Role], columns: Mapping[str, str] | None) -> set[str]:
        """The roles whose columns hold integers, where a table knows the types of its columns."""
        names = self.headers[0].names
        at = cols.resolve_columns(names, roles, columns, self.source)
        return {role for role, i in at.items() if names[i] in self.whole}

    @property
    def names(self) -> list[str]:
        """The names of the columns."""
        self._refuse_archive()
        return [name.strip() for name in self.headers[0].names]

    def read(self, roles: Sequence[Role], columns: Mapping[str, str] | None = None) -> Columns:
        """The columns of the roles, by alias or by `columns` (role → name)."""
        self._refuse_archive()
        fits = (header for header in self.headers if cols.resolvable(header.names, roles, columns))
        header = next(fits, self.headers[0])
        position = cols.resolve_columns(header.names, roles, columns, self.source)
        found = {role: position[role.name] for role in roles if role.name in position}
        reading = _Reading(found, header, self.source)
        for batch in self.batches(header, found):
            reading.add(batch)
        out = reading.finish()
        out.notes[:0] = self.notes  # what the file is like, known once it was read
        return out

    def cells(self, names: Sequence[str]) -> Columns:
        """Return columns as names, each with a vocabulary of its own, by the name of the column."""
        roles = [Role(name, (name,), "label", name) for name in names]
        out = self.read(roles, {name: name for name in names})
        if self.kind in ("text", "gzip", "xz"):
            for name in names:
                points = cols.with_points(out.names[name], self.headers[0].delimiter != ",")
                if points is not None:
                    at = next(i for i, text in enumerate(out.names[name]) if "," in text)
                    out.notes.append(_comma_note(name, out.names[name][at]))
                    out.names[name] = points
        return out

    def _refuse_archive(self) -> None:
        if not self.headers:
            raise InputError(
                f"The file {self.source} is an archive of arrays (.npz); a table is needed here. "
                "Save it as CSV."
            )


def _comma_note(column: str, example: str) -> Note:
    facts = {"column": column, "example": example, "number": cols.with_point(example)}
    return Note("decimal_comma", facts=facts)


@contextmanager
def opened(source: Any) -> Iterator[Table]:
    """Open a table given as path, Arrow table, frame, mapping of columns, or as a `Table`."""
    if isinstance(source, Table):
        yield source
    elif isinstance(source, (str, Path, TableFile)):
        how = source if isinstance(source, TableFile) else TableFile(source)
        path = Path(how.path)
        if is_minari(how.path):
            yield replace(_frame_table(minari_columns(how.path)), source=str(how.path))
            return
        with _open(path) as file:
            yield _file_table(path, file, how)
    else:
        yield _frame_table(source)


def read_table(source: Any, roles: Sequence[Role]) -> Columns:
    """Return the columns of a table that play the given roles; optional ones may be absent."""
    with opened(source) as table:
        return table.read(roles)


def read_arrays(arrays: Mapping[str, Any], roles: Sequence[Role], source: str) -> Columns:
    """Return columns given as sequences or arrays by role; needs numpy only."""
    given = {role.name: np.asarray(arrays[role.name]) for role in roles if role.name in arrays}
    for name, array in given.items():
        if array.ndim != 1:
            raise InputError(f"A column must be one-dimensional: {name} has {array.shape}.")
    if len({array.size for array in given.values()}) > 1:
        text = ", ".join(f"{name} {array.size}" for name, array in given.items())
        raise InputError(f"The columns of a log must be equally long. Rows given: {text}.")
    return Table(source, "frame", (Header(list(given)),), lambda *_: iter([given])).read(roles)


@final
class _Reading:
    """Readers of cells for all roles (with the positions of their columns), fed by batches."""

    def __init__(self, found: Mapping[Role, int], header: Header, source: str) -> None:
        self.found, self.header, self.source = found, header, source
        words = {role.vocabulary: cols.Vocabulary() for role in found if role.vocabulary}
        comma = header.delimiter != ","
        self.readers = {r: cols.CellReader(r, words.get(r.vocabulary), comma) for r in found}
        self.columns = {role: header.names[i].strip() for role, i in found.items()}
        self.vocabularies, self.done = words, 0
        self.blank: list[int] = []

    @property
    def rows(self) -> Rows:
        return Rows(self.source, self.header.lines + 1, tuple(self.blank))

    def add(self, batch: Mapping[str, Any]) -> None:
        """Take the pieces of one batch, by role, without rows in which every cell is empty text."""
        blank = None
        for piece in batch.values():
            empty = _empty_cells(piece)
            blank = empty if blank is None or empty is None else blank & empty
            if empty is None:
                break
        if blank is not None and blank.any():
            start = self.header.lines + 1 + self.done + len(self.blank)
            self.blank.extend((start + np.flatnonzero(blank)).tolist())
            batch = {role: piece.filter(~blank) for role, piece in batch.items()}
        for role, reader in self.readers.items():
            try:
                reader.add(batch[role.name])
            except cols.CellError as bad:
                where = self.rows.where(self.done + bad.place)
                raise InputError(bad.message(self.columns[role], where)) from None
        self.done += len(next(iter(batch.values())))

    def finish(self) -> Columns:
        """Return the columns."""
        out = Columns(self.rows, headers={role.name: name for role, name in self.columns.items()})
        for role in self.found:
            reader = self.readers.pop(role)
            store = "codes" if role.kind == "label" else f"{role.kind}s"  # numbers, flags, groups
            getattr(out, store)[role.name] = reader.finish()
            if reader.comma_seen:
                out.notes.append(_comma_note(self.columns[role], reader.comma_seen))
            if role.kind == "label":
                out.names[role.name] = self.vocabularies[role.vocabulary].names
        if self.header.delimiter != ",":
            facts = {"delimiter": _DELIMITERS[self.header.delimiter]}
            out.notes.append(Note("delimiter", facts=facts))
        used = set(self.found.values())
        names = [name.strip() for i, name in enumerate(self.header.names) if i not in used]
        unused = [name for name in names if name.casefold() not in ROW_NAMES]
        if unused:
            out.notes.append(Note("columns_not_used", facts={"columns": unused}))
        if any(vocabulary.stripped for vocabulary in self.vocabularies.values()):
            out.notes.append(Note("names_stripped"))
        # A blank row at the end is usual.
        if self.blank and self.blank[0] < self.header.lines + 1 + self.done:
            out.notes.append(Note("blank_rows", facts={"n_rows": len(self.blank)}))
        return out


def _empty_cells(piece: Any) -> Any:
    """Return which cells of a text column are empty, None if none is (the usual case)."""
    if isinstance(piece, np.ndarray):
        return None
    import pyarrow as pa
    import pyarrow.compute as pc

    coded = pa.types.is_dictionary(piece.type)
    if not pa.types.is_string(piece.type.value_type if coded else piece.type):
        return None
    if not coded:
        return np.asarray(pc.equal(piece, "").fill_null(False))
    texts = piece.dictionary.to_pylist()
    return np.asarray(piece.indices) == texts.index("") if "" in texts else None


# -- files -------------------------------------------------------------------------------------


@contextmanager
def _open(path: Path) -> Iterator[IO[bytes]]:
    refuse_streams(path)
    try:
        file = path.open("rb")
    except FileNotFoundError:
        raise InputError(f"There is no file {path}. Check the name and the folder.") from None
    except IsADirectoryError:
        raise InputError(f"{path} is a folder; a file is needed.") from None
    except OSError as error:
        raise InputError(f"The file {path} cannot be opened: {error.strerror}.") from None
    except ValueError as error:  # a name that no file can have
        raise InputError(f"The file {str(path)!a} cannot be opened: {error}.") from None
    with file, naming(path):
        yield file


def _kind(path: Path, file: IO[bytes]) -> FileKind:
    """Return what a file is by its first bytes; a workbook is a zip archive with sheets in it."""
    head = file.read(8)
    file.seek(0)
    if not head:
        raise _empty(path)
    kind: FileKind = next((kind for magic, kind in _MAGIC if head.startswith(magic)), "text")
    if kind == "npz":
        with suppress(zipfile.BadZipFile, NotImplementedError), zipfile.ZipFile(file) as archive:
            if "xl/workbook.xml" in archive.namelist():
                kind = "workbook"
        file.seek(0)
    if head.startswith(b"\xd0\xcf\x11\xe0"):
        raise InputError(
            f"The file {path.name} is a workbook of an old Excel (.xls). Save it as .xlsx or CSV."
        )
    return kind


def _file_table(path: Path, file: IO[bytes], how: TableFile) -> Table:
    kind = _kind(path, file)
    given = {
        "sheet": (how.sheet, ("workbook",), "Excel workbooks"),
        "encoding": (how.encoding, ("text", "gzip", "xz"), "text"),
        "header_row": (how.header_row, ("text", "gzip", "xz", "workbook"), "text and workbooks"),
    }
    for name, (value, kinds, meant) in given.items():
        if value is not None and kind not in kinds:
            text = f"{name} is for {meant}; {path.name} is none. Leave it out."
            raise InputError(text, arguments={name: ""})
    if how.header_row is not None:
        whole("header_row", how.header_row, 1)
    if kind == "parquet":
        return _parquet_table(path, file)
    if kind == "workbook":
        return _workbook_table(path, file, how)
    if kind == "npz":
        return Table(path.name, kind, (), lambda *_: iter(()), path)
    raw = TextStream(path, kind, file).read(_HEAD)
    encoding, notes = how.encoding or _head_encoding(raw), list[Note]()
    text = _decoded(raw, path, encoding)
    if "\x00" in text:
        raise _no_text(path.name, text.count("\n", 0, text.index("\x00")) + 1)
    headers = _headers(path, text, how.header_row, notes)

    def batches(header: Header, found: Mapping[Role, int]) -> Batches:
        own = encoding
        if how.encoding is None and encoding == "utf-8":
            own, example = _whole_encoding(TextStream(path, kind, file))
            if example:
                notes.append(Note("encoding", facts={"encoding": own, "example": example}))
        return _csv_batches(TextStream(path, kind, file, own), header, found, path.name)

    if encoding != "utf-8" and how.encoding is None:
        example = "" if encoding != _WESTERN else _foreign_word(text)
        notes.append(Note("encoding", facts={"encoding": encoding, "example": example}))
    return Table(path.name, kind, headers, batches, path, notes=notes)


def _empty(path: Path) -> InputError:
    return InputError(f"The file {path.name} is empty. Check that it is the right file.")


# -------------------------------------------------------------------- text and its encoding
def _head_encoding(head: bytes) -> str:
    """The encoding that the beginning of a text shows; UTF-8 where nothing speaks against it."""
    if head.startswith((b"\xff\xfe\x00\x00", b"\x00\x00\xfe\xff")):
        return "utf-32"
    if head.startswith((b"\xff\xfe", b"\xfe\xff")):
        return "utf-16"
    zeros = np.frombuffer(head[: len(head) // 2 * 2], dtype=np.uint8) == 0
    for start, name in ((1, "utf-16-le"), (0, "utf-16-be")) if zeros.size else ():
        if zeros[start::2].mean() > 0.4 and zeros[1 - start :: 2].mean() < 0.1:
            return name
    return _WESTERN if _broken_at(head, len(head) == _HEAD) is not None else "utf-8"


def _broken_at(data: bytes, cut: bool) -> int | None:
    """Where bytes stop being UTF-8, if nothing before is a character of it beyond ASCII."""
    try:
        data.decode()
    except UnicodeDecodeError as error:
        # A block may end inside a character, which is nobody's fault; text that is UTF-8 up to a
        # broken place is damaged, and not in another encoding.
        if (cut and error.start >= len(data) - 4) or not data[: error.start].isascii():
            return None
        return error.start
    return None


def _whole_encoding(stream: "TextStream") -> tuple[str, str]:
    """UTF-8 unless the first character beyond ASCII says otherwise, and a word that has one."""
    while block := stream.read(_BLOCK_BYTES):
        if block.isascii():
            continue
        if _broken_at(block, True) is None:
            break
        return _WESTERN, _foreign_word(block.decode(_WESTERN, "replace"))
    return "utf-8", ""


def _foreign_word(text: str) -> str:
    """A word with a character beyond ASCII, to judge the encoding by."""
    return next((word for word in re.findall(r"\w+", text) if not word.isascii()), "")[:40]


@final
class TextStream(io.RawIOBase):
    """A possibly compressed text as UTF-8; a NUL byte and other faults are `InputError`."""

    def __init__(self, path: Path, kind: FileKind, file: IO[bytes], encoding: str = "") -> None:
        file.seek(0)
        self._name = path.name
        self._lines = 1
        self._stream: Any = file
        self._encoding = encoding
        self._decoder: Any = None
        if encoding not in ("", "utf-8"):
            self._decoder = _codec(encoding).incrementaldecoder()
        if kind == "gzip":
            self._stream = gzip.GzipFile(fileobj=file)
        elif kind == "xz":
            self._stream = lzma.LZMAFile(file)  # noqa: SIM115 (the caller closes the file)

    def readable(self) -> bool:
        """Return True: the stream is for reading."""
        return True

    def read(self, size: int = -1, /) -> bytes:
        """Read some `size` bytes of text; as they are where no encoding was named."""
        data = self._bytes(size)
        if self._decoder is not None:
            try:
                # Characters that are not complete yet stay with the decoder: read on for them.
                while not (text := self._decoder.decode(data, final=not data)) and data:
                    data = self._bytes(size)
            except UnicodeDecodeError:
                raise _not_text(self._name, f"around row {self._lines}", self._encoding) from None
            data = text.encode()
        if self._encoding and (at := data.find(b"\x00")) >= 0:
            raise _no_text(self._name, self._lines + data.count(10, 0, at))
        self._lines += data.count(b"\n")
        return data

    def _bytes(self, size: int) -> bytes:
        try:
            data: bytes = self._stream.read(size)
        except EOFError:
            raise InputError(
                f"The compressed file {self._name} is cut off before its end. Copy or download it "
                "again."
            ) from None
        except (OSError, lzma.LZMAError, zlib.error) as error:
            raise InputError(
                f"The file {self._name} cannot be read ({error}). It may be damaged: copy or "
                "download it again."
            ) from None
        return data


def _codec(encoding: str) -> codecs.CodecInfo:
    try:
        "".encode(encoding)  # refuses what is known, but no encoding of text: rot13, base64
        return codecs.lookup(encoding)
    except (LookupError, ValueError):
        raise InputError(
            f"There is no encoding '{encoding}'. Usual ones are utf-8, utf-16, cp1252, latin-1, "
            "cp1250, shift_jis and gb18030.",
            arguments={"encoding": "cp1252"},
        ) from None


def _headers(
    path: Path, text: str, header_row: int | None, notes: list[Note]
) -> tuple[Header, ...]:
    """The header under each delimiter, the one with most columns first."""
    blank = len(text) - len(text.lstrip("\r\n")) if header_row is None else 0
    lines = len(text[:blank].splitlines())
    text = text[blank:]
    if not text.strip():
        raise _empty(path)
    found, above = [], {}
    for delimiter in _DELIMITERS:
        reader = csv.reader(io.StringIO(text, newline=None), delimiter=delimiter)
        rows, ends = [], []
        try:
            for row in islice(reader, (header_row or 0) + _LOOKED_AT):
                rows.append(row)
                ends.append(reader.line_num)
        except csv.Error:
            rows, ends = rows or [[text[:80]]], ends or [1]
        at = header_place(rows) if header_row is None else min(header_row, len(rows)) - 1
        found.append(Header(rows[at], delimiter, lines + max(1, ends[at])))
        above[delimiter] = at
    headers = tuple(sorted(found, key=lambda header: -len(header.names)))
    if above[headers[0].delimiter] and header_row is None:
        facts = {"row": lines + above[headers[0].delimiter] + 1, "columns": headers[0].names[:3]}
        notes.append(Note("header_row", facts=facts))
    return headers


def header_place(rows: Sequence[Sequence[str]]) -> int:
    """The first row that is as wide as most rows are; rows above it are a title."""
    widths = [sum(1 for cell in row if cell.strip()) for row in rows]
    lengths = [len(row) for row in rows]
    usual = max(set(lengths), key=lambda n: (lengths.count(n), n))
    if (lengths[0] == usual and widths[0] > 1) or usual < 2 or lengths.count(usual) < 3:
        return 0
    full = max(widths)
    return next((i for i, n in enumerate(widths) if lengths[i] == usual and 2 * n > full), 0)


def _decoded(data: bytes, path: Path, encoding: str = "utf-8") -> str:
    """Return bytes as text; raise if they are none."""
    name = "utf-8-sig" if encoding == "utf-8" else encoding
    try:
        return _codec(name).incrementaldecoder().decode(data, final=len(data) != _HEAD)
    except UnicodeDecodeError as error:
        where = f"row {data.count(10, 0, error.start) + 1}"
        raise _not_text(path.name, where, encoding) from None


def _no_text(name: str, row: int) -> InputError:
    return InputError(
        f"The file {name} is not a text file, whatever its name says: row {row} holds a NUL byte. "
        "Give a CSV file (also .csv.gz or .csv.xz), an Excel workbook, a Parquet file or an .npz "
        "file."
    )


def _not_text(name: str, where: str, encoding: str) -> InputError:
    return InputError(
        f"Text must be in one encoding: {where} of {name} holds bytes that are no "
        f"{encoding.upper()}. Say which it is with encoding, or save the file again as CSV in "
        "UTF-8 (in Excel: «CSV UTF-8»).",
        arguments={"encoding": "…" if encoding.upper() == "CP1252" else "cp1252"},
    )


def read_text(path: Path) -> str:
    """Return the whole text of a small file, possibly compressed."""
    with _open(path) as file:
        data = TextStream(path, _kind(path, file), file).read()
    return _decoded(data, path, _head_encoding(data))


# -------------------------------------------------------------------- Excel workbooks
def _workbook_table(path: Path, file: IO[bytes], how: TableFile) -> Table:
    """A sheet of a workbook, its cells as texts: what a formula last showed, dates in ISO."""
    openpyxl = optional("openpyxl", "excel", "Reading Excel workbooks")
    try:
        book = openpyxl.load_workbook(file, read_only=True, data_only=True)
        filled = [sheet for sheet in book.worksheets if how.sheet in (None, sheet.title)]
        rows: list[list[str]] = []
        names = [sheet.title for sheet in book.worksheets]
        for sheet in filled:
            sheet.reset_dimensions()  # what it says of its size may be anything
            told = islice(sheet.iter_rows(values_only=True), _MOST_ROWS)
            rows = [[_cell_text(cell) for cell in row] for row in told]
            if any(map(any, rows)):
                break
        book.close()
    except (*DAMAGED, ValueError, AttributeError, ArithmeticError, SyntaxError) as error:
        raise InputError(
            f"The workbook {path.name} cannot be read ({error}). Save it again, or as CSV."
        ) from None
    if not filled:
        raise InputError(
            f"There is no sheet '{how.sheet}' in {path.name}: there are {listed(names)}.",
            arguments={"sheet": f"'{names[0]}'"},
        )
    if not any(map(any, rows)):
        raise _empty(path)
    notes = []
    if how.sheet is None and len(names) > 1:
        others = [name for name in names if name != sheet.title]
        notes.append(Note("sheet", facts={"sheet": sheet.title, "others": others}))
    wide = max(map(len, rows[:_LOOKED_AT]))
    top = [row + [""] * (wide - len(row)) for row in rows[:_LOOKED_AT]]
    at = header_place(top) if how.header_row is None else how.header_row - 1
    if at >= len(rows) - 1:
        raise InputError(
            f"A table needs at least one row below its header: {path.name} has none below row "
            f"{at + 1} of the sheet '{sheet.title}'. The sheets are {listed(names)}: name the one "
            "that holds the data.",
            arguments={"sheet": f"'{names[-1]}'"},
        )
    if at and how.header_row is None:
        facts = {"row": at + 1, "columns": [cell for cell in rows[at] if cell][:3]}
        notes.append(Note("header_row", facts=facts))
    width = max(i + 1 for row in rows[at:] for i, cell in enumerate(row) if cell)
    body = rows[at + 1 :]  # a row ends with its last cell

    def batches(_: Header, found: Mapping[Role, int]) -> Batches:
        import pyarrow as pa

        cells = {role.name: ["".join(row[i : i + 1]) for row in body] for role, i in found.items()}
        yield {role: pa.array(texts, pa.string()) for role, texts in cells.items()}

    header = Header((rows[at] + [""] * width)[:width], lines=at + 1)
    return Table(path.name, "workbook", (header,), batches, path, notes=notes)


def _cell_text(cell: Any) -> str:
    """A cell of a workbook as an export would write it."""
    if cell is None:
        return ""
    if isinstance(cell, datetime):
        return cell.date().isoformat() if cell.time() == time() else cell.isoformat()
    if isinstance(cell, (date, time)):
        return cell.isoformat()
    if isinstance(cell, float):
        return f"{cell:.15g}"
    return "" if str(cell) in _FAULTS else str(cell)


# -------------------------------------------------------------------- CSV
def _csv_batches(
    stream: TextStream, header: Header, found: Mapping[Role, int], name: str
) -> Batches:
    """Yield the batches of a CSV stream; faults of the text become errors with a row number."""
    import pyarrow as pa
    from pyarrow import csv as pa_csv

    ragged: list[Any] = []

    def refuse(row: Any) -> str:
        ragged.append(row)
        return "error"

    few = pa.dictionary(pa.int32(), pa.string())
    coded = ("label", "flag")
    types = {str(i): few if role.kind in coded else pa.string() for role, i in found.items()}
    try:
        reader = pa_csv.open_csv(
            stream,
            read_options=pa_csv.ReadOptions(
                use_threads=False,
                block_size=_BLOCK_BYTES,
                column_names=[str(i) for i in range(len(header.names))],
                skip_rows=header.lines,
            ),
            parse_options=pa_csv.ParseOptions(
                delimiter=header.delimiter,
                newlines_in_values=True,
                ignore_empty_lines=False,
                invalid_row_handler=refuse,
            ),
            convert_options=pa_csv.ConvertOptions(
                include_columns=list(types),
                column_types=types,
                strings_can_be_null=False,
                null_values=[],
            ),
        )
        for batch in reader:
            yield {role.name: batch.column(str(i)) for role, i in found.items()}
    except pa.ArrowInvalid as error:
        raise _csv_error(str(error), ragged, name) from None


def _csv_error(text: str, ragged: list[Any], name: str) -> InputError:
    """Return our error for one of the CSV parser."""
    row = re.search(r"Row #(\d+)", text)
    where = f"row {row[1]}" if row else "a row"
    if ragged:
        bad = ragged[-1]
        found = " ".join(bad.text.split())
        return InputError(
            f"Every row must have as many columns as the header ({bad.expected_columns}): row "
            f"{bad.number} of {name} has {bad.actual_columns}: «{found[:60]}». The file may be "
            "cut off, or a cell that contains the delimiter needs quotes."
        )
    if "UTF8" in text:
        return _not_text(name, where, "utf-8")
    if "skip" in text:
        return InputError(
            f"A table needs at least one row below its header: {name} has none. Check that it is "
            "the right file."
        )
    if "straddling" in text:
        return InputError(
            f"A quoted cell or a row of {name} is longer than {_BLOCK_BYTES >> 20} MiB; a quote "
            "may not be closed. Correct the file."
        )
    return InputError(f"The file {name} cannot be read as CSV: {text}. Correct {where}.")


# -------------------------------------------------------------------- Parquet and frames
def _parquet_table(path: Path, file: IO[bytes]) -> Table:
    """An open Parquet file; a damaged one is an error that says what to do."""
    import pyarrow as pa
    from pyarrow import parquet

    def damaged(error: Exception) -> InputError:
        reason = " ".join(str(error).split())[:200]
        return InputError(
            f"The Parquet file {path.name} cannot be read ({reason}). It may be cut off or "
            "damaged: copy or download it again."
        )

    try:
        table = parquet.ParquetFile(file)
        schema = table.schema_arrow
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        raise damaged(error) from None

    def batches(header: Header, found: Mapping[Role, int]) -> Batches:
        wanted = {role.name: header.names[i] for role, i in found.items()}
        try:
            for batch in table.iter_batches(_BATCH_ROWS, columns=list(wanted.values())):
                yield {role: batch.column(name) for role, name in wanted.items()}
        except (pa.ArrowException, OSError, UnicodeDecodeError, IndexError) as error:
            raise damaged(error) from None

    header = Header(list(schema.names))
    return Table(path.name, "parquet", (header,), batches, path, schema.metadata or {})


def _frame_table(source: Any) -> Table:
    table = _arrow_table(source)

    def batches(_: Header, found: Mapping[Role, int]) -> Batches:
        for batch in table.to_batches(max_chunksize=_BATCH_ROWS):
            yield {role.name: batch.column(i) for role, i in found.items()}

    header = Header([str(name) for name in table.schema.names])
    whole = frozenset(str(f.name) for f in table.schema if str(f.type).startswith(("int", "uint")))
    return Table(_words_for(source), "frame", (header,), batches, whole=whole)


def _arrow_table(source: Any) -> Any:
    """Return an Arrow table, a frame of any kind or a mapping of columns as an Arrow table."""
    import pyarrow as pa

    if isinstance(source, pa.Table):
        return source
    try:
        if type(source).__module__.split(".")[0] == "pandas":
            return pa.Table.from_pandas(source, preserve_index=False)
        if hasattr(source, "__arrow_c_stream__"):
            return pa.table(source)
        if isinstance(source, Mapping) or hasattr(source, "columns"):
            names = source if isinstance(source, Mapping) else source.columns
            return pa.table({str(name): pa.array(source[name]) for name in names})
    except (ValueError, TypeError, NotImplementedError) as error:  # Arrow's errors are these too
        raise InputError(
            f"In {_words_for(source)} a column cannot be read: {error}. Give each column one name "
            "and one type (strings or integers, not both), and all the same length."
        ) from None
    raise InputError(
        "A table must be a path, a frame with columns (pandas, Arrow, …) or a mapping of columns: "
        f"got {type(source).__name__}."
    )


def _words_for(source: Any) -> str:
    return "the table" if isinstance(source, Mapping) else f"the {type(source).__name__}"


# -- Minari data sets: "minari:NAME" of a local one, or the folder it lies in ------------------

MINARI = "minari:"


def is_minari(source: str | Path) -> bool:
    """Whether a path names a Minari data set, by its prefix or by the file that it holds."""
    path = Path(source)
    inside = (path / "main_data.hdf5", path / "data" / "main_data.hdf5")
    return str(source).startswith(MINARI) or any(file.exists() for file in inside)


def minari_dataset(source: str | Path) -> Any:
    """The data set, opened by its own package."""
    minari = optional("minari", "gym", "Reading a Minari dataset")
    name = str(source).removeprefix(MINARI)
    folder = Path(name)
    try:
        inner = folder / "data" if (folder / "data").is_dir() else folder
        return minari.MinariDataset(inner) if folder.exists() else minari.load_dataset(name)
    except (FileNotFoundError, OSError, KeyError, ValueError) as error:
        raise InputError(
            f"'{name}' is no local Minari dataset ({error}). Give its folder, or download it first "
            "with `minari download`."
        ) from None


def minari_columns(source: Any) -> dict[str, Any]:
    """Columns of a data set, x0, x1 … for vectors; a step that is cut off is not terminal."""
    data = minari_dataset(source) if isinstance(source, (str, Path)) else source
    if not hasattr(data, "action_space"):
        raise refused("dataset", "a Minari dataset, its folder or its name", source, "")
    if not hasattr(data.action_space, "n"):
        raise InputError(
            f"Actions must be discrete; {source} has {data.action_space}. Discretise them first."
        )
    parts: list[tuple[Any, ...]] = []
    for episode in data.iterate_episodes():
        seen = episode.observations
        if isinstance(seen, (dict, tuple)):
            raise InputError(
                "Only discrete or vector observations can be read; this dataset has others."
            )
        seen = np.asarray(seen).reshape(len(episode.actions) + 1, -1)
        parts.append((seen[:-1], seen[1:], episode.actions, episode.rewards, episode.terminations))
    lengths = [len(part[0]) for part in parts]
    if not sum(lengths):
        raise InputError(f"A log needs at least one transition: {source} has none.")
    now, then, action, reward, end = (np.concatenate(column) for column in zip(*parts, strict=True))
    rest = {
        "action": action.reshape(-1).astype(np.int64),
        "reward": reward.astype(np.float64).reshape(-1),
        "episode": np.repeat(np.arange(len(lengths)), lengths),
        "terminal": end.astype(bool).reshape(-1),
    }
    sides = {"": now, "next_": then}
    if hasattr(data.observation_space, "n"):
        return {f"{side}state": x[:, 0].astype(np.int64) for side, x in sides.items()} | rest
    cells = ((f"{side}x{j}", x[:, j]) for side, x in sides.items() for j in range(x.shape[1]))
    return {name: x.astype(float) for name, x in cells} | rest


# -- from when the rows are --------------------------------------------------------------------

DATED = ("date", "datetime", "timestamp", "time", "day", "week", "month", "year")
MOST_DATED = 500_000  # rows


def dated(table: Table, notes: Sequence[Note], n_rows: int) -> list[Note]:
    """From when to when rows are, by an unused column called a date; not of very long logs."""
    unused = [name for n in notes if n.code == "columns_not_used" for name in n["columns"]]
    name = next((n for kind in DATED for n in unused if n.casefold() == kind), None)
    if name is None or n_rows > MOST_DATED:
        return []
    cells = table.cells([name])
    try:
        times = read_times(cells, name)
    except InputError:  # it is called so, and holds something else
        return []
    known = times.values[np.isfinite(times.values)]
    if not known.size:
        return []
    low, high = (time_text(float(t), times.clock) for t in (known.min(), known.max()))
    facts = {"column": name, "low": low, "high": high, "numbers": times.clock == "numbers"}
    return [Note("rows_dated", facts=facts)]
