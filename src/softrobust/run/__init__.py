"""From a file to a run folder: what the command line does, as functions."""

from softrobust.run.evaluate import run_frontier, write_frontier
from softrobust.run.folder import Run, check_out, load_run, load_table_run, run_page
from softrobust.run.line import certified, choose, prepare_search, save_with_search
from softrobust.run.options import Options, Setup
from softrobust.run.setup import set_up

__all__ = [
    "Options",
    "Run",
    "Setup",
    "certified",
    "check_out",
    "choose",
    "load_run",
    "load_table_run",
    "prepare_search",
    "run_frontier",
    "run_page",
    "save_with_search",
    "set_up",
    "write_frontier",
]
