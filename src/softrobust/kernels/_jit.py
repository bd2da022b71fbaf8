"""How every kernel is compiled: cached on disk where that is possible, in memory where it is not.

Numba writes its cache beside the module, else into the user's cache folder; where neither can be
written (a read-only install run by a user without a home) it refuses to compile at all. A kernel
must still run there, so compilation then goes without a cache.

Sums vectorise only if they may be reordered. `fastmath=REORDER` allows that and nothing more: NaN
and infinity keep their meaning, so a kernel can still find them. `FINITE` also drops that meaning
(minima then vectorise too) and is for code that runs after the check.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from numba import njit

F = TypeVar("F", bound=Callable[..., Any])

REORDER = frozenset({"reassoc", "contract", "nsz", "arcp"})
FINITE = REORDER | {"nnan", "ninf"}


def kernel(
    function: F | None = None, *, parallel: bool = False, fastmath: frozenset[str] = frozenset()
) -> Any:
    """Compile `function` with numba: `@kernel`, or `@kernel(parallel=True)`."""
    options: dict[str, Any] = {"parallel": parallel, "fastmath": set(fastmath) or False}

    def compile_(f: F) -> F:
        try:
            return njit(f, cache=True, **options)  # type: ignore[no-any-return]
        except RuntimeError as error:  # numba: "cannot cache function …: no locator available"
            if "cannot cache" not in str(error):
                raise
            return njit(f, **options)  # type: ignore[no-any-return]

    return compile_ if function is None else compile_(function)
