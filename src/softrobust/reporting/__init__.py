"""What people see: one self-contained HTML page to decide with.

The stage is not called `report`: that is the user's verb, `softrobust.report(…)`, and a subpackage
of the same name would take its place as soon as anything imported it.
"""

from softrobust.reporting.frontier import (
    frontier_rows,
    plot_frontier,
    save_frontier_csv,
    save_frontier_plot,
)
from softrobust.reporting.more_data import DataFound
from softrobust.reporting.page import Report, report

__all__ = [
    "DataFound",
    "Report",
    "frontier_rows",
    "plot_frontier",
    "report",
    "save_frontier_csv",
    "save_frontier_plot",
]
