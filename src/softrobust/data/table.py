"""Collectors: the pieces of an Arrow column, one after another, become one array.

Text columns are decided at the end of the stream, never guessed from its beginning; a column that
is typed already (Parquet, pandas) is taken as it is.
"""

import re
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, final

import numpy as np
import numpy.typing as npt

from softrobust._core.arrays import BoolArray, CodeArray, FloatArray, Rows
from softrobust.data.coding import (
    MISSING,
    CellError,
    Columns,
    Vocabulary,
    check_finite,
    not_a_flag,
    not_a_number,
    number_groups,
    parse_flag,
)
from softrobust.data.columns import Role, resolve_columns
from softrobust.data.source import Header, TextStream, file_kind, not_utf8, read_header
from softrobust.errors import InputError

_NUMBER = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")


@final
class Growing:
    """An array that grows in place.

    A list of pieces, joined at the end, would hold every column twice, and small pieces leave a
    heap that no large array can use again; resizing moves memory pages instead.
    """

    def __init__(self, dtype: type[np.generic]) -> None:
        self._array: npt.NDArray[Any] = np.empty(1024, dtype=dtype)
        self._size = 0

    def append(self, values: npt.NDArray[Any]) -> None:
        """Add values at the end."""
        end = self._size + values.size
        if end > self._array.size:
            self._array.resize(max(end, self._array.size * 5 // 4), refcheck=False)
        self._array[self._size : end] = values
        self._size = end

    def finish(self) -> npt.NDArray[Any]:
        """Return the array, cut to its size."""
        self._array.resize(self._size, refcheck=False)
        return self._array


class Collector(ABC):
    """Takes the pieces of one column."""

    @abstractmethod
    def add(self, array: Any) -> None:
        """Take the next piece, a `pyarrow.Array`; raise `CellError` at the first bad cell."""

    @abstractmethod
    def finish(self) -> npt.NDArray[Any]:
        """Return the whole column."""


def collector_of(role: Role, vocabulary: Vocabulary | None) -> Collector:
    """Return a collector for the cells of a role."""
    if role.kind == "label" and vocabulary is not None:
        return LabelCollector(vocabulary, role.name)
    if role.kind == "number":
        return NumberCollector(role.name)
    return FlagCollector(role.name) if role.kind == "flag" else GroupCollector(role.name)


@final
class LabelCollector(Collector):
    """Names, as codes of a vocabulary; -1 where the cell is missing."""

    def __init__(self, vocabulary: Vocabulary, what: str) -> None:
        self._vocabulary = vocabulary
        self._what = what
        self._column = Growing(np.int32)

    def add(self, array: Any) -> None:
        """Take the next piece."""
        indices, texts = dictionary_of(array, self._what)
        # A category that no row has is no label of the log; the last code serves nulls.
        used = np.flatnonzero(np.bincount(indices + 1, minlength=len(texts) + 1)[1:])
        codes = np.full(len(texts) + 1, MISSING, dtype=np.int32)
        if used.size < len(texts):
            texts = [texts[i] for i in used.tolist()]
        codes[used] = self._vocabulary.encode(texts)
        self._column.append(codes[indices])

    def finish(self) -> CodeArray:
        """Return the codes."""
        return self._column.finish()


@final
class NumberCollector(Collector):
    """Finite numbers."""

    def __init__(self, what: str) -> None:
        self._what = what
        self._column = Growing(np.float64)

    def add(self, array: Any) -> None:
        """Take the next piece."""
        import pyarrow as pa
        import pyarrow.compute as pc

        if array.null_count:
            raise not_a_number(int(np.argmax(np.asarray(array.is_null()))), None, self._what)
        if pa.types.is_dictionary(array.type):
            array = array.dictionary_decode()
        try:
            values = np.asarray(pc.cast(array, pa.float64()))
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
            values = self._parsed(array)
        check_finite(values, self._what)
        self._column.append(values)

    def _parsed(self, array: Any) -> FloatArray:
        """Parse texts that Arrow does not take, such as " 1.5" or "+2"."""
        values = np.empty(len(array))
        for i, cell in enumerate(array.to_pylist()):
            text = str(cell).strip()
            if not _NUMBER.fullmatch(text):
                raise not_a_number(i, text, self._what)
            values[i] = float(text)
        return values

    def finish(self) -> FloatArray:
        """Return the numbers."""
        return self._column.finish()


@final
class FlagCollector(Collector):
    """True and false, in words or as 1 and 0."""

    def __init__(self, what: str) -> None:
        self._what = what
        self._column = Growing(np.bool_)

    def add(self, array: Any) -> None:
        """Take the next piece."""
        import pyarrow as pa

        if pa.types.is_boolean(array.type) and not array.null_count:
            self._column.append(np.asarray(array))
            return
        indices, texts = dictionary_of(array, self._what)
        flags = [None if text is None else parse_flag(text) for text in texts]
        for i, flag in enumerate((*flags, None)):
            here = indices == (i if i < len(flags) else MISSING)
            if flag is None and here.any():
                raise not_a_flag(
                    int(np.argmax(here)), texts[i] if i < len(flags) else None, self._what
                )
        self._column.append(np.array([*map(bool, flags), False])[indices])

    def finish(self) -> BoolArray:
        """Return the flags."""
        return self._column.finish()


@final
class GroupCollector(Collector):
    """Groups, such as episodes: only which rows belong together matters.

    Integers, the usual case, are kept as such: ten million episodes would not fit as names. The
    first piece that holds other text turns what came before into names.
    """

    def __init__(self, what: str) -> None:
        self._what = what
        self._column = Growing(np.int64)
        self._vocabulary: Vocabulary | None = None

    def add(self, array: Any) -> None:
        """Take the next piece."""
        import pyarrow as pa
        import pyarrow.compute as pc

        if self._vocabulary is None and not array.null_count:
            try:
                whole = (
                    array if not pa.types.is_dictionary(array.type) else array.dictionary_decode()
                )
                self._column.append(np.asarray(pc.cast(whole, pa.int64())))
                return
            except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
                pass
        if self._vocabulary is None:
            self._vocabulary = Vocabulary()
            named = self._named(self._column.finish())
            self._column = Growing(np.int32)
            self._column.append(named)
        indices, texts = dictionary_of(array, self._what)
        codes = np.append(self._vocabulary.encode(texts), np.int32(MISSING))[indices]
        if (codes == MISSING).any():
            i = int(np.argmax(codes == MISSING))
            raise CellError(
                i, array[i].as_py(), f"Every row needs an {self._what}", "Fill in the cell."
            )
        self._column.append(codes)

    def _named(self, piece: npt.NDArray[Any]) -> CodeArray:
        distinct, inverse = np.unique(piece, return_inverse=True)
        vocabulary = self._vocabulary or Vocabulary()
        return vocabulary.encode(map(str, distinct.tolist()))[inverse]

    def finish(self) -> CodeArray:
        """Return the groups, numbered from 0 by first appearance."""
        return number_groups(self._column.finish())


def dictionary_of(array: Any, what: str) -> tuple[CodeArray, list[str | None]]:
    """Return an Arrow column as indices into distinct texts; -1 where it is null."""
    import pyarrow as pa
    import pyarrow.compute as pc

    kind = array.type
    try:
        if not pa.types.is_dictionary(kind):
            array = array.dictionary_encode()
        texts = array.dictionary
        if not (pa.types.is_string(texts.type) or pa.types.is_large_string(texts.type)):
            texts = pc.cast(texts, pa.string())
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        raise InputError(
            f"The column of the {what} must hold names or numbers: its type is {kind}. Turn it "
            "into text."
        ) from None
    return np.asarray(array.indices.fill_null(MISSING)).astype(np.int32), texts.to_pylist()


# --------------------------------------------------------------------------------------------------
# Reading tables: CSV (also compressed), Parquet, Arrow, pandas and mappings of columns.
#
# The columns of given roles come out as arrays (`Columns`). Text is streamed: label columns arrive
# per batch as a dictionary and are mapped to codes, numbers are cast per batch, so that memory
# grows with the codes and not with the text; ten million rows fit in 2 GiB. A bad cell is reported
# with its row, counted from 1 as an editor does, and the text found there.

_BLOCK_BYTES = 1 << 22
_BATCH_ROWS = 1 << 17


def read_table(
    source: Any, roles: Sequence[Role], columns: Mapping[str, str] | None = None
) -> Columns:
    """Return the columns of a table that play the given roles.

    Parameters
    ----------
    source : path, pandas.DataFrame, pyarrow.Table or mapping of columns
        A file is CSV (.gz, .xz) or Parquet, by its content.
    roles : sequence of Role
        What to read; optional roles may be absent.
    columns : mapping, optional
        Role → column name, where the name is not one of the aliases.
    """
    if not isinstance(source, (str, Path)):
        return _read_batches(_arrow_table(source), _words_for(source), roles, columns)
    path = Path(source)
    kind = file_kind(path)
    if kind == "npz":
        raise InputError(
            f"The file {path.name} is a zip archive (an Excel workbook or an .npz file); a table "
            "is needed here. Save it as CSV in UTF-8."
        )
    if kind == "parquet":
        return _read_parquet(path, roles, columns)
    header = read_header(path, kind, roles, columns)
    resolved = resolve_columns(header.names, roles, columns, path.name)
    reading = _Reading(roles, resolved.position, header.names, path.name, header.lines + 1)
    with TextStream(path, kind, plain=True) as stream:
        for batch in _csv_batches(stream, header, reading, path.name):
            reading.add(batch)
    notes = [header.note] if header.note else []
    return reading.finish(notes, resolved.unused)


def table_columns(source: Any) -> list[str]:
    """Return the column names of a table, without reading it."""
    if not isinstance(source, (str, Path)):
        return list(_arrow_table(source).schema.names)
    path = Path(source)
    kind = file_kind(path)
    if kind == "parquet":
        return list(parquet_file(path).schema_arrow.names)
    return [name.strip() for name in read_header(path, kind, ()).names]


@final
class _Reading:
    """Collectors for all roles, fed batch by batch."""

    def __init__(
        self,
        roles: Sequence[Role],
        position: Mapping[str, int],
        headers: Sequence[str],
        source: str,
        first_row: int,
    ) -> None:
        self.source = source
        self.roles = [role for role in roles if role.name in position]
        self.position = position
        self.headers = {role.name: headers[position[role.name]].strip() for role in self.roles}
        self.vocabularies = {role.vocabulary: Vocabulary() for role in roles if role.vocabulary}
        self.collectors: dict[str, Collector] = {
            role.name: collector_of(role, self.vocabularies.get(role.vocabulary))
            for role in self.roles
        }
        self.first_row = first_row
        self.done = 0
        self.blank: list[int] = []

    @property
    def rows(self) -> Rows:
        return Rows(self.source, self.first_row, tuple(self.blank))

    def add(self, batch: Mapping[str, Any]) -> None:
        """Take the arrays of one batch, by role."""
        batch = self._without_blank_rows(batch)
        for role in self.roles:
            try:
                self.collectors[role.name].add(batch[role.name])
            except CellError as bad:
                where = self.rows.where(self.done + bad.place)
                raise InputError(bad.message(self.headers[role.name], where)) from None
        self.done += len(batch[self.roles[0].name])

    def _without_blank_rows(self, batch: Mapping[str, Any]) -> Mapping[str, Any]:
        """Leave out rows in which every column is empty, and remember their numbers."""
        blank = None
        for role in self.roles:
            empty = _empty_cells(batch[role.name])
            if empty is None:
                return batch
            blank = empty if blank is None else blank & empty
        if blank is None or not blank.any():
            return batch
        import pyarrow as pa

        start = self.first_row + self.done + len(self.blank)
        self.blank.extend((start + np.flatnonzero(blank)).tolist())
        keep = pa.array(~blank)
        return {role: array.filter(keep) for role, array in batch.items()}

    def finish(self, notes: list[str], unused: Sequence[str]) -> Columns:
        """Return the columns."""
        out = Columns(self.rows, headers=self.headers, notes=notes)
        for role in self.roles:
            stores: dict[str, dict[str, Any]] = {
                "label": out.codes,
                "number": out.numbers,
                "flag": out.flags,
                "group": out.groups,
            }
            stores[role.kind][role.name] = self.collectors[role.name].finish()
        out.names = {name: vocabulary.names for name, vocabulary in self.vocabularies.items()}
        if unused:
            names = ", ".join(f"'{name}'" for name in unused[:8])
            out.notes.append(f"Columns not used: {names}{' and more' if unused[8:] else ''}.")
        if any(vocabulary.stripped for vocabulary in self.vocabularies.values()):
            out.notes.append("Spaces around names were removed.")
        if self.blank and self._inner_blank():
            out.notes.append(f"{len(self.blank)} blank rows were skipped.")
        return out

    def _inner_blank(self) -> bool:
        """Whether a blank row stands before the last data row: one at the end is usual."""
        return self.blank[0] < self.first_row + self.done


def _empty_cells(array: Any) -> Any:
    """Return which cells of a text column are empty, None if none is (the usual case)."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if pa.types.is_dictionary(array.type):
        if not pa.types.is_string(array.type.value_type):
            return None
        texts = array.dictionary.to_pylist()
        if "" not in texts:
            return None
        return np.asarray(array.indices) == texts.index("")
    if not pa.types.is_string(array.type):
        return None
    return np.asarray(pc.equal(array, "").fill_null(False))


# -------------------------------------------------------------------- CSV
def _csv_batches(
    stream: TextStream, header: Header, reading: _Reading, name: str
) -> Iterator[dict[str, Any]]:
    """Yield the batches of a CSV stream; faults of the text become errors with a row number."""
    import pyarrow as pa
    from pyarrow import csv as pa_csv

    ragged: list[Any] = []

    def refuse(row: Any) -> str:
        ragged.append(row)
        return "error"

    types = {
        str(reading.position[role.name]): (
            pa.dictionary(pa.int32(), pa.string())
            if role.kind in ("label", "flag")
            else pa.string()
        )
        for role in reading.roles
    }
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
            yield {
                role.name: batch.column(str(reading.position[role.name])) for role in reading.roles
            }
    except pa.ArrowInvalid as error:
        raise _csv_error(str(error), ragged, header, name) from None


def _csv_error(text: str, ragged: list[Any], header: Header, name: str) -> InputError:
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
        return not_utf8(name, where)
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


# -------------------------------------------------------------------- Parquet and tables
def parquet_file(path: Path) -> Any:
    """Open a Parquet file; a damaged one is an error that says what to do."""
    import pyarrow as pa
    from pyarrow import parquet

    try:
        return parquet.ParquetFile(path)
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        raise _damaged_parquet(path, error) from None


def _damaged_parquet(path: Path, error: Exception) -> InputError:
    reason = " ".join(str(error).split())[:200]
    return InputError(
        f"The Parquet file {path.name} cannot be read ({reason}). It may be cut off or damaged: "
        "copy or download it again."
    )


def _read_parquet(path: Path, roles: Sequence[Role], columns: Mapping[str, str] | None) -> Columns:
    import pyarrow as pa

    with parquet_file(path) as file:
        names = list(file.schema_arrow.names)
        resolved = resolve_columns(names, roles, columns, path.name)
        reading = _Reading(roles, resolved.position, names, path.name, 1)
        wanted = [names[i] for i in resolved.position.values()]
        try:
            for batch in file.iter_batches(batch_size=_BATCH_ROWS, columns=wanted):
                reading.add({role: batch.column(names[i]) for role, i in resolved.position.items()})
        except (pa.ArrowException, OSError, UnicodeDecodeError, IndexError) as error:
            raise _damaged_parquet(path, error) from None
    return reading.finish([], resolved.unused)


def _read_batches(
    table: Any, words: str, roles: Sequence[Role], columns: Mapping[str, str] | None
) -> Columns:
    names = [str(name) for name in table.schema.names]
    resolved = resolve_columns(names, roles, columns, words)
    reading = _Reading(roles, resolved.position, names, words, 1)
    for batch in table.to_batches(max_chunksize=_BATCH_ROWS):
        reading.add({role: batch.column(i) for role, i in resolved.position.items()})
    return reading.finish([], resolved.unused)


def _arrow_table(source: Any) -> Any:
    """Return a pandas, Arrow or other table, or a mapping of columns, as an Arrow table."""
    import pyarrow as pa

    if isinstance(source, pa.Table):
        return source
    try:
        if type(source).__module__.split(".")[0] == "pandas":
            return pa.Table.from_pandas(source, preserve_index=False)
        if isinstance(source, Mapping):
            return pa.table({str(name): pa.array(cells) for name, cells in source.items()})
        if hasattr(source, "__arrow_c_stream__"):
            return pa.table(source)
    except (ValueError, TypeError, NotImplementedError) as error:  # Arrow's errors are these too
        raise InputError(
            f"In {_words_for(source)} a column cannot be read: {error}. Give each column one name "
            "and one type (strings or integers, not both), and all the same length."
        ) from None
    raise InputError(
        "A table must be a path, a pandas DataFrame, a pyarrow Table or a mapping of columns: "
        f"got {type(source).__name__}."
    )


def _words_for(source: Any) -> str:
    return "the table" if isinstance(source, Mapping) else f"the {type(source).__name__}"
