"""Verbs that use a run: `apply`, `export`, `evaluate`, `compare`, `report` and `update`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from softrobust.cli import options as complete

if TYPE_CHECKING:
    from softrobust.models import Policy


def apply(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="The folder that solve wrote, or its solution.json.")],
    state: Annotated[str | None, typer.Option(help="The state, by its label; >=4 and 7-8 may stand for ≥4 and 7–8.", autocompletion=complete.states)] = None,
    measure: Annotated[str | None, typer.Option(metavar="BILI=3.2,…", help="The state, by the raw measurements that it is made of.")] = None,
    file: Annotated[Path | None, typer.Option(help="A table of cases: a column 'state', or the measurements in columns of their names.")] = None,
    columns: Annotated[str | None, typer.Option(help="With --file: what its columns are called: state=site or bili=bilirubin,…")] = None,
    out: Annotated[Path | None, typer.Option(help="With --file: the same table with the action of each row, .csv or .xlsx.")] = None,
    time: Annotated[int | None, typer.Option(help="The step of the episode, counted from 0: where the policy has a rule for each.")] = None,
    observation: Annotated[str | None, typer.Option(metavar="X=1.5,…", help="The state of a run with continuous states: its variables, by name or in order.")] = None,
    seed: Annotated[int | None, typer.Option(help="Draw the action where the policy randomizes.")] = None,
    json: Annotated[bool, typer.Option("--json", help="Print the action and its probabilities as JSON.")] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show a traceback on errors.")] = False,
) -> None:  # fmt: skip
    """Say which action the policy takes in a state, or in every row of a table.

    With --measure bili=3.2,albumin=3.4 the state is found by what was measured.

    Example: softrobust apply run --state "n=7"
    """
    from softrobust.certificate import load_solution
    from softrobust.cli.options import observation_of, pairs_of, refuse
    from softrobust.cli.screen import print_record, say_exactly
    from softrobust.errors import InputError
    from softrobust.models import Policy, TimedPolicy
    from softrobust.models.lookahead import load_continuous_policy

    if not run.exists():
        raise InputError(f"There is no run '{run}'. Give the folder that `solve --out` wrote.")
    policy: Any = load_continuous_policy(run) if run.suffix == ".npz" else load_solution(run).policy
    if isinstance(policy, TimedPolicy):
        if time is None:
            raise InputError(
                f"This policy has a rule for each of {policy.horizon} steps: give --time, counted "
                "from 0 at the start of the episode."
            )
        policy = policy.at(time)
    elif time is not None:
        raise InputError("This policy does the same at all steps. Leave --time out.")
    table = isinstance(policy, Policy)
    if file is None:
        refuse({"columns": columns, "out": out}, "a table of cases (--file)")
    given = {"state": state, "measure": measure, "file": file, "observation": observation}
    named = [f"--{name}" for name, value in given.items() if value is not None]
    if len(named) > 1:
        raise InputError(f"Give one of {', '.join(named)}: each says where the policy is asked.")
    if not table:
        refuse({"state": state, "measure": measure, "file": file}, "tables of states")
        if observation is None:
            raise InputError(
                "This run has continuous states: give --observation with "
                f"{', '.join(policy.variables)}, as x=1.5,y=2."
            )
        where: Any = observation_of(observation, list(policy.variables))
        place: dict[str, Any] = {"observation": dict(zip(policy.variables, where, strict=True))}
        row, decided = policy.probs([where])[0], True
    else:
        refuse({"observation": observation}, "continuous states")
        if not named:
            raise InputError(
                "Say where: --state 'n=7', --measure bili=3.2,albumin=3.4, or --file cases.csv."
            )
        if file is not None:
            _apply_file(policy, file, pairs_of(columns), out, seed, json)
            return
        s = policy.index(pairs_of(measure, "--measure") or str(state))
        where = policy.states[s]
        place = {"state": where} | ({} if time is None else {"time": time})
        row, decided = policy.probs[s], bool(policy.decided[s])
    mix = {policy.actions[a]: float(p) for a, p in enumerate(row) if p > 0}
    mixed = table and decided and len(mix) > 1 and seed is None
    action = None if mixed else policy.action(where, seed)
    if json:
        print_record(place | {"action": action, "probabilities": mix})
        return
    if measure is not None:
        say_exactly(f"{where}:")
    if action is None:  # practice itself, most often: the shares are the answer
        say_exactly(" or ".join(f"{name} ({share:.0%})" for name, share in mix.items()))
    else:
        say_exactly(str(action))


def _apply_file(
    policy: Policy, file: Path, columns: dict[str, str] | None, out: Path | None,
    seed: int | None, as_json: bool,
) -> None:  # fmt: skip
    """Every row of a table, to another table or to the screen."""
    from softrobust.cli.screen import make_console, print_record, say, show_table
    from softrobust.run.export import ACTION, CHANCES, NOTE, STATE, apply_table, write_table

    made = apply_table(policy, file, columns, seed)
    rows = list(zip(*(made[name] for name in (STATE, ACTION, CHANCES, NOTE)), strict=True))
    if out is not None:
        write_table(out, made)
    if as_json:
        names = ("state", "action", "probabilities", "note")
        print_record([dict(zip(names, row, strict=True)) for row in rows])
        return
    if out is None:
        cells = [(state, str(action) or chances, note) for state, action, chances, note in rows]
        show_table(make_console(), ("state", "action", "note"), cells, words={0, 1, 2})
        return
    without = sum(not state for state in made[STATE])
    said = f"{len(rows):,} row{'s' * (len(rows) != 1)} written to {out}"
    say(f"{said}; {without:,} without a recommendation: see {NOTE}." if without else f"{said}.")


def export(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="The folder that solve wrote.")],
    out: Annotated[Path, typer.Option(help="run.xlsx: a workbook of the run. policy.py: the policy as one Python file that needs nothing else. policy.json, policy.csv: as a table.")],
    json: Annotated[bool, typer.Option("--json", help="Print what was written as JSON.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="Print nothing.")] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show a traceback on errors.")] = False,
) -> None:  # fmt: skip
    """Write a run as a workbook, or its policy for a program that has no softrobust.

    Example: softrobust export run --out run.xlsx
    """
    from softrobust.cli.screen import print_record, say
    from softrobust.errors import InputError
    from softrobust.run import load_run
    from softrobust.run.export import export as export_run

    if not out.resolve().parent.is_dir():
        raise InputError(f"The folder that is to hold '{out}' does not exist.")
    export_run(load_run(run), out)
    if json:
        print_record({"run": str(run), "written": [str(out)]})
    elif not quiet:
        say(f"Written to {out}.")


OUTPUT = "Output"


def evaluate(
    input: Annotated[Path, typer.Argument(metavar="INPUT", help="A run folder (its problem is used), a log, a multi-model CSV, or .npz.")],  # noqa: A002
    policy: Annotated[Path, typer.Option(help="CSV state,action[,probability][,time]; where it is silent, current practice goes on.")],
    gamma: Annotated[float | None, typer.Option(help="Discount in (0, 1), or 1 with --horizon.")] = None,
    horizon: Annotated[int | None, typer.Option(help="Steps of an episode; the file may then have a column time.")] = None,
    alpha: Annotated[float | None, typer.Option(help="Confidence: the bad case is the worst 1 − alpha of models (default 0.9).")] = None,
    lam: Annotated[float | None, typer.Option("--lambda", help="How much the bad case counts (default 0.5).")] = None,
    reference: Annotated[str | None, typer.Option(metavar="none|practice|optimum|FILE", help="What returns are measured against: none (default), practice, optimum, or another policy's CSV.")] = None,
    seed: Annotated[int | None, typer.Option(help="Seed of everything random (default: the run's own; 0 for a file).")] = None,
    columns: Annotated[str | None, typer.Option(help="Column names of the log: state=site,action=dose,…")] = None,
    initial: Annotated[Path | None, typer.Option(help="CSV state,probability: where episodes start.")] = None,
    reward_table: Annotated[Path | None, typer.Option(help="CSV state,action,reward[,next_state].")] = None,
    models: Annotated[int | None, typer.Option(help="Models drawn from the posterior of a log (default: 300, or thirty in the bad case).")] = None,
    min_count: Annotated[int | None, typer.Option(help="Pairs seen fewer times have no model (default 1); 0 keeps all.")] = None,
    posterior: Annotated[str | None, typer.Option(help="As for solve (default learned).", autocompletion=complete.posteriors)] = None,
    set_: Annotated[list[str] | None, typer.Option("--set", metavar="NAME=VALUE", help="A setting of the posterior; may be given again.")] = None,
    out: Annotated[Path | None, typer.Option(help="Folder for solution.json, policy.csv and report.html.", rich_help_panel=OUTPUT)] = None,
    force: Annotated[bool, typer.Option("--force", help="Write into a folder that exists.", rich_help_panel=OUTPUT)] = False,
    workers: Annotated[int | None, typer.Option(min=0, help="Processes here that draw and evaluate models where they are many (default: this one, with threads).", rich_help_panel=OUTPUT)] = None,
    cluster: Annotated[str | None, typer.Option(help="The same on a Dask cluster: address of its scheduler, or local:2.", rich_help_panel=OUTPUT)] = None,
    json: Annotated[bool, typer.Option("--json", help="Print solution.json instead of the summary.", rich_help_panel=OUTPUT)] = False,
    details: Annotated[bool, typer.Option("--details", "-v", help="Say also what the models say, and every note.", rich_help_panel=OUTPUT)] = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="Print no summary.", rich_help_panel=OUTPUT)] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show a traceback on errors.", rich_help_panel=OUTPUT)] = False,
) -> None:  # fmt: skip
    """Score a policy of your own with the certificate that a solved one gets.

    Example: softrobust evaluate run --policy guideline.csv
    """
    from softrobust.cli.options import pairs_of, settings_of
    from softrobust.cli.output import print_run
    from softrobust.errors import InputError
    from softrobust.run import Options, check_out, load_table_run, set_up
    from softrobust.run.evaluate import evaluate_file, setup_of

    if out is not None:
        check_out(out, force)
    options = Options(
        gamma=gamma, lam=lam, alpha=alpha, reference=reference, columns=pairs_of(columns),
        initial=initial,
        reward_table=reward_table, n_models=models, min_count=min_count, seed=seed or 0,
        horizon=horizon,
        posterior=posterior, settings=settings_of(set_) or None,
    )  # fmt: skip
    if input.is_dir():
        if options != Options(seed=seed or 0):
            raise InputError(
                f"'{input}' is a folder, and a run folder brings its own problem: leave out --gamma, --alpha and the like, or "
                "give the log itself."
            )
        known = load_table_run(input)
        setup, seed = setup_of(known), known.seed if seed is None else seed
    else:
        setup = set_up(input, options)
    run = evaluate_file(setup, policy, seed or 0)
    if out is not None:
        run.save(out, force=force)
    print_run(run, out, json, quiet, details)


def compare(
    runs: Annotated[list[Path], typer.Argument(metavar="RUN…", help="Folders that solve wrote; the first brings the question.")],
    solvers: Annotated[str, typer.Option(help="Further solvers for the first run's problem, with commas, as for solve.", autocompletion=complete.solver_list)] = "",
    time_limit: Annotated[float | None, typer.Option(help="Seconds for the whole command, shared out over these solvers.")] = None,
    seed: Annotated[int, typer.Option(help="Seed of these solvers.")] = 0,
    json: Annotated[bool, typer.Option("--json", help="Print all figures as JSON.")] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show a traceback on errors.")] = False,
) -> None:  # fmt: skip
    """Compare policies on one question: mean, bad case, objective, gap, held-out, same actions.

    Example: softrobust compare run run2 --solvers nominal,s-rect
    """
    from softrobust.cli.screen import print_record
    from softrobust.run import load_table_run
    from softrobust.run.evaluate import compare_runs

    names = [name.strip() for name in solvers.split(",") if name.strip()]
    found = compare_runs([load_table_run(run) for run in runs], names, time_limit, seed)
    if json:
        print_record(found)
    else:
        print_side_by_side(found)


def print_side_by_side(found: dict[str, Any]) -> None:
    """A table, and what its columns mean."""
    from softrobust.cli.screen import make_console, paragraph, show_table
    from softrobust.report.study_words import side_by_side

    head, rows, lines = side_by_side(found)
    console = make_console()
    show_table(console, head, rows, styles=["bold" if i == 0 else "" for i in range(len(rows))])
    for text in lines:
        paragraph(console, text, "dim")


def report(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="The folder that solve wrote.")],
    out: Annotated[Path | None, typer.Option(help="The file to write (default: report.html in the run folder).")] = None,
    pdf: Annotated[bool, typer.Option("--pdf", help="Print it to a PDF as well (report.pdf beside it), by a browser that is installed.")] = False,
    browser: Annotated[str | None, typer.Option(metavar="PATH", help="With --pdf: the browser (default: Chromium, Chrome, Edge or Brave, as found).")] = None,
    figures: Annotated[Path | None, typer.Option(metavar="FOLDER", help="Also write its pictures one by one, as PDF, SVG and PNG for a paper: what changes, the gain, what the log covers, rehearsals.")] = None,
    suppress_small: Annotated[bool, typer.Option("--suppress-small", help='Show counts below 5 as "<5", and nothing that they follow from.')] = False,
    quick: Annotated[bool, typer.Option("--quick", help="Leave out the frontier, the value of data and diagnostics.")] = False,
    observations: Annotated[int, typer.Option(help="More observations of one pair whose worth is shown.")] = 10,
    json: Annotated[bool, typer.Option("--json", help="Print what was written as JSON.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="Print nothing.")] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show a traceback on errors.")] = False,
) -> None:  # fmt: skip
    """Write the full page of a run: frontier, reasons, value of data, and the checks on record.

    Run `softrobust check RUN` first to have the checks in it. With --out page.pdf the PDF alone.

    Example: softrobust report run --suppress-small
    """
    from softrobust.cli.options import refuse
    from softrobust.cli.screen import print_record, say
    from softrobust.errors import InputError
    from softrobust.run import load_run, run_page
    from softrobust.run.export import find_browser, print_pdf

    target = run / "report.html" if out is None else out
    if target.is_dir():
        raise InputError(f"'{target}' is a folder; --out needs a file, such as page.html.")
    if not target.resolve().parent.is_dir():
        raise InputError(f"The folder that is to hold '{target}' does not exist.")
    alone = target.suffix.lower() == ".pdf"
    if not (pdf or alone):
        refuse({"browser": browser}, "printing (--pdf)")
    printer = find_browser(browser) if pdf or alone else ""  # before any work is done
    found = load_run(run)
    if found.continuous:
        given = {"quick": quick, "suppress_small": suppress_small}
        refuse(given | {"observations": observations != 10}, "tables of states")
    page = run_page(
        found, target, full=not quick, suppress_small=suppress_small, observations=observations
    )
    written = [] if alone else [target]
    if not alone:
        page.save(target)
    if printer:
        written.append(target.with_suffix(".pdf"))
        print_pdf(page.html, written[-1], printer)
    written += [] if figures is None else page.save_pictures(figures)
    if json:
        sizes = [path.stat().st_size for path in written]
        print_record(
            {"run": str(run), "written": [str(path) for path in written], "bytes": sizes[0]}
        )
    elif not quiet:
        for path in written:
            say(f"Written to {path}{': open it in a browser' if path.suffix == '.html' else ''}.")


def update(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="The folder that solve wrote, from a log.")],
    new: Annotated[Path, typer.Argument(metavar="NEW", help="A log of new transitions.")],
    out: Annotated[Path | None, typer.Option(help="Folder for the updated run; without it nothing is written.")] = None,
    margin: Annotated[float, typer.Option(help="What a change of action must gain, in units of the objective.")] = 0.0,
    solver: Annotated[str | None, typer.Option(help="Default: the run's own solver.", autocompletion=complete.solvers)] = None,
    time_limit: Annotated[float | None, typer.Option(help="Seconds for the whole command.")] = None,
    columns: Annotated[str | None, typer.Option(help="Column names of the new log: state=site,action=dose,…")] = None,
    seed: Annotated[int, typer.Option(help="Seed of the drift test and of the solver.")] = 0,
    force: Annotated[bool, typer.Option("--force", help="Write into a folder that exists.")] = False,
    json: Annotated[bool, typer.Option("--json", help="Print the record of the update instead of sentences.")] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show a traceback on errors.")] = False,
) -> None:  # fmt: skip
    """Update a run with new rows: posterior, drift, and actions that change by more than a margin.

    Example: softrobust update run new.csv --margin 0.5 --out run2
    """
    from softrobust.cli.options import pairs_of
    from softrobust.cli.output import print_lines
    from softrobust.cli.screen import print_record, say
    from softrobust.report.summary import update_lines
    from softrobust.run import check_out, load_table_run
    from softrobust.run.update import update as update_run
    from softrobust.solvers.registry import SOLVERS, default_solver, make_solver

    old = load_table_run(run)
    if out is not None:
        check_out(out, force)
    own = old.solution.solver
    name = solver or (own if own in SOLVERS else default_solver(old.problem))
    made = make_solver(name, log=old.log, time_limit=time_limit, seed=seed)
    found, record = update_run(old, new, made, margin, pairs_of(columns), seed)
    if out is not None and found is not None:
        found.save(out, force=force)
    if json:
        print_record(record)
        return
    print_lines(update_lines(record, found and found.certificate))
    if out is not None and found is not None:
        say(f"Written to {out}.")


def app(
    file: Annotated[Path | None, typer.Argument(metavar="[FILE]", help="A table to begin with (default: choose one on the page).")] = None,
    port: Annotated[int, typer.Option(help="Port on this computer (default: a free one).")] = 0,
    no_open: Annotated[bool, typer.Option("--no-open", help="Print the address and open no browser.")] = False,
    json: Annotated[bool, typer.Option("--json", help="Print the address as JSON.")] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show a traceback on errors.")] = False,
) -> None:  # fmt: skip
    """Work in the browser: bring a file, look at it, choose, solve, read, take away.

    Everything stays on this computer, in the current folder. The address works once.

    Example: softrobust app log.csv
    """
    from softrobust.app.server import serve
    from softrobust.cli.screen import print_record, say

    def ready(address: str) -> None:
        if json:
            print_record({"address": address, "folder": str(Path.cwd())})
        else:
            say(f"Open {address}")
            say("Runs are written to the current folder. Ctrl-C or Quit on the page closes it.")
        sys.stdout.flush()

    serve(file, Path.cwd(), port, ready, not no_open)
