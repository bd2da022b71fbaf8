"""`softrobust inspect FILE`: what is in it, what is suspicious, and what to run next."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

VISITS = "A table of visits (one row per id and time)"
CELLS = "What to do with cells and rows that are not as they should be"
OUTPUT = "Output"


def inspect(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A log, visits, models, a saved problem or a run folder; told apart by content.")],
    columns: Annotated[str | None, typer.Option(help="Column names of a log of transitions: state=site,action=dose,next_state=…")] = None,
    id: Annotated[str | None, typer.Option(help="Column that says whose visit it is.", rich_help_panel=VISITS)] = None,  # noqa: A002
    time: Annotated[str | None, typer.Option(help="Column that says when: numbers or ISO dates.", rich_help_panel=VISITS)] = None,
    action: Annotated[str | None, typer.Option(help="Column that says what was done.", rich_help_panel=VISITS)] = None,
    measurements: Annotated[str | None, typer.Option(help="Columns that make up the state: bp,hba1c.", rich_help_panel=VISITS)] = None,
    bins: Annotated[str | None, typer.Option(help="Cuts or numbers of bins, hba1c=7:8:9,weight=4, or a file that --save-bins wrote.", rich_help_panel=VISITS)] = None,
    reward: Annotated[str | None, typer.Option(help="Column of rewards (none: there is none).", rich_help_panel=VISITS)] = None,
    reward_at: Annotated[str | None, typer.Option(help="start: a row has the reward that follows its action (default); end: what was earned since the visit before.", rich_help_panel=VISITS)] = None,
    events: Annotated[Path | None, typer.Option(help="Table of rewards by id and time: id, time, reward[, kind].", rich_help_panel=VISITS)] = None,
    events_columns: Annotated[str | None, typer.Option(help="Its column names: id=…,time=…,reward=…,kind=…", rich_help_panel=VISITS)] = None,
    terminal: Annotated[str | None, typer.Option(help="What marks a true end: a column of true and false, status=died, kind=death of the events, or none.", rich_help_panel=VISITS)] = None,
    grid: Annotated[str | None, typer.Option(help="Regular step: 28d, 12h; a number if times are numbers; or none.", rich_help_panel=VISITS)] = None,
    several: Annotated[str | None, typer.Option(help="Of several visits at one point of the grid: last (default), first or mean.", rich_help_panel=VISITS)] = None,
    fill: Annotated[str | None, typer.Option(help="A point of the grid without a visit: break the chain (default) or carry state and action.", rich_help_panel=VISITS)] = None,
    max_gap: Annotated[str | None, typer.Option(help="Visits further apart make no transition.", rich_help_panel=VISITS)] = None,
    missing_action: Annotated[str | None, typer.Option(help="drop (default), none or error.", rich_help_panel=CELLS)] = None,
    missing_measurement: Annotated[str | None, typer.Option(help="carry, level, drop or error.", rich_help_panel=CELLS)] = None,
    missing_reward: Annotated[str | None, typer.Option(help="zero, drop or error.", rich_help_panel=CELLS)] = None,
    missing_rows: Annotated[str | None, typer.Option(help="Rows without id or time: drop or error.", rich_help_panel=CELLS)] = None,
    duplicates: Annotated[str | None, typer.Option(help="Rows of one id and time that differ: first, last, merge or error.", rich_help_panel=CELLS)] = None,
    after_end: Annotated[str | None, typer.Option(help="Visits after the end: drop or error.", rich_help_panel=CELLS)] = None,
    write_log: Annotated[Path | None, typer.Option(help="Write the transitions: .parquet, .npz or .csv.", rich_help_panel=OUTPUT)] = None,
    save_bins: Annotated[Path | None, typer.Option(help="Write the bins (.npz), for new visits.", rich_help_panel=OUTPUT)] = None,
    force: Annotated[bool, typer.Option("--force", help="Write over files that exist.", rich_help_panel=OUTPUT)] = False,
    json: Annotated[bool, typer.Option("--json", help="Print everything as JSON.", rich_help_panel=OUTPUT)] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show a traceback on errors.", rich_help_panel=OUTPUT)] = False,
) -> None:  # fmt: skip
    """Say what is in a file, what is suspicious, and what to run next.

    Example: softrobust inspect visits.csv --events events.csv
    """
    from softrobust.cli.inspect_screen import print_inspection, print_inspection_json
    from softrobust.cli.words import pairs_of
    from softrobust.data.trajectories_rules import bins_of_words, split_words
    from softrobust.errors import InputError
    from softrobust.inspection import inspect_file

    cuts: Any = bins
    if bins is not None and "=" in bins and not Path(bins).is_file():
        cuts = bins_of_words(bins)
    given = {
        "id": id, "time": time, "action": action, "bins": cuts, "reward": reward,
        "measurements": None if measurements is None else split_words(measurements),
        "reward_at": reward_at, "events": events, "events_columns": pairs_of(events_columns, "--events-columns"),
        "terminal": terminal, "grid": grid, "several": several, "fill": fill, "max_gap": max_gap,
        "missing_action": missing_action, "missing_measurement": missing_measurement,
        "missing_reward": missing_reward, "missing_rows": missing_rows, "duplicates": duplicates,
        "after_end": after_end,
    }  # fmt: skip
    found = inspect_file(
        file,
        columns=pairs_of(columns),
        visits=given,
        write_log_to=write_log,
        save_bins_to=save_bins,
        force=force,
    )
    if json:
        print_inspection_json(found)
    else:
        print_inspection(found)
    if found.blocked:
        raise InputError(found.blocked)
