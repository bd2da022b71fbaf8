"""How every kernel is compiled: cached on disk where that is possible, in memory where it is not.

Numba writes its cache beside the module, else into the user's cache folder; where neither can be
written (a read-only install run by a user without a home) it refuses to compile at all. A kernel
must still run there, so compilation then goes without a cache.

Numba's cache looks at a kernel's own file only, and would keep old machine code of kernels that it
calls in other files. So the cache is stamped with the text of all files that a kernel draws on.

Sums vectorise only if they may be reordered. `fastmath=REORDER` allows that and nothing more: NaN
and infinity keep their meaning, so a kernel can still find them. `FINITE` also drops that meaning
(minima then vectorise too) and is for code that runs after the check.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

from numba import njit

F = TypeVar("F", bound=Callable[..., Any])

REORDER = frozenset({"reassoc", "contract", "nsz", "arcp"})
FINITE = REORDER | {"nnan", "ninf"}


def kernel(
    function: F | None = None,
    *,
    parallel: bool = False,
    fastmath: frozenset[str] = frozenset(),
    inline: bool = False,
) -> Any:
    """Compile `function` with numba: `@kernel`, or `@kernel(parallel=True)`.

    With `inline` it becomes part of every kernel that calls it. An array is handed on as seven
    words, so that a call with five of them costs as much as a hundred additions: inner functions of
    a hot loop want it, each used in few places.
    """
    options: dict[str, Any] = {"parallel": parallel, "fastmath": set(fastmath) or False}
    if inline:
        options["forceinline"] = True
    if fastmath:  # a test for a zero divisor would keep a loop from vectorising
        options["error_model"] = "numpy"

    def compile_(f: F) -> F:
        try:
            compiled = njit(f, cache=True, **options)
        except RuntimeError as error:  # numba: "cannot cache function …: no locator available"
            if "cannot cache" not in str(error):
                raise
            return njit(f, **options)  # type: ignore[no-any-return]
        # Private, hence the suppression: without it the cache works as numba made it.
        with suppress(AttributeError, OSError):
            stamp = _stamp(Path(f.__code__.co_filename).stem)
            compiled._cache._cache_file._source_stamp = stamp
        return compiled  # type: ignore[no-any-return]

    return compile_ if function is None else compile_(function)


@cache
def _stamp(module: str) -> str:
    """A digest of a kernel module and of the kernel modules it imports, near and far."""
    todo, seen = [module], {"_jit": (Path(__file__)).read_bytes()}
    while todo:
        name = todo.pop()
        if name not in seen:
            seen[name] = (Path(__file__).parent / f"{name}.py").read_bytes()
            todo += re.findall(
                r"^from softrobust\.kernels\.(\w+) import", seen[name].decode(), re.M
            )
    return hashlib.sha256(b"".join(seen[name] for name in sorted(seen))).hexdigest()
