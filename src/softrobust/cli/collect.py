"""`softrobust collect DOMAIN`: a log drawn from one of the worlds."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from softrobust.cli import complete


def collect(
    domain: Annotated[str, typer.Argument(metavar="DOMAIN", help="Its name: see `softrobust domains`.", autocompletion=complete.domains)],
    out: Annotated[Path, typer.Option(help="The log to write: .csv, or .npz or .parquet to keep unvisited states.")],
    seed: Annotated[int, typer.Option(help="Seed of the log.")] = 0,
    set_: Annotated[list[str] | None, typer.Option("--set", metavar="NAME=VALUE", help="A setting of the domain; may be given again.")] = None,
    json: Annotated[bool, typer.Option("--json", help="Print what was written as JSON.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="Print nothing.")] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show a traceback on errors.")] = False,
) -> None:  # fmt: skip
    """Draw the batch of a domain and write it as a log.

    Example: softrobust collect pest-control --seed 0 --out log.csv
    """
    from softrobust.cli.screen import print_record, say
    from softrobust.cli.words import settings_of
    from softrobust.data import TransitionLog, save_log
    from softrobust.data.settings import whole
    from softrobust.data.write import write_log_csv
    from softrobust.domains import make_domain

    whole("--seed", seed, 0)
    log = make_domain(domain, **settings_of(set_)).collect(seed)
    if out.suffix in (".npz", ".parquet") and isinstance(log, TransitionLog):
        save_log(log, out)
    else:
        write_log_csv(log, out)
    if json:
        print_record(
            {"domain": domain, "seed": seed, "transitions": len(log), "written": [str(out)]}
        )
    elif not quiet:
        many = "1 transition" if len(log) == 1 else f"{len(log)} transitions"
        say(f"{many} written to {out}.")
