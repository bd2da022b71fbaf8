"""`softrobust solve INPUT`: from a log or models to a certified policy."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from softrobust.cli import options as complete
from softrobust.cli.options import visit_options

if TYPE_CHECKING:
    from softrobust.problem import Problem


SOLVERS = ", ".join(complete.SOLVERS)
VECTOR_SOLVERS = ", ".join(complete.CONTINUOUS)
DEFAULT = "improve for logs, exact for models"
INPUT = "The input"
PRIOR = "The posterior (logs only)"
OUTPUT = "Output"
VECTORS = "Continuous states (--continuous)"
SAME = ("gamma", "lam", "alpha", "reference", "states", "initial", "weights", "heldout", "reward_table",
        "reward_default", "allowed", "normalise", "seed", "strength", "per_cell", "support",
        "min_count", "continuous", "horizon", "posterior", "time_limit",
        "anyway")  # options that the library calls alike  # fmt: skip


@visit_options
def solve(
    input: Annotated[  # noqa: A002 (the word users read in the help)
        Path, typer.Argument(metavar="INPUT", help="A log of transitions, a table of visits, a multi-model CSV, or .npz; told apart by content.")
    ],
    gamma: Annotated[float | None, typer.Option(help="Discount in (0, 1), or 1 with --horizon; may come from parameters.csv beside models.")] = None,
    alpha: Annotated[float | None, typer.Option(help="Confidence: the bad case is the worst 1 − alpha of models (default 0.9: the worst 10 %).")] = None,
    lam: Annotated[float | None, typer.Option("--lambda", help="How much the bad case counts: 0 the mean alone, 1 the bad case alone (default 0.5).")] = None,
    objective: Annotated[str | None, typer.Option(help="soft-robust (default), or percentile: the return that a share alpha of models reach.")] = None,
    reference: Annotated[str | None, typer.Option(metavar="none|practice|optimum|FILE", help="What returns are measured against in each model: none (default), practice (the gain), optimum (the regret), or a policy: CSV state,action[,probability].")] = None,
    horizon: Annotated[int | None, typer.Option(help="Steps of an episode; gamma may then be 1 (default: no end; with --continuous the longest of the log). Solvers: improve, nominal, local-search, cadp, wsu, mvp.")] = None,
    stationary: Annotated[bool, typer.Option("--stationary", help="With --horizon and local-search: one rule for all steps instead of one for each.")] = False,
    solver: Annotated[str | None, typer.Option(help=f"{SOLVERS} (default {DEFAULT}; exact for percentile; local-search with --horizon where improve is not the default).", autocompletion=complete.solvers)] = None,
    time_limit: Annotated[float | None, typer.Option(help="Seconds for the whole command, certificates included; what was cut short is said (without it: 60 for the search of exact, milp, local-search, randomized).")] = None,
    seed: Annotated[int, typer.Option(help="Seed of everything random.")] = 0,
    columns: Annotated[str | None, typer.Option(help="Column names of the log: state=site,action=dose,next_state=…", rich_help_panel=INPUT)] = None,
    states: Annotated[Path | None, typer.Option(help="File with one state per line: their order; may add unvisited ones.", rich_help_panel=INPUT)] = None,
    initial: Annotated[Path | None, typer.Option(help="CSV state,probability: where episodes start.", rich_help_panel=INPUT)] = None,
    allowed: Annotated[Path | None, typer.Option(help="CSV state,action of what may be done; states not listed keep all actions.", rich_help_panel=INPUT)] = None,
    reward_table: Annotated[Path | None, typer.Option(help="CSV state,action,reward[,next_state]; goes before the reward column.", rich_help_panel=INPUT)] = None,
    reward_default: Annotated[float | None, typer.Option(help="Reward of pairs whose reward is known from nowhere else.", rich_help_panel=INPUT)] = None,
    weights: Annotated[Path | None, typer.Option(help="CSV idoutcome,weight: how much each model counts.", rich_help_panel=INPUT)] = None,
    heldout: Annotated[Path | None, typer.Option(help="Models that the policy is not chosen on, for an honest second opinion.", rich_help_panel=INPUT)] = None,
    anyway: Annotated[bool, typer.Option("--anyway", help="Go on where rows cannot be right (out of line, a reward of 99999, all of it twice): it then stands under the answer.", rich_help_panel=INPUT)] = False,
    normalise: Annotated[bool, typer.Option("--normalise", help="Accept row sums off by up to 1e-6 and divide by them.", rich_help_panel=INPUT)] = False,
    models: Annotated[int | None, typer.Option(help="Models drawn from the posterior to choose on (default: 300, or thirty in the bad case; doubled while more than 1 % of what is to be gained is open under the posterior, and time is left).", rich_help_panel=PRIOR)] = None,
    test_models: Annotated[int | None, typer.Option(help="Held-out draws (default: as many as the intervals need, at most 10 000).", rich_help_panel=PRIOR)] = None,
    posterior: Annotated[str | None, typer.Option(help="learned (default: rows borrow from what resembles them, as far as the log shows), dirichlet (each row on its own; the default with the settings below), hierarchical, tied, demand, population, draws (--set file=models.npz); regression with --continuous.", rich_help_panel=PRIOR, autocompletion=complete.posteriors)] = None,
    strength: Annotated[float | None, typer.Option(help="Prior mass of a pair, in observations (default 1).", rich_help_panel=PRIOR)] = None,
    per_cell: Annotated[float | None, typer.Option(help="Prior mass of each next state instead; 1 is the uniform prior.", rich_help_panel=PRIOR)] = None,
    support: Annotated[str | None, typer.Option(help="Next states thought possible: neighbours (default), visited or all.", rich_help_panel=PRIOR)] = None,
    min_count: Annotated[int | None, typer.Option(help="Pairs seen fewer times get no more probability than practice gives them (default: chosen from the log); with --posterior dirichlet, and for actions with --continuous (default 5), such are not considered; 0 keeps all.", rich_help_panel=PRIOR)] = None,
    replications: Annotated[int | None, typer.Option(help="Sets of fresh models that certify the policy under the posterior itself (default 10, in some 5 s; 0 leaves it out).", rich_help_panel=PRIOR)] = None,
    validate: Annotated[str | None, typer.Option(metavar="episodes|blocks", help="Also choose on two thirds of the log's episodes (or blocks of rows) and judge that choice on the rest: held-out data, where --test-models are held-out models. The recommendation uses all data.", rich_help_panel=PRIOR)] = None,
    continuous: Annotated[bool, typer.Option("--continuous", help="The log has vectors for states: columns x, next_x for every variable, and action. Solvers: srvi (default), srvi-sa, rpvi-control, sr-sac, r-sac, sac.", rich_help_panel=VECTORS)] = False,
    actions: Annotated[str | None, typer.Option(metavar="A,B,…", help="The actions there are; any other in the log is an error.", rich_help_panel=VECTORS)] = None,
    start: Annotated[str | None, typer.Option(metavar="X=1,…", help="The state in which episodes start (default: the first states of the log's episodes).", rich_help_panel=VECTORS)] = None,
    reward_now: Annotated[str | None, typer.Option(metavar="X=1,…", help="Coefficients of the state in the reward; by default the reward column is fitted.", rich_help_panel=VECTORS)] = None,
    reward_next: Annotated[str | None, typer.Option(metavar="X=-1,…", help="Coefficients of the next state in the reward.", rich_help_panel=VECTORS)] = None,
    clip: Annotated[str | None, typer.Option(help="Keep values in a box: x=0:10,…, or a share by which the range of the data is widened (default 0.5), or none.", rich_help_panel=VECTORS)] = None,
    test_episodes: Annotated[int | None, typer.Option(help="Episodes simulated per model to certify (default 30).", rich_help_panel=VECTORS)] = None,
    set_: Annotated[list[str] | None, typer.Option("--set", metavar="NAME=VALUE", help="A setting of the posterior, such as strength=2 or draws=2000 (an unknown one lists all); with --continuous one of the solver, such as ridge=0.1, and posterior.noise=varying one of the posterior. May be given again.", rich_help_panel=PRIOR)] = None,
    out: Annotated[Path | None, typer.Option(help="Folder for solution.json, policy.csv, report.html and all that later verbs need.", rich_help_panel=OUTPUT)] = None,
    force: Annotated[bool, typer.Option("--force", help="Write into a folder that exists.", rich_help_panel=OUTPUT)] = False,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with the search of exact that was cut short in the folder --out.", rich_help_panel=OUTPUT)] = False,
    export_milp: Annotated[Path | None, typer.Option("--export-milp", metavar="FILE.mps", help="Also write the integer program as .mps or .lp, for another solver (exact and milp only).", rich_help_panel=OUTPUT)] = None,
    workers: Annotated[int | None, typer.Option(min=0, help="Processes here that draw and evaluate models where they are many (default: this one, with threads).", rich_help_panel=OUTPUT)] = None,
    cluster: Annotated[str | None, typer.Option(help="The same on a Dask cluster: address of its scheduler, or local:2.", rich_help_panel=OUTPUT)] = None,
    json: Annotated[bool, typer.Option("--json", help="Print solution.json instead of the summary.", rich_help_panel=OUTPUT)] = False,
    details: Annotated[bool, typer.Option("--details", "-v", help="Say also how it was found, what the models say, and every note.", rich_help_panel=OUTPUT)] = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="Print no summary.", rich_help_panel=OUTPUT)] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show a traceback on errors.", rich_help_panel=OUTPUT)] = False,
    *,
    visits: dict[str, Any],
    reading: dict[str, Any],
) -> None:  # fmt: skip
    """Solve a log or a set of models for a policy, with a certificate.

    Example: softrobust solve log.csv --gamma 0.95 --out run
    """
    flags = dict(locals())

    from softrobust.cli.options import clip_of, coefficients_of, names_of, pairs_of, settings_for
    from softrobust.cli.output import print_run
    from softrobust.errors import InputError
    from softrobust.run import (
        Options,
        check_out,
        choose,
        prepare_search,
        save_with_search,
        set_up,
    )
    from softrobust.run.ahead import compile_beside
    from softrobust.solvers.registry import default_solver, make_solver

    if out is not None:
        check_out(out, force or resume)
    for_posterior, for_solver = settings_for(set_, continuous, solver)
    options = Options(
        **{name: flags[name] for name in SAME},
        settings=for_posterior,
        criterion=objective,
        n_models=models,
        n_test=test_models,
        columns=pairs_of(columns),
        visits=visits or None,
        reading=reading or None,
        actions=names_of(actions),
        start=coefficients_of("--start", start),
        reward_now=coefficients_of("--reward-now", reward_now),
        reward_next=coefficients_of("--reward-next", reward_next),
        clip=clip_of(clip),
    )
    searched = resume or export_milp is not None
    if solver is None and searched and not continuous and objective != "percentile":
        solver = "exact"  # the search that is resumed, the program that is written
    if not continuous:
        compile_beside(solver)
    setup = set_up(input, options)
    chosen = solver or default_solver(setup.problem, setup.posterior)
    if export_milp is not None:
        kept = setup.policies
        written = setup.problem if kept is None else kept.composite(setup.problem).problem
        _export(written, chosen, export_milp, quiet)
    if stationary and (continuous or setup.problem.horizon is None):
        text = "Only tables with a horizon have policies that differ by step. Leave it out."
        raise InputError(text, arguments=("stationary",))
    search = prepare_search(out, chosen, resume)
    made = make_solver(
        chosen,
        continuous=continuous,
        log=setup.log,
        time_limit=time_limit,
        seed=seed,
        posterior=setup.posterior,
        checkpoint=search,
        min_count=min_count,
        stationary=stationary,
        settings=for_solver,
    )
    run = choose(setup, made, seed, replications, test_episodes, validate, solver is not None)
    if out is not None:
        run = save_with_search(run, out, force or resume, search)
    print_run(run, out, json, quiet, details)


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
