"""Verbs that ask: `explain`, `check`, `rules`, `value-of-data`, `rehearse` and `frontier`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from softrobust.cli import options as complete


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
    from softrobust.report.study_words import explanation_sentences
    from softrobust.run import load_table_run
    from softrobust.study.explain import explain as explain_state

    folder = load_table_run(run)
    found = explain_state(folder.problem, folder.solution.policy, state, folder.log)
    if json:
        print(json_.dumps(found.to_dict(), indent=1))
        return
    print_lines(explanation_sentences(found))
    print_options(found)


def check(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="The folder that solve wrote, from a log.")],
    seed: Annotated[int, typer.Option(help="Seed of the simulations and of the other draws.")] = 0,
    details: Annotated[bool, typer.Option("--details", "-v", help="Say every finding in full, and when it is called fine.")] = False,
    json: Annotated[bool, typer.Option("--json", help="Print checks.json instead of sentences.")] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show a traceback on errors.")] = False,
) -> None:  # fmt: skip
    """Check a run: does the model fit, does the log agree, and what would change the answer?

    Writes checks.json into the run folder.

    Example: softrobust check run
    """
    from softrobust.certificate.record import write_json
    from softrobust.cli.output import print_check
    from softrobust.cli.screen import print_record, say
    from softrobust.report.study_words import check_name, check_rule, check_sentence, checks_line
    from softrobust.run import load_table_run
    from softrobust.study.checks import check_run, checks_record

    folder = load_table_run(run)
    done = []
    for result in check_run(folder, seed):
        done.append(result)
        if not json:
            told = check_sentence(result, brief=not details)
            rule = check_rule(result) if details else ""
            print_check(check_name(result), str(result.verdict), told, rule)
    record = checks_record(folder, done, seed)
    write_json(folder.path / "checks.json", record)
    if json:
        print_record(record)
    else:
        say(f"\n{checks_line(done)}")


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
    from softrobust.report.study_words import rules_sentence
    from softrobust.run import load_table_run
    from softrobust.study.rules import kept_practice, simplify

    folder = load_table_run(run)
    found = simplify(
        folder.problem, folder.solution.policy, most_leaves=leaves, max_loss=max_loss,
        practice=kept_practice(folder.problem, folder.solution, folder.log),
    )  # fmt: skip
    if out is not None:
        found.policy.save(out)
    if json:
        print_record(found.to_dict())
        return
    say("\n".join(found.lines()))
    say()
    paragraph(make_console(), rules_sentence(found, folder.certificate.promise is not None))


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
    from softrobust.run import load_table_run
    from softrobust.study.value_of_data import data_values

    if draws < LEAST_DRAWS:
        raise InputError(
            f"--draws must be at least {LEAST_DRAWS}; it is {draws}. The draws stand for the "
            "posterior: with fewer, hardly any differ, and no data could seem to change the policy."
        )
    folder = load_table_run(run)
    problem, found = folder.problem, data_values(folder, observations, draws, seed)
    if json:
        rows = [value.to_dict(problem) for value in found]
        print_record({"observations": observations, "pairs": rows})
    else:
        print_data_values(problem, found, observations, top)


def rehearse(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="The folder that solve wrote, from a log.")],
    times: Annotated[int | None, typer.Option(help="Worlds to draw (default: 20 of every kind; 200 with a Dirichlet posterior).")] = None,
    world: Annotated[str | None, typer.Option(help="One kind of worlds: posterior, rougher, smoother, shifted or noisier (default: all); with a Dirichlet posterior: posterior (default), or prior (a test of the machinery).")] = None,
    solver: Annotated[str | None, typer.Option(help="Solver of the rehearsals (default: improve; local-search with a Dirichlet posterior).", autocompletion=complete.solvers)] = None,
    time_limit: Annotated[float | None, typer.Option(help="Seconds for the whole command: worlds that are not done by then are left out (--resume goes on with them).")] = None,
    out: Annotated[Path | None, typer.Option(help="Folder for the results (default: RUN/rehearsal).")] = None,
    workers: Annotated[int | None, typer.Option(min=0, help="Processes here (default: one for each core; 0: this one).")] = None,
    cluster: Annotated[str | None, typer.Option(help="Address of a Dask scheduler, or local:2.")] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with the rehearsal in that folder.")] = False,
    seed: Annotated[int, typer.Option(help="Seed of the worlds.")] = 0,
    details: Annotated[bool, typer.Option("--details", "-v", help="Say also when worlds are called fine.")] = False,
    json: Annotated[bool, typer.Option("--json", help="Print figures instead of sentences.")] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show a traceback on errors.")] = False,
) -> None:  # fmt: skip
    """Rehearse a run in known worlds, also foreign ones: do its promises hold there?

    The verdict is kept with the run, and a report made afterwards shows it.

    Example: softrobust rehearse run --time-limit 300
    """
    from softrobust.cli.output import print_rehearsal
    from softrobust.cli.screen import print_record
    from softrobust.run import load_table_run
    from softrobust.run.rehearsal import rehearse as rehearse_run

    folder = load_table_run(run)
    place = folder.path / "rehearsal" if out is None else out
    found = rehearse_run(
        folder, place, times, world=world, solver=solver, seed=seed, workers=workers,
        cluster=cluster, resume=resume, time_limit=time_limit,
    )  # fmt: skip
    if json:
        print_record(found.to_dict())
    else:
        print_rehearsal(found, details)


OUTPUT = "Output"


def frontier(
    input: Annotated[Path, typer.Argument(metavar="INPUT", help="A log of transitions, a multi-model CSV, or .npz; told apart by content.")],  # noqa: A002
    gamma: Annotated[float | None, typer.Option(help="Discount in (0, 1); may come from parameters.csv beside models.")] = None,
    horizon: Annotated[int | None, typer.Option(help="Steps of an episode: points are then stationary policies by local search, and gamma may be 1.")] = None,
    lambdas: Annotated[str, typer.Option(help="How much the bad case counts: values that rise, with commas.")] = "0,.1,.2,.3,.4,.5,.6,.7,.8,.9,1",
    alphas: Annotated[str, typer.Option(help="Confidences: the bad case is the worst 1 − alpha of models.")] = ".9",
    reference: Annotated[str | None, typer.Option(metavar="none|practice|optimum|FILE", help="What returns are measured against: none (default), practice, optimum, or a policy's CSV.")] = None,
    solver: Annotated[str, typer.Option(help="As for solve; exact proves every point.", autocompletion=complete.solvers)] = "exact",
    time_limit: Annotated[float | None, typer.Option(help="Seconds for the whole command (default: 8 for a point).")] = None,
    seed: Annotated[int, typer.Option(help="Seed of everything random.")] = 0,
    models: Annotated[int | None, typer.Option(help="Models drawn from the posterior of a log (default: 300, or thirty in the bad case).")] = None,
    min_count: Annotated[int | None, typer.Option(help="Pairs seen fewer times get no more probability than practice gives them (default 1); 0 keeps all.")] = None,
    columns: Annotated[str | None, typer.Option(help="Column names of the log: state=site,action=dose,next_state=…")] = None,
    initial: Annotated[Path | None, typer.Option(help="CSV state,probability: where episodes start.")] = None,
    weights: Annotated[Path | None, typer.Option(help="CSV idoutcome,weight: how much each model counts.")] = None,
    reward_table: Annotated[Path | None, typer.Option(help="CSV state,action,reward[,next_state].")] = None,
    allowed: Annotated[Path | None, typer.Option(help="CSV state,action of what may be done.")] = None,
    posterior: Annotated[str | None, typer.Option(help="As for solve (default learned).", autocompletion=complete.posteriors)] = None,
    set_: Annotated[list[str] | None, typer.Option("--set", metavar="NAME=VALUE", help="A setting of the posterior; may be given again.")] = None,
    out: Annotated[Path | None, typer.Option(help="Folder for frontier.csv, frontier.svg and frontier.png.", rich_help_panel=OUTPUT)] = None,
    force: Annotated[bool, typer.Option("--force", help="Write into a folder that exists.", rich_help_panel=OUTPUT)] = False,
    workers: Annotated[int | None, typer.Option(min=0, help="Processes here that draw and evaluate models where they are many (default: this one, with threads).", rich_help_panel=OUTPUT)] = None,
    cluster: Annotated[str | None, typer.Option(help="The same on a Dask cluster: address of its scheduler, or local:2.", rich_help_panel=OUTPUT)] = None,
    json: Annotated[bool, typer.Option("--json", help="Print the points as JSON.", rich_help_panel=OUTPUT)] = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="Print no table.", rich_help_panel=OUTPUT)] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show a traceback on errors.", rich_help_panel=OUTPUT)] = False,
) -> None:  # fmt: skip
    """Find the best policy for every (λ, α) of a grid: what is given up on average for a better bad case.

    Example: softrobust frontier log.csv --gamma 0.95 --alphas .7,.9 --out run
    """
    from softrobust.cli.options import numbers_of, pairs_of, settings_of
    from softrobust.cli.output import print_frontier, print_frontier_json
    from softrobust.run import Options, check_out, run_frontier, set_up, write_frontier

    if out is not None:
        check_out(out, force)
    options = Options(
        gamma=gamma,
        reference=reference,
        columns=pairs_of(columns),
        initial=initial,
        weights=weights,
        reward_table=reward_table,
        allowed=allowed,
        n_models=models,
        min_count=min_count,
        seed=seed,
        horizon=horizon,
        posterior=posterior,
        settings=settings_of(set_) or None,
    )
    grid = numbers_of("--lambdas", lambdas), numbers_of("--alphas", alphas)
    found = run_frontier(set_up(input, options), *grid, solver, time_limit, seed)
    if out is not None:
        write_frontier(found, out)
    if json:
        print_frontier_json(found)
    elif not quiet:
        print_frontier(found, out)
