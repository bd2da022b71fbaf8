"""`softrobust explain RUN --state LABEL`: why this action here."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from softrobust.cli import complete


def explain(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="The folder that solve wrote.")],
    state: Annotated[str, typer.Option(help="The state, by its label.", autocompletion=complete.states)],
    json: Annotated[bool, typer.Option("--json", help="Print figures instead of sentences.")] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show a traceback on errors.")] = False,
) -> None:  # fmt: skip
    """Say why the policy does what it does in a state: other actions, worst-case models, price.

    Example: softrobust explain run --state "n=7"
    """
    import json as json_

    from softrobust.cli.output import print_lines, print_options
    from softrobust.insight import explain as explain_state
    from softrobust.pipeline.folder import load_run

    folder = load_run(run)
    found = explain_state(folder.problem, folder.solution.policy, state, folder.log)
    if json:
        print(json_.dumps(found.to_dict(), indent=1))
        return
    print_lines(found.sentences())
    print_options(found)
