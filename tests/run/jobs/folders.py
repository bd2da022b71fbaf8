"""What tests compare: the bytes of a run folder, less its clocks."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any


def contents(out: Path) -> dict[str, bytes]:
    """Every file by its relative name; timings are the one file that may differ."""
    files = (path for path in sorted(out.rglob("*")) if path.is_file())
    return {
        str(path.relative_to(out)): path.read_bytes()
        for path in files
        if path.name != "timings.jsonl"
    }


def load_results(out: Path) -> dict[str, Any]:
    """The results of a run folder by key, in the order of the plan; unfinished tasks are absent."""
    keys = [task["key"] for task in json.loads((out / "plan.json").read_text())["tasks"]]
    files = {key: out / "results" / f"{key}.json" for key in keys}
    return {k: json.loads(f.read_text())["result"] for k, f in files.items() if f.exists()}
