"""`softrobust compare RUN …`: policies side by side."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from softrobust.cli import complete

if TYPE_CHECKING:
    from softrobust.certificate import Estimate
    from softrobust.pipeline.compare import Scored, SideBySide


def compare(
    runs: Annotated[list[Path], typer.Argument(metavar="RUN…", help="Folders that solve wrote; the first brings the question.")],
    solvers: Annotated[str, typer.Option(help="Further solvers for the first run's problem, with commas, as for solve.", autocompletion=complete.solver_list)] = "",
    time_limit: Annotated[float | None, typer.Option(help="Seconds for each of these solvers.")] = None,
    seed: Annotated[int, typer.Option(help="Seed of these solvers.")] = 0,
    json: Annotated[bool, typer.Option("--json", help="Print all figures as JSON.")] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show a traceback on errors.")] = False,
) -> None:  # fmt: skip
    """Compare policies on one question: mean, bad case, objective, gap, held-out, same actions.

    Example: softrobust compare run run2 --solvers nominal,s-rect
    """
    import json as json_

    from softrobust.pipeline.compare import compare_runs
    from softrobust.pipeline.folder import load_run

    names = [name.strip() for name in solvers.split(",") if name.strip()]
    found = compare_runs([load_run(run) for run in runs], names, time_limit, seed)
    if json:
        print(json_.dumps(found.to_dict(), indent=1, allow_nan=False))
    else:
        print_side_by_side(found)


def print_side_by_side(found: SideBySide) -> None:
    """A table, and what its columns mean."""
    from softrobust.cli.screen import make_console, paragraph, show_table

    objective = found.problem.objective
    head = [
        "policy",
        "objective",
        "mean",
        "bad case",
        "open",
        "held-out\nobjective",
        "held-out\nbad case",
        "same\naction",
    ]
    rows = [_cells(row) for row in found.rows]
    console = make_console()
    show_table(console, head, rows, styles=["bold" if i == 0 else "" for i in range(len(rows))])
    lines = [
        f"The bad case is {objective.words}; γ = {found.problem.gamma:g}, λ = {objective.lam:g}.",
        "open: what no proof excludes, as a share of what is to be gained over acting at random.",
        "same action: as the first policy, by the time that it spends there.",
        *found.notes,
    ]
    for text in lines:
        paragraph(console, text, "dim")


def _cells(row: Scored) -> list[str]:
    c, made, held = row.compared, row.certificate, row.heldout
    share = None if made is None else made.gap_share
    left = "unknown share" if share is None else f"{100 * share:.2g} %"
    return [
        c.name,
        f"{c.static['objective']:.6g}",
        f"{c.static['mean']:.6g}",
        f"{c.static['cvar']:.6g}",
        "–" if made is None else "nothing" if made.nothing_better else left,
        "–" if held is None else _interval(held.objective),
        "–" if held is None else _interval(held.cvar),
        f"{100 * row.same_visits:.3g} %",
    ]


def _interval(e: Estimate) -> str:
    if e.low is None or e.high is None:
        return f"{e.value:.5g}"
    return f"{e.value:.5g} [{e.low:.5g}, {e.high:.5g}]"
