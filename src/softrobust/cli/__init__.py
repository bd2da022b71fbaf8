"""The command line: solve, data (inspect, sample, collect, domains), use (apply, evaluate, compare, report,
update), study (explain, check, rules, value-of-data, rehearse, frontier), sweep (and reproduce).
"""

from softrobust.cli.main import main

__all__ = ["main"]
