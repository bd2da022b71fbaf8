"""Verbs that use a run: `apply`, `export`, `evaluate`, `compare`, `report`, `update`; and `app`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from softrobust.cli import screen
from softrobust.cli.options import observation_of, options_of, pairs_of, refuse
from softrobust.cli.output import print_lines, print_run
from softrobust.cli.screen import print_record, say
from softrobust.errors import InputError

if TYPE_CHECKING:
    from softrobust.models import Policy
    from softrobust.models.continuous_policy import ContinuousPolicy


def apply(
    run: Path, state: str | None = None, measure: str | None = None, file: Path | None = None,
    columns: str | None = None, out: Path | None = None, time: int | None = None,
    observation: str | None = None, seed: int | None = None, json: bool = False,
) -> None:  # fmt: skip
    """Say which action the policy takes in a state, or in every row of a table.

    With --measure bili=3.2,albumin=3.4 the state is found by what was measured.

    Example: softrobust apply run --state "n=7"
    """
    from softrobust._core.schema import published, read_json
    from softrobust.certificate import load_solution
    from softrobust.certificate.record import changed, run_folder
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
        place |= {"outside": _outside(policy, where)}
    else:
        refuse({"observation": observation}, "continuous states")
        if not named:
            raise InputError(
                "Say where: --state 'n=7', --measure bili=3.2,albumin=3.4, or --file cases.csv."
            )
        if file is not None:
            _apply_file(policy, file, pairs_of(columns), out, seed, json)
            return
        measured = pairs_of(measure, "--measure")
        visits = run / "visits.json"
        if measured and visits.is_file():  # states of one column alone are not called by its name
            with run_folder(run):
                known = read_json(visits, published("visits"))["states"]
                stray = [name for name in measured if name not in known]
                if stray and visits.name in changed(run):  # not a slip of the user
                    raise InputError(f"{visits} is not as the run wrote it.")
            if stray:
                raise InputError(
                    f"A state is made of {', '.join(known)}; --measure got '{stray[0]}'."
                )
        s = policy.index(measured or str(state))
        where = policy.states[s]
        place = {"state": where} | ({} if time is None else {"time": time})
        row, decided = policy.probs[s], bool(policy.decided[s])
    mix = {policy.actions[a]: float(p) for a, p in enumerate(row) if p > 0}
    mixed = decided and len(mix) > 1 and seed is None
    action = None if mixed else policy.action(where, seed)
    if json:
        print_record(place | {"action": action, "probabilities": mix})
        return
    for name, (low, high) in (place.get("outside") or {}).items():
        from softrobust.report.sentences import phrase

        x = place["observation"][name]
        say(phrase("screen.outside", name=name, x=x, low=low, high=high), error=True)
    if measure is not None:
        screen.say_exactly(f"{where}:")
    if action is None:  # practice itself, most often: the shares are the answer
        screen.say_exactly(" or ".join(f"{name} ({share:.0%})" for name, share in mix.items()))
    else:
        screen.say_exactly(str(action))


def _outside(policy: ContinuousPolicy, s: list[float]) -> dict[str, list[float]] | None:
    """Variables beyond the range of the data, with that range; None where it is not known."""
    if policy.seen is None:
        return None
    ends = zip(policy.variables, s, *(side.tolist() for side in policy.seen), strict=True)
    return {name: [low, high] for name, x, low, high in ends if not low <= x <= high}


def _apply_file(
    policy: Policy, file: Path, columns: dict[str, str] | None, out: Path | None,
    seed: int | None, as_json: bool,
) -> None:  # fmt: skip
    """Every row of a table, to another table or to the screen."""
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
        screen.show_table(
            screen.make_console(), ("state", "action", "note"), cells, words={0, 1, 2}
        )
        return
    without = sum(not state for state in made[STATE])
    said = f"{len(rows):,} row{'s' * (len(rows) != 1)} written to {out}"
    say(f"{said}; {without:,} without a recommendation: see {NOTE}." if without else f"{said}.")


def export(run: Path, out: Path, json: bool = False, quiet: bool = False) -> None:
    """Write a run as a workbook, or its policy for a program that has no softrobust.

    Example: softrobust export run --out run.xlsx
    """
    from softrobust.run import load_run
    from softrobust.run.export import export as export_run

    if not out.resolve().parent.is_dir():
        raise InputError(f"The folder that is to hold '{out}' does not exist. Make it first.")
    export_run(load_run(run), out)
    if json:
        print_record({"run": str(run), "written": [str(out)]})
    elif not quiet:
        say(f"Written to {out}.")


def evaluate(
    input: Path, policy: Path, gamma: float | None = None, horizon: int | None = None,
    alpha: float | None = None, lam: float | None = None, reference: str | None = None,
    seed: int | None = None, columns: str | None = None, initial: Path | None = None,
    reward_table: Path | None = None, reward_default: float | None = None,
    models: int | None = None, min_count: int | None = None, posterior: str | None = None,
    set_: list[str] | None = None, out: Path | None = None, force: bool = False,
    workers: int | None = None, cluster: str | None = None, json: bool = False,
    details: bool = False, quiet: bool = False,
) -> None:  # fmt: skip
    """Score a policy of your own with the certificate that a solved one gets.

    Example: softrobust evaluate run --policy guideline.csv
    """
    flags = dict(locals())

    from softrobust.run import Options, check_out, load_table_run, set_up
    from softrobust.run.evaluate import evaluate_file, setup_of

    if out is not None:
        check_out(out, force)
    options = options_of(flags, seed=seed or 0)
    if input.is_dir():
        if options != Options(seed=seed or 0):
            raise InputError(
                f"'{input}' is a folder, and a run folder brings its own problem: leave out "
                "--gamma, --alpha and the like, or give the log itself."
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
    runs: list[Path], solvers: str = "", time_limit: float | None = None, seed: int = 0,
    json: bool = False,
) -> None:  # fmt: skip
    """Compare policies on one question: mean, bad case, objective, gap, held-out, same actions.

    Example: softrobust compare run run2 --solvers nominal,s-rect
    """
    from softrobust.report.study_words import side_by_side
    from softrobust.run import load_table_run
    from softrobust.run.evaluate import compare_runs

    names = [name.strip() for name in solvers.split(",") if name.strip()]
    found = compare_runs([load_table_run(run) for run in runs], names, time_limit, seed)
    if json:
        print_record(found)
        return
    head, rows, lines = side_by_side(found)
    console = screen.make_console()
    screen.show_table(
        console, head, rows, styles=["bold" if i == 0 else "" for i in range(len(rows))]
    )
    for text in lines:
        screen.paragraph(console, text, "dim")


def report(
    run: Path, out: Path | None = None, pdf: bool = False, browser: str | None = None,
    figures: Path | None = None, suppress_small: bool = False, quick: bool = False,
    observations: int = 10, json: bool = False, quiet: bool = False,
) -> None:  # fmt: skip
    """Write the full page of a run: frontier, reasons, value of data, and the checks on record.

    Run `softrobust check RUN` first to have the checks in it. With --out page.pdf the PDF alone.

    Example: softrobust report run --suppress-small
    """
    from softrobust.run import check_run, load_run, run_page
    from softrobust.run.export import find_browser, print_pdf

    check_run(run)
    target = run / "report.html" if out is None else out
    if target.is_dir():
        raise InputError(f"'{target}' is a folder; --out needs a file, such as page.html.")
    if not target.resolve().parent.is_dir():
        raise InputError(f"The folder that is to hold '{target}' does not exist. Make it first.")
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
    run: Path, new: Path, out: Path | None = None, margin: float = 0.0, solver: str | None = None,
    time_limit: float | None = None, columns: str | None = None, seed: int = 0, force: bool = False,
    json: bool = False,
) -> None:  # fmt: skip
    """Update a run with new rows: posterior, drift, and actions that change by more than a margin.

    Example: softrobust update run new.csv --margin 0.5 --out run2
    """
    from dataclasses import replace

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
        if out.resolve() == run.resolve():  # what it was made of is gone
            found = replace(found, command="")
        found.save(out, force=force)
    if json:
        written = [] if out is None or found is None else [str(out)]
        print_record(record | {"run": str(run), "written": written})
        return
    print_lines(update_lines(record, found and found.certificate))
    if found is None:
        say(f"Nothing was written: {run} stays the answer.")
    elif out is not None:
        say(f"Written to {out}.")


def app(file: Path | None = None, port: int = 0, no_open: bool = False, json: bool = False) -> None:
    """Work in the browser: bring a file, look at it, choose, solve, read, take away.

    Everything stays on this computer, in the current folder. The address works once.

    Example: softrobust app log.csv
    """
    from softrobust.app.server import serve

    def ready(address: str) -> None:
        if json:
            print_record({"address": address, "folder": str(Path.cwd())})
        else:
            say(f"Open {address}")
            say("Runs are written to the current folder. Ctrl-C or Quit on the page closes it.")
        sys.stdout.flush()

    serve(file, Path.cwd(), port, ready, not no_open)
