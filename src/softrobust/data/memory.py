"""What cannot fit is refused before it is allocated, with its size and what to do."""

from __future__ import annotations

import os
from pathlib import Path

from softrobust.errors import InputError

GIB = 2**30
SHARE = 0.9  # of the free memory: the rest is for what the computation needs besides


def available_memory() -> float | None:
    """Bytes that can be allocated now: the machine's free memory, or the container's if less.

    None where the system does not say.
    """
    found = [size for size in (_machine(), _container()) if size is not None]
    return min(found) if found else None


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
