"""References to the paper: equations are cited by the numbers that docs/theory.md lists."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PAGES = [ROOT / "docs" / name for name in ("theory.md", "errata.md")]
FILES = sorted((ROOT / "src" / "softrobust").rglob("*.py")) + PAGES
NUMBER = r"((?:[A-G]\.)?[0-9]+(?:\.[0-9]+)?)"
CITED = re.compile(rf"\b[Ee]qs?\. \(?{NUMBER}(?:(?:, | and |–){NUMBER})?")


def cited(text: str) -> list[str]:
    """The numbers after "eq." or "eqs."; a range or a pair gives both ends."""
    return [n for found in CITED.findall(text) for n in found if n]


def known() -> set[str]:
    """The numbers listed on the page on how the paper is numbered."""
    page = PAGES[0].read_text(encoding="utf-8").split("## How the paper is numbered")[1]
    return set(re.findall(r"\b([2-5A]\.[0-9]+)\b", page.split("Propositions, lemmas")[0]))


def test_the_list_counts_up_in_every_section() -> None:
    for section, last in {"2": 5, "3": 2, "4": 11, "5": 1, "A": 4}.items():
        numbers = {n for n in known() if n.startswith(f"{section}.")}
        assert numbers == {f"{section}.{i}" for i in range(1, last + 1)}


@pytest.mark.parametrize("path", FILES, ids=lambda p: p.relative_to(ROOT).as_posix())
def test_only_listed_equations_are_cited(path: Path) -> None:
    assert set(cited(path.read_text(encoding="utf-8"))) <= known()


def test_every_equation_is_cited_where_the_house_has_it() -> None:
    page = (ROOT / "docs" / "house.md").read_text(encoding="utf-8")
    where = page.split("## Where the paper is")[1].split("## Where a verb is")[0]
    rows = [row.split("|") for row in where.splitlines() if row.startswith("| ")][2:]
    found: dict[str, str] = {}
    for _, what, files, _ in rows:
        text = "".join(
            (ROOT / "src/softrobust" / name).read_text(encoding="utf-8")
            for name in re.findall(r"`([\w/]+\.py)`", files)
        )
        equations = re.sub(r"(proposition|theorem|lemma|corollary|algorithm) \d\.\d", "", what)
        found |= dict.fromkeys(re.findall(r"\b[2-5A]\.[0-9]+\b", equations), text)
    assert known() <= set(found)
    assert [n for n in sorted(known()) if n not in cited(found[n])] == []


def test_every_verb_has_its_row_and_every_file_is_there() -> None:
    from softrobust.cli.main import VERBS

    page = (ROOT / "docs" / "house.md").read_text(encoding="utf-8")
    rows = [row for row in page.split("## Where a verb is")[1].splitlines() if "`cli/" in row]
    named = {verb for row in rows[1:] for verb in re.findall(r"`([\w-]+)`", row.split("|")[1])}
    assert named == {verb.__name__.replace("_", "-") for verb in VERBS}
    for name in re.findall(r"`([\w/]+\.py)`", page):
        assert (ROOT / name).exists() or list((ROOT / "src/softrobust").rglob(name)), name


def test_bare_numbers_would_be_found() -> None:
    assert cited("see eq. 4 and Eq. (4.8), eqs. 4.10–4.11 (SRVI)") == ["4", "4.8", "4.10", "4.11"]
