"""`softrobust check RUN`: reasons to trust the answer, or not."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def check(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="The folder that solve wrote, from a log.")],
    seed: Annotated[int, typer.Option(help="Seed of the simulations and of the other draws.")] = 0,
    json: Annotated[bool, typer.Option("--json", help="Print checks.json instead of sentences.")] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show a traceback on errors.")] = False,
) -> None:  # fmt: skip
    """Check a run: does the model fit, does the log agree, and what would change the answer?

    Writes checks.json into the run folder.

    Example: softrobust check run
    """
    from softrobust.checks import check_run, checks_record
    from softrobust.checks.run import save_checks
    from softrobust.cli.output import print_check
    from softrobust.cli.screen import print_record
    from softrobust.pipeline.folder import load_run

    folder = load_run(run)
    done = []
    for result in check_run(folder, seed):
        done.append(result)
        if not json:
            print_check(result.name, str(result.verdict), result.sentence)
    record = checks_record(folder, done, seed)
    save_checks(folder.path / "checks.json", record)
    if json:
        print_record(record)
