"""The paper's figures, each from its data seeds to a verdict on what the paper says of it."""

from softrobust.paper.base import (
    EXPERIMENTS,
    Experiment,
    Findings,
    experiment_names,
    make_experiment,
)
from softrobust.paper.claims import Claim, Verdict
from softrobust.paper.reproduce import Reproduced, reproduce

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
