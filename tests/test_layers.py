"""A stage imports only stages above it, and heavy packages only inside functions."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

SRC = Path(__file__).resolve().parents[1] / "src" / "softrobust"
STAGES = [
    "errors",
    "_core",
    "kernels",
    "data",
    "models",
    "posterior",
    "objective",
    "problem",
    "returns",
    "bounds",
    "solvers",
    "certificate",
    "study",
    "domains",
    "report",
    "run",
    "paper",
    "app",
    "cli",
    "__main__",
]
LAZY = {
    "pyarrow",
    "highspy",
    "matplotlib",
    "rich",
    "jinja2",
    "pandas",
    "gymnasium",
    "jax",
    "optax",
    "numpyro",
    "arviz",
    "minari",
    "dask",
    "distributed",
    "nicegui",
    "fastapi",
    "uvicorn",
}
FILES = sorted(SRC.rglob("*.py"))
# Stages whose texts name arguments of the library: the command line adds its flags.
WITHOUT_FLAGS = ("errors", "_core", "kernels", "data", "models")
FLAG = re.compile(r"(?<![\w-])--[a-z]")


def stage_of(module: str) -> str | None:
    """`softrobust.models.policy` → `models`; None for the package itself or another one."""
    parts = module.split(".")
    return parts[1] if parts[0] == "softrobust" and len(parts) > 1 else None


def imports(tree: ast.AST, top_only: bool) -> Iterator[str]:
    """Modules imported at run time; with `top_only`, those of the module's own body."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            continue
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
        if not (top_only and isinstance(node, (ast.FunctionDef, ast.ClassDef, ast.Lambda))):
            yield from imports(node, top_only)


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(SRC)))
def test_layers(path: Path) -> None:
    own = path.relative_to(SRC).parts[0].removesuffix(".py")
    if own == "__init__":
        return
    assert own in STAGES, f"{own} has no place among the stages"
    tree = ast.parse(path.read_text(encoding="utf-8"))
    for module in imports(tree, top_only=False):
        stage = stage_of(module)
        if stage is not None:
            assert STAGES.index(stage) <= STAGES.index(own), f"{own} must not import {module}"
    for module in imports(tree, top_only=True):
        package = module.split(".")[0]
        if own == "app" and path.name == "pages.py":  # is itself imported inside a function
            continue
        assert package not in LAZY, f"import {package} inside the function that needs it"
        assert package != "numba" or own == "kernels", "numba lives in kernels/"
        assert package != "typer" or own == "cli", "typer lives in cli/"


@pytest.mark.parametrize("stage", WITHOUT_FLAGS)
def test_no_stage_names_flags_of_the_command_line(stage: str) -> None:
    for path in FILES:
        if path.relative_to(SRC).parts[0].removesuffix(".py") != stage:
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                assert not FLAG.search(node.value), f"{path.name}, line {node.lineno}"
