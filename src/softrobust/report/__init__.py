"""What people see: facts in words, one self-contained HTML page to decide with, and pictures."""

from softrobust.report.axes import (
    plot_certificate,
    plot_frontier,
    plot_log,
    plot_solution,
    save_frontier_plot,
)
from softrobust.report.page import Report, make_report
from softrobust.report.sentences import in_words, sentence
from softrobust.report.verdict import certificate_sentences, comparison_sentence

__all__ = [
    "Report",
    "certificate_sentences",
    "comparison_sentence",
    "in_words",
    "make_report",
    "plot_certificate",
    "plot_frontier",
    "plot_log",
    "plot_solution",
    "save_frontier_plot",
    "sentence",
]
