"""What is maximised: risk measures of a weighted sample, and the criteria built on them."""

from softrobust.objective.base import Objective
from softrobust.objective.criteria import CRITERIA, make_objective
from softrobust.objective.measures import cvar, mean, tail_weights, var, var_upper
from softrobust.objective.percentile import Percentile
from softrobust.objective.soft_robust import SoftRobust, soft_robust

__all__ = [
    "CRITERIA",
    "Objective",
    "Percentile",
    "SoftRobust",
    "cvar",
    "make_objective",
    "mean",
    "soft_robust",
    "tail_weights",
    "var",
    "var_upper",
]
