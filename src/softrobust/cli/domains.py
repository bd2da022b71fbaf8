"""`softrobust domains`: the worlds that come with the package."""

from __future__ import annotations

from typing import Annotated

import typer


def domains(
    json: Annotated[bool, typer.Option("--json", help="Print names, settings and environments as JSON.")] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show a traceback on errors.")] = False,
) -> None:  # fmt: skip
    """List the domains, with their settings.

    Example: softrobust domains
    """
    from dataclasses import fields

    from softrobust.cli.screen import print_record, say
    from softrobust.domains import DOMAINS

    table = [
        {
            "name": name,
            "summary": cls.summary,
            "environment": cls.env_id,
            "settings": [field.name for field in fields(cls)],  # type: ignore[arg-type]
        }
        for name, cls in DOMAINS.items()
    ]
    if json:
        print_record(table)
        return
    for row in table:
        say(f"{row['name']:<14}{row['summary']}")
        if row["environment"]:
            say(f"{'':<14}environment: {row['environment']}")
        say(f"{'':<14}settings: {', '.join(row['settings'] or [])}")
