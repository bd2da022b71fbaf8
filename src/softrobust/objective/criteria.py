"""Objectives by name, as files and the command line say them."""

from __future__ import annotations

from softrobust.errors import InputError
from softrobust.objective.base import Objective
from softrobust.objective.percentile import Percentile
from softrobust.objective.soft_robust import SoftRobust

CRITERIA = (SoftRobust.criterion, Percentile.criterion)


def make_objective(criterion: str, lam: float, alpha: float) -> Objective:
    """The objective of that name; the percentile criterion has no λ."""
    if criterion == SoftRobust.criterion:
        return SoftRobust(lam, alpha)
    if criterion == Percentile.criterion:
        return Percentile(alpha)
    raise InputError(f"There is no objective '{criterion}'. Objectives: {', '.join(CRITERIA)}.")
