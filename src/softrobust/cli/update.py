"""`softrobust update RUN NEW`: new rows, and what they change."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from softrobust.cli import complete


def update(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="The folder that solve wrote, from a log.")],
    new: Annotated[Path, typer.Argument(metavar="NEW", help="A log of new transitions.")],
    out: Annotated[Path | None, typer.Option(help="Folder for the updated run; without it nothing is written.")] = None,
    margin: Annotated[float, typer.Option(help="What a change of action must gain, in units of the objective.")] = 0.0,
    solver: Annotated[str | None, typer.Option(help="Default: the run's own solver.", autocompletion=complete.solvers)] = None,
    time_limit: Annotated[float | None, typer.Option(help="Seconds for the solver.")] = None,
    columns: Annotated[str | None, typer.Option(help="Column names of the new log: state=site,action=dose,…")] = None,
    seed: Annotated[int, typer.Option(help="Seed of the drift test and of the solver.")] = 0,
    force: Annotated[bool, typer.Option("--force", help="Write into a folder that exists.")] = False,
    json: Annotated[bool, typer.Option("--json", help="Print the record of the update instead of sentences.")] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show a traceback on errors.")] = False,
) -> None:  # fmt: skip
    """Update a run with new rows: posterior, drift, and actions that change by more than a margin.

    Example: softrobust update run new.csv --margin 0.5 --out run2
    """
    from softrobust.cli.output import print_lines
    from softrobust.cli.screen import print_record, say
    from softrobust.cli.words import pairs_of
    from softrobust.pipeline import check_out, write_run
    from softrobust.pipeline.folder import load_run
    from softrobust.pipeline.update import save_record
    from softrobust.pipeline.update import update as update_run
    from softrobust.solvers.registry import SOLVERS, default_solver, make_solver

    folder = load_run(run)
    if out is not None:
        check_out(out, force)
    own = folder.solution.solver
    name = solver or (own if own in SOLVERS else default_solver(folder.problem.objective))
    made = make_solver(name, log=folder.log, time_limit=time_limit, seed=seed)
    found = update_run(folder, new, made, margin, pairs_of(columns), seed)
    if out is not None and found.run is not None:
        write_run(found.run, out)
        save_record(out / "update.json", found.record, folder.path)
    if json:
        print_record(found.record)
        return
    print_lines(found.sentences())
    if out is not None and found.run is not None:
        say(f"Written to {out}.")
