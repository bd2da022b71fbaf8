"""What people see: facts in words, one self-contained HTML page to decide with, and pictures."""

from softrobust.report.page import Report, make_report
from softrobust.report.pictures import picture_frontier, picture_log, picture_rehearsal
from softrobust.report.policy import picture_changes
from softrobust.report.sentences import in_words, sentence
from softrobust.report.svg import Picture
from softrobust.report.verdict import certificate_sentences, comparison_sentence

__all__ = [
    "Picture",
    "Report",
    "certificate_sentences",
    "comparison_sentence",
    "in_words",
    "make_report",
    "picture_changes",
    "picture_frontier",
    "picture_log",
    "picture_rehearsal",
    "sentence",
]
