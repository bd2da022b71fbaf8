"""Array types, the one way arrays become read-only, keys of entries, memory, and row numbers."""

from __future__ import annotations

import copyreg
import hashlib
import os
from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass, fields, is_dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar, final
from weakref import WeakKeyDictionary

import numpy as np
import numpy.typing as npt

from softrobust.errors import InputError

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]
CodeArray = npt.NDArray[np.int32]
BoolArray = npt.NDArray[np.bool_]

_T = TypeVar("_T", bound=np.generic)
_V = TypeVar("_V")


def frozen(values: npt.ArrayLike, dtype: type[_T]) -> npt.NDArray[_T]:
    """Return `values` as a contiguous read-only array of `dtype` that nobody else can write to.

    An array that could still be written, itself or through what it is a view of, is copied; one
    that is read-only all the way down is shared.
    """
    try:
        array: npt.NDArray[Any] = np.asarray(values)
        if array.dtype == dtype and array.flags.c_contiguous and not _writeable(array):
            return array
        if array.dtype.kind == "c":
            raise TypeError("complex ones came")
        with np.errstate(invalid="ignore"):
            out = np.array(array, dtype=dtype, order="C", copy=True)
    except (TypeError, ValueError, OverflowError) as error:
        raise InputError(f"Numbers were expected ({error}). Give an array of numbers.") from None
    if out.dtype.kind in "iu" and array.dtype.kind == "f" and not np.array_equal(out, array):
        odd = array[out != array].flat[0]
        raise InputError(f"Whole numbers were expected; among {array.size} there is {odd:g}.")
    out.flags.writeable = False
    return out


def shaped(
    name: str, values: npt.ArrayLike, dtype: type[_T], *shapes: tuple[int, ...], rule: str = ""
) -> npt.NDArray[_T]:
    """`frozen` values of one of the shapes; others are refused, with the rule in words."""
    array = frozen(values, dtype)
    if array.shape not in shapes:
        raise InputError(
            f"{name} must have {rule and rule + ', '}shape {' or '.join(map(str, shapes))}; it has "
            f"shape {array.shape}. Check its length and the order of its axes."
        )
    return array


def _writeable(array: Any) -> bool:
    while isinstance(array, np.ndarray):
        if array.flags.writeable:
            return True
        array = array.base
    return False


def seal(array: npt.NDArray[_T]) -> npt.NDArray[_T]:
    """Make an array that we own read-only, in place, and return it."""
    array.flags.writeable = False
    return array


class Sealed:
    """A frozen dataclass whose copies, and what a pickle gives back, have read-only arrays too."""

    __slots__ = ()

    def __reduce__(self) -> tuple[Any, ...]:
        if not is_dataclass(self):  # somebody else's class
            return copyreg.__newobj__, (type(self),), self.__getstate__()  # type: ignore[attr-defined]
        return _sealed, (type(self), {f.name: getattr(self, f.name) for f in fields(self)})


def _sealed(cls: type[_V], kept: dict[str, Any]) -> _V:
    own = object.__new__(cls)
    for name, value in kept.items():
        for part in value if isinstance(value, tuple) else (value,):
            if isinstance(part, np.ndarray):
                seal(part)
        object.__setattr__(own, name, value)
    return own


def entry_keys(indptr: IntArray, next_states: CodeArray, n_states: int) -> IntArray:
    """pair·n_states + s′ of every entry of rows that list their next states, ascending."""
    pair = np.repeat(np.arange(indptr.size - 1), np.diff(indptr))
    return np.asarray(pair * n_states + next_states, dtype=np.int64)


def found_at(keys: IntArray, wanted: IntArray) -> tuple[IntArray, BoolArray]:
    """Where each wanted key stands among ascending ones, and whether it does at all."""
    at = np.minimum(np.searchsorted(keys, wanted), max(keys.size - 1, 0))
    return at, keys[at] == wanted if keys.size else np.zeros(wanted.size, dtype=bool)


def first_of(i: int | BoolArray) -> int:
    """A place as it is, of a mask the first that holds."""
    return int(np.argmax(i)) if isinstance(i, np.ndarray) and i.ndim else int(i)


def starts_of(*columns: npt.NDArray[Any]) -> BoolArray:
    """Where a row is another than the one before in any of the columns; the first is."""
    change = np.any([column[1:] != column[:-1] for column in columns], axis=0)
    return np.concatenate([[True], change])[: columns[0].size]


def ranks(keys: npt.NDArray[Any]) -> IntArray:
    """How many equal keys stand before each."""
    order = np.argsort(keys, kind="stable")
    first = np.flatnonzero(starts_of(keys[order]))
    out = np.empty(keys.size, dtype=np.int64)
    out[order] = np.arange(keys.size) - np.repeat(first, np.diff(np.append(first, keys.size)))
    return out


def digest(kind: str, columns: Iterable[npt.NDArray[Any] | None], *labels: Iterable[str]) -> str:
    """SHA-256 of columns and names, with the kind of what they make up."""
    out = hashlib.sha256(kind.encode())
    for column in columns:
        out.update(b"-" if column is None else column.data)
    for names in labels:
        out.update("\x00".join(names).encode() + b"\x01")
    return out.hexdigest()


def counted(keys: IntArray, size: int) -> tuple[IntArray, IntArray, IntArray]:
    """What `np.unique` gives of keys in 0 … size − 1: distinct ones, how often, places."""
    if size > max(4 * keys.size, 1000):
        found, place, n = np.unique(keys, return_inverse=True, return_counts=True)
        return found, n, place
    n = np.bincount(keys, minlength=size)
    found = np.flatnonzero(n)
    where = np.empty(size, dtype=np.int64)
    where[found] = np.arange(found.size)
    return found, n[found], where[keys]


def read_only(*arrays: npt.NDArray[Any]) -> tuple[npt.NDArray[Any], ...]:
    """Views that cannot be written: kernels are compiled for each kind of their arguments."""
    return tuple(seal(array.view()) for array in arrays)


@final
class Recent(Generic[_V]):
    """The last few answers about an owner, such as a set of models, as long as that lives.

    A key is a tuple of what the answer depends on besides: equal arrays and numbers are the same,
    other objects only themselves.
    """

    __slots__ = ("_by", "most")

    def __init__(self, most: int) -> None:
        self.most = most
        self._by: WeakKeyDictionary[Any, list[tuple[tuple[Any, ...], _V]]] = WeakKeyDictionary()

    def get(self, owner: Any, *key: Any) -> _V | None:
        """The answer, if it is known; what is asked for stays."""
        kept = self._by.get(owner, [])
        for item in list(kept):
            if all(map(_same, item[0], key)):
                kept[:] = [*(other for other in kept if other is not item), item]
                return item[1]
        return None

    def put(self, value: _V, owner: Any, *key: Any) -> _V:
        """Keep an answer in place of the one that was asked for least lately."""
        kept = self._by.setdefault(owner, [])
        kept.append((key, value))
        del kept[: -self.most]
        return value


def _same(a: Any, b: Any) -> bool:
    if a is b or not isinstance(a, (np.ndarray, int, float)):
        return a is b
    return type(a) is type(b) and np.array_equal(a, b)


# --------------------------------------------------------------------------------------------------
# What cannot fit is refused before it is allocated, with its size and what to do.

GIB = 2**30
SHARE = 0.9  # of the free memory: the rest is for what the computation needs besides
SMALL = 2**20  # bytes of a block of models: asking the system takes longer than using them


def available_memory() -> float | None:
    """Bytes free on the machine, or in the container if less; None if unknown."""
    return min((size for size in (_machine(), _container()) if size is not None), default=None)


def fits(n_bytes: float) -> bool:
    """Whether `n_bytes` can be allocated now; True where the system does not say."""
    free = available_memory()
    return free is None or n_bytes <= SHARE * free


def refuse_if_too_large(n_bytes: float, what: str, remedy: str) -> None:
    """Raise an `InputError` when `n_bytes` for `what` exceed the memory there is."""
    free = available_memory()
    if free is not None and n_bytes > SHARE * free:
        raise InputError(
            f"{what} would take {n_bytes / GIB:.1f} GiB, and {free / GIB:.1f} GiB of memory are "
            f"free. {remedy}"
        )


def _machine() -> float | None:
    try:
        for line in Path("/proc/meminfo").read_text(encoding="ascii").splitlines():
            if line.startswith("MemAvailable:"):
                return float(line.split()[1]) * 1024
    except (OSError, ValueError, IndexError):
        pass  # not Linux
    try:
        return float(os.sysconf("SC_PHYS_PAGES")) * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, OSError, ValueError):
        return None


def _container() -> float | None:
    """The limit of a control group (version 2), less what it already uses."""
    group = Path("/sys/fs/cgroup")
    try:
        limit = (group / "memory.max").read_text(encoding="ascii").strip()
        used = (group / "memory.current").read_text(encoding="ascii").strip()
        return None if limit == "max" else max(float(limit) - float(used), 0.0)
    except (OSError, ValueError):
        return None


# --------------------------------------------------------------------------------------------------
# Where the rows of a table came from, so that a message can point at one.


@final
@dataclass(frozen=True, slots=True)
class Rows:
    """Numbers of rows as the user counts them."""

    source: str  # file name, or words such as "the DataFrame"
    first: int = 1  # number of the first data row: 2 in a file whose first row is the header
    blank: tuple[int, ...] = ()  # numbers of the blank rows of the file, ascending; skipped

    def number(self, i: int) -> int:
        """Return the number, counted from 1, of data row `i`, counted from 0."""
        number = self.first + int(i)
        skipped = 0
        while (found := bisect_right(self.blank, number + skipped)) != skipped:
            skipped = found
        return number + skipped

    def where(self, i: int | BoolArray) -> str:
        """Return "row 17 of log.csv" for data row `i`, counted from 0, or the first of a mask."""
        return f"row {self.number(first_of(i))} of {self.source}"
