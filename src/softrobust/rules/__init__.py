"""A policy as a short tree of rules over the columns of a state, with its exact loss."""

from softrobust.rules.columns import StateColumns, state_columns
from softrobust.rules.simplify import Rules, simplify

__all__ = ["Rules", "StateColumns", "simplify", "state_columns"]
