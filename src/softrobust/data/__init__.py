"""The log D: validated, labelled transitions, their rewards, and the readers (paper, §2)."""

from softrobust.data.bins import Bins
from softrobust.data.continuous import ContinuousLog, read_continuous_log
from softrobust.data.environments import read_minari, roll_out
from softrobust.data.join import join_logs
from softrobust.data.labels import Labels, split_state, state_columns, state_name
from softrobust.data.log import END, Counts, TransitionLog
from softrobust.data.markov import MarkovCheck, markov_check
from softrobust.data.readers import read_labels, read_log, save_log, sniff, write_log_csv
from softrobust.data.rewards import Rewards
from softrobust.data.visit_report import TrajectoryReport
from softrobust.data.visit_rules import TrajectoryRules
from softrobust.data.visits import Trajectories, read_trajectories

__all__ = [
    "END",
    "Bins",
    "ContinuousLog",
    "Counts",
    "Labels",
    "MarkovCheck",
    "Rewards",
    "Trajectories",
    "TrajectoryReport",
    "TrajectoryRules",
    "TransitionLog",
    "join_logs",
    "markov_check",
    "read_continuous_log",
    "read_labels",
    "read_log",
    "read_minari",
    "read_trajectories",
    "roll_out",
    "save_log",
    "sniff",
    "split_state",
    "state_columns",
    "state_name",
    "write_log_csv",
]
