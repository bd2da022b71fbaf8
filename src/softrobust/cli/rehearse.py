"""`softrobust rehearse RUN`: the whole line in worlds that are known."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from softrobust.cli import complete


def rehearse(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="The folder that solve wrote, from a log.")],
    times: Annotated[int, typer.Option(help="Worlds to draw.")] = 200,
    world: Annotated[str, typer.Option(help="Draw worlds from the posterior (plausible ones), or from the prior (a test of the machinery).")] = "posterior",
    solver: Annotated[str, typer.Option(help="Solver of the rehearsals.", autocompletion=complete.solvers)] = "local-search",
    out: Annotated[Path | None, typer.Option(help="Folder for the results (default: RUN/rehearsal).")] = None,
    workers: Annotated[int | None, typer.Option(min=0, help="Processes here (default: one for each core; 0: this one).")] = None,
    cluster: Annotated[str | None, typer.Option(help="Address of a Dask scheduler, or local:2.")] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with the rehearsal in that folder.")] = False,
    seed: Annotated[int, typer.Option(help="Seed of the worlds.")] = 0,
    json: Annotated[bool, typer.Option("--json", help="Print figures instead of sentences.")] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show a traceback on errors.")] = False,
) -> None:  # fmt: skip
    """Rehearse a run: do its promises hold, and what does it gain in truth?

    Example: softrobust rehearse run --times 200
    """
    import json as json_

    from softrobust.cli.output import print_lines
    from softrobust.data.files import atomic_write
    from softrobust.pipeline.folder import load_run
    from softrobust.rehearsal import rehearse as rehearse_run

    folder = load_run(run)
    place = folder.path / "rehearsal" if out is None else out
    found = rehearse_run(
        folder, place, times, world=world, solver=solver, seed=seed, workers=workers,
        cluster=cluster, resume=resume,
    )  # fmt: skip
    text = json_.dumps(found.to_dict(), indent=1)
    with atomic_write(place / "summary.json") as file:
        file.write(text + "\n")
    if json:
        print(text)
    else:
        print_lines(found.sentences())
