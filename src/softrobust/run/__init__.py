"""From a file to a run folder: what the command line does, as functions."""

from softrobust.run.evaluate import run_frontier, write_frontier
from softrobust.run.folder import Folder, load_run
from softrobust.run.line import Run, check_out, run_line, write_run
from softrobust.run.resume import keep_search, prepare_search, with_hint
from softrobust.run.setup import Options, Setup, set_up
from softrobust.run.summary import summary_lines

__all__ = [
    "Folder",
    "Options",
    "Run",
    "Setup",
    "check_out",
    "keep_search",
    "load_run",
    "prepare_search",
    "run_frontier",
    "run_line",
    "set_up",
    "summary_lines",
    "with_hint",
    "write_frontier",
    "write_run",
]
