"""The public names, the cost of importing, the ten lines, and the README's blocks."""

from __future__ import annotations

import ast
import importlib
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import softrobust

ROOT = Path(__file__).resolve().parents[1]
PACKAGE: Any = softrobust  # its lists are for tests alone
HEAVY = {"numpy", "scipy", "numba", "pyarrow", "matplotlib", "jinja2", "typer", "rich", "highspy"}


def loaded_by(statement: str) -> set[str]:
    """Top-level packages that a fresh interpreter holds after `statement`."""
    code = f"{statement}; import sys, json; print(json.dumps(sorted(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return {name.split(".")[0] for name in json.loads(done.stdout)}


def test_importing_the_package_loads_nothing_heavy() -> None:
    assert not loaded_by("import softrobust") & HEAVY


def test_the_help_needs_no_numbers() -> None:
    assert not loaded_by("import softrobust.cli.main") & (HEAVY - {"typer", "rich"})


def test_typed_and_lazy_names_are_the_same() -> None:
    tree = ast.parse((ROOT / "src/softrobust/__init__.pyi").read_text(encoding="utf-8"))
    typed = {
        alias.name: str(node.module)
        for node in tree.body
        if isinstance(node, ast.ImportFrom) and node.module != "softrobust"
        for alias in node.names
    }
    assert typed == {name: f"softrobust.{stage}" for name, stage in PACKAGE._HOME.items()}
    assert len(PACKAGE.__all__) <= 61  # sixty and the version
    for name, module in typed.items():
        assert getattr(softrobust, name) is getattr(importlib.import_module(module), name)
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        _ = PACKAGE.nonsense


def test_stages_are_attributes() -> None:
    for stage in PACKAGE._STAGES:
        assert getattr(softrobust, stage) is importlib.import_module(f"softrobust.{stage}")


@pytest.mark.parametrize("name", sorted(PACKAGE._HOME))
def test_every_public_name_is_documented_and_tested(name: str) -> None:
    api = (ROOT / "docs/api.md").read_text(encoding="utf-8")
    assert re.search(rf"softrobust\.{name}\b", api), f"docs/api.md lacks {name}"
    assert getattr(softrobust, name).__doc__, f"{name} has no docstring"
    own = Path(__file__)
    tests = (path for path in (ROOT / "tests").rglob("*.py") if path != own)
    assert any(re.search(rf"\b{name}\b", path.read_text(encoding="utf-8")) for path in tests)


def code_blocks(path: Path) -> list[str]:
    return re.findall(r"```python\n(.*?)```", path.read_text(encoding="utf-8"), flags=re.DOTALL)


@pytest.mark.parametrize(
    "page", ["README.md", *[f"docs/{p.name}" for p in (ROOT / "docs").glob("*.md")]]
)
def test_code_blocks_run(
    page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    for block in code_blocks(ROOT / page):
        exec(compile(block, page, "exec"), {})
    assert page != "README.md" or (tmp_path / "report.html").exists()
    if page == "docs/goal.md":  # what the first block prints is what the page says
        said = [f"`{line}`" for line in capsys.readouterr().out.splitlines()[:3]]
        assert all(line in (ROOT / page).read_text(encoding="utf-8") for line in said), said


def test_python_of_the_first_page_is_the_command_above_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The same draws, so the same policy and figures; and the proof is not lost on the way."""
    from softrobust.cli.main import run

    monkeypatch.chdir(tmp_path)
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    words = (
        "solve examples/pest_log.csv --gamma 0.9 --solver exact --models 100 --replications 0 "
        "--out run --quiet"
    )
    assert run(words.split()) == 0
    capsys.readouterr()
    page: dict[str, Any] = {}
    exec(compile(code_blocks(ROOT / "docs/start.md")[1], "start", "exec"), page)
    assert "this one is the best there is" in capsys.readouterr().out
    there = softrobust.certificate.load_solution("run")
    assert (there.policy.probs == page["solution"].policy.probs).all()
    record = json.loads((tmp_path / "run" / "solution.json").read_text(encoding="utf-8"))
    mine = softrobust.certify(page["problem"], page["solution"], heldout=page["heldout"]).to_dict()
    assert mine["static"] == pytest.approx(record["static"])
    assert mine["bound"] == pytest.approx(record["bound"])
    assert mine["heldout"]["objective"] == pytest.approx(record["heldout"]["objective"])


def test_pictures_of_the_pages_exist() -> None:
    pages = [ROOT / "README.md", *(ROOT / "docs").glob("*.md")]
    shown = [
        (p, q) for p in pages for q in re.findall(r"!\[[^]]+\]\((?!http)([^)]+)\)", p.read_text())
    ]
    assert len(shown) > 5
    for page, picture in shown:
        assert (page.parent / picture).is_file(), (page.name, picture)
