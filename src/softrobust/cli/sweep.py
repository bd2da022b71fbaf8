"""`softrobust sweep FILE`: solvers × λ × α × seeds × domains or logs, without losing work.

`softrobust reproduce NAME`: the paper's figures, with verdicts on its claims.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from math import floor, log10
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from softrobust.cli.screen import make_console, paragraph, print_record, say, show_table, styled
from softrobust.errors import SoftRobustError

if TYPE_CHECKING:
    from rich.console import Console

    from softrobust.paper.reproduce import Reproduced


PROVEN = 1e-5  # an open share of the value that nobody needs to see
SHOWN = 5  # kinds of warnings and of failures


def sweep(
    file: Path, out: Path | None = None, workers: int | None = None, cluster: str | None = None,
    resume: bool = False, progress: bool | None = None, json: bool = False, quiet: bool = False,
) -> None:  # fmt: skip
    """Compare solvers over λ, α and seeds, on domains or on your own log. A killed sweep resumes.

    Example: softrobust sweep sweep.toml --out results
    """
    from softrobust.run.sweep import run_sweep
    from softrobust.run.sweep_file import read_sweep

    folder = Path(f"{file.stem}-results") if out is None else out
    record, outcome = run_sweep(
        read_sweep(file), folder, workers=workers, cluster=cluster, resume=resume, progress=progress
    )
    if json:
        sys.stdout.write((folder / "results.json").read_text(encoding="utf-8"))
    elif not quiet:
        print_sweep(record, outcome.warnings, folder)
    if outcome.failed:
        if quiet and not json:
            key, why = next(iter(outcome.failed.items()))
            say(f"{len(outcome.failed)} of the tasks failed, first {key}: {why}", error=True)
        raise typer.Exit(1)


def print_sweep(
    record: Mapping[str, Any], warnings: Mapping[str, Sequence[str]], out: Path
) -> None:
    """A table for each source and α, then warnings, what failed, and where the rest is."""
    from softrobust.report.sentences import phrase

    console = make_console()
    for source in record["sweep"]["sources"]:
        for alpha in record["sweep"]["alphas"]:
            rows = [
                g for g in record["groups"] if (g["source"], g["alpha"]) == (source["name"], alpha)
            ]
            if any(row["n"] for row in rows):
                against = source["files"].get("reference", record["sweep"]["reference"])
                _print_table(console, source["name"], alpha, rows, against)
    several = len(record["sweep"]["seeds"]) > 1
    truth = any(row["true_return"] for row in record["groups"])
    console.print()
    for line in phrase("screen.sweep", several=several, truth=truth).split("\n"):
        paragraph(console, line, "dim")
    if warnings:
        say("\nWarnings:", style="yellow")
        _print_kinds(console, warnings)
    _print_failures(console, record["failed"], out)
    say(f"\nWritten to {out}: results.csv, results.json and a file for each task.")


def _print_table(
    console: Console, source: str, alpha: float, rows: Sequence[Any], against: str
) -> None:
    from softrobust.objective import NONE, Reference, SoftRobust
    from softrobust.report.words import measured

    goal = SoftRobust(1.0, alpha, None if against == NONE else Reference(against))
    console.print()
    title = styled(source, "bold")
    case = f": the bad case is {goal.words} (α = {alpha:g})"
    console.print(
        title.append(f"{case}. {measured(goal)}" if against != NONE else case, "not bold")
    )
    truth = any(row["true_return"] for row in rows)
    head = ["λ", "solver", "held-out\nobjective", "held-out\nmean", "held-out\nbad case",
            "training\nobjective", "open"] + ["truth"] * truth  # fmt: skip
    done = [row for row in rows if row["n"]]
    digits = _digits([row["heldout_objective"] for row in done])
    true_digits = _digits([row["true_return"] for row in done])
    last = None
    table, styles = [], []
    for row in done:
        best = max(r["heldout_objective"]["mean"] for r in done if r["lam"] == row["lam"])
        star = " *" if row["heldout_objective"]["mean"] >= best - 1e-9 * abs(best) else ""
        cells = ["" if row["lam"] == last else f"{row['lam']:g}", row["solver"] + star]
        cells += [_spread(row["heldout_objective"], digits)]
        plain = ("heldout_mean", "heldout_cvar", "objective")
        cells += [f"{row[name]['mean']:.{digits}f}" for name in plain]
        cells += [_open(row["open"]["mean"], row["objective"]["mean"], digits)]
        cells += [_spread(row["true_return"], true_digits)] if truth else []
        table.append(cells)
        styles.append("bold" if star else "")
        last = row["lam"]
    show_table(console, head, table, words={1}, styles=styles)


def _digits(figures: Sequence[Mapping[str, float | None] | None]) -> int:
    """Decimals for a column: the least interval gets two digits, or the least value five."""
    known = [figure for figure in figures if figure is not None]
    halves = [half for figure in known if (half := figure["half_width"])]
    sizes = [abs(size) for figure in known if (size := figure["mean"])]
    if not sizes:
        return 1
    most = 4 - floor(log10(min(sizes)))
    return max(0, min(1 - floor(log10(min(halves))) if halves else most, most))


def _spread(figure: Mapping[str, float | None] | None, digits: int) -> str:
    if figure is None:
        return ""
    half = figure["half_width"]
    return f"{figure['mean']:.{digits}f}" + ("" if half is None else f" ± {half:.{digits}f}")


def _open(left: float, value: float, digits: int) -> str:
    return "nothing" if left <= PROVEN * abs(value) else f"{left:.{max(digits, 1)}f}"


def _print_failures(console: Console, failed: Mapping[str, str], out: Path) -> None:
    """Every kind of failure once, with the tasks it struck."""
    from softrobust.run.jobs import failure_file

    if not failed:
        return
    kinds: dict[str, list[str]] = {}
    for key, reason in failed.items():
        kinds.setdefault(reason, []).append(key)
    many = "s" if len(failed) > 1 else ""
    say(f"\n{len(failed)} task{many} failed:", style="bold red")
    _print_kinds(console, kinds)
    place = failure_file(out, next(iter(failed)))
    say(f"Where it happened: {place}" + (" and its neighbours." * bool(many)))


def _print_kinds(console: Console, kinds: Mapping[str, Sequence[str]]) -> None:
    """What was said, once each, and by how many tasks."""
    for text, keys in list(kinds.items())[:SHOWN]:
        more = f" and {len(keys) - 1} more" if len(keys) > 1 else ""
        paragraph(console, f"{keys[0]}{more}: {text}", indent="  ", rest="    ")
    if len(kinds) > SHOWN:
        say(f"  … and {len(kinds) - SHOWN} more of another kind.")


def reproduce(
    name: str, quick: bool = False, out: Path = Path("results"), workers: int | None = None,
    cluster: str | None = None, resume: bool = False, json: bool = False, quiet: bool = False,
) -> None:  # fmt: skip
    """Run an experiment of the paper again: figure, table, and a verdict on each claim.

    Example: softrobust reproduce optimizers-curse --quick --out results
    """
    from softrobust.paper import experiment_names, make_experiment
    from softrobust.paper import reproduce as run
    from softrobust.paper.reproduce import check_place

    names = experiment_names(name)
    for each in names:  # refuse before any work what could not be written after it
        check_place(out, each, resume)
    failed = False
    records: list[dict[str, Any]] = []
    for each in names:
        try:
            done = run(
                make_experiment(each), out, quick=quick, workers=workers, cluster=cluster,
                resume=resume, progress=None if quiet or json else True,
            )  # fmt: skip
        except SoftRobustError as error:
            if len(names) == 1:
                raise
            say(f"{each}: {error}", error=True)  # the others can still be had
            records.append({"name": each, "error": str(error)})
            failed = True
            continue
        failed |= bool(done.failed)
        records.append(_record(each, done))
        if not (quiet or json):
            _say(done)
    if json:
        print_record(records)
    if failed:
        raise typer.Exit(1)


def _record(name: str, done: Reproduced) -> dict[str, Any]:
    return {
        "name": name,
        "out": str(done.out),
        "seconds": done.seconds,
        "claims": done.results["claims"],
        "failed": done.failed,
        "written": sorted(str(path) for path in done.out.iterdir() if path.is_file()),
    }


def _say(done: Reproduced) -> None:
    results, failed = done.results, done.failed
    say(f"{results['title']} ({results['figure']}), {done.seconds:.0f} s: {done.out}")
    for claim in results["claims"]:
        where = f"{claim['where']}; {claim['models']} models"
        say(f"  {claim['verdict']:<12} {claim['claim']} [{where}]")
    for key, why in list(failed.items())[:3]:
        say(f"  task {key} failed: {why}")
    if len(failed) > 3:
        say(f"  … and {len(failed) - 3} more failed tasks: see {done.out / 'tasks' / 'failures'}")
