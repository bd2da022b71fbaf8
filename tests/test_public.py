"""The public names, the cost of importing, the ten lines, and the README's blocks."""

from __future__ import annotations

import ast
import importlib
import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import softrobust
from tests.report.builders import from_log, stock_log

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


@pytest.mark.parametrize("wrong", [None, 3, [1.5]])
def test_something_else_is_refused_in_words(wrong: Any, tmp_path: Path) -> None:
    problem, _, posterior = from_log(stock_log())
    policy, models, sr = problem.uniform_policy(), problem.models, PACKAGE
    calls: dict[str, Callable[[], Any]] = {
        "problem must be a Problem or ContinuousProblem": lambda: sr.solve(wrong, sr.Nominal()),
        "problem must be a Problem; ": lambda: sr.static_return(wrong, policy),
        "policy must be a Policy or TimedPolicy": lambda: sr.policy_return(problem, wrong),
        "it is solution.policy": lambda: sr.certify(problem, wrong),
        "problem must be": lambda: sr.explain(wrong, policy, "0"),
        "problem must": lambda: sr.frontier(wrong),
        "problem": lambda: sr.value_of_data(wrong, policy),
        "policy": lambda: sr.value_of_data(problem, wrong),
        "models must be a ModelSet": lambda: sr.Problem(wrong),
        "models must": lambda: sr.save_models(tmp_path / "m.npz", wrong),
        "log must be a TransitionLog": lambda: sr.save_log(wrong, tmp_path / "log.npz"),
        "log must": lambda: sr.LearnedPosterior().fit(wrong),
        "read_log": lambda: sr.DirichletPosterior().fit(wrong),
        "source must be": lambda: sr.choose(wrong, gamma=0.9),
        "path must be": lambda: sr.load_run(wrong),
        "name of a file": lambda: sr.read_models(wrong),
        "found must be a Review": lambda: sr.make_report(wrong),
        "seed must be": lambda: posterior.sample(2, seed=-1),
    }
    for words, call in calls.items():
        with pytest.raises(softrobust.InputError, match=words):
            call()
    if wrong != 3:  # a single model may be chosen
        with pytest.raises(softrobust.InputError, match="whole numbers or a mask"):
            models.select(wrong)
        with pytest.raises(softrobust.InputError, match="n must be a whole number"):
            models.split(wrong)
    with pytest.raises(softrobust.InputError, match="indices"):
        sr.value_of_data(problem, policy, pairs=wrong or "x")
    with pytest.raises(softrobust.InputError, match="indices"):
        sr.value_of_data(problem, policy, pairs=[(0, 99)])
