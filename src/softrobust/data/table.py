"""Reading tables: CSV (also compressed), Parquet, Arrow, pandas and mappings of columns.

The columns of given roles come out as arrays (`Columns`). Text is streamed: label columns arrive
per batch as a dictionary and are mapped to codes, numbers are cast per batch, so that memory grows
with the codes and not with the text; ten million rows fit in 2 GiB. A bad cell is reported with its
row, counted from 1 as an editor does, and the text found there.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, final

import numpy as np

from softrobust.data.cells import Collector, collector_of
from softrobust.data.coding import CellError, Columns, Vocabulary
from softrobust.data.columns import Role, resolve_columns
from softrobust.data.rows import Rows
from softrobust.data.source import Header, TextStream, file_kind, not_utf8, read_header
from softrobust.errors import InputError

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
