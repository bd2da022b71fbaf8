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
        text = value.strip()
        if text.startswith("(") and text.endswith(")"):  # a tuple, as Python writes it
            text = f"[{text[1:-1].rstrip(', ')}]"
        try:
            out[name.strip().replace("-", "_")] = json.loads(text)
        except json.JSONDecodeError:
            out[name.strip().replace("-", "_")] = value.strip()
    return out


def pairs_of(text: str | None, flag: str = "--columns") -> dict[str, str] | None:
    """`state=site,action=dose` as a mapping; a name with a comma stands in quotes."""
    from softrobust.data.trajectories_rules import split_words

    if text is None:
        return None
    out: dict[str, str] = {}
    for part in split_words(text) or [text]:
        role, sign, name = part.partition("=")
        if not sign or not role.strip() or not name.strip():
            raise InputError(
                f"{flag} takes role=name pairs, such as state=site,action=dose; it got '{part}'."
            )
        out[role.strip()] = name.strip()
    return out


def numbers_of(flag: str, text: str) -> list[float]:
    """`0,.5,1` as numbers."""
    try:
        return [float(part) for part in text.split(",")]
    except ValueError:
        raise InputError(
            f"{flag} takes numbers with commas, such as 0,.5,1; it got '{text}'."
        ) from None
