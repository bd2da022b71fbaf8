"""The paper's figures, each from its data seeds to a verdict on what the paper says of it."""

from softrobust.experiments.base import Experiment, Findings
from softrobust.experiments.claims import Claim, Verdict
from softrobust.experiments.registry import EXPERIMENTS, experiment_names, make_experiment
from softrobust.experiments.reproduce import Reproduced, reproduce

__all__ = [
    "EXPERIMENTS",
    "Claim",
    "Experiment",
    "Findings",
    "Reproduced",
    "Verdict",
    "experiment_names",
    "make_experiment",
    "reproduce",
]
