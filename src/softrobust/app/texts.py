"""Every word of the app, by language; what a report says comes from `report`."""

import tomllib
from pathlib import Path
from typing import Any

LANGUAGE = "english"  # another one is a file with the same keys, and the same facts in its texts
TEXTS: dict[str, str] = tomllib.loads(
    Path(__file__).with_name(f"{LANGUAGE}.toml").read_text(encoding="utf-8")
)
MOST_BYTES = 200 * 2**20  # of a file that is brought by the browser


def text(key: str, **facts: Any) -> str:
    """A text with its facts."""
    return TEXTS[key].format(**facts)


def stage_text(name: str) -> str:
    """A stage of the work in the language of the page; its own name where there is no other."""
    return TEXTS.get(f"stage {name}", name)


def size_words(n: int) -> str:
    """Bytes as people say them."""
    return f"{n / 2**20:.0f} MB"
