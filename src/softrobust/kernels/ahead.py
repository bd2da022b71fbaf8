"""Compile on a second core what a command will need later.

The first run anywhere compiles its kernels, half of them for certificates, which come last. So a
helper (`kernels._jit.compile_beside`) compiles those of `ahead.toml`, but for what the run itself
is at; whoever needs a kernel that the other is compiling waits for it.
"""

from __future__ import annotations

import gc
import os
import re
import sys
import threading
import tomllib
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

from numba import types

from softrobust.kernels._jit import compile_if_free

NUMBERS = {
    "b": types.boolean, "c": types.int8, "h": types.int16, "i": types.int32, "l": types.int64,
    "d": types.float64, "g": types.npy_rng,
}  # fmt: skip


def _types(words: str, module: Any) -> Iterator[Any]:
    """The types that words of `ahead.toml` stand for; a tuple's name is that of its class."""
    for name, parts, kind, axes in re.findall(r"(\w+)\((.*?)\)|(\w)(\d?)", words):
        if name:
            yield types.NamedTuple(tuple(_types(parts, module)), getattr(module, name))
        elif axes:
            yield types.Array(NUMBERS[kind.lower()], int(axes), "C", readonly=kind.isupper())
        else:
            yield NUMBERS[kind]


def kernels_for(solver: str | None) -> Iterator[tuple[Any, tuple[Any, ...]]]:
    """The kernels that a solver (None: the default) needs, with their types."""
    for part in tomllib.loads(Path(__file__).with_suffix(".toml").read_text())["kernels"]:
        asked = solver in part.pop("solvers", [solver])
        if solver not in part.pop("but", []) and asked:
            for name, words in part.items():
                file, kernel = name.split(".")
                module = import_module(f"softrobust.kernels.{file}")
                found = getattr(module, kernel)
                one = found if hasattr(found, "compile") else found.__wrapped__  # of many threads
                yield one, tuple(_types(words, module))


def compile_for(solver: str | None) -> None:
    """Compile them; ends with the process that holds standard input."""
    gc.disable()
    threading.Thread(target=lambda: (sys.stdin.read(), os._exit(0)), daemon=True).start()
    for kernel, signature in kernels_for(solver):
        compile_if_free(kernel, signature)
