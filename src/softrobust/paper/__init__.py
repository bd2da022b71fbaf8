"""The paper's figures, each from its data seeds to a verdict on what the paper says of it."""

from softrobust.paper.base import EXPERIMENTS as EXPERIMENTS
from softrobust.paper.base import Experiment as Experiment
from softrobust.paper.base import Findings as Findings
from softrobust.paper.base import experiment_names as experiment_names
from softrobust.paper.base import make_experiment as make_experiment
from softrobust.paper.claims import Claim as Claim
from softrobust.paper.claims import Verdict as Verdict
from softrobust.paper.reproduce import Reproduced as Reproduced
from softrobust.paper.reproduce import reproduce as reproduce
