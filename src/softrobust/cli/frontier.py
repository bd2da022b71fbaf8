"""`softrobust frontier INPUT`: what caution costs, over a grid of λ and α."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from softrobust.cli import complete

OUTPUT = "Output"


def frontier(
    input: Annotated[Path, typer.Argument(metavar="INPUT", help="A log of transitions, a multi-model CSV, or .npz; told apart by content.")],  # noqa: A002
    gamma: Annotated[float | None, typer.Option(help="Discount in (0, 1); may come from parameters.csv beside models.")] = None,
    lambdas: Annotated[str, typer.Option(help="How much the bad case counts: values that rise, with commas.")] = "0,.1,.2,.3,.4,.5,.6,.7,.8,.9,1",
    alphas: Annotated[str, typer.Option(help="Confidences: the bad case is the worst 1 − alpha of models.")] = ".9",
    solver: Annotated[str, typer.Option(help="As for solve; exact proves every point.", autocompletion=complete.solvers)] = "exact",
    time_limit: Annotated[float | None, typer.Option(help="Seconds for the whole grid (default 8 a point).")] = None,
    seed: Annotated[int, typer.Option(help="Seed of everything random.")] = 0,
    models: Annotated[int | None, typer.Option(help="Models drawn from the posterior of a log (default 100).")] = None,
    min_count: Annotated[int | None, typer.Option(help="Pairs seen fewer times are not considered (default 1); 0 keeps all.")] = None,
    columns: Annotated[str | None, typer.Option(help="Column names of the log: state=site,action=dose,next_state=…")] = None,
    initial: Annotated[Path | None, typer.Option(help="CSV state,probability: where episodes start.")] = None,
    weights: Annotated[Path | None, typer.Option(help="CSV idoutcome,weight: how much each model counts.")] = None,
    reward_table: Annotated[Path | None, typer.Option(help="CSV state,action,reward[,next_state].")] = None,
    allowed: Annotated[Path | None, typer.Option(help="CSV state,action of what may be done.")] = None,
    out: Annotated[Path | None, typer.Option(help="Folder for frontier.csv, frontier.svg and frontier.png.", rich_help_panel=OUTPUT)] = None,
    force: Annotated[bool, typer.Option("--force", help="Write into a folder that exists.", rich_help_panel=OUTPUT)] = False,
    json: Annotated[bool, typer.Option("--json", help="Print the points as JSON.", rich_help_panel=OUTPUT)] = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="Print no table.", rich_help_panel=OUTPUT)] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show a traceback on errors.", rich_help_panel=OUTPUT)] = False,
) -> None:  # fmt: skip
    """Find the best policy for every (λ, α) of a grid: what is given up on average for a better bad case.

    Example: softrobust frontier log.csv --gamma 0.95 --alphas .7,.9 --out run
    """
    from softrobust.cli.output import print_frontier, print_frontier_json
    from softrobust.cli.words import numbers_of, pairs_of
    from softrobust.pipeline import Options, check_out, run_frontier, set_up, write_frontier

    if out is not None:
        check_out(out, force)
    options = Options(
        gamma=gamma,
        columns=pairs_of(columns),
        initial=initial,
        weights=weights,
        reward_table=reward_table,
        allowed=allowed,
        n_models=models,
        min_count=min_count,
        seed=seed,
    )
    grid = numbers_of("--lambdas", lambdas), numbers_of("--alphas", alphas)
    found = run_frontier(set_up(input, options), *grid, solver, time_limit, seed)
    if out is not None:
        write_frontier(found, out)
    if json:
        print_frontier_json(found)
    elif not quiet:
        print_frontier(found, out)
