"""The command line: one file per verb, no logic of its own."""

from softrobust.cli.main import main

__all__ = ["main"]
