"""The log D: validated, labelled transitions, their rewards, and the readers (paper, §2)."""

from softrobust.data.bins import Bins as Bins
from softrobust.data.continuous import ContinuousLog as ContinuousLog
from softrobust.data.continuous import read_continuous_log as read_continuous_log
from softrobust.data.environments import read_minari as read_minari
from softrobust.data.environments import roll_out as roll_out
from softrobust.data.join import join_logs as join_logs
from softrobust.data.labels import Labels as Labels
from softrobust.data.labels import split_state as split_state
from softrobust.data.labels import state_columns as state_columns
from softrobust.data.labels import state_name as state_name
from softrobust.data.log import END as END
from softrobust.data.log import Counts as Counts
from softrobust.data.log import TransitionLog as TransitionLog
from softrobust.data.markov import MarkovCheck as MarkovCheck
from softrobust.data.markov import markov_check as markov_check
from softrobust.data.readers import read_labels as read_labels
from softrobust.data.readers import read_log as read_log
from softrobust.data.readers import save_log as save_log
from softrobust.data.readers import write_log_csv as write_log_csv
from softrobust.data.rewards import Rewards as Rewards
from softrobust.data.table import TableFile as TableFile
from softrobust.data.visit_rules import TrajectoryRules as TrajectoryRules
from softrobust.data.visits import Trajectories as Trajectories
from softrobust.data.visits import TrajectoryReport as TrajectoryReport
from softrobust.data.visits import read_trajectories as read_trajectories
