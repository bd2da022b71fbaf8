"""`softrobust reproduce NAME`: the paper's figures, with verdicts on its claims."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from softrobust.cli import complete

if TYPE_CHECKING:
    from softrobust.experiments.reproduce import Reproduced


def reproduce(
    name: Annotated[str, typer.Argument(metavar="NAME", help="optimizers-curse, pest-density, pest-frontier, inventory, riverswim, cancer, truth, or all.", autocompletion=complete.experiments)],
    quick: Annotated[bool, typer.Option("--quick", help="Fewer repetitions and data seeds: under a minute each.")] = False,
    out: Annotated[Path, typer.Option(help="Folder; every experiment writes into OUT/NAME.")] = Path("results"),
    workers: Annotated[int | None, typer.Option(min=0, help="Processes here (default: one for each core; 0: this one).")] = None,
    cluster: Annotated[str | None, typer.Option(help="Address of a Dask scheduler, or local:2.")] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with the run in that folder.")] = False,
    json: Annotated[bool, typer.Option("--json", help="Print verdicts and what was written as JSON.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="Print no verdicts.")] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show a traceback on errors.")] = False,
) -> None:  # fmt: skip
    """Run an experiment of the paper again: figure, table, and a verdict on each claim.

    Example: softrobust reproduce optimizers-curse --quick --out results
    """
    from softrobust.cli.screen import print_record, say
    from softrobust.errors import SoftRobustError
    from softrobust.experiments import experiment_names, make_experiment
    from softrobust.experiments import reproduce as run
    from softrobust.experiments.reproduce import check_place

    names = experiment_names(name)
    for each in names:  # refuse before any work what could not be written after it
        check_place(out, each, resume)
    failed = False
    records: list[dict[str, Any]] = []
    for each in names:
        try:
            done = run(
                make_experiment(each), out, quick=quick, workers=workers, cluster=cluster,
                resume=resume, progress=None if quiet or json else True,
            )  # fmt: skip
        except SoftRobustError as error:
            if len(names) == 1:
                raise
            say(f"{each}: {error}", error=True)  # the others can still be had
            records.append({"name": each, "error": str(error)})
            failed = True
            continue
        failed |= bool(done.failed)
        records.append(_record(each, done))
        if not (quiet or json):
            _say(done.results, done.out, done.failed, done.seconds)
    if json:
        print_record(records)
    if failed:
        raise typer.Exit(1)


def _record(name: str, done: Reproduced) -> dict[str, Any]:
    return {
        "name": name,
        "out": str(done.out),
        "seconds": done.seconds,
        "claims": done.results["claims"],
        "failed": done.failed,
        "written": sorted(str(path) for path in done.out.iterdir() if path.is_file()),
    }


def _say(results: dict[str, Any], out: Path, failed: dict[str, str], seconds: float) -> None:
    from softrobust.cli.screen import say

    say(f"{results['title']} ({results['figure']}), {seconds:.0f} s: {out}")
    for claim in results["claims"]:
        say(
            f"  {claim['verdict']:<12} {claim['claim']} [{claim['where']}; {claim['models']} models]"
        )
    for key, why in list(failed.items())[:3]:
        say(f"  task {key} failed: {why}")
    if len(failed) > 3:
        say(f"  … and {len(failed) - 3} more failed tasks: see {out / 'tasks' / 'failures'}")
