"""Upper bounds on what any policy of a class can earn."""

from softrobust.bounds.best import best_bound
from softrobust.bounds.bound import Bound, Covers
from softrobust.bounds.clairvoyant import clairvoyant_bound
from softrobust.bounds.paper_errors import PaperErrors, paper_errors
from softrobust.bounds.replications import ReplicationBound, replication_bound

__all__ = [
    "Bound",
    "Covers",
    "PaperErrors",
    "ReplicationBound",
    "best_bound",
    "clairvoyant_bound",
    "paper_errors",
    "replication_bound",
]
