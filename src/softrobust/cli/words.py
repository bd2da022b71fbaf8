"""Settings as words on the command line: `--set name=value`."""

from __future__ import annotations

import json
from typing import Any

from softrobust.errors import InputError


def settings_of(words: list[str] | None) -> dict[str, Any]:
    """`["steps=100", "variant=craam"]` as a mapping; numbers, true and false become values."""
    out: dict[str, Any] = {}
    for word in words or []:
        name, sign, value = word.partition("=")
        if not sign or not name.strip() or not value.strip():
            raise InputError(f"--set takes name=value, such as steps=100; it got '{word}'.")
        try:
            out[name.strip().replace("-", "_")] = json.loads(value)
        except json.JSONDecodeError:
            out[name.strip().replace("-", "_")] = value.strip()
    return out
