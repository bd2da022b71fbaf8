"""The frontier as the command line makes it: from a set-up to a table and a picture."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from softrobust.pipeline.setup import Setup
from softrobust.reporting import save_frontier_csv, save_frontier_plot
from softrobust.solvers.registry import DEFAULT_SOLVER, make_solver
from softrobust.tradeoff import frontier

if TYPE_CHECKING:
    from softrobust.tradeoff import Frontier


def run_frontier(
    setup: Setup,
    lams: Sequence[float],
    alphas: Sequence[float],
    solver: str = DEFAULT_SOLVER,
    time_limit: float | None = None,
    seed: int = 0,
) -> Frontier:
    """Solve the grid; a time limit is shared out over its points."""
    if solver == DEFAULT_SOLVER:
        return frontier(setup.problem, lams, alphas, time_limit=time_limit)
    share = None if time_limit is None else time_limit / max(len(lams) * len(alphas), 1)
    chosen = make_solver(
        solver, log=setup.log, time_limit=share, seed=seed, posterior=setup.posterior
    )
    return frontier(setup.problem, lams, alphas, chosen)


def write_frontier(found: Frontier, out: Path) -> None:
    """Write frontier.csv, frontier.svg and frontier.png, each atomically."""
    out.mkdir(exist_ok=True)
    save_frontier_csv(found, out / "frontier.csv")
    save_frontier_plot(found, out / "frontier.svg", out / "frontier.png")
