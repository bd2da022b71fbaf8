"""Checks of the settings that the static solvers share: gap, limits and seed."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from softrobust.data.settings import real, whole
from softrobust.errors import InputError


def check_gap(gap: Any) -> None:
    """A share of |static_value|."""
    real("gap", gap, least=0, hint="Give a share of the value, such as 1e-6.")


def check_node_limit(limit: Any) -> None:
    """A number of nodes, or None."""
    if limit is not None:
        whole("node_limit", limit, least=0)


def check_time_limit(limit: Any) -> None:
    """Seconds, or None; infinite is none."""
    if limit is None or (isinstance(limit, float) and limit == math.inf):
        return
    real("The time limit", limit, above=0, hint="Give seconds, such as 60, or leave it out.")


def check_seed(seed: Any) -> None:
    """Anything that makes a generator."""
    try:
        np.random.default_rng(seed)
    except (TypeError, ValueError) as error:
        raise InputError(
            f"seed must be a whole number ≥ 0 or a numpy Generator; it is {seed!r} ({error})."
        ) from None
