"""Upper bounds on what any policy of a class can earn."""

from softrobust.bounds.bound import Bound, Covers
from softrobust.bounds.clairvoyant import clairvoyant_bound

__all__ = ["Bound", "Covers", "clairvoyant_bound"]
