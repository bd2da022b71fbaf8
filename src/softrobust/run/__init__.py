"""From a file to a run folder: what the command line does, as functions."""

from softrobust.run.evaluate import run_frontier as run_frontier
from softrobust.run.evaluate import write_frontier as write_frontier
from softrobust.run.folder import Run as Run
from softrobust.run.folder import check_out as check_out
from softrobust.run.folder import check_run as check_run
from softrobust.run.folder import load_run as load_run
from softrobust.run.folder import load_table_run as load_table_run
from softrobust.run.folder import run_page as run_page
from softrobust.run.options import Options as Options
from softrobust.run.options import Setup as Setup
from softrobust.run.setup import set_up as set_up
from softrobust.run.solve import certified as certified
from softrobust.run.solve import choose as choose
from softrobust.run.solve import prepare_search as prepare_search
from softrobust.run.solve import save_with_search as save_with_search
