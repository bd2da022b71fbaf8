"""Array types of the data stage, and the one way its arrays become read-only."""

from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]
CodeArray = npt.NDArray[np.int32]
BoolArray = npt.NDArray[np.bool_]

_T = TypeVar("_T", bound=np.generic)


def frozen(values: npt.ArrayLike, dtype: type[_T]) -> npt.NDArray[_T]:
    """Return `values` as a contiguous read-only array of `dtype`.

    A writeable array of the caller is copied, so that nobody can change it behind our back;
    an array that is already read-only is shared.
    """
    array: npt.NDArray[Any] = np.asarray(values)
    if array.dtype == dtype and not array.flags.writeable and array.flags.c_contiguous:
        return array
    out = np.array(array, dtype=dtype, order="C", copy=True)
    out.flags.writeable = False
    return out


def seal(array: npt.NDArray[_T]) -> npt.NDArray[_T]:
    """Make an array that we own read-only, in place, and return it."""
    array.flags.writeable = False
    return array
