"""The command line: solve, data (inspect, sample, collect, domains), use (apply, export, evaluate,
compare, report, update, app), study (explain, check, rules, value-of-data, rehearse, frontier),
sweep (and reproduce).
"""

from softrobust.cli.main import main

__all__ = ["main"]
