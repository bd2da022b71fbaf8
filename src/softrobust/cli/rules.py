"""`softrobust rules RUN`: the policy as a short tree, with its exact loss."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def rules(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="The folder that solve wrote.")],
    leaves: Annotated[int | None, typer.Option(help="At most so many rules (default 8; with --max-loss as many as it takes, up to 64).")] = None,
    max_loss: Annotated[float | None, typer.Option(help="As few rules as lose no more than this, in units of the objective.")] = None,
    out: Annotated[Path | None, typer.Option(help="CSV for the policy of the rules, as `evaluate --policy` reads it.")] = None,
    json: Annotated[bool, typer.Option("--json", help="Print figures instead of rules.")] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show a traceback on errors.")] = False,
) -> None:  # fmt: skip
    """Write a policy as a few rules over the columns of its states, and say exactly what that costs.

    Example: softrobust rules run --leaves 5
    """
    from softrobust.cli.screen import make_console, paragraph, print_record, say
    from softrobust.pipeline.folder import load_run
    from softrobust.rules import simplify

    folder = load_run(run)
    found = simplify(folder.problem, folder.solution.policy, most_leaves=leaves, max_loss=max_loss)
    if out is not None:
        found.policy.save(out)
    if json:
        print_record(found.to_dict())
        return
    say("\n".join(found.lines()))
    say()
    paragraph(make_console(), found.sentence())
