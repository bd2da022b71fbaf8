"""`softrobust report RUN`: the full page of a run."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def report(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="The folder that solve wrote.")],
    out: Annotated[Path | None, typer.Option(help="The file to write (default: report.html in the run folder).")] = None,
    suppress_small: Annotated[bool, typer.Option("--suppress-small", help='Show counts below 5 as "<5", and nothing that they follow from.')] = False,
    quick: Annotated[bool, typer.Option("--quick", help="Leave out the frontier, the value of data and diagnostics.")] = False,
    observations: Annotated[int, typer.Option(help="More observations of one pair whose worth is shown.")] = 10,
    json: Annotated[bool, typer.Option("--json", help="Print what was written as JSON.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="Print nothing.")] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show a traceback on errors.")] = False,
) -> None:  # fmt: skip
    """Write the full page of a run: frontier, reasons, value of data, and the checks on record.

    Run `softrobust check RUN` first to have the checks in it.

    Example: softrobust report run --suppress-small
    """
    from softrobust.cli.continuous import refuse
    from softrobust.cli.screen import print_record, say
    from softrobust.errors import InputError
    from softrobust.pipeline.continuous_report import (
        is_continuous,
        load_continuous_run,
        report_continuous,
    )
    from softrobust.pipeline.folder import load_run
    from softrobust.pipeline.report import report_run

    target = run / "report.html" if out is None else out
    if target.is_dir():
        raise InputError(f"'{target}' is a folder; --out needs a file, such as page.html.")
    if not target.resolve().parent.is_dir():
        raise InputError(f"The folder that is to hold '{target}' does not exist.")
    if is_continuous(run):
        given = {"quick": quick, "suppress_small": suppress_small}
        refuse(given | {"observations": observations != 10}, "tables of states")
        page = report_continuous(load_continuous_run(run), run.resolve().name)
    else:
        page = report_run(
            load_run(run), target, quick=quick, suppress_small=suppress_small,
            observations=observations,
        )  # fmt: skip
    page.save(target)
    if json:
        print_record({"run": str(run), "written": [str(target)], "bytes": target.stat().st_size})
    elif not quiet:
        say(f"Written to {target}: open it in a browser.")
