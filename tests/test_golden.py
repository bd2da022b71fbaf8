"""The wording of every page and screen, pinned in one file each under `tests/golden/`.

After a change on purpose: `GOLDEN=write python -m pytest tests/test_golden.py`, and read the diff.
Clocks stand still, so that no figure depends on how busy the machine is.
"""

from __future__ import annotations

import math
import os
import re
import shutil
import time
from collections.abc import Iterator
from html import unescape
from pathlib import Path
from typing import Any

import pytest

from softrobust._core import limits
from softrobust._core.notes import Note
from softrobust.cli.main import run as run_cli
from softrobust.report import sections
from softrobust.report.sentences import sentence
from softrobust.report.study_words import (
    check_name,
    check_sentence,
    rehearsal_line,
    rehearsal_sentences,
    validation_sentences,
)
from softrobust.study.checks import Check
from softrobust.study.foreign import ForeignRehearsal, KindFound
from softrobust.study.validation import Validation
from tests.report.note_facts import CHECK_FACTS, NOTE_FACTS
from tests.report.vectors import vector_log

ROOT = Path(__file__).resolve().parents[1]
GOLDEN = Path(__file__).parent / "golden"
QUICK = "--gamma 0.9 --solver local-search --models 30 --test-models 400 --replications 4"
MODELS = """\
idstatefrom,idaction,idstateto,idoutcome,probability,reward
0,0,0,0,0.6,1
0,0,1,0,0.4,1
0,1,1,0,1,0
1,0,0,0,1,2
0,0,0,1,0.3,1
0,0,1,1,0.7,1
0,1,1,1,1,0
1,0,0,1,1,2
"""
SCREENS = {
    "solve": f"solve log.csv {QUICK} --out run --force",
    "solve_default": "solve log.csv --gamma 0.9 --models 30 --test-models 400 --replications 0 "
    "--out default --force",
    "check": "check run",
    "explain": "explain run --state n=7",
    "rules": "rules run --leaves 3",
    "value_of_data": "value-of-data run --draws 40 --top 4",
    "rehearse": "rehearse run --times 4 --workers 0",
    "compare": "compare run --solvers s-rect",
    "update": "update run new.csv",
    "evaluate": "evaluate run --policy run/policy.csv",
    "frontier": "frontier run/problem.npz --lambdas 0,1 --solver local-search",
    "inspect_log": "inspect log.csv",
    "inspect_models": "inspect models.csv",
    "solve_models": "solve models.csv --gamma 0.9 --solver local-search --out models --force",
    "solve_keep": "solve few.csv --gamma 0.9 --models 20 --test-models 200 --replications 0 "
    "--out keep --force",
    "solve_horizon": "solve log.csv --gamma 1 --horizon 8 --solver local-search --models 10 "
    "--test-models 100 --out horizon --force",
    "solve_reference": "solve log.csv --gamma 0.9 --reference practice --solver local-search "
    "--models 20 --test-models 200 --replications 0 --validate blocks --out reference --force",
    "solve_clinic": "solve visits.csv --id patient --time date --action treatment --measurements "
    "bp,hba1c --bins hba1c=7:8:9 --events events.csv --terminal kind=death --grid 28d "
    "--missing-measurement carry --gamma 0.97 --solver local-search --models 20 --test-models 200 "
    "--replications 0 --out clinic --force",
    "solve_continuous": "solve vectors.csv --continuous --gamma 0.8 --models 8 --test-models 12 "
    "--test-episodes 4 --set iterations=4 --set episodes=6 --set batch=60 --out vectors --force",
}
PAGES = {
    "page_log": ("report run --out page.html", "page.html"),
    "page_log_suppressed": ("report run --quick --suppress-small --out few.html", "few.html"),
    "page_default": ("", "default/report.html"),
    "page_models": ("", "models/report.html"),
    "page_continuous": ("", "vectors/report.html"),
}


# Kept, chance, better, gain said and true, worse of a rehearsal.
FIGURES = ((0.9, 0.7, 0.99), 0.8, (0.75, 0.5, 0.9), 3.0, 2.5, (0.05, 0.001, 0.25))
ESTIMATE = {"name": "DR", "value": 4.0, "low": 3.0, "high": 5.0, "practice": 3.5,
            "effective_size": 12.0, "size": 40}  # fmt: skip
JUDGED = {"said": 2.0, "gain": (1.5, -0.5, 3.0), "chance": 0.875}
VALIDATIONS: list[tuple[str, dict[str, Any]]] = [
    ("episodes", {"why": "too_small"}),
    ("blocks", {"why": "is_practice"}),
    ("blocks", JUDGED),
    ("episodes", {**JUDGED, "said": None, "estimate": ESTIMATE}),
]


@pytest.fixture(scope="module")
def work(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder with the bundled log, models and vectors, in which one verb follows another."""
    folder, before = tmp_path_factory.mktemp("golden"), Path.cwd()
    lines = (ROOT / "examples" / "pest_log.csv").read_text(encoding="utf-8").splitlines(True)
    (folder / "log.csv").write_text("".join(lines[:-40]), encoding="utf-8")
    (folder / "new.csv").write_text("".join([lines[0], *lines[-40:]]), encoding="utf-8")
    (folder / "few.csv").write_text("".join(lines[:50]), encoding="utf-8")
    (folder / "models.csv").write_text(MODELS, encoding="utf-8")
    for name in ("visits.csv", "events.csv"):
        shutil.copy(ROOT / "examples" / "clinic" / name, folder)
    vector_log().save_csv(folder / "vectors.csv")
    patch = pytest.MonkeyPatch()
    for clock in ("monotonic", "perf_counter", "process_time"):
        patch.setattr(time, clock, lambda: 0.0)
    patch.setattr(limits, "_ended", -math.inf)  # no stop of an earlier test is after that
    patch.setattr(sections, "versions", list)
    patch.setenv("COLUMNS", "100")
    os.chdir(folder)
    yield folder
    os.chdir(before)
    patch.undo()
    shutil.rmtree(folder)


def pinned(name: str, text: str) -> None:
    """The text is the one of the file; with GOLDEN=write the file becomes the text."""
    file = GOLDEN / f"{name}.txt"
    if os.environ.get("GOLDEN") == "write":
        file.parent.mkdir(exist_ok=True)
        file.write_text(text, encoding="utf-8")
    assert text == file.read_text(encoding="utf-8")


def words_of(html: str) -> str:
    """The words of a page, a line for each block, without pictures and versions."""
    text = re.sub(r"(?s)<(script|style|svg).*?</\1>", " ", html)
    text = re.sub(
        r"</?(p|h\d|li|tr|dt|dd|section|summary|figure|div|table|ul|dl)\b[^>]*>", "\n", text
    )
    text = unescape(re.sub(r"<[^>]+>", " ", text)).replace("\u202f", " ").replace("\u00a0", " ")
    lines = [" ".join(line.split()) for line in text.splitlines()]
    kept = "\n".join(line for line in lines if line) + "\n"
    kept = re.sub(r"\b\d\.\d+e-1[2-9]\b", "0 but for rounding", kept)  # which machines differ in
    return re.sub(r"(?m)^(python|softrobust|numpy|scipy|numba|highspy)\n.*\n", "", kept)


@pytest.mark.parametrize("name", SCREENS)
def test_screens(name: str, work: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_cli(SCREENS[name].split()) == 0
    shown = capsys.readouterr().out
    pinned(name, "\n".join(line.rstrip() for line in shown.splitlines()) + "\n")


@pytest.mark.parametrize("name", PAGES)
def test_pages(name: str, work: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command, file = PAGES[name]
    if command:
        assert run_cli(command.split()) == 0
        capsys.readouterr()
    pinned(name, words_of((work / file).read_text(encoding="utf-8")))


def unfolded(html: str) -> list[str]:
    """The words that a page shows before anything is unfolded; names inside pictures apart."""
    text = re.sub(r"(?s)<(script|style|svg|head|caption)\b.*?</\1>", " ", html)
    fold = re.compile(r"(?s)<details([^>]*)>((?:(?!<details).)*?)</details>")

    def shown(found: re.Match[str]) -> str:
        name = re.search(r"(?s)<summary>(.*?)</summary>", found[2])
        return found[2] if "open" in found[1] or name is None else name[1]

    while "<details" in text:  # the innermost ones first
        text = fold.sub(shown, text)
    return unescape(re.sub(r"<[^>]+>", " ", text)).split()


def test_the_first_screen_is_short_and_begins_with_the_promise(work: Path) -> None:
    """At most 25 lines in the terminal for every decision, 400 words of a page before its folds."""
    decide = set(SCREENS) - {"inspect_log", "inspect_models"}  # these show what is in a file
    for name in decide:
        assert len((GOLDEN / f"{name}.txt").read_text(encoding="utf-8").splitlines()) <= 25, name
    for name in ("solve", "solve_default"):
        first = (GOLDEN / f"{name}.txt").read_text(encoding="utf-8").splitlines()[2]
        assert first.strip().startswith(("A change", "Keep doing what you do")), name
    runs = [f"{name}/report.html" for name in ("keep", "horizon", "reference", "clinic")]
    for file in [*runs, *(file for _, file in PAGES.values())]:
        html = (work / file).read_text(encoding="utf-8")
        shown = unfolded(html)
        assert 40 < len(shown) <= 400, (file, len(shown))
        assert "replications" not in shown, file
        assert len(html) <= 300_000, file


def test_sentences() -> None:
    """Every note and every check, shown and with small counts hidden."""
    lines = []
    for code, facts in NOTE_FACTS.items():
        note = Note(code, facts=facts)
        lines.append(f"{code}: {sentence(note)}")
        if note.without_small_counts() != note:
            lines.append(f"{code} (hidden): {sentence(note.without_small_counts())}")
    for name, (code, verdict, given) in CHECK_FACTS.items():
        check = Check(code, verdict, given)
        lines.append(f"{name} ({check_name(check)}): {check_sentence(check)}")
        if check.without_small_counts() != check:
            lines.append(f"{name} (hidden): {check_sentence(check.without_small_counts())}")
    kinds = [
        KindFound("rougher", 20, 0.5, *FIGURES),
        KindFound("noisier", 4, 0.0, None, *FIGURES[1:]),
    ]
    found = ForeignRehearsal(kinds[0], tuple(kinds), failed=1)
    lines += [*rehearsal_sentences(found), rehearsal_line(found)]
    for unit, facts in VALIDATIONS:
        lines += validation_sentences(Validation("episodes", unit, 16, 8, **facts))
    pinned("sentences", "\n".join(lines) + "\n")
