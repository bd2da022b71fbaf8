"""`softrobust apply RUN --state LABEL` (or --observation x=1,y=2): what to do here."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from softrobust.cli import complete


def apply(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="The folder that solve wrote, or its solution.json.")],
    state: Annotated[str | None, typer.Option(help="The state, by its label.", autocompletion=complete.states)] = None,
    observation: Annotated[str | None, typer.Option(metavar="X=1.5,…", help="The state of a run with continuous states: its variables, by name or in order.")] = None,
    seed: Annotated[int | None, typer.Option(help="Draw the action where the policy randomizes.")] = None,
    json: Annotated[bool, typer.Option("--json", help="Print the action and its probabilities as JSON.")] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show a traceback on errors.")] = False,
) -> None:  # fmt: skip
    """Say which action the policy takes in a state.

    Example: softrobust apply run --state "n=7"
    """
    from softrobust.certificate import load_solution
    from softrobust.cli.continuous import apply_continuous, refuse
    from softrobust.cli.screen import say_exactly
    from softrobust.errors import InputError
    from softrobust.pipeline.continuous_run import run_policy

    if not run.exists():
        raise InputError(f"There is no run '{run}'. Give the folder that `solve --out` wrote.")
    vectors = run_policy(run)
    if vectors is not None:
        refuse({"state": state}, "tables of states")
        apply_continuous(vectors, observation, seed, json)
        return
    refuse({"observation": observation}, "continuous states")
    if state is None:
        raise InputError("Give the state by its label: --state 'n=7'.")
    policy = load_solution(run).policy
    action = policy.action(state, seed)
    if not json:
        say_exactly(action)
        return
    import json as json_

    row = policy.probs[policy.states.index(state)]
    mix = {policy.actions[a]: float(p) for a, p in enumerate(row) if p > 0}
    print(json_.dumps({"state": state, "action": action, "probabilities": mix}))
