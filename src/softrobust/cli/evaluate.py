"""`softrobust evaluate INPUT --policy FILE`: score any policy like a solved one."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

OUTPUT = "Output"


def evaluate(
    input: Annotated[Path, typer.Argument(metavar="INPUT", help="A run folder (its problem is used), a log, a multi-model CSV, or .npz.")],  # noqa: A002
    policy: Annotated[Path, typer.Option(help="CSV state,action[,probability]; where it is silent, current practice goes on.")],
    gamma: Annotated[float | None, typer.Option(help="Discount in (0, 1).")] = None,
    alpha: Annotated[float | None, typer.Option(help="Confidence: the bad case is the worst 1 − alpha of models (default 0.9).")] = None,
    lam: Annotated[float | None, typer.Option("--lambda", help="How much the bad case counts (default 0.5).")] = None,
    seed: Annotated[int, typer.Option(help="Seed of everything random.")] = 0,
    columns: Annotated[str | None, typer.Option(help="Column names of the log: state=site,action=dose,…")] = None,
    initial: Annotated[Path | None, typer.Option(help="CSV state,probability: where episodes start.")] = None,
    reward_table: Annotated[Path | None, typer.Option(help="CSV state,action,reward[,next_state].")] = None,
    models: Annotated[int | None, typer.Option(help="Models drawn from the posterior of a log (default 100).")] = None,
    min_count: Annotated[int | None, typer.Option(help="Pairs seen fewer times have no model (default 1); 0 keeps all.")] = None,
    out: Annotated[Path | None, typer.Option(help="Folder for solution.json, policy.csv and report.html.", rich_help_panel=OUTPUT)] = None,
    force: Annotated[bool, typer.Option("--force", help="Write into a folder that exists.", rich_help_panel=OUTPUT)] = False,
    json: Annotated[bool, typer.Option("--json", help="Print solution.json instead of the summary.", rich_help_panel=OUTPUT)] = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="Print no summary.", rich_help_panel=OUTPUT)] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show a traceback on errors.", rich_help_panel=OUTPUT)] = False,
) -> None:  # fmt: skip
    """Score a policy of your own with the certificate that a solved one gets.

    Example: softrobust evaluate run --policy guideline.csv
    """
    from softrobust.cli.output import print_json, print_summary
    from softrobust.cli.words import pairs_of
    from softrobust.errors import InputError
    from softrobust.pipeline import Options, check_out, set_up, write_run
    from softrobust.pipeline.evaluate import evaluate_file, setup_of
    from softrobust.pipeline.folder import load_run

    if out is not None:
        check_out(out, force)
    options = Options(
        gamma=gamma, lam=lam, alpha=alpha, columns=pairs_of(columns), initial=initial,
        reward_table=reward_table, n_models=models, min_count=min_count, seed=seed,
    )  # fmt: skip
    if input.is_dir():
        names = (
            "gamma",
            "lam",
            "alpha",
            "columns",
            "initial",
            "reward_table",
            "n_models",
            "min_count",
        )
        if options.given(*names):
            raise InputError(
                "A run folder brings its own problem: leave out --gamma, --alpha and the like, or "
                "give the log itself."
            )
        setup = setup_of(load_run(input))
    else:
        setup = set_up(input, options)
    run = evaluate_file(setup, policy, seed)
    if out is not None:
        write_run(run, out)
    if json:
        print_json(run)
    elif not quiet:
        print_summary(run, out)
