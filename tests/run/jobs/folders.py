"""What tests compare: the bytes of a run folder, less its clocks."""

from __future__ import annotations

from pathlib import Path


def contents(out: Path) -> dict[str, bytes]:
    """Every file by its relative name; timings are the one file that may differ."""
    files = (path for path in sorted(out.rglob("*")) if path.is_file())
    return {
        str(path.relative_to(out)): path.read_bytes()
        for path in files
        if path.name != "timings.jsonl"
    }
