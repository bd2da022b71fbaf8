"""Files that are never half written: a temporary beside the target, then one atomic rename."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any


@contextmanager
def atomic_write(
    path: str | Path, mode: str = "w", newline: str | None = None
) -> Iterator[IO[Any]]:
    """Open a temporary file that replaces `path` only when the block ends without an error."""
    target = Path(path)
    text = "b" not in mode
    handle, name = tempfile.mkstemp(prefix=f".{target.name}.", dir=target.parent or Path())
    try:
        with os.fdopen(
            handle, mode, encoding="utf-8" if text else None, newline=newline if text else None
        ) as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        umask = os.umask(0)  # mkstemp makes private files; a result is an ordinary one
        os.umask(umask)
        os.chmod(name, 0o666 & ~umask)
        os.replace(name, target)
    except BaseException:
        with suppress(OSError):
            os.unlink(name)
        raise
