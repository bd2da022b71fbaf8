"""What is maximised: risk measures of a weighted sample, and the soft-robust criterion."""

from softrobust.objective.measures import cvar, mean, tail_weights, var, var_upper
from softrobust.objective.soft_robust import SoftRobust

__all__ = ["SoftRobust", "cvar", "mean", "tail_weights", "var", "var_upper"]
