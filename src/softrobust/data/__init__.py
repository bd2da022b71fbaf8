"""The log D: validated, labelled transitions, their rewards, and the readers (paper, §2)."""

from softrobust.data.labels import Labels
from softrobust.data.log import END, Counts, TransitionLog
from softrobust.data.readers import read_labels, read_log, sniff
from softrobust.data.rewards import Rewards
from softrobust.data.saved import save_log

__all__ = [
    "END",
    "Counts",
    "Labels",
    "Rewards",
    "TransitionLog",
    "read_labels",
    "read_log",
    "save_log",
    "sniff",
]
