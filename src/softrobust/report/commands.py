"""Commands as a shell reads them: the one place where options of the library become flags."""

import csv
import io
import shlex
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from softrobust.errors import InputError

# Arguments of the library that have another name on the command line.
CALLED = {"n_models": "models", "n_test": "test_models", "lam": "lambda", "criterion": "objective",
          "episodes": "test_episodes", "settings": "set_"}  # fmt: skip


def command_line(verb: str, file: str, options: Mapping[str, Any], *more: str) -> str:
    """`softrobust VERB FILE --option value …`."""
    return shlex.join(["softrobust", verb, file, *flags(options), *more])


def flags(options: Mapping[str, Any], short: bool = False) -> list[str]:
    """Options as words of the command line; with `short`, files are named without their folders."""
    out: list[str] = []
    for name, value in options.items():
        out.append(f"--{CALLED.get(name, name.rstrip('_')).replace('_', '-')}")
        if value is not True:
            out.append(value.name if short and isinstance(value, Path) else _text(name, value))
    return out


def _text(name: str, value: Any) -> str:
    if isinstance(value, Mapping):
        return join_words(f"{key}={_part(part)}" for key, part in value.items())
    if isinstance(value, (list, tuple)):
        words = all(isinstance(part, str) for part in value)
        return join_words(value) if words else _part(value)
    if not isinstance(value, (str, Path, int, float)):
        raise InputError(f"'{name}' is an object in memory; a command line needs a file for it.")
    return "none" if isinstance(value, float) and np.isinf(value) else str(value)


def _part(value: Any) -> str:
    """A name, a number, or numbers such as cuts; a colon tells one cut from a number of bins."""
    if not isinstance(value, (list, tuple)):
        return str(value)
    return ":".join(f"{number:.15g}" for number in value) + (":" if len(value) == 1 else "")


def join_words(words: Iterable[str]) -> str:
    """Words with commas between; a word that holds a comma or a quote is quoted."""
    text = io.StringIO()
    csv.writer(text, lineterminator="").writerow(list(words))
    return text.getvalue()
