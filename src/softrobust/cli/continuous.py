"""`softrobust solve … --continuous`: the flags as options, and the line for continuous states."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from softrobust.cli import complete

if TYPE_CHECKING:
    from softrobust.models.continuous_policy import ContinuousPolicy
    from softrobust.pipeline.continuous_run import ContinuousRun

SOLVERS = ", ".join(complete.CONTINUOUS)


def solve_continuous(path: Path, flags: Mapping[str, Any], out: Path | None) -> None:
    """The line from a log of vectors to a run folder; `flags` are those of `solve`, by name."""
    from softrobust.cli.words import pairs_of, settings_of
    from softrobust.data.settings import whole
    from softrobust.data.trajectories_rules import split_words
    from softrobust.pipeline.continuous import ContinuousOptions, set_up_continuous
    from softrobust.pipeline.continuous_report import report_continuous
    from softrobust.pipeline.continuous_run import (
        DEFAULT_EPISODES,
        run_continuous,
        write_continuous_run,
    )
    from softrobust.solvers.continuous_registry import make_continuous_solver

    options = ContinuousOptions(
        gamma=flags["gamma"],
        horizon=flags["horizon"],
        criterion=flags["objective"],
        lam=flags["lam"],
        alpha=flags["alpha"],
        reward_now=_numbers("--reward-now", flags["reward_now"]),
        reward_next=_numbers("--reward-next", flags["reward_next"]),
        clip=_clip(flags["clip"]),
        n_models=flags["models"],
        n_test=flags["test_models"],
        heldout=flags["heldout"],
        columns=pairs_of(flags["columns"]),
        actions=None if flags["actions"] is None else split_words(flags["actions"]),
        min_count=flags["min_count"],
        start=_numbers("--start", flags["start"]),
        seed=flags["seed"],
    )
    solver = make_continuous_solver(
        flags["solver"],
        seed=flags["seed"],
        time_limit=flags["time_limit"],
        settings=settings_of(flags["set_"]),
    )
    episodes = DEFAULT_EPISODES if flags["test_episodes"] is None else flags["test_episodes"]
    whole("--test-episodes", episodes, 2)
    setup = set_up_continuous(path, options)
    run = run_continuous(setup, solver, flags["seed"], episodes)
    if out is not None:
        write_continuous_run(run, out, report_continuous(run, out.resolve().name))
    _show(run, out, flags)


def _show(run: ContinuousRun, out: Path | None, flags: Mapping[str, Any]) -> None:
    from softrobust.pipeline.continuous_run import continuous_record, continuous_summary

    if flags["json"]:
        sys.stdout.write(json.dumps(continuous_record(run), indent=1, allow_nan=False) + "\n")
    elif not flags["quiet"]:
        from softrobust.cli.screen import make_console, paragraph, say

        console = make_console()
        styles = {"lead": "bold", "head": "bold", "note": "dim", "row": "cyan", "caution": "yellow"}
        for kind, line in continuous_summary(run):
            if kind == "head":
                console.print()
            first = {"lead": "", "head": "", "note": "  · ", "caution": "  ! "}.get(kind, "  ")
            paragraph(console, line, styles.get(kind, ""), first)
        if out is not None:
            say(
                f"\nWritten to {out}: open report.html in a browser; "
                f"`softrobust apply {out} --observation …` decides."
            )


def refuse(given: Mapping[str, Any], meant: str) -> None:
    """Flags that are of no use here are an error, not ignored."""
    from softrobust.errors import InputError

    names = [name for name, value in given.items() if not (value is None or value is False)]
    if names:
        flags = ", ".join("--" + name.rstrip("_").replace("_", "-") for name in names)
        raise InputError(f"{flags} is for {meant}. Leave it out.")


def _numbers(flag: str, text: str | None) -> dict[str, float] | None:
    """`P=1,Q=-1` as a mapping."""
    from softrobust.errors import InputError

    if text is None:
        return None
    out: dict[str, float] = {}
    for part in text.split(","):
        name, sign, value = part.partition("=")
        try:
            if not sign or not name.strip():
                raise ValueError
            out[name.strip()] = float(value)
        except ValueError:
            raise InputError(
                f"{flag} takes variable=coefficient pairs, such as P=1,Q=-1; it got '{part}'."
            ) from None
    return out


def _clip(text: str | None) -> dict[str, tuple[float, float]] | float | None:
    """`none`, a share such as 0.5, or `x=0:10,y=-1:1`."""
    from softrobust.errors import InputError

    if text is None:
        return None
    if text.strip() == "none":
        return float("inf")
    try:
        if "=" not in text:
            return float(text)
        out = {}
        for part in text.split(","):
            name, _, span = part.partition("=")
            low, _, high = span.partition(":")
            out[name.strip()] = (float(low), float(high))
        return out
    except ValueError:
        raise InputError(
            "--clip takes none, a share of the range of the data such as 0.5, or intervals such "
            f"as x=0:10,y=-1:1; it got '{text}'."
        ) from None


def apply_continuous(
    policy: ContinuousPolicy, observation: str | None, seed: int | None, as_json: bool
) -> None:
    """Print the action of a policy for continuous states."""
    from softrobust.cli.screen import say_exactly
    from softrobust.errors import InputError
    from softrobust.pipeline.continuous_run import parse_observation

    if observation is None:
        raise InputError(
            "This run has continuous states: give --observation with "
            f"{', '.join(policy.variables)}, as x=1.5,y=2."
        )
    s = parse_observation(observation, policy.variables)
    action = policy.action(s, seed)
    if not as_json:
        say_exactly(action)
        return
    row = policy.probs([s])[0]
    mix = {policy.actions[a]: float(p) for a, p in enumerate(row) if p > 0}
    named = dict(zip(policy.variables, s, strict=True))
    print(json.dumps({"observation": named, "action": action, "probabilities": mix}))
