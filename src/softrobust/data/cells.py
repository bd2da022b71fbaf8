"""Collectors: the pieces of an Arrow column, one after another, become one array.

Text columns are decided at the end of the stream, never guessed from its beginning; a column that
is typed already (Parquet, pandas) is taken as it is.
"""

import re
from abc import ABC, abstractmethod
from typing import Any, final

import numpy as np
import numpy.typing as npt

from softrobust.data.arrays import BoolArray, CodeArray, FloatArray
from softrobust.data.coding import (
    MISSING,
    CellError,
    Vocabulary,
    check_finite,
    not_a_flag,
    not_a_number,
    number_groups,
    parse_flag,
)
from softrobust.data.columns import Role
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
