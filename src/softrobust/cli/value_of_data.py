"""`softrobust value-of-data RUN`: where more observations would help most."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def value_of_data(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="The folder that solve wrote.")],
    observations: Annotated[int, typer.Option(help="More observations of one pair, at a time.")] = 10,
    draws: Annotated[int, typer.Option(help="Posterior draws that stand for the posterior.")] = 200,
    top: Annotated[int, typer.Option(help="Pairs to print; --json has them all.")] = 12,
    seed: Annotated[int, typer.Option(help="Seed of the simulated data sets.")] = 0,
    json: Annotated[bool, typer.Option("--json", help="Print all pairs as JSON.")] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show a traceback on errors.")] = False,
) -> None:  # fmt: skip
    """Rank the pairs whose extra observations would raise the objective most.

    Example: softrobust value-of-data run --observations 20
    """
    import json as json_

    from softrobust.cli.output import print_data_values
    from softrobust.pipeline.folder import load_run
    from softrobust.pipeline.insight import data_values

    folder = load_run(run)
    problem, found = data_values(folder, observations, draws, seed)
    if json:
        rows = [value.to_dict(problem) for value in found]
        print(json_.dumps({"observations": observations, "pairs": rows}, indent=1))
    else:
        print_data_values(problem, found, observations, top)
