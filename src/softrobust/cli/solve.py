"""`softrobust solve INPUT`: from a log or models to a certified policy."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from softrobust.cli import options as complete

if TYPE_CHECKING:
    from softrobust.models.continuous_policy import ContinuousPolicy
    from softrobust.problem import Problem
    from softrobust.run.continuous import ContinuousRun


SOLVERS = ", ".join(complete.SOLVERS)
DEFAULT = "exact"
INPUT = "The input"
PRIOR = "The posterior (logs only)"
OUTPUT = "Output"
VECTORS = "Continuous states (--continuous)"
TABLES_ONLY = ("states", "initial", "allowed", "reward_table", "reward_default", "weights",
               "normalise", "strength", "per_cell", "support", "replications",
               "resume", "export_milp")  # fmt: skip
VECTORS_ONLY = (
    "horizon",
    "actions",
    "start",
    "reward_now",
    "reward_next",
    "clip",
    "test_episodes",
    "set_",
)


def solve(
    input: Annotated[  # noqa: A002 (the word users read in the help)
        Path, typer.Argument(metavar="INPUT", help="A log of transitions, a multi-model CSV, or .npz; told apart by content.")
    ],
    gamma: Annotated[float | None, typer.Option(help="Discount in (0, 1); may come from parameters.csv beside models.")] = None,
    alpha: Annotated[float | None, typer.Option(help="Confidence: the bad case is the worst 1 − alpha of models (default 0.9: the worst 10 %).")] = None,
    lam: Annotated[float | None, typer.Option("--lambda", help="How much the bad case counts: 0 the mean alone, 1 the bad case alone (default 0.5).")] = None,
    objective: Annotated[str | None, typer.Option(help="soft-robust (default), or percentile: the return that a share alpha of models reach.")] = None,
    solver: Annotated[str | None, typer.Option(help=f"{SOLVERS} (default {DEFAULT}; milp for percentile).", autocompletion=complete.solvers)] = None,
    time_limit: Annotated[float | None, typer.Option(help="Seconds; the best policy found by then is returned (default 60 for exact, milp, local-search, randomized).")] = None,
    seed: Annotated[int, typer.Option(help="Seed of everything random.")] = 0,
    columns: Annotated[str | None, typer.Option(help="Column names of the log: state=site,action=dose,next_state=…", rich_help_panel=INPUT)] = None,
    states: Annotated[Path | None, typer.Option(help="File with one state per line: their order; may add unvisited ones.", rich_help_panel=INPUT)] = None,
    initial: Annotated[Path | None, typer.Option(help="CSV state,probability: where episodes start.", rich_help_panel=INPUT)] = None,
    allowed: Annotated[Path | None, typer.Option(help="CSV state,action of what may be done; states not listed keep all actions.", rich_help_panel=INPUT)] = None,
    reward_table: Annotated[Path | None, typer.Option(help="CSV state,action,reward[,next_state]; goes before the reward column.", rich_help_panel=INPUT)] = None,
    reward_default: Annotated[float | None, typer.Option(help="Reward of pairs whose reward is known from nowhere else.", rich_help_panel=INPUT)] = None,
    weights: Annotated[Path | None, typer.Option(help="CSV idoutcome,weight: how much each model counts.", rich_help_panel=INPUT)] = None,
    heldout: Annotated[Path | None, typer.Option(help="Models that the policy is not chosen on, for an honest second opinion.", rich_help_panel=INPUT)] = None,
    normalise: Annotated[bool, typer.Option("--normalise", help="Accept row sums off by up to 1e-6 and divide by them.", rich_help_panel=INPUT)] = False,
    models: Annotated[int | None, typer.Option(help="Models drawn from the posterior to choose on (default 100).", rich_help_panel=PRIOR)] = None,
    test_models: Annotated[int | None, typer.Option(help="Held-out draws (default: as many as the intervals need, at most 10 000).", rich_help_panel=PRIOR)] = None,
    strength: Annotated[float | None, typer.Option(help="Prior mass of a pair, in observations (default 1).", rich_help_panel=PRIOR)] = None,
    per_cell: Annotated[float | None, typer.Option(help="Prior mass of each next state instead; 1 is the uniform prior.", rich_help_panel=PRIOR)] = None,
    support: Annotated[str | None, typer.Option(help="Next states thought possible: neighbours (default), visited or all.", rich_help_panel=PRIOR)] = None,
    min_count: Annotated[int | None, typer.Option(help="Pairs (with --continuous: actions) seen fewer times are not considered (default 1; with --continuous 5); 0 keeps all.", rich_help_panel=PRIOR)] = None,
    replications: Annotated[int | None, typer.Option(help="Sets of fresh models that certify the policy under the posterior itself (default 10, in some 5 s; 0 leaves it out).", rich_help_panel=PRIOR)] = None,
    continuous: Annotated[bool, typer.Option("--continuous", help="The log has vectors for states: columns x, next_x for every variable, and action. Solvers: srvi (default), srvi-sa, rpvi-control, sr-sac, r-sac, sac.", rich_help_panel=VECTORS)] = False,
    horizon: Annotated[int | None, typer.Option(help="Steps of an episode (default: the longest of the log).", rich_help_panel=VECTORS)] = None,
    actions: Annotated[str | None, typer.Option(metavar="A,B,…", help="The actions there are; any other in the log is an error.", rich_help_panel=VECTORS)] = None,
    start: Annotated[str | None, typer.Option(metavar="X=1,…", help="The state in which episodes start (default: the first states of the log's episodes).", rich_help_panel=VECTORS)] = None,
    reward_now: Annotated[str | None, typer.Option(metavar="X=1,…", help="Coefficients of the state in the reward; by default the reward column is fitted.", rich_help_panel=VECTORS)] = None,
    reward_next: Annotated[str | None, typer.Option(metavar="X=-1,…", help="Coefficients of the next state in the reward.", rich_help_panel=VECTORS)] = None,
    clip: Annotated[str | None, typer.Option(help="Keep values in a box: x=0:10,…, or a share by which the range of the data is widened (default 0.5), or none.", rich_help_panel=VECTORS)] = None,
    test_episodes: Annotated[int | None, typer.Option(help="Episodes simulated per model to certify (default 30).", rich_help_panel=VECTORS)] = None,
    set_: Annotated[list[str] | None, typer.Option("--set", metavar="NAME=VALUE", help="A setting of the solver, such as iterations=50 or ridge=0.1; may be given again.", rich_help_panel=VECTORS)] = None,
    out: Annotated[Path | None, typer.Option(help="Folder for solution.json, policy.csv, report.html and all that later verbs need.", rich_help_panel=OUTPUT)] = None,
    force: Annotated[bool, typer.Option("--force", help="Write into a folder that exists.", rich_help_panel=OUTPUT)] = False,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with the search of exact that was cut short in the folder --out.", rich_help_panel=OUTPUT)] = False,
    export_milp: Annotated[Path | None, typer.Option("--export-milp", metavar="FILE.mps", help="Also write the integer program as .mps or .lp, for another solver (exact and milp only).", rich_help_panel=OUTPUT)] = None,
    json: Annotated[bool, typer.Option("--json", help="Print solution.json instead of the summary.", rich_help_panel=OUTPUT)] = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="Print no summary.", rich_help_panel=OUTPUT)] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show a traceback on errors.", rich_help_panel=OUTPUT)] = False,
) -> None:  # fmt: skip
    """Solve a log or a set of models for a policy, with a certificate.

    Example: softrobust solve log.csv --gamma 0.95 --out run
    """
    flags = dict(locals())
    # GONE
    from softrobust.cli.options import pairs_of
    from softrobust.cli.output import print_json, print_summary
    from softrobust.run import (
        Options,
        check_out,
        keep_search,
        prepare_search,
        run_line,
        set_up,
        with_hint,
        write_run,
    )
    from softrobust.solvers.registry import default_solver, make_solver

    if out is not None:
        check_out(out, force or resume)
    if continuous:
        refuse({name: flags[name] for name in TABLES_ONLY}, "tables of states")
        solve_continuous(input, flags, out)
        return
    refuse({name: flags[name] for name in VECTORS_ONLY}, "continuous states (--continuous)")
    options = Options(
        gamma=gamma,
        criterion=objective,
        lam=lam,
        alpha=alpha,
        columns=pairs_of(columns),
        states=states,
        initial=initial,
        weights=weights,
        heldout=heldout,
        reward_table=reward_table,
        reward_default=reward_default,
        allowed=allowed,
        normalise=normalise,
        n_models=models,
        n_test=test_models,
        seed=seed,
        strength=strength,
        per_cell=per_cell,
        support=support,
        min_count=min_count,
    )
    setup = set_up(input, options)
    chosen = solver or default_solver(setup.problem.objective)
    if export_milp is not None:
        _export(setup.problem, chosen, export_milp, quiet)
    search = prepare_search(out, chosen, resume)
    made = make_solver(
        chosen,
        log=setup.log,
        time_limit=time_limit,
        seed=seed,
        posterior=setup.posterior,
        checkpoint=search,
    )
    run = run_line(setup, made, seed, replications)
    if out is not None:
        run = run if search is None else with_hint(run)
        write_run(run, out)
        keep_search(run, out, search)
    if json:
        print_json(run)
    elif not quiet:
        print_summary(run, out)


def _export(problem: Problem, solver: str, path: Path, quiet: bool) -> None:
    """The integer program whose optimum the solver proves, before the solver begins."""
    from softrobust.cli.screen import say
    from softrobust.errors import InputError
    from softrobust.solvers.exact.milp import write_milp

    if solver not in ("exact", "milp"):
        raise InputError(
            "--export-milp writes the program of the solvers exact and milp; the solver is "
            f"'{solver}'. Leave one of the two options out."
        )
    write_milp(problem, path)
    if not quiet:
        say(f"The integer program is in {path}.", error=True)


# --------------------------------------------------------------------------------------------------
# `softrobust solve … --continuous`: the flags as options, and the line for continuous states.

VECTOR_SOLVERS = ", ".join(complete.CONTINUOUS)


def solve_continuous(path: Path, flags: Mapping[str, Any], out: Path | None) -> None:
    """The line from a log of vectors to a run folder; `flags` are those of `solve`, by name."""
    from softrobust._core.settings import whole
    from softrobust.cli.options import pairs_of, settings_of
    from softrobust.data.visit_rules import split_words
    from softrobust.run.continuous import (
        DEFAULT_EPISODES,
        report_continuous,
        run_continuous,
        write_continuous_run,
    )
    from softrobust.run.continuous_setup import ContinuousOptions, set_up_continuous
    from softrobust.solvers.registry import make_continuous_solver

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
    from softrobust.run.continuous import continuous_record, continuous_summary

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
    from softrobust.run.continuous import parse_observation

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
