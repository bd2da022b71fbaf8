"""The policies side by side in figures: objective, mean, VaR and CVaR."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, final

from softrobust.reporting.words import Figures

if TYPE_CHECKING:
    from softrobust.objective import Objective
    from softrobust.reporting.compare import Compared


@final
@dataclass(frozen=True, slots=True)
class ComparedRow:
    """One policy in the table of figures; each cell is (value, ends of the interval)."""

    name: str
    chosen: bool
    ink: str
    cells: tuple[tuple[str, tuple[str, ...]], ...]


def figures_table(
    compared: Sequence[Compared], number: Figures, *, fresh: bool, inks: Sequence[str]
) -> tuple[ComparedRow, ...]:
    """objective, mean, VaR and CVaR of every policy, on training or held-out models."""
    rows = []
    for i, c in enumerate(compared):
        keys = ("objective", "mean", "var", "cvar")
        if fresh:
            assert c.heldout is not None  # asked for only where there are held-out models
            estimates = [getattr(c.heldout, key) for key in keys]
            cells = tuple((number(e.value), number.interval(e)) for e in estimates)
        else:
            cells = tuple((number(c.static[key]), ()) for key in keys)
        rows.append(ComparedRow(c.name, c.chosen, inks[i] if i < len(inks) else "", cells))
    return tuple(rows)


def figure_names(objective: Objective) -> tuple[tuple[str, str], ...]:
    """Heads of the columns of `figures_table`, and what they mean."""
    if objective.tail == 0:
        edge = bad = objective.words
    elif objective.tail == 1:
        edge, bad = "the best model", "average over all models"
    else:
        edge, bad = f"where {objective.words} end", "average of these"
    return (
        ("objective", "what was maximised"),
        ("mean ●", "average over all models"),
        ("VaR ▲", edge),
        ("CVaR ◆", bad),
    )
