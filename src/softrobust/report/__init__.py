"""What people see: one self-contained HTML page to decide with."""

from softrobust.report.caution import (
    frontier_rows,
    plot_frontier,
    save_frontier_csv,
    save_frontier_plot,
)
from softrobust.report.page import Report, make_report
from softrobust.report.trust import DataFound

__all__ = [
    "DataFound",
    "Report",
    "frontier_rows",
    "make_report",
    "plot_frontier",
    "save_frontier_csv",
    "save_frontier_plot",
]
