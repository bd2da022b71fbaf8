"""Upper bounds on what any policy of a class can earn."""

from softrobust.bounds.best import (
    Bound,
    Covers,
    ReplicationBound,
    best_bound,
    clairvoyant_bound,
    replication_bound,
)
from softrobust.bounds.paper_errors import PaperErrors, paper_errors

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
