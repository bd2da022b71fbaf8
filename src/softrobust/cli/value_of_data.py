"""`softrobust value-of-data RUN`: where more observations would help most."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

LEAST_DRAWS = 20


def value_of_data(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="The folder that solve wrote.")],
    observations: Annotated[int, typer.Option(help="More observations of one pair, at a time.")] = 10,
    draws: Annotated[int, typer.Option(help="Posterior draws that stand for the posterior, 20 or more.")] = 200,
    top: Annotated[int, typer.Option(help="Pairs to print; --json has them all.")] = 12,
    seed: Annotated[int, typer.Option(help="Seed of the simulated data sets.")] = 0,
    json: Annotated[bool, typer.Option("--json", help="Print all pairs as JSON.")] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show a traceback on errors.")] = False,
) -> None:  # fmt: skip
    """Rank the pairs whose extra observations would raise the objective most.

    Example: softrobust value-of-data run --observations 20
    """
    from softrobust.cli.output import print_data_values
    from softrobust.cli.screen import print_record
    from softrobust.errors import InputError
    from softrobust.pipeline.folder import load_run
    from softrobust.pipeline.insight import data_values

    if draws < LEAST_DRAWS:
        raise InputError(
            f"--draws must be at least {LEAST_DRAWS}; it is {draws}. The draws stand for the "
            "posterior: with fewer, hardly any differ, and no data could seem to change the policy."
        )
    folder = load_run(run)
    problem, found = data_values(folder, observations, draws, seed)
    if json:
        rows = [value.to_dict(problem) for value in found]
        print_record({"observations": observations, "pairs": rows})
    else:
        print_data_values(problem, found, observations, top)
