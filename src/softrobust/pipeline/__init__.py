"""From a file to a run folder: what the command line does, as functions."""

from softrobust.pipeline.folder import Folder, load_run
from softrobust.pipeline.frontier import run_frontier, write_frontier
from softrobust.pipeline.resume import keep_search, prepare_search, with_hint
from softrobust.pipeline.run import Run, check_out, run_line, write_run
from softrobust.pipeline.setup import Options, Setup, set_up
from softrobust.pipeline.summary import summary_lines

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
