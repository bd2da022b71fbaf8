"""The import graph of the stages as a picture: `python docs/make_house.py` writes img/house.png."""

from __future__ import annotations

import ast
from collections import Counter
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
from matplotlib.patches import FancyArrowPatch

ROOT = Path(__file__).resolve().parents[1]
SRC = ROOT / "src" / "softrobust"


def stages() -> list[str]:
    """The order that `tests/test_layers.py` enforces."""
    tree = ast.parse((ROOT / "tests" / "test_layers.py").read_text(encoding="utf-8"))
    for node in tree.body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "STAGES":
            return [str(name) for name in ast.literal_eval(node.value)]
    raise SystemExit("tests/test_layers.py has no list STAGES.")


def edges() -> Counter[tuple[str, str]]:
    """(importing stage, imported stage) → number of modules that do, lazy imports counted."""
    found: Counter[tuple[str, str]] = Counter()
    for path in SRC.rglob("*.py"):
        own = path.relative_to(SRC).parts[0].removesuffix(".py")
        used = set()
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("softrobust."):
                used.add(str(node.module).split(".")[1])
        found.update((own, other) for other in used if other != own)
    return found


def main() -> None:
    """Stages from top to bottom; arcs go down from what is imported to what imports it."""
    names = stages()
    place = {name: -i for i, name in enumerate(names)}
    figure, axes = plt.subplots(figsize=(7.5, 8.5))
    for (own, other), n in edges().items():
        if own in place and other in place and other not in ("errors", "_core"):
            bend = 0.12 * (place[other] - place[own])
            side = -1 if bend > 0.5 else 1
            axes.add_patch(
                FancyArrowPatch(
                    (0.9 if side > 0 else -0.05, place[other]),
                    (0.9 if side > 0 else -0.05, place[own]),
                    connectionstyle=f"arc3,rad={-0.45 * side}",
                    arrowstyle="-|>",
                    mutation_scale=7,
                    linewidth=0.5 + 0.12 * n,
                    color="#0b5f93" if side > 0 else "#6b7380",
                    alpha=0.55,
                )
            )
    for name in names:
        files = (
            [SRC / f"{name}.py"] if (SRC / f"{name}.py").exists() else [*(SRC / name).rglob("*.py")]
        )
        lines = sum(len(path.read_text(encoding="utf-8").splitlines()) for path in files)
        axes.text(
            0.42, place[name], f"{name}", ha="center", va="center", fontsize=11, weight="bold"
        )
        axes.text(
            0.42, place[name] - 0.36, f"{len(files)} file{'s' * (len(files) > 1)}, {lines:,} lines",
            ha="center", va="center", fontsize=6.5, color="#6b7380",
        )  # fmt: skip
    axes.set_xlim(-1.6, 2.6)
    axes.set_ylim(-len(names) + 0.2, 0.8)
    axes.axis("off")
    figure.savefig(ROOT / "docs" / "img" / "house.png", dpi=130, bbox_inches="tight")


if __name__ == "__main__":
    main()
