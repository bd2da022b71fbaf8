"""What people see: facts in words, one self-contained HTML page to decide with, and pictures."""

from softrobust.report.page import Report as Report
from softrobust.report.page import make_report as make_report
from softrobust.report.pictures import picture_frontier as picture_frontier
from softrobust.report.pictures import picture_log as picture_log
from softrobust.report.pictures import picture_rehearsal as picture_rehearsal
from softrobust.report.policy import picture_changes as picture_changes
from softrobust.report.sentences import in_words as in_words
from softrobust.report.sentences import sentence as sentence
from softrobust.report.svg import Picture as Picture
from softrobust.report.verdict import certificate_sentences as certificate_sentences
from softrobust.report.verdict import comparison_sentence as comparison_sentence
